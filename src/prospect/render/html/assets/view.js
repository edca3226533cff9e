// The one state of the page, and its listeners.

const view = {
  report: null, // the JSON report
  block: null, // names and events of the stacks
  source: null, // instructions and their lines
  figures: null, // the report's event
  isReported: true, // false for waits, which the report counts in another way
  base: null, // the model's event of the map of time
  event: null, // the model's event whose tree is shown: `base`, or a part of it in finer detail
  sums: null, // weights of rows of the tree
  left: null, // left edges of rows of the tree
  lanes: "cpu", // rows of the heat map
  filter: { scope: "all", process: -1, span: null, lane: null },
  focus: 0, // row of the tree that is as wide as the picture
  row: 0, // row of the tree that has the cursor
  frame: -1, // the chosen function
  wanted: "", // the text of the search
  found: null, // by frame, whether the search found it; null for no search
  digits: 3, // decimals of a second
};

const listeners = { sums: [], focus: [], row: [], frame: [], search: [], theme: [] };

const on = (kinds, listener) => kinds.split(" ").forEach((kind) => listeners[kind].push(listener));
const tell = (kind) => listeners[kind].forEach((listener) => listener());

/** Give the rows of the tree other weights. */
function weigh(sums) {
  view.sums = sums;
  view.left = leftEdges(view.event, sums.total);
  if (!sums.total[view.focus]) view.focus = 0;
  if (!sums.total[view.row]) view.row = view.focus;
  tell("sums");
}

/** Zoom to a row of the tree. */
function focusOn(row) {
  view.focus = row;
  view.row = row;
  tell("focus");
}

/** Move the cursor to a row of the tree. */
function moveTo(row) {
  view.row = row;
  tell("row");
}

/** Choose a function, to show its callers and callees. */
function chooseFrame(frame) {
  view.frame = frame;
  tell("frame");
}

/** Find frames whose name or object has a text in it. */
function search(text) {
  const wanted = text.toLowerCase();
  view.wanted = text;
  view.found = wanted
    ? Uint8Array.from({ length: view.block.first_thread_frame + view.block.comms.length }, (_, i) => {
        const { label, object } = frameNames(view.block, i);
        return label.toLowerCase().includes(wanted) || object.toLowerCase().includes(wanted) ? 1 : 0;
      })
    : null;
  tell("search");
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
