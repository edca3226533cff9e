// Instructions with hits and their source: the report's figures where everything is shown, counted of
// a selection, on this page or by its server.

const LONGEST_TARGET = 48; // characters of what a jump leads to, as in the text report
const openedCode = new Map(); // by routine, what a person chose; so that it stays with the next selection

/** Whether the page has instructions of any routine. */
const hasCode = () => view.source.routines.length > 0;

/** Disassembled routines of the report under the filter. */
function reportedCode() {
  const processes = reportProcesses(view.figures.details, view.block, view.filter);
  const tables = [
    ...processes.flatMap((process) => Object.values(process.routines).map((table) => [process.name, table])),
    ...view.figures.kernel_profiles.map((table) => ["kernel", table]),
  ];
  return tables.flatMap(([process, table]) =>
    (table.disassembly || []).map((routine) => ({ ...routine, process })));
}

/** Routines of the page with what their instructions have of the selection. */
function selectedCode() {
  const { code } = view.base;
  const { hits, weight } = slotSums(view.base, view.filter, lastSlot(view.source));
  let slot = 0;
  return view.source.routines.map((routine) => {
    const counts = routine.instructions.map((fields) => [fields && fields[0], hits[slot], weight[slot++]]);
    return { ...countedRoutine(routine, counts), isLeftOut: code.data.left_out.includes(routine.row) };
  }).filter((routine) => routine.hits || routine.isLeftOut);
}

const lastSlot = ({ routines }) => routines.reduce((sum, routine) => sum + routine.instructions.length, 0);

/**
 * A routine as the report has it, with other figures.
 * @param {object} routine with its instructions as `code.py` writes them
 * @param {Array[]} counts address, null for what is between instructions; hits and weight
 */
function countedRoutine(routine, counts) {
  const fieldsAt = new Map(routine.instructions.filter(Boolean).map((fields) => [fields[0], fields]));
  const sum = (rows, place) => rows.reduce((all, row) => all + row[place], 0);
  const [hits, weight] = [sum(counts, 1), sum(counts, 2)];
  const met = counts.filter(([address, some]) => some > 0 && fieldsAt.has(address));
  const hottest = met.reduce((most, row) => (most && most[1] >= row[1] ? most : row), null);
  return {
    ...routine, isRough: true, hits, seconds: weight, half_width_s: roughHalf(weight, hits),
    hits_between_instructions: hits - sum(met, 1),
    hottest: hottest && hottest[0], likely_meant: hottest && likelyMeant(fieldsAt.get(hottest[0])),
    instructions: met.map(([address, some, part]) => {
      const [, asText, target] = fieldsAt.get(address);
      return { address, text: asText, target_name: target, hits: some, seconds: part, half_width_s: roughHalf(part, some), share: part / (weight || 1) };
    }),
  };
}

/** The instruction that hits at one are likely meant for; null where that cannot be said. */
function likelyMeant([address, , , back, isUnmasked]) {
  const { has_skid: hasSkid, is_timer: isTimer } = view.base.data;
  if (!hasSkid) return address;
  return back && !(isTimer && isUnmasked) ? String(BigInt(address) - BigInt(back)) : null;
}

function codePanel() {
  const routines = (isDetailed() ? reportedCode() : selectedCode()).sort((a, b) => b.hits - a.hits);
  if (!routines.length) return [originNote(isDetailed()), make("p.quiet", {}, "None of the routines with instructions has hits here.")];
  return [originNote(isDetailed()), ...codeBoxes(routines)];
}

/** A box for each routine: the first with instructions is open, unless a person chose otherwise. */
function codeBoxes(routines) {
  const first = routines.findIndex((routine) => routine.instructions.length);
  return routines.map((routine, nth) => {
    const key = JSON.stringify([routine.address, routine.name, routine.object, routine.process]);
    const title = make("summary", {}, named(shown(labelOf(routine)), shown(routine.object || ""), "b"), ` ${[codeFigures(routine), routine.process && shown(routine.process)].filter(Boolean).join(", ")}`);
    const box = make("details", { open: openedCode.get(key) ?? nth === first }, title);
    title.addEventListener("click", () => openedCode.set(key, !box.open));
    // Made when it is opened: there may be thousands of instructions.
    const fill = () => box.open && box.children.length === 1 && box.append(...codeTable(routine, view.source));
    box.addEventListener("toggle", fill);
    fill();
    return box;
  });
}

function codeFigures({ isLeftOut, isRough, seconds: value, half_width_s: half, hits }) {
  if (isLeftOut) return "";
  return view.event.data.has_time ? `${barText({ value, half, isRough })} s` : `${countText(hits)} ${shown(view.event.data.hits_title).toLowerCase()}`;
}

/** What of the chosen routine is known of its instructions. */
function codeOfFrame(frame) {
  const own = view.source.routines.find((routine) => routine.frame === frame);
  if (!own) return codeOf && frame < view.block.labels.length ? [codeOnDemand(frame)] : [];
  const isOwn = (one) => isSameRoutine(one, own);
  const reported = isDetailed() ? reportedCode().filter(isOwn) : [];
  const routines = reported.length ? reported : selectedCode().filter(isOwn);
  const tables = routines.length > 1 ? codeBoxes(routines) : routines.flatMap((routine) => codeTable(routine, view.source));
  return [make("h3", {}, "Instructions with hits"), originNote(reported.length > 0), ...tables];
}

/** Whether two descriptions, of the report or of `code.py`, are of one routine. */
const isSameRoutine = (one, other) =>
  String(one.address) === String(other.address) && one.name === other.name && one.object === other.object;

/** A place for instructions that are asked for now. */
function codeOnDemand(frame) {
  const box = make("div.code", {}, make("p.quiet", { role: "status" }, "Reading its instructions …"));
  const isAll = isWhole() && view.filter.scope === "all";
  fillOnDemand(box, frame, isAll).catch((error) => box.replaceChildren(make("p.warning", {}, error.message)));
  return box;
}

async function fillOnDemand(box, frame, isAll) {
  const wanted = { ...selectionQuery(), frame };
  if (!isAll) {
    // A selection that is being made is not asked for: it has another box by then.
    await new Promise((resume) => setTimeout(resume, PATIENCE_MS));
    if (!box.isConnected) return;
  }
  const [{ routines, source, reason }, counts] = await Promise.all([codeOf(wanted.event, frame), isAll ? null : hitsOf(wanted)]);
  const found = isAll ? routines : source.routines.map((routine) => countedRoutine(routine, counts)).filter((routine) => routine.hits);
  const note = reason || (found.length ? "" : "no hits in this routine itself");
  box.replaceChildren(
    make("h3", {}, isAll ? "Instructions with hits, of all processes and the whole interval" : "Instructions with hits, of the selection"),
    ...(isAll ? [] : [originNote(false)]), ...(note ? [make("p.quiet", {}, shown(note))] : []),
    ...found.flatMap((routine) => codeTable(routine, source)));
}

function codeTable(routine, source) {
  const note = (words) => make("p.quiet", {}, words);
  if (routine.isLeftOut) return [note("This page has no room for when its samples were taken: see it without a selection, or in prospect view.")];
  if (routine.no_instructions_because) return [note(shown(routine.no_instructions_because))];
  const lines = sourceOf(routine, source);
  const { isRough, hits_between_instructions: between } = routine;
  const rows = routine.instructions.map((row) => ({
    ...row, value: row.seconds, half: row.half_width_s, low: null, high: null, isRough,
    line: lines.get(row.address), at: hexadecimal(row.address),
  }));
  const mark = (row) => (row.address === routine.likely_meant ? "likely meant" : row.address === routine.hottest ? "hottest" : "");
  const columns = [
    text("Address", (row) => row.at), ...timeColumns(rows),
    { ...text("Instruction", (row) => row.text), isName: true, cell: (row) => make("code", {}, shown(row.text) + (row.target_name ? ` <${shortName(shown(row.target_name), LONGEST_TARGET)}>` : "")) },
    { title: "", value: mark, cell: (row) => make("span.mark", {}, mark(row)) },
    ...(lines.size ? [sourceColumn()] : []),
  ];
  return [
    sortableTable(`Instructions of ${brief(labelOf(routine))}`, columns, rows, null),
    ...(between ? [note(`${countText(between)} ${between === 1 ? "hit is" : "hits are"} between these instructions.`)] : []),
  ];
}

const hexadecimal = (address) => BigInt(address).toString(16);

function sourceOf(routine, { files, routines }) {
  const found = routines.find((one) => isSameRoutine(one, routine));
  return new Map((found ? found.instructions : []).filter((fields) => fields && fields.length > 5).map(([address, , , , , file, line, source]) =>
    [address, { place: `${fileName(files[file])}:${line}`, source }]));
}

function sourceColumn() {
  const value = (row) => (row.line ? row.line.place : "");
  const cell = (row) => (row.line
    ? make("span.source", {}, make("small", {}, shown(row.line.place)), make("code", {}, shown((row.line.source || "").trim())))
    : "");
  return { title: "Source", value, cell };
}
