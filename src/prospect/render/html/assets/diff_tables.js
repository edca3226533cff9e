// The tables of a comparison: the figures of its text, each change with its interval drawn.

const TABLES = {
  functions: ["Functions", "Function"],
  objects: ["Objects", "Object"],
  processes: ["Processes", "Process"],
  total: ["Total", ""],
  recordings: ["Recordings", ""],
};
const tables = { shown: "functions" };

function startTables() {
  fillTable();
  on("frame sums", fillChosen);
}

function fillTable() {
  fillTabs(Object.entries(TABLES).map(([name, [title]]) => [name, title]), tables, fillTable);
  const parts = tables.shown === "recordings" ? recordingsPanel()
    : tables.shown === "total" ? totalPanel() : changesPanel(tables.shown);
  byId("panel").replaceChildren(...parts);
}

/** The rows of a table of the comparison, in its unit. */
function changeRows(rows) {
  return rows.map((row) => ({
    ...row, label: row.name || "[no name]", objectName: row.object || "",
    a: scaled(row.a), b: scaled(row.b), change: scaled(row.change),
    low: scaled(row.low), high: scaled(row.high), half: scaled(row.high - row.low) / 2,
  }));
}

function changesPanel(name) {
  const table = view.report[name];
  const [, title] = TABLES[name];
  const marked = countText(table.significant) + (table.significant === 1 ? " significant change" : " significant changes");
  const all = table.rows.length + table.skipped.rows;
  const choose = name === "functions" && view.event ? chooseChanged : null;
  return [
    make("p.quiet", {}, `${marked} in ${countText(all)} ${all === 1 ? "row" : "rows"}. ${sides.words.compared}.`),
    sortableTable(`Changes by ${title.toLowerCase()}: significant ones first`, changeColumns(changeRows(table.rows), title), changeRows(table.rows), choose),
    skippedNote(table.skipped),
  ];
}

function skippedNote({ rows, a, b }) {
  if (!rows) return "";
  const part = (value) => Number(scaled(value).toPrecision(3));
  return make("p.quiet", {}, `${countText(rows)} more ${rows === 1 ? "row" : "rows"} not significant or of few samples: A ${part(a)}, B ${part(b)}, change ${part(b - a)} (--rows).`);
}

function totalPanel() {
  const rows = totalRows();
  return [make("p.quiet", {}, `${sides.words.compared}.`),
    sortableTable("All together, and by mode", changeColumns(rows, ""), rows, null)];
}

/** The rows of the total, all of it first. */
const totalRows = () => changeRows([
  ...view.report.total.rows.map((row) => ({ ...row, name: "Total" })),
  ...view.report.modes.rows.map((row) => ({ ...row, name: row.mode })),
]);

function changeColumns(rows, title) {
  const bound = (name, key) => number(name, (row) => row[key], (row) => boundText(row[key]) ?? "");
  return [
    significanceColumn,
    { ...text(title || "Part", (row) => row.label), cell: (row) => make("b", {}, shown(row.label)) },
    ...changeFigures(rows, changeDigits(rows.map((row) => row.half))),
    bound("95 % from", "relative_low"), bound("to", "relative_high"),
    ...(title ? [text("Mode", (row) => row.mode)] : []),
    ...(title === "Function" ? [path("Object", (row) => row.objectName)] : []),
  ];
}

const significanceColumn = {
  title: "*", value: (row) => (row.significant ? 1 : 0), cell: significanceCell, hint: "significant", isNumber: true,
};

/** Columns of changes; rows that were not tested have no `half`. */
function changeFigures(rows, digits) {
  const most = rows.reduce((far, row) => Math.max(far, Math.abs(row.low), Math.abs(row.high)), 0);
  const { unit } = sides.words;
  const amount = (name, key) => number(name, (row) => row[key], (row) => (row[key] === null ? "" : fixed(row[key], digits)));
  const change = (row) => make(row.significant ? "b" : "span.unsure", {}, signed(row.change, digits));
  return [
    { title: "95 % interval", value: (row) => Math.abs(row.change), cell: (row) => changeBar(row, most), hint: "sorts by the size of the change", isNumber: true, isMain: true },
    { ...number(`Change (${unit})`, (row) => row.change, change), isMain: true },
    amount("±", "half"), amount(`A (${unit})`, "a"), amount(`B (${unit})`, "b"),
    number("Relative", (row) => row.relative, (row) => relativeText(row.relative, row.samples_a, row.samples_b)),
  ];
}

/** An end of an interval of a relative change; none if it has no bound, or everything may be gone. */
const boundText = (share) => (share === null || share <= -1 ? null : percentText(share));

function significanceCell(row) {
  if (!row.significant) return "";
  const title = `significant: q = ${row.q_value.toPrecision(2)}`;
  return make("abbr.like", { title, "aria-label": title }, "*");
}

/** A bar from zero, in the middle, to the change, with its interval. */
function changeBar(row, most) {
  const place = (value) => 50 + (50 * value) / (most || 1);
  const fill = make(`span.fill.${row.significant ? (row.change > 0 ? "grew" : "shrank") : "same"}`);
  fill.style.left = `${Math.min(place(row.change), 50)}%`;
  fill.style.width = `${Math.abs(place(row.change) - 50)}%`;
  const whisker = make("span.whisker");
  whisker.style.left = `${place(row.low)}%`;
  whisker.style.width = `${place(row.high) - place(row.low)}%`;
  return make("span.bar.around", {}, fill, make("span.zero"), ...(row.half === null ? [] : [whisker]));
}

/** Choose the function of a row of the comparison. */
function chooseChanged(row) {
  if (!view.event) return;
  const { labels, objects, frame_object: object } = view.block;
  const label = row.name || null;
  const frame = labels.findIndex((name, i) =>
    objects[object[i]] === row.objectName && (label === null ? name.startsWith("[") : name === label));
  showFunction(frame);
}

/** The chosen function: its own change, and the times of its calls. */
function fillChosen() {
  const box = byId("function");
  const { frame, event, block } = view;
  box.hidden = frame < 0;
  if (frame < 0) return;
  const { label, object } = frameNames(block, frame);
  const rows = changeRows(view.report.functions.rows.filter((row) => row.name === label && row.object === object));
  box.replaceChildren(
    make("h2", {}, shown(label), " ", make("small", {}, shown(object))),
    make("p", {}, ...functionButtons(frame)),
    ...(rows.length ? [sortableTable("In itself", changeColumns(rows, "Function"), rows, null)] : []),
    ...(block.has_stacks ? [make("div.pair.wide", {},
      callTable("Called by", (sums) => callersOf(event, sums, frame), (caller) => placeOfCall(caller, frame)),
      callTable("Calls", (sums) => calleesOf(event, sums, frame), (callee) => placeOfCall(frame, callee)))] : []),
  );
}

/** Times of calls on both sides, with the change of those that are tested. */
function callTable(title, callsOf, callOf) {
  const rows = new Map();
  for (const side of ["a", "b"]) {
    for (const arc of callsOf(sides[side])) {
      if (!rows.has(arc.key)) rows.set(arc.key, { ...frameNames(view.block, arc.key), frame: arc.key, a: 0, b: 0, samples_a: 0, samples_b: 0 });
      Object.assign(rows.get(arc.key), { [side]: scaled(arc.total), [`samples_${side}`]: arc.samples });
    }
  }
  const found = [...rows.values()].map((row) => testedCall(row, callOf(row.frame)))
    .sort((one, other) => Math.max(other.a, other.b) - Math.max(one.a, one.b));
  const halves = found.map((row) => row.half).filter((half) => half !== null);
  const digits = halves.length ? changeDigits(halves) : view.digits;
  const columns = [significanceColumn, functionColumn("Function", (row) => row.label), ...changeFigures(found, digits)];
  return sortableTable(`${title}, with what it calls`, columns, found, (row) => chooseFrame(row.frame), CALLS_AT_FIRST);
}

/** A call with its change and the interval of that, as in rows of the comparison's tables. */
function testedCall(row, place) {
  const change = row.b - row.a;
  const whole = { ...row, change, relative: change / row.a, significant: false, half: null, low: change, high: change };
  if (place === undefined) return whole;
  const { half_width: halves, q_value: qValues, is_significant: isSignificant } = view.block.calls;
  const half = scaled(halves[place]);
  return { ...whole, half, low: change - half, high: change + half, q_value: qValues[place], significant: Boolean(isSignificant[place]) };
}

/** The place of a call among those that are tested. */
function placeOfCall(caller, callee) {
  sides.calls ??= new Map(Array.from(view.block.calls.caller, (one, i) => [callKey(one, view.block.calls.callee[i]), i]));
  return sides.calls.get(callKey(caller, callee));
}

const callKey = (caller, callee) => caller * (view.block.first_thread_frame + view.block.comms.length) + callee;

/** The compared recordings, with the notes of the text. */
function recordingsPanel() {
  const { a, b, notes, options, tested, per } = view.report;
  const rows = [...a.map((row) => ({ ...row, side: "A" })), ...b.map((row) => ({ ...row, side: "B" }))];
  const columns = [
    text("Side", (row) => row.side), path("Recording", (row) => row.origin),
    path("Command", (row) => row.command.join(" ") || "system"),
    number("Length (s)", (row) => row.wall_seconds, (row) => (row.wall_seconds === null ? "-" : row.wall_seconds.toFixed(3))),
    number("Samples", (row) => row.samples, (row) => countText(row.samples)),
    ...(per.kind === "count" ? [number(shown(per.unit), (row) => row.work, (row) => String(row.work))] : []),
    text("Host", (row) => row.hostname),
  ];
  const rule = `Significant: of ${countText(tested)} rows tested, at most ${+(options.fdr * 100).toPrecision(6)} % of those marked are expected to be wrong (--fdr).`;
  const graph = view.event ? [`${countText(view.block.tested)} rows of the flame graph are tested together in the same way. Its grey ones are not significant, or have too few samples to be tested.`] : [];
  const calls = view.event && view.block.has_stacks
    ? [`${countText(view.block.calls.caller.length)} pairs of caller and callee are tested together in the same way. Those without ± have too few samples.`] : [];
  return [sortableTable("Recordings", columns, rows, null), sentences("Notes", [rule, ...graph, ...calls, ...notes])];
}
