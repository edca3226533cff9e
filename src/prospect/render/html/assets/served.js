// The data of a page that a server has: the same as in `embedded.js`, and more on demand.

/** Ask the server. Addresses are relative to the page's own, which has the token. */
async function asked(address) {
  const answer = await fetch(address, { cache: "no-store", redirect: "error", referrerPolicy: "no-referrer" })
    .catch(() => {
      throw new Error("prospect view does not answer any more: has it ended?");
    });
  if (!answer.ok) throw new Error(`prospect view answers ${answer.status}`);
  return answer.arrayBuffer();
}

/** Get one of the page's blocks. @returns {Promise<ArrayBuffer>} */
const unpacked = (name) => asked(`data/${name}`);

/** Get the samples of a selection, taken apart as finely as fits. */
const partOf = async (wanted) => columnsOf(await asked(`part?${new URLSearchParams(wanted)}`));

/** Count the samples of a selection at a function's instructions. @returns {Promise<Array[]>} */
async function samplesOf(wanted) {
  const { addresses, samples, weights } = documentOf(await asked(`samples?${new URLSearchParams(wanted)}`));
  return addresses.map((address, i) => [address, samples[i], weights[i]]);
}

const codes = new Map();

/** Get the instructions of a function and their source lines; once. */
function codeOf(event, frame) {
  const address = `code?${new URLSearchParams({ event, frame })}`;
  if (!codes.has(address)) codes.set(address, asked(address).then(documentOf));
  return codes.get(address);
}
