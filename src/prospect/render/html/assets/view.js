// What is being looked at: the one state of the page, and who is told when it changes.

const view = {
  report: null, // the JSON report
  block: null, // names and events of the stacks
  source: null, // lines behind instructions
  figures: null, // the report's event
  isReported: true, // false for waits, which the report counts in another way
  event: null, // the model's event
  sums: null, // what passes the filter
  left: null, // where rows of the tree begin
  lanes: "cpu", // rows of the heat map
  filter: { scope: "all", process: -1, span: null, lane: null },
  focus: 0, // row of the tree that is as wide as the picture
  row: 0, // row of the tree that has the cursor
  frame: -1, // the chosen routine
  found: null, // by frame, whether the search found it; null for no search
  digits: 3, // behind the point of a second
};

const listeners = { sums: [], focus: [], row: [], frame: [], search: [], theme: [] };

const on = (kinds, listener) => kinds.split(" ").forEach((kind) => listeners[kind].push(listener));
const tell = (kind) => listeners[kind].forEach((listener) => listener());

/** Show another event of the recording. */
function showEvent(index) {
  view.event = openEvent(view.block, index);
  const name = view.event.data.name;
  const reported = view.report.events.find((event) => event.name === name);
  view.isReported = reported !== undefined;
  view.figures = reported || view.report.events[0];
  const { hits, seconds } = wholeOf(view.figures);
  view.digits = hitDigits(hits, seconds);
  view.filter = { ...view.filter, span: null, lane: null };
  refilter();
}

/** Hits and seconds of a row of portions. */
function wholeOf(portions) {
  const rows = ["user", "kernel", "interrupt", "other"].map((name) => (portions.total || portions)[name]);
  return {
    hits: rows.reduce((sum, row) => sum + row.hits, 0),
    seconds: rows.reduce((sum, row) => sum + row.seconds, 0),
  };
}

/** Change the filter and add up anew. */
function refilter(change = {}) {
  Object.assign(view.filter, change);
  view.sums = selected(view.event, view.filter);
  view.left = leftEdges(view.event, view.sums.total);
  if (!view.sums.total[view.focus]) view.focus = 0;
  if (!view.sums.total[view.row]) view.row = view.focus;
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

/** Choose a routine: who calls it and what it calls is shown. */
function chooseFrame(frame) {
  view.frame = frame;
  tell("frame");
}

/** Find frames whose name or object has a text in it. */
function search(text) {
  const wanted = text.toLowerCase();
  view.found = wanted
    ? Uint8Array.from({ length: view.block.first_thread_frame + view.block.comms.length }, (_, i) => {
        const { label, object } = frameNames(view.block, i);
        return label.toLowerCase().includes(wanted) || object.toLowerCase().includes(wanted) ? 1 : 0;
      })
    : null;
  tell("search");
}

/** A weight as text: seconds with its rough bar, or samples. */
function weightText(weight, hits) {
  if (!view.event.data.has_time) return `${countText(hits)} samples`;
  return `${timeText(weight, null, view.digits)} s`;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
