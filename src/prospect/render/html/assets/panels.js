// The tables below the pictures.

const TABS = {
  functions: ["Functions", functionsPanel],
  processes: ["Processes", processesPanel],
  entry_reasons: ["Kernel entry reasons", entryReasonsPanel],
  calls: ["System calls", syscallsPanel],
  totals: ["With callees", totalsPanel],
  turns: ["Turns", turnsPanel],
  waiting: ["Waiting", waitingPanel],
  code: ["Code", codePanel],
  facts: ["Facts", factsPanel],
};
const panels = { shown: "functions" };

function startPanels() {
  on("sums", () => {
    fillAnswer(isWhole());
    fillPanel();
    fillFunction();
  });
  on("frame", fillFunction);
}

function fillPanel() {
  const shownTabs = Object.entries(TABS).filter(([name]) => hasPanel(name));
  fillTabs(shownTabs.map(([name, [title]]) => [name, title]), panels, fillPanel);
  byId("panel").replaceChildren(...[TABS[panels.shown][1]()].flat());
}

function hasPanel(name) {
  if (name === "calls") return Boolean(view.figures.system_calls);
  if (name === "turns") return Boolean(view.report.turns);
  if (name === "waiting") return Boolean(view.report.waiting);
  if (name === "totals") return Boolean(view.report.calls && view.report.calls.length);
  if (name === "code") return hasCode();
  return true;
}

/** The origin of a table's figures. */
function originNote(isReport) {
  const text = isReport
    ? `The text report's figures${hasBars() ? ", with 95 % intervals" : ""}.`
    : view.isReported
      ? `The selection, counted on this page${hasBars() ? "; bars are approximate (≈±), as if samples fell at random" : ""}.`
      : "Waits, each measured from its beginning to its end, added up on this page.";
  return make("p.quiet", {}, text);
}

/** The meaning of shares and marks if rows of several tables of the report are in one. */
const ranksNote = () => (isDetailed()
  ? "In the report, user, kernel and interrupt functions of a process have separate tables: Share there is of that table, = is indistinguishable from the row above it there."
  : "");

/** Columns of time and samples that most tables share. */
function timeColumns(rows, title = "Time (s)", shareHint = "") {
  const most = mostOf(rows);
  const time = { ...number(title, (row) => row.value, (row) => barCell(row, most), "95 % interval as a whisker"), isMain: true };
  const samples = number(shown(view.base.data.samples_title), (row) => row.samples, (row) => countText(row.samples));
  const share = number("Share", (row) => row.share, (row) =>
    (row.share === undefined ? "" : shareText(row.share, row.allSamples ?? row.samples)), shareHint);
  return view.event.data.has_time ? [time, share, samples] : [share, samples];
}

function currentFunctions() {
  return isDetailed()
    ? reportFunctions(view.figures, view.block, view.filter).sort((a, b) => b.value - a.value || b.samples - a.samples)
    : selectedFunctions(view.event, view.sums).sort((a, b) => b.value - a.value);
}

function functionsPanel() {
  const rows = currentFunctions();
  const columns = [
    { title: "", value: (row) => row.above, cell: markCell, hint: "= like the row above, ! in step" },
    { ...text("Function", (row) => row.label), cell: (row) => named(shown(row.label), shown(row.object || ""), "b") },
    ...(isDetailed() ? partColumns(rows) : timeColumns(rows, "Self (s)")),
    path("Object", (row) => row.object),
  ];
  const left = rows.length ? "" : "No function passes the thresholds. ";
  return [originNote(isDetailed()), make("p.quiet", {}, left || ranksNote()), sortableTable("Functions by their own time", columns, rows, chooseRow)];
}

/** Columns of rows whose share is of a part of their process, which precedes the share. */
function partColumns(rows) {
  const columns = timeColumns(rows, "Self (s)");
  const [share] = columns.splice(columns.findIndex((column) => column.title === "Share"), 1);
  const there = { ...share, title: "Share there", hint: "of the time of this process in this mode" };
  return [...columns, text("In", (row) => row.mode), text("Process", (row) => row.process), there];
}

const chooseRow = (row) => showFunction(row.frame ?? frameOf(row));

/** The frame of a function of the report. */
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
    ...(isWhole() ? ["kernel", "interrupt"].map(modeColumn) : []),
    text("Parent", (row) => row.parent),
    ...(new Set(rows.map((row) => row.service)).size > 1 ? [text("Service", (row) => row.service ?? "")] : []),
  ];
  const choose = (row) => row.row >= 0 && setScope("process", row.row);
  const shares = isWhole() ? "Share is of all that was sampled, idle CPUs with it." : "";
  return [originNote(isWhole()), make("p.quiet", {}, shares), sortableTable("Processes; choose one to look at it alone", columns, rows, choose)];
}

function processRow(row) {
  const part = (name) => ({ value: row[name].seconds, half: row[name].half_width_s, low: row[name].low_s, high: row[name].high_s });
  const { samples } = wholeOf(row);
  const share = samples / (wholeOf(view.figures).samples || 1);
  return {
    label: row.name, pid: row.pid, parent: row.parent_name, service: row.service, row: row.process_index, samples, share,
    ...part("user"), kernel: part("kernel"), interrupt: part("interrupt"),
  };
}

const modeColumn = (name) => number(
  `${name[0].toUpperCase()}${name.slice(1)} (s)`, (row) => row[name].value,
  (row) => timeText(row[name].value, row[name].half, view.digits));

function entryReasonsPanel() {
  const rows = hasEntryReasons()
    ? reportEntryReasons(view.figures, view.block, view.filter)
    : selectedEntryReasons(view.event, view.sums).sort((a, b) => b.value - a.value);
  const columns = [
    text("Entry reason", (row) => row.label), text("Kind", (row) => row.kind),
    ...timeColumns(rows), ...(rows.some((row) => row.process) ? [text("Process", (row) => row.process)] : []),
  ];
  return [originNote(hasEntryReasons()), sortableTable("Why the CPU was in the kernel", columns, rows, null)];
}

function syscallsPanel() {
  const rows = view.figures.system_calls.map((row) => ({
    label: row.name, value: row.seconds, half: row.half_width_s, low: null, high: null,
    share: row.share, samples: row.samples, calls: row.calls, inside: row.inside_s, mean: row.mean_s,
  }));
  const isCounted = rows.some((row) => row.calls !== null);
  const optional = (title, key, digits) => (isCounted ? [number(title, (row) => row[key], (row) =>
    (row[key] === null ? "-" : digits ? row[key].toFixed(digits) : countText(row[key])))] : []);
  const columns = [
    text("System call", (row) => row.label), ...timeColumns(rows, "CPU (s)"),
    ...optional("Calls", "calls", 0), ...optional("Inside, with waiting (s)", "inside", 6), ...optional("Mean (s)", "mean", 9),
  ];
  const counted = isCounted ? "" : " Calls were not counted: --count-syscalls counts them, and the time inside.";
  return [make("p.quiet", {}, `Of the whole system and the whole interval.${counted}`),
    sortableTable("System calls", columns, rows, null)];
}

function totalsPanel() {
  const [found, events] = [view.report.calls, view.report.events].map((all) => all.filter((event) => event.name === view.figures.name));
  const event = found.length === events.length ? found[events.indexOf(view.figures)] : null; // several may have one name
  const rows = (event ? event.functions : []).map((row) => ({
    label: row.name, object: row.object, samples: row.total_samples, value: row.total_s, share: row.total_samples / event.samples,
    half: row.total_half_width_s, low: row.total_s - row.total_half_width_s, high: row.total_s + row.total_half_width_s,
    self: { value: row.self_s, half: row.self_half_width_s },
  }));
  const columns = [
    functionColumn("Function", (row) => row.label), ...timeColumns(rows, "Total (s)"),
    number("Self (s)", (row) => row.self.value, (row) => timeText(row.self.value, row.self.half, view.digits)),
    path("Object", (row) => row.object),
  ];
  return [make("p.quiet", {}, "Functions with all that they call, of the whole interval: the figures of prospect calls."),
    sortableTable("Functions with what they call", columns, rows, chooseRow)];
}
