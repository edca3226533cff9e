// The answer in short: the hottest routine, who calls it, what was waited for, and how sure that is.

const CALLERS = 3; // that are named

function fillAnswer() {
  const rows = busyRoutines();
  const lines = (view.isReported
    ? [startedLine(), hottestLine(rows), callersLine(rows[0]), kernelLine(), ...waitingLines()]
    : [waitedLine(), ...waitingLines()]).filter(Boolean);
  byId("answer").replaceChildren(make("h2", {}, "In short"), make("ul", {}, ...lines));
  byId("answer").hidden = false;
}

/** A filter without processes that nobody asks about, unless it is of one of these alone. */
const leavingOut = (filter, without) => (filter.scope === "process" ? filter : { ...filter, without });

/** Routines but for those of CPUs with nothing to do and of Prospect itself, the hottest first. */
function busyRoutines() {
  if (isDetailed()) {
    const rows = currentRoutines();
    return view.filter.scope === "process" ? rows : rows.filter((row) => !row.isAside);
  }
  const sums = selected(view.event, leavingOut(view.filter, isAside));
  return selectedRoutines(view.event, sums).sort((a, b) => b.value - a.value);
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
  const [first, ...others] = rows;
  // With -V k each hit is in two tables, that of all and that of its kind.
  const second = others.find((row) => view.report.options.detail !== "k" || row.process === first.process);
  if (!first) return make("li", {}, "No routine passes the thresholds.");
  const name = make("button.link", { type: "button", onclick: () => chooseRow(first) }, brief(first.label));
  const time = view.event.data.has_time ? `${barText(first)} s` : `${countText(first.hits)} hits`;
  const place = first.process ? `, in ${brief(first.process.trim())}` : "";
  return make("li", {}, "Hottest routine: ", name, ` with ${time} of its own${place} (${brief(fileName(first.object))}). `, surety(first, second));
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
    ? `It cannot be told from the next, ${brief(second.label)}, at ${bars}.`
    : `It leads the next, ${brief(second.label)}, by more than chance at ${bars}.`;
}

function callersLine(first) {
  const frame = first ? first.frame ?? frameOf(first) : -1;
  if (frame < 0 || !view.block.has_stacks) return null;
  const all = weightThrough(view.event, view.sums, (other) => other === frame);
  if (!all) return null;
  const callers = callersOf(view.event, view.sums, frame).filter((row) => row.hits).sort((a, b) => b.total - a.total);
  const rows = callers.slice(0, CALLERS);
  // Above the outermost frame stands the thread, which calls nothing.
  const isRoutine = (row) => row.key < view.block.labels.length;
  if (!rows.some(isRoutine)) {
    return make("li", {}, "Who calls it is not known: its call chains have nothing above it. --call-graph dwarf often finds more.");
  }
  const name = (row) => (isRoutine(row) ? brief(frameNames(view.block, row.key).label) : "callers that are not known");
  const more = callers.length > CALLERS ? `, and ${countText(callers.length - CALLERS)} more` : "";
  return make("li", {}, `It is called by ${rows.map((row) => `${name(row)} (${shareText(row.total / all, row.hits)} of its time)`).join(", ")}${more}.`);
}

function kernelLine() {
  const reported = hasCauses() ? reportCauses(view.figures, view.block, view.filter) : [];
  // The report's rows are those of each process: of several only the page's own sums say what they are together.
  const isOnce = new Set(reported.map((row) => `${row.kind} ${row.label}`)).size === reported.length;
  const rows = hasCauses() && isOnce ? reported : selectedCauses(view.event, view.sums);
  const busy = rows.filter((row) => row.kind !== "idle").sort((a, b) => b.hits - a.hits).slice(0, 3);
  if (!busy.length) return null;
  const parts = busy.map((row) => `${brief(row.label)} ${view.event.data.has_time ? `${barText(row)} s` : countText(row.hits)}`);
  return make("li", {}, `In the kernel mostly: ${parts.join(", ")}.`);
}

/** What threads waited for: off the CPU, where that was recorded, and inside system calls. */
function waitingLines() {
  const lines = [...view.block.events.keys()].map(offCpuLine).concat(insideLine()).filter(Boolean);
  return lines.length || !view.isReported || !view.block.has_times ? lines
    : [make("li", {}, "What it waited for was not recorded: --off-cpu records that.")];
}

/** While waits are looked at: what was waited for, and who waited most. */
function waitedLine() {
  const { sums } = waitsAsked(view.event, view.filter);
  const most = (rows) => rows.sort((a, b) => b.value - a.value).slice(0, 3).map((row) =>
    `${brief(row.label)}${row.pid ? ` ${row.pid}:` : ""} ${fixed(row.value, waitDigits(sums.total[0]))} s`).join(", ");
  const [causes, processes] = [selectedCauses(view.event, sums), selectedProcesses(view.event, sums)];
  if (!processes.length) return make("li", {}, "Nobody waited here.");
  return make("li", {}, `${isRunnable(view.event.data.name) ? "" : `Waits for: ${most(causes)}. `}By process: ${most(processes)}.`);
}

/** Sums of waits, and whose they are: of the kernel's threads only where nobody else waited. */
function waitsAsked(event, filter) {
  const [all, others] = [filter, leavingOut(filter, waitsAside)].map((chosen) => selected(event, chosen));
  return others.total[0] && others.total[0] < all.total[0]
    ? { sums: others, who: "the kernel's threads aside, all others" }
    : { sums: all, who: "threads" };
}

const waitDigits = (seconds) => (seconds < 0.1 ? 6 : 3);
const isRunnable = (name) => name === "runnable";

/** Of an event of waits, what was waited for. */
function offCpuLine(index) {
  const { name } = view.block.events[index];
  if (view.block.reported[index] >= 0 || index === view.event.index) return null;
  const event = openEvent(view.block, index);
  const span = spanOfOther(event);
  const { sums, who } = waitsAsked(event, { ...view.filter, span });
  const when = !isCut() ? "" : span ? "what began then, " : "of the whole interval, ";
  if (!sums.total[0]) return null;
  const digits = waitDigits(sums.total[0]);
  const seconds = (value) => `${fixed(value, digits)} s`;
  const look = make("button.link", { type: "button", onclick: () => chooseEvent(index) }, "show where");
  if (isRunnable(name)) return make("li", {}, `Ready to run, but without a CPU: ${seconds(sums.total[0])} (${when}`, look, ").");
  const rows = selectedCauses(event, sums).sort((a, b) => b.value - a.value).slice(0, 3);
  const parts = rows.map((row) => `${brief(row.label)} ${seconds(row.value)}`);
  return make("li", {}, `Waits for: ${parts.join(", ")}. ${shown(name[0].toUpperCase() + name.slice(1))} in all ${seconds(sums.total[0])}, ${who} together (${when}`, look, ").");
}

/** Whether less than the whole interval is looked at. */
const isCut = () => Boolean(view.filter.span) || isCloser();

/** The stretches of another event that are the same time; null where it is divided in another way. */
function spanOfOther(event) {
  const isAlike = ["begin_ns", "end_ns", "stretches"].every((key) => event.data[key] === view.base.data[key]);
  return isAlike ? view.filter.span : null;
}

function chooseEvent(index) {
  byId("event").value = String(index);
  showEvent(index);
  byId("stacks").scrollIntoView({ block: "nearest" });
}

function insideLine() {
  const rows = (view.figures.system_calls || []).filter((row) => row.inside_s).sort((a, b) => b.inside_s - a.inside_s).slice(0, 3);
  if (!rows.length) return null;
  return make("li", {}, `Time inside system calls, waiting included, of the whole system${isCut() ? " and interval" : ""}: ${rows.map((row) => `${shown(row.name)} ${row.inside_s.toFixed(3)} s in ${countText(row.calls)} calls`).join(", ")}.`);
}
