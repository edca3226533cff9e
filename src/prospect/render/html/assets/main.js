// The report's page: fills its controls and starts its parts.

openPage(["report", "source", "stacks"], (report, source, stacks) => {
  view.report = documentOf(report);
  view.source = documentOf(source);
  view.block = columnsOf(stacks);
  const { run, warnings } = view.report;
  startHead(run.command.join(" ") || run.origin, warnings);
  showRun(run);
  fillControls();
  startFlame(reportLook);
  showKinds();
  startHeat();
  startWallPath();
  startPanels();
  startAnswer();
  startKeys(clearSelection);
  startParts();
  on("sums", showSelection);
  const hasSamples = view.block.events.length > 0;
  byId("stacks").hidden = byId("tables").hidden = !hasSamples;
  byId("time").hidden = !hasSamples || !view.block.has_times;
  byId("state").hidden = hasSamples;
  if (!hasSamples) {
    byId("state").textContent = `No samples in ${run.wall_seconds.toFixed(3)} s: a longer run, or a higher rate (-H), has some.`;
    byId("state").after(...runFacts([]));
    fillAnswer(true);
    for (const name of ["scope", "search"]) byId(name).closest("label").hidden = true;
    return;
  }
  showEvent(0);
  // A command that only let others work has nothing to show of itself.
  if (view.filter.scope === "command" && !view.sums.totalSamples[0] && byId("scope").querySelector("[value=descendants]")) setScope("descendants", -1);
});

function showRun(run) {
  const started = run.started_at ? new Date(run.started_at * 1000).toLocaleString() : "";
  byId("run").textContent = [
    `${run.wall_seconds.toFixed(3)} s`, run.hostname, `${run.cpus} CPUs`, run.cpu_description, started,
    run.recorder,
  ].filter(Boolean).map(shown).join(" · ");
}

function fillControls() {
  const { events, processes } = view.block;
  byId("event").replaceChildren(...events.map((event, i) => make("option", { value: String(i) }, shown(event.name) + (WAITS[event.name] || ""))));
  byId("event-label").hidden = events.length < 2;
  byId("event").addEventListener("change", (event) => showEvent(Number(event.target.value)));
  const scopes = { all: "all processes" };
  if (processes.some((row) => row[2])) scopes.command = "the command";
  if (processes.some((row) => row[3])) scopes.descendants = "it and its descendants";
  byId("scope").replaceChildren(...Object.entries(scopes).map(([value, name]) => make("option", { value }, name)));
  const wanted = { 2: "command", 3: "descendants" }[view.report.options.detail];
  view.filter.scope = wanted in scopes ? wanted : "all";
  byId("scope").value = view.filter.scope;
  byId("scope").addEventListener("change", (event) => setScope(event.target.value, -1));
  byId("selection-clear").addEventListener("click", () => {
    const scope = view.filter.scope === "process" ? "all" : view.filter.scope;
    Object.assign(view.filter, { span: null, lane: null });
    if (isCloser()) showEvent(view.base.index);
    setScope(scope, -1);
  });
}

/** Show some processes only. */
function setScope(scope, process) {
  const select = byId("scope");
  select.querySelector("[value=process]")?.remove();
  if (scope === "process") {
    const [name, pid] = view.block.processes[process];
    select.append(make("option", { value: "process" }, shown(`${name} ${pid}`)));
  }
  select.value = scope;
  refilter({ scope, process });
}

/** Remarks on the names of waits. */
const WAITS = { blocked: " (waiting)", runnable: " (without a CPU)" };

/** Show the selection and its time. */
function showSelection() {
  const { span, lane } = view.filter;
  const parts = [
    span ? spanText(span) : isCloser() && spanText([0, view.base.data.stretches - 1]), lane && shown(laneName(lane.row)),
    view.filter.scope === "process" && shown(view.block.processes[view.filter.process].slice(0, 2).join(" ")),
  ].filter(Boolean);
  byId("selection").hidden = !parts.length;
  const kind = !view.event.data.has_time ? "" : view.isReported ? ` of ${shown(view.event.data.time_of || "CPU time")}` : " of waits that began then";
  byId("selection-text").textContent =
    `Only ${parts.join(", ")}: ${weightText(view.sums.total[0], view.sums.totalSamples[0])}${kind}`;
}
