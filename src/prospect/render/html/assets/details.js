// The chosen function with its callers, callees and instructions, and facts.

/** Show who calls the chosen function, and what it calls. */
function fillFunction() {
  const box = byId("function");
  const frame = view.frame;
  box.hidden = frame < 0;
  if (frame < 0) return;
  const { label, object } = frameNames(view.block, frame);
  const own = functionSums(view.event, view.sums).find((row) => row.key === frame);
  const through = weightThrough(view.event, view.sums, (other) => other === frame);
  const all = view.sums.total[0] || 1;
  const figures = own
    ? `self ${weightText(own.self, own.selfSamples)}, total ${weightText(own.total, own.samples)} (${shareText(own.total / all, own.samples)} of what is shown)`
    : `total ${shareText(through / all, view.sums.totalSamples[0])} of what is shown`;
  box.replaceChildren(
    make("h2", {}, shown(label), " ", make("small", {}, shown(object))),
    make("p", {}, figures, " ", ...functionButtons(frame)),
    ...(view.block.has_stacks ? [make("div.pair", {},
      arcTable("Called by", callersOf(view.event, view.sums, frame), through),
      arcTable("Calls", calleesOf(view.event, view.sums, frame), through))] : []),
    ...codeOfFrame(frame),
  );
}

/** Calls of a function; shares are of its time with all that it calls. */
function arcTable(title, arcs, through) {
  const rows = arcs.filter((arc) => arc.samples).map((arc) => ({
    ...frameNames(view.block, arc.key), frame: arc.key, samples: arc.samples,
    ...roughBar(arc.total, arc.samples), share: arc.total / (through || 1), allSamples: view.sums.totalSamples[0],
  })).sort((a, b) => b.value - a.value);
  const columns = [functionColumn("Function", (row) => row.label), ...timeColumns(rows, "Total (s)", "of the time of the chosen function with all that it calls")];
  return sortableTable(`${title}; shares of its total`, columns, rows, chooseRow, CALLS_AT_FIRST);
}

/** The facts of the run, notes, and where names came from. */
function factsPanel() {
  const quality = view.figures.symbol_quality.sources.map((row) => ({ label: row.label, samples: row.samples, share: row.share, value: row.seconds, half: null, remedy: row.remedy }));
  return [
    ...runFacts(view.figures.remarks_on_errors),
    agreementTable(),
    sortableTable("Where names came from", [text("Source", (row) => row.label), ...timeColumns(quality), text("Remedy", (row) => row.remedy)], quality, null),
  ];
}

/** The facts of a run, with or without samples. */
function runFacts(remarks) {
  const { run, statistics, notes, generator } = view.report;
  const command = run.command.join(" ");
  const facts = [
    ["Command", command], ["Recording", run.origin], ["Recorded by", run.recorder],
    ["Recorder's command line", run.recorder_command_line.join(" ")], ["Host", run.hostname],
    ["System", [run.os_release, run.uname].filter(Boolean).join(", ")], ["Processor", run.cpu_description],
    ["CPUs", String(run.cpus)], ["Started", run.started_at ? new Date(run.started_at * 1000).toISOString() : "unknown"],
    ["Length", `${run.wall_seconds.toFixed(3)} s`], ["Clock", run.clock], ["Report by", generator],
  ].filter(([, value]) => value);
  return [
    factList("Run", facts),
    sentences("Notes", [...notes, ...remarks]),
    factList("Statistics", Object.entries(statistics).map(([name, value]) => [name.replaceAll("_", " "), countText(value)])),
  ];
}

const factList = (title, pairs) => make("div", {}, make("h3", {}, title),
  make("dl.facts", {}, ...pairs.flatMap(([name, value]) => [make("dt", {}, shown(name)), make("dd", {}, shown(value))])));

/** Sampled time next to the kernel's own accounting. */
function agreementTable() {
  const rows = view.figures.accounting;
  const seconds = (title, key) => number(title, (row) => row[key], (row) => (row[key] === null ? "-" : row[key].toFixed(view.digits)));
  const columns = [
    text("Time", (row) => row.name), seconds("Sampled (s)", "sampled_s"), seconds("± (s)", "half_width_s"),
    seconds("Accounted (s)", "accounted_s"), text("Agrees", (row) => ({ true: "yes", false: "NO" }[row.agrees] ?? "-")),
    text("By", (row) => row.source),
  ];
  return sortableTable("Compared with the kernel's own accounting", columns, rows, null);
}
