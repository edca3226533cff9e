// The chosen routine with its callers and callees, instructions with their source, and facts.

/** Show who calls the chosen routine, and what it calls. */
function fillRoutine() {
  const box = byId("routine");
  const frame = view.frame;
  box.hidden = frame < 0;
  if (frame < 0) return;
  const { label, object } = frameNames(view.block, frame);
  const own = routineSums(view.event, view.sums).find((row) => row.key === frame);
  const through = weightThrough(view.event, view.sums, (other) => other === frame);
  const all = view.sums.total[0] || 1;
  const figures = own
    ? `self ${weightText(own.self, own.selfHits)}, total ${weightText(own.total, own.hits)} (${shareText(own.total / all, own.hits)} of what is shown)`
    : `total ${shareText(through / all, view.sums.totalHits[0])} of what is shown`;
  const zoom = () => focusOn(Math.max(widestRow(view.event, view.sums, (other) => other === frame), 0));
  box.replaceChildren(
    make("h2", {}, shown(label), " ", make("small", {}, shown(object))),
    make("p", {}, figures, " ", make("button", { type: "button", onclick: zoom }, "Zoom to it"), " ",
      make("button", { type: "button", onclick: () => chooseFrame(-1), "aria-label": "Close this routine" }, "Close")),
    ...(view.block.has_stacks ? [make("div.pair", {},
      arcTable("Called by", callersOf(view.event, view.sums, frame)),
      arcTable("Calls", calleesOf(view.event, view.sums, frame)))] : []),
    ...codeOfFrame(frame),
  );
}

function arcTable(title, arcs) {
  const rows = arcs.filter((arc) => arc.hits).map((arc) => ({
    ...frameNames(view.block, arc.key), frame: arc.key, hits: arc.hits,
    ...roughBar(arc.total, arc.hits), share: arc.total / (view.sums.total[0] || 1),
  })).sort((a, b) => b.value - a.value);
  const columns = [text("Routine", (row) => row.label), ...timeColumns(rows, "Total (s)")];
  return sortableTable(title, columns, rows, chooseRow, CALLS_AT_FIRST);
}

/** Disassembled routines of the report under the filter. */
function codeRoutines() {
  const processes = reportProcesses(view.figures.details, view.block, view.filter);
  const tables = [
    ...processes.flatMap((process) => Object.values(process.routines).map((table) => [process.name, table])),
    ...view.figures.kernel_profiles.map((table) => ["kernel", table]),
  ];
  return tables.flatMap(([process, table]) =>
    (table.disassembly || []).map((routine) => ({ ...routine, process })));
}

function codePanel() {
  const routines = codeRoutines().sort((a, b) => b.hits - a.hits);
  return routines.map((routine, nth) => {
    const title = make("summary", {}, make("b", {}, shown(labelOf(routine))), ` ${timeText(routine.seconds, routine.error_s, view.digits)} s, ${shown(routine.process)}`);
    const box = make("details", { open: nth === 0 }, title);
    // Made when it is opened: there may be thousands of instructions.
    const fill = () => box.open && box.children.length === 1 && box.append(codeTable(routine, view.source));
    box.addEventListener("toggle", fill);
    fill();
    return box;
  });
}

function codeOfFrame(frame) {
  const { label, object } = frameNames(view.block, frame);
  const routine = codeRoutines().find((one) => labelOf(one) === label && one.object === object);
  if (routine) return [make("h3", {}, "Instructions with hits"), codeTable(routine, view.source)];
  return codeOf && frame < view.block.labels.length ? [codeOnDemand(frame)] : [];
}

/** A place for instructions that are asked for now. */
function codeOnDemand(frame) {
  const box = make("div.code", {}, make("p.quiet", { role: "status" }, "Reading its instructions …"));
  codeOf(view.base.index, frame).then(
    ({ routines, source, reason }) => box.replaceChildren(
      make("h3", {}, "Instructions with hits, of all processes and the whole interval"),
      ...(reason ? [make("p.quiet", {}, shown(reason))] : []),
      ...routines.map((routine) => codeTable(routine, source))),
    (error) => box.replaceChildren(make("p.warning", {}, error.message)),
  );
  return box;
}

function codeTable(routine, source) {
  if (routine.no_instructions_because) return make("p.quiet", {}, shown(routine.no_instructions_because));
  const lines = sourceOf(routine, source);
  const rows = routine.instructions.map((row) => ({
    ...row, value: row.seconds, half: row.error_s, low: null, high: null,
    line: lines.get(row.address), at: hexadecimal(row.address),
  }));
  const mark = (row) => (row.address === routine.likely_meant ? "likely meant" : row.address === routine.hottest ? "hottest" : "");
  const columns = [
    text("Address", (row) => row.at), ...timeColumns(rows),
    { ...text("Instruction", (row) => row.text), cell: (row) => make("code", {}, shown(row.text) + (row.target_name ? ` <${shown(row.target_name)}>` : "")) },
    { title: "", value: mark, cell: (row) => make("span.mark", {}, mark(row)) },
    ...(lines.size ? [sourceColumn()] : []),
  ];
  return sortableTable(`Instructions of ${shown(labelOf(routine))}`, columns, rows, null);
}

const hexadecimal = (address) => BigInt(address).toString(16);

function sourceOf(routine, { files, routines }) {
  const found = routines.find((one) => one.address === String(routine.address) && one.name === routine.name);
  return new Map((found ? found.lines : []).map(([address, file, line, source]) =>
    [address, { place: `${fileName(files[file])}:${line}`, source }]));
}

function sourceColumn() {
  const value = (row) => (row.line ? row.line.place : "");
  const cell = (row) => (row.line
    ? make("span.source", {}, make("small", {}, shown(row.line.place)), make("code", {}, shown((row.line.source || "").trim())))
    : "");
  return { title: "Source", value, cell };
}

/** The facts of the run, notes, and where names came from. */
function factsPanel() {
  const { run, statistics, notes, generator } = view.report;
  const command = run.command.join(" ");
  const facts = [
    ["Command", command], ["Recording", run.origin], ["Recorded by", run.recorder],
    ["Recorder's command line", run.recorder_command_line.join(" ")], ["Host", run.hostname],
    ["System", [run.os_release, run.uname].filter(Boolean).join(", ")], ["Processor", run.cpu_description],
    ["CPUs", String(run.cpus)], ["Started", run.started_at ? new Date(run.started_at * 1000).toISOString() : "unknown"],
    ["Length", `${run.wall_seconds.toFixed(3)} s`], ["Clock", run.clock], ["Report by", generator],
  ].filter(([, value]) => value);
  const quality = view.figures.symbol_quality.sources.map((row) => ({ label: row.label, hits: row.hits, share: row.share, value: row.seconds, half: null, remedy: row.remedy }));
  return [
    factList("Run", facts),
    sentences("Notes", [...notes, ...view.figures.remarks_on_errors]),
    factList("Statistics", Object.entries(statistics).map(([name, value]) => [name.replaceAll("_", " "), countText(value)])),
    agreementTable(),
    sortableTable("Where names came from", [text("Source", (row) => row.label), ...timeColumns(quality), text("Remedy", (row) => row.remedy)], quality, null),
  ];
}

const factList = (title, pairs) => make("div", {}, make("h3", {}, title),
  make("dl.facts", {}, ...pairs.flatMap(([name, value]) => [make("dt", {}, shown(name)), make("dd", {}, shown(value))])));

/** Sampled time beside the kernel's own accounting. */
function agreementTable() {
  const rows = view.figures.accounting;
  const seconds = (title, key) => number(title, (row) => row[key], (row) => (row[key] === null ? "-" : row[key].toFixed(view.digits)));
  const columns = [
    text("Time", (row) => row.name), seconds("Sampled (s)", "sampled_s"), seconds("± (s)", "error_s"),
    seconds("Accounted (s)", "accounted_s"), text("Agrees", (row) => ({ true: "yes", false: "NO" }[row.agrees] ?? "-")),
    text("By", (row) => row.source),
  ];
  return sortableTable("Beside the kernel's own accounting", columns, rows, null);
}
