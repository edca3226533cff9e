// Where the data of a page in one file come from: blocks within it. `served.js` stands in its place
// where a server has them.

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

// More than the page has cannot be asked for.
const partOf = null;
const codeOf = null;
const samplesOf = null;
