// The times of threads and of their waits: the text report's figures.

function waitingPanel() {
  const { threads, blockers, holders, stacks, more_stacks: more } = view.report.waiting;
  const about = "These are waits of the report's processes in the whole interval. Each wait was measured from its beginning to its end: there are no error bars.";
  return [
    make("p.quiet", {}, about),
    ...(blockers ? [sortableTable("Blocked, by what was waited for", blockerColumns(blockers), blockers, null)]
      : [make("p.quiet", {}, "No stacks of waits were recorded: what blocked threads is not known.")]),
    ...(holders.length ? [sortableTable("Locks, by what their holders did while others waited", holderColumns(), holders, null)] : []),
    sortableTable("What each thread did all its life", threadColumns(threads), threads, null),
    ...(stacks.length ? [sortableTable("Blocked, by stack, from the inside out", stackColumns(), stacks, null)] : []),
    make("p.quiet", {}, more ? `${countText(more)} more stacks.` : ""),
  ];
}

const waitSeconds = (title, key) => number(title, (row) => row[key], (row) => (row[key] === null ? "-" : fixed(row[key], 6)));
const waitCount = (title, key) => number(title, (row) => row[key], (row) => countText(row[key]));

function blockerColumns(rows) {
  const all = rows.reduce((sum, row) => sum + row.seconds, 0) || 1;
  return [
    { ...text("What", (row) => row.name), cell: (row) => make("b", {}, shown(row.name)) },
    { ...waitSeconds("Blocked (s)", "seconds"), isMain: true },
    number("Share", (row) => row.seconds, (row) => `${fixed((row.seconds / all) * 100, 1)} %`),
    waitCount("Waits", "waits"), waitSeconds("Longest (s)", "longest_s"),
  ];
}

const holderColumns = () => [
  { ...text("Function", (row) => row.function), cell: (row) => make("b", {}, shown(row.function)) },
  text("Called by", (row) => row.caller || "-"), text("Lock", (row) => row.lock),
  { ...waitSeconds("Others waited (s)", "seconds"), isMain: true },
];

function threadColumns(rows) {
  return [
    { ...text("Thread", (row) => row.name), cell: (row) => make("b", {}, shown(row.name)) },
    number("TID", (row) => row.tid, (row) => String(row.tid)),
    waitSeconds("Life (s)", "life_s"), waitSeconds("On CPU (s)", "cpu_s"),
    waitSeconds("Blocked (s)", "blocked_s"), waitSeconds("Runnable (s)", "runnable_s"),
    ...(rows.some((row) => row.unknown_s) ? [waitSeconds("Unknown (s)", "unknown_s")] : []),
    waitSeconds("Longest (s)", "longest_s"), waitCount("Waits", "waits"), waitCount("Preempted", "preemptions"),
    waitSeconds("User (s)", "user_s"), waitSeconds("System (s)", "system_s"),
  ];
}

const stackColumns = () => [
  { ...waitSeconds("Blocked (s)", "seconds"), isMain: true }, waitCount("Waits", "waits"), waitSeconds("Longest (s)", "longest_s"),
  { ...text("Stack", stackText), cell: (row) => make("span.stack", {}, shown(stackText(row))) },
];

const stackText = ({ kernel, user }) => [...kernel, ...user].map((name) => name || "[unknown]").join(" ← ");
