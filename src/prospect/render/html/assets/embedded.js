// The data of a page in one file are blocks within it. If a server has them, `served.js` is used
// instead.

/** Unpack one of its blocks. @returns {Promise<ArrayBuffer>} */
async function unpacked(name) {
  const element = document.getElementById(`data-${name}`);
  const text = atob(element.textContent);
  element.remove();
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(plain).arrayBuffer();
}

// A page without a server can ask for nothing more.
const partOf = null;
const codeOf = null;
const samplesOf = null;
