// Instructions with samples and their source: the report's figures if everything is shown; those of a
// selection are counted on this page or by its server.

const LONGEST_TARGET = 48; // characters of a jump's target, as in the text report
const openedCode = new Map(); // by function, whether a person opened it; kept for the next selection

/** Whether the page has instructions of any function. */
const hasCode = () => view.source.functions.length > 0;

/** Disassembled functions of the report under the filter. */
function reportedCode() {
  const processes = reportProcesses(view.figures.details, view.block, view.filter);
  const tables = [
    ...processes.flatMap((process) => Object.values(process.functions).map((table) => [process.name, table])),
    ...view.figures.kernel_profiles.map((table) => ["kernel", table]),
  ];
  return tables.flatMap(([process, table]) =>
    (table.disassembly || []).map((func) => ({ ...func, process })));
}

/** Functions of the page with the selection's samples of their instructions. */
function selectedCode() {
  const { code } = view.base;
  const { samples, weight } = slotSums(view.base, view.filter, lastSlot(view.source));
  let slot = 0;
  return view.source.functions.map((func) => {
    const counts = func.instructions.map((fields) => [fields && fields[0], samples[slot], weight[slot++]]);
    return { ...countedFunction(func, counts), isLeftOut: code.data.left_out.includes(func.row) };
  }).filter((func) => func.samples || func.isLeftOut);
}

const lastSlot = ({ functions }) => functions.reduce((sum, func) => sum + func.instructions.length, 0);

/**
 * A function as the report has it, with other figures.
 * @param {object} function with its instructions as `instructions.py` writes them
 * @param {Array[]} counts address, null for samples between instructions; samples and weight
 */
function countedFunction(func, counts) {
  const fieldsAt = new Map(func.instructions.filter(Boolean).map((fields) => [fields[0], fields]));
  const sum = (rows, place) => rows.reduce((all, row) => all + row[place], 0);
  const [samples, weight] = [sum(counts, 1), sum(counts, 2)];
  const met = counts.filter(([address, some]) => some > 0 && fieldsAt.has(address));
  const hottest = met.reduce((most, row) => (most && most[1] >= row[1] ? most : row), null);
  return {
    ...func, isRough: true, samples, seconds: weight, half_width_s: roughHalf(weight, samples),
    samples_between_instructions: samples - sum(met, 1),
    hottest: hottest && hottest[0], likely_meant: hottest && likelyMeant(fieldsAt.get(hottest[0])),
    instructions: met.map(([address, some, part]) => {
      const [, asText, target] = fieldsAt.get(address);
      return { address, text: asText, target_name: target, samples: some, seconds: part, half_width_s: roughHalf(part, some), share: part / (weight || 1) };
    }),
  };
}

/** The instruction that probably caused the samples at one; null if that is unknown. */
function likelyMeant([address, , , back, isUnmasked]) {
  const { has_skid: hasSkid, is_timer: isTimer } = view.base.data;
  if (!hasSkid) return address;
  return back && !(isTimer && isUnmasked) ? String(BigInt(address) - BigInt(back)) : null;
}

function codePanel() {
  const functions = (isDetailed() ? reportedCode() : selectedCode()).sort((a, b) => b.samples - a.samples);
  if (!functions.length) return [originNote(isDetailed()), make("p.quiet", {}, "None of the functions with instructions has samples here.")];
  return [originNote(isDetailed()), ...codeBoxes(functions)];
}

/** A box for each function: the first with instructions is open, unless a person chose otherwise. */
function codeBoxes(functions) {
  const first = functions.findIndex((func) => func.instructions.length);
  return functions.map((func, nth) => {
    const key = JSON.stringify([func.address, func.name, func.object, func.process]);
    const title = make("summary", {}, named(shown(labelOf(func)), shown(func.object || ""), "b"), ` ${[codeFigures(func), func.process && shown(func.process)].filter(Boolean).join(", ")}`);
    const box = make("details", { open: openedCode.get(key) ?? nth === first }, title);
    title.addEventListener("click", () => openedCode.set(key, !box.open));
    // Made when it is opened: there may be thousands of instructions.
    const fill = () => box.open && box.children.length === 1 && box.append(...codeTable(func, view.source));
    box.addEventListener("toggle", fill);
    fill();
    return box;
  });
}

function codeFigures({ isLeftOut, isRough, seconds: value, half_width_s: half, samples }) {
  if (isLeftOut) return "";
  return view.event.data.has_time ? `${barText({ value, half, isRough })} s` : `${countText(samples)} ${shown(view.event.data.samples_title).toLowerCase()}`;
}

/** The instructions of the chosen function. */
function codeOfFrame(frame) {
  const own = view.source.functions.find((func) => func.frame === frame);
  if (!own) return codeOf && frame < view.block.labels.length ? [codeOnDemand(frame)] : [];
  const isOwn = (one) => isSameFunction(one, own);
  const reported = isDetailed() ? reportedCode().filter(isOwn) : [];
  const functions = reported.length ? reported : selectedCode().filter(isOwn);
  const tables = functions.length > 1 ? codeBoxes(functions) : functions.flatMap((func) => codeTable(func, view.source));
  return [make("h3", {}, "Instructions with samples"), originNote(reported.length > 0), ...tables];
}

/** Whether two descriptions, of the report or of `instructions.py`, are of one function. */
const isSameFunction = (one, other) =>
  String(one.address) === String(other.address) && one.name === other.name && one.object === other.object;

/** A box for instructions, which are requested now. */
function codeOnDemand(frame) {
  const box = make("div.code", {}, make("p.quiet", { role: "status" }, "Reading its instructions …"));
  const isAll = isWhole() && view.filter.scope === "all";
  fillOnDemand(box, frame, isAll).catch((error) => box.replaceChildren(make("p.warning", {}, error.message)));
  return box;
}

async function fillOnDemand(box, frame, isAll) {
  const wanted = { ...selectionQuery(), frame };
  if (!isAll) {
    // A selection that still changes is not sent: it has another box by then.
    await new Promise((resume) => setTimeout(resume, PATIENCE_MS));
    if (!box.isConnected) return;
  }
  const [{ functions, source, reason }, counts] = await Promise.all([codeOf(wanted.event, frame), isAll ? null : samplesOf(wanted)]);
  const found = isAll ? functions : source.functions.map((func) => countedFunction(func, counts)).filter((func) => func.samples);
  const note = reason || (found.length ? "" : "no samples in this function itself");
  box.replaceChildren(
    make("h3", {}, isAll ? "Instructions with samples, of all processes and the whole interval" : "Instructions with samples, of the selection"),
    ...(isAll ? [] : [originNote(false)]), ...(note ? [make("p.quiet", {}, shown(note))] : []),
    ...found.flatMap((func) => codeTable(func, source)));
}

function codeTable(func, source) {
  const note = (words) => make("p.quiet", {}, words);
  if (func.isLeftOut) return [note("This page has no room for when its samples were taken: see it without a selection, or in prospect view.")];
  if (func.no_instructions_because) return [note(shown(func.no_instructions_because))];
  const lines = sourceOf(func, source);
  const { isRough, samples_between_instructions: between } = func;
  const rows = func.instructions.map((row) => ({
    ...row, value: row.seconds, half: row.half_width_s, low: null, high: null, isRough,
    line: lines.get(row.address), at: hexadecimal(row.address),
  }));
  const mark = (row) => (row.address === func.likely_meant ? "likely meant" : row.address === func.hottest ? "hottest" : "");
  const columns = [
    text("Address", (row) => row.at), ...timeColumns(rows),
    { ...text("Instruction", (row) => row.text), isName: true, cell: (row) => make("code", {}, shown(row.text) + (row.target_name ? ` <${shortName(shown(row.target_name), LONGEST_TARGET)}>` : "")) },
    { title: "", value: mark, cell: (row) => make("span.mark", {}, mark(row)) },
    ...(lines.size ? [sourceColumn()] : []),
  ];
  return [
    sortableTable(`Instructions of ${brief(labelOf(func))}`, columns, rows, null),
    ...(between ? [note(`${countText(between)} ${between === 1 ? "sample is" : "samples are"} between these instructions.`)] : []),
  ];
}

const hexadecimal = (address) => BigInt(address).toString(16);

function sourceOf(func, { files, functions }) {
  const found = functions.find((one) => isSameFunction(one, func));
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
