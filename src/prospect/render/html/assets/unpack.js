// Bytes of the page's data → objects and typed arrays.

/**
 * Parse a JSON document. Numbers of 64 bits do not fit in a JavaScript number: those of addresses
 * become strings. A string of JSON contains no bare quotation mark before a colon.
 */
function documentOf(buffer) {
  const text = new TextDecoder().decode(buffer);
  const names = "address|target|hottest|likely_meant|interrupts_on_at|start|end|pgoff";
  return JSON.parse(text.replace(new RegExp(`("(?:${names})": )(\\d+)`, "g"), '$1"$2"'));
}

const COLUMN_TYPES = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array,
};

/** Read a block of columns: its header, with a typed array for the place of each column. */
function columnsOf(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const first = 4 + size;
  const column = (value) => new COLUMN_TYPES[value.type](buffer, first + value.at, value.length);
  const filled = (value) => {
    if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
    if (value.type in COLUMN_TYPES) return column(value);
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, filled(part)]));
  };
  return { ...filled(header), events: header.events.map(filled) };
}
