// The selection on the report's page: an event, and some of its samples.

/** Show another event of the recording. */
function showEvent(index) {
  view.base = openEvent(view.block, index);
  const reported = view.report.events[view.block.reported[index]]; // none for waits
  view.isReported = reported !== undefined;
  view.figures = reported || view.report.events[0];
  const { samples, seconds } = wholeOf(view.figures);
  view.digits = sampleDigits(samples, seconds);
  view.filter = { ...view.filter, span: null, lane: null };
  refilter();
}

/** Whether the map of time shows less than the whole interval. */
const isCloser = () => view.base.data.begin_ns > 0 || view.base.data.end_ns < view.block.end_ns;

/** Samples and seconds of a row of modes. */
function wholeOf(modes) {
  const rows = ["user", "kernel", "interrupt", "other"].map((name) => (modes.total || modes)[name]);
  return {
    samples: rows.reduce((sum, row) => sum + row.samples, 0),
    seconds: rows.reduce((sum, row) => sum + row.seconds, 0),
  };
}

/** Change the filter and add up anew. */
function refilter(change = {}) {
  Object.assign(view.filter, change);
  showTree(view.base, selected(view.base, view.filter));
}

/** Show a tree. The zoom and the cursor stay as far as the tree has their frames. */
function showTree(event, sums) {
  if (view.event && event !== view.event) {
    const [focus, row] = [view.focus, view.row].map((at) => rowAtPath(event, pathOf(view.event, at)));
    Object.assign(view, { focus, row });
  }
  view.event = event;
  weigh(sums);
}

/** Back by one step: to all of the map of time, then to the whole interval. */
function clearSelection() {
  const { span, lane } = view.filter;
  if (span || lane) refilter({ span: null, lane: null });
  else if (isCloser()) showEvent(view.base.index);
}

/** A weight as text: seconds, samples, or the counts of another tool. */
function weightText(weight, samples) {
  const { has_time: hasTime, samples_title: title = "Samples" } = view.event.data;
  if (!hasTime) return `${countText(samples)} ${title === "Samples" ? "samples" : shown(title).toLowerCase()}`;
  return `${timeText(weight, null, view.digits)} s`;
}
