// What stands beside the pictures: the answer in short, tables, the chosen routine and its code.

const TABS = {
  routines: ["Routines", routinesPanel],
  processes: ["Processes", processesPanel],
  causes: ["Kernel causes", causesPanel],
  calls: ["System calls", syscallsPanel],
  totals: ["With callees", totalsPanel],
  code: ["Code", codePanel],
  facts: ["Facts", factsPanel],
};
const panels = { shown: "routines" };

function startPanels() {
  on("sums", () => {
    fillAnswer();
    fillPanel();
    fillRoutine();
  });
  on("frame", fillRoutine);
}

function fillPanel() {
  const tabs = Object.entries(TABS).filter(([name]) => hasPanel(name));
  byId("tabs").replaceChildren(...tabs.map(([name, [title]]) =>
    make("button", {
      type: "button", role: "tab", "aria-selected": String(name === panels.shown), id: `tab-${name}`,
      onclick: () => showPanel(name),
    }, title)));
  byId("panel").replaceChildren(...[TABS[panels.shown][1]()].flat());
}

function showPanel(name) {
  panels.shown = name;
  fillPanel();
  byId(`tab-${name}`).focus();
}

function hasPanel(name) {
  if (name === "calls") return Boolean(view.figures.system_calls);
  if (name === "totals") return Boolean(view.report.calls && view.report.calls.length);
  if (name === "code") return codeRoutines().length > 0;
  return true;
}

/** Where the figures of a table come from. */
function originNote() {
  const text = isWhole()
    ? "The text report's figures, with 95 % intervals. = cannot be told from the row above it."
    : view.isReported
      ? "Of the selection, counted on this page; bars are rough (≈±), as if samples fell at random."
      : "Waits, each measured from its beginning to its end, added up on this page.";
  return make("p.quiet", {}, text);
}

const text = (title, value, hint) => ({ title, value, cell: (row) => shown(String(value(row) ?? "")), hint });
const number = (title, value, cell, hint) => ({ title, value, cell, hint, isNumber: true });

/** Columns of time and hits that most tables share. */
function timeColumns(rows, title = "Time (s)", shareHint = "") {
  const most = mostOf(rows);
  const time = number(title, (row) => row.value, (row) => barCell(row, most), "95 % interval as a whisker");
  const hits = number("Hits", (row) => row.hits, (row) => countText(row.hits));
  const share = number("Share", (row) => row.share, (row) =>
    (row.share === undefined ? "" : shareText(row.share, row.hits)), shareHint);
  return view.event.data.has_time ? [time, share, hits] : [share, hits];
}

function currentRoutines() {
  return isWhole()
    ? reportRoutines(view.figures, view.block, view.filter).sort((a, b) => b.value - a.value || b.hits - a.hits)
    : selectedRoutines(view.event, view.sums).sort((a, b) => b.value - a.value);
}

function routinesPanel() {
  const rows = currentRoutines();
  const columns = [
    { title: "", value: (row) => row.above, cell: markCell, hint: "= like the row above, ! in step" },
    { ...text("Routine", (row) => row.label), cell: (row) => make("b", {}, shown(row.label)) },
    ...timeColumns(rows, "Self (s)", "of this part of this process"),
    ...(isWhole() ? [text("In", (row) => row.portion), text("Process", (row) => row.process)] : []),
    text("Object", (row) => row.object),
  ];
  const left = rows.length ? "" : "No routine passes the thresholds. ";
  return [originNote(), make("p.quiet", {}, left), sortableTable("Routines by their own time", columns, rows, chooseRow)];
}

/** Choose the routine of a row, and move to where it has most time. */
function chooseRow(row) {
  const frame = row.frame ?? frameOf(row);
  if (frame < 0) return;
  const widest = widestRow(view.event, view.sums, (other) => other === frame);
  if (widest >= 0) moveTo(widest);
  chooseFrame(frame);
  byId("routine").scrollIntoView({ block: "nearest" });
}

/** The frame of a routine of the report. */
function frameOf(row) {
  const { labels, objects, frame_object: object } = view.block;
  return labels.findIndex((label, i) => label === row.label && objects[object[i]] === row.object);
}

function processesPanel() {
  const rows = isWhole()
    ? reportProcesses(view.figures.processes, view.block, view.filter).map(processRow)
    : selectedProcesses(view.event, view.sums).sort((a, b) => b.value - a.value);
  const columns = [
    text("Process", (row) => row.label),
    number("PID", (row) => row.pid, (row) => String(row.pid ?? "")),
    ...timeColumns(rows, isWhole() ? "User (s)" : "All (s)"),
    ...(isWhole() ? ["kernel", "interrupt"].map(portionColumn) : []),
    text("Parent", (row) => row.parent),
  ];
  const choose = (row) => row.row >= 0 && setScope("process", row.row);
  return [originNote(), sortableTable("Processes; choose one to look at it alone", columns, rows, choose)];
}

function processRow(row) {
  const part = (name) => ({ value: row[name].seconds, half: row[name].error_s, low: row[name].low_s, high: row[name].high_s });
  const { hits } = wholeOf(row);
  const share = hits / (wholeOf(view.figures).hits || 1);
  return {
    label: row.name, pid: row.pid, parent: row.parent_name, row: row.process_index, hits, share,
    ...part("user"), kernel: part("kernel"), interrupt: part("interrupt"),
  };
}

const portionColumn = (name) => number(
  `${name[0].toUpperCase()}${name.slice(1)} (s)`, (row) => row[name].value,
  (row) => timeText(row[name].value, row[name].half, view.digits));

function causesPanel() {
  const rows = isWhole()
    ? reportCauses(view.figures, view.block, view.filter)
    : selectedCauses(view.event, view.sums).sort((a, b) => b.value - a.value);
  const columns = [
    text("Cause", (row) => row.label), text("Kind", (row) => row.kind),
    ...timeColumns(rows), ...(rows.some((row) => row.process) ? [text("Process", (row) => row.process)] : []),
  ];
  return [originNote(), sortableTable("Why the CPU was in the kernel", columns, rows, null)];
}

function syscallsPanel() {
  const rows = view.figures.system_calls.map((row) => ({
    label: row.name, value: row.seconds, half: row.error_s, low: null, high: null,
    share: row.share, hits: row.hits, calls: row.calls, inside: row.inside_s, mean: row.mean_s,
  }));
  const optional = (title, key, digits) => number(title, (row) => row[key], (row) =>
    (row[key] === null ? "-" : digits ? row[key].toFixed(digits) : countText(row[key])));
  const columns = [
    text("System call", (row) => row.label), ...timeColumns(rows, "CPU (s)"),
    optional("Calls", "calls", 0), optional("Inside, with waiting (s)", "inside", 6), optional("Mean (s)", "mean", 9),
  ];
  return [make("p.quiet", {}, "Of the whole system and the whole interval."),
    sortableTable("System calls", columns, rows, null)];
}

function totalsPanel() {
  const event = view.report.calls.find((calls) => calls.name === view.figures.name);
  const rows = (event ? event.routines : []).map((row) => ({
    label: row.name, object: row.object, hits: row.total_hits, value: row.total_s, share: row.total_hits / event.hits,
    half: row.total_half_width_s, low: row.total_s - row.total_half_width_s, high: row.total_s + row.total_half_width_s,
    self: { value: row.self_s, half: row.self_half_width_s },
  }));
  const columns = [
    text("Routine", (row) => row.label), ...timeColumns(rows, "Total (s)"),
    number("Self (s)", (row) => row.self.value, (row) => timeText(row.self.value, row.self.half, view.digits)),
    text("Object", (row) => row.object),
  ];
  return [make("p.quiet", {}, "Routines with all that they call, of the whole interval: the figures of prospect calls."),
    sortableTable("Routines with what they call", columns, rows, chooseRow)];
}

/** The answer in short: the hottest routine, who calls it, what the kernel did, and how sure that is. */
function fillAnswer() {
  const rows = currentRoutines();
  const lines = [hottestLine(rows), callersLine(rows[0]), view.isReported ? kernelLine() : null, ...waitingLines()].filter(Boolean);
  byId("answer").replaceChildren(make("h2", {}, "In short"), make("ul", {}, ...lines));
  byId("answer").hidden = false;
}

function hottestLine(rows) {
  const [first, second] = rows;
  if (!first) return make("li", {}, "No routine passes the thresholds.");
  const name = make("button.link", { type: "button", onclick: () => chooseRow(first) }, shown(first.label));
  const time = view.event.data.has_time ? `${timeText(first.value, first.half, view.digits)} s` : `${countText(first.hits)} hits`;
  const place = first.process ? `, in ${shown(first.process.trim())}` : "";
  return make("li", {}, `${view.isReported ? "Hottest routine" : "Most in"}: `, name, ` with ${time} of its own${place} (${shown(fileName(first.object))}). `, surety(first, second));
}

/** How sure the first place is. */
function surety(first, second) {
  if (!second) return "";
  if (first.low === null || second.high === null) return "";
  // Rows of one table have been compared by the report; others only have their intervals.
  const isOneTable = !first.isRough && first.process === second.process && first.portion === second.portion;
  const isClose = isOneTable ? second.above === first.label : second.high > first.low;
  const bars = first.isRough ? "rough bars" : "95 %";
  return isClose
    ? `It cannot be told from the next, ${shown(second.label)}, at ${bars}.`
    : `It leads the next, ${shown(second.label)}, by more than chance at ${bars}.`;
}

function callersLine(first) {
  const frame = first ? first.frame ?? frameOf(first) : -1;
  if (frame < 0 || !view.block.has_stacks) return null;
  const rows = callersOf(view.event, view.sums, frame).sort((a, b) => b.total - a.total).slice(0, 3);
  const all = rows.reduce((sum, row) => Math.max(sum, row.total), 0) ? weightThrough(view.event, view.sums, (f) => f === frame) : 0;
  if (!all) return null;
  const parts = rows.map((row) => `${shown(frameNames(view.block, row.key).label)} (${shareText(row.total / all, row.hits)})`);
  return make("li", {}, `It is called by ${parts.join(", ")}.`);
}

function kernelLine() {
  const rows = isWhole() ? reportCauses(view.figures, view.block, view.filter) : selectedCauses(view.event, view.sums);
  const busy = rows.filter((row) => row.kind !== "idle").sort((a, b) => b.hits - a.hits).slice(0, 3);
  if (!busy.length) return null;
  const parts = busy.map((row) => `${shown(row.label)} ${view.event.data.has_time ? `${timeText(row.value, row.half, view.digits)} s` : countText(row.hits)}`);
  return make("li", {}, `In the kernel mostly: ${parts.join(", ")}.`);
}

/** What threads waited for: off the CPU, where that was recorded, and inside system calls. */
function waitingLines() {
  return [...view.block.events.keys()].map(offCpuLine).concat(insideLine());
}

/** Of an event of waits, the system calls that blocked. */
function offCpuLine(index) {
  const { name } = view.block.events[index];
  if (view.report.events.some((event) => event.name === name) || index === view.event.index) return null;
  const event = openEvent(view.block, index);
  const sums = selected(event, { ...view.filter, span: null, lane: null });
  const rows = selectedCauses(event, sums).sort((a, b) => b.value - a.value).slice(0, 3);
  const parts = rows.map((row) => `${shown(row.label)} ${row.value.toFixed(view.digits)} s`);
  return parts.length ? make("li", {}, `Off the CPU (${shown(name)}): ${parts.join(", ")}. Choose it as event to see where.`) : null;
}

function insideLine() {
  const rows = (view.figures.system_calls || []).filter((row) => row.inside_s).sort((a, b) => b.inside_s - a.inside_s).slice(0, 3);
  if (!rows.length) return null;
  return make("li", {}, `Time inside system calls, waiting included, of the whole system: ${rows.map((row) => `${shown(row.name)} ${row.inside_s.toFixed(3)} s in ${countText(row.calls)} calls`).join(", ")}.`);
}
