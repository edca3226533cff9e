// The answer in short: the hottest routine, who calls it, what was waited for, and how sure that is.

function fillAnswer() {
  const rows = currentRoutines();
  const lines = [startedLine(), hottestLine(rows), callersLine(rows[0]), view.isReported ? kernelLine() : null, ...waitingLines()].filter(Boolean);
  byId("answer").replaceChildren(make("h2", {}, "In short"), make("ul", {}, ...lines));
  byId("answer").hidden = false;
}

/** That not the command but what it started took the time, as with make or a shell. */
function startedLine() {
  if (view.filter.scope !== "command" || !view.isReported || !view.event.data.has_time) return null;
  const [own, all] = ["command", "descendants"].map((scope) => selected(view.event, { ...view.filter, scope }).total[0]);
  if (all < 2 * own) return null;
  const look = make("button.link", { type: "button", onclick: () => setScope("descendants", -1) }, "show all of it");
  return make("li", {}, `The command itself took ${fixed(own, view.digits)} s; with what it started it is ${fixed(all, view.digits)} s (`, look, ").");
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
  const all = weightThrough(view.event, view.sums, (other) => other === frame);
  if (!all) return null;
  const rows = callersOf(view.event, view.sums, frame).sort((a, b) => b.total - a.total).slice(0, 3);
  // Above the outermost frame stands the thread, which calls nothing.
  const isRoutine = (row) => row.key < view.block.labels.length;
  if (!rows.some(isRoutine)) {
    return make("li", {}, "Who calls it is not known: its call chains have nothing above it. --call-graph dwarf often finds more.");
  }
  const name = (row) => (isRoutine(row) ? shown(frameNames(view.block, row.key).label) : "callers that are not known");
  return make("li", {}, `It is called by ${rows.map((row) => `${name(row)} (${shareText(row.total / all, row.hits)})`).join(", ")}.`);
}

function kernelLine() {
  const rows = hasCauses() ? reportCauses(view.figures, view.block, view.filter) : selectedCauses(view.event, view.sums);
  const busy = rows.filter((row) => row.kind !== "idle").sort((a, b) => b.hits - a.hits).slice(0, 3);
  if (!busy.length) return null;
  const parts = busy.map((row) => `${shown(row.label)} ${view.event.data.has_time ? `${timeText(row.value, row.half, view.digits)} s` : countText(row.hits)}`);
  return make("li", {}, `In the kernel mostly: ${parts.join(", ")}.`);
}

/** What threads waited for: off the CPU, where that was recorded, and inside system calls. */
function waitingLines() {
  const lines = [...view.block.events.keys()].map(offCpuLine).concat(insideLine()).filter(Boolean);
  return lines.length || !view.isReported || !view.block.has_times ? lines
    : [make("li", {}, "What it waited for was not recorded: --off-cpu records that.")];
}

/** Of an event of waits, what was waited for. */
function offCpuLine(index) {
  const { name } = view.block.events[index];
  if (view.report.events.some((event) => event.name === name) || index === view.event.index) return null;
  const event = openEvent(view.block, index);
  const sums = selected(event, { ...view.filter, span: null, lane: null });
  if (!sums.total[0]) return null;
  const digits = sums.total[0] < 0.1 ? 6 : 3;
  const seconds = (value) => `${fixed(value, digits)} s`;
  const look = make("button.link", { type: "button", onclick: () => chooseEvent(index) }, "show where");
  if (name === "runnable") return make("li", {}, `Ready to run, but without a CPU: ${seconds(sums.total[0])} (`, look, ").");
  const rows = selectedCauses(event, sums).sort((a, b) => b.value - a.value).slice(0, 3);
  const parts = rows.map((row) => `${shown(row.label)} ${seconds(row.value)}`);
  return make("li", {}, `Waits for: ${parts.join(", ")}. ${shown(name[0].toUpperCase() + name.slice(1))} in all ${seconds(sums.total[0])}, threads together (`, look, ").");
}

function chooseEvent(index) {
  byId("event").value = String(index);
  showEvent(index);
  byId("stacks").scrollIntoView({ block: "nearest" });
}

function insideLine() {
  const rows = (view.figures.system_calls || []).filter((row) => row.inside_s).sort((a, b) => b.inside_s - a.inside_s).slice(0, 3);
  if (!rows.length) return null;
  return make("li", {}, `Time inside system calls, waiting included, of the whole system: ${rows.map((row) => `${shown(row.name)} ${row.inside_s.toFixed(3)} s in ${countText(row.calls)} calls`).join(", ")}.`);
}
