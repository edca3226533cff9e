// Turns of a server: their lengths and parts, and the slowest ones drawn over time.

function turnsPanel() {
  const { kinds, slowest, cut, unclear } = view.report.turns;
  const about = "From the end of a thread's wait for work to its next one, followed across processes by who woke whom.";
  const left = cut + unclear ? ` Left out: ${countText(cut)} cut by the recording's ends, ${countText(unclear)} with an unknown wait.` : "";
  const parts = kinds.flatMap((kind) => kind.rows.map((row) => ({ ...row, of: kind })));
  const pieces = make("div", { "aria-live": "polite" });
  const choose = (turn) => pieces.replaceChildren(piecesTable(turn));
  return [
    make("p.quiet", {}, about + left),
    sortableTable("Turns by program and kind", kindColumns(), kinds, null),
    ...(slowest.length ? [sortableTable("The slowest turns; choose one for its pieces", slowColumns(slowest[0].seconds), slowest, choose), pieces] : []),
    sortableTable("What turns consisted of, on average", partOfTurnColumns(), parts, null),
  ];
}

const milliseconds = (seconds) => fixed(seconds * 1000, 3);
const between = ({ low, high }) => `${low === null ? "" : milliseconds(low)} to ${high === null ? "" : milliseconds(high)}`;
const kindName = ({ kind, is_loop: isLoop }) => (isLoop ? `${kind} (event loop)` : kind);
const inMilliseconds = (title, value, hint) => number(title, value, (row) => milliseconds(value(row)), hint);

const kindColumns = () => [
  { ...text("Kind", kindName), cell: (row) => make("b", {}, shown(kindName(row))) },
  text("Program", (row) => row.program), text("Service", (row) => row.service || "-"),
  number("Turns", (row) => row.turns, (row) => countText(row.turns)),
  { ...number("Median (ms)", (row) => row.median.value, (row) => milliseconds(row.median.value)), isMain: true },
  number("95 % of it", (row) => row.median.value, (row) => between(row.median), "95 % interval of the median"),
  number("95th percentile (ms)", (row) => row.tail.value, (row) => milliseconds(row.tail.value)),
  inMilliseconds("Longest (ms)", (row) => row.longest_s), number("All (s)", (row) => row.seconds, (row) => fixed(row.seconds, 3)),
];

const partOfTurnColumns = () => [
  { ...text("What", (row) => row.what || row.state), cell: (row) => make("b", {}, shown(row.what || row.state)) },
  text("State", (row) => row.state), text("Program", (row) => row.program), text("Thread", (row) => row.thread),
  text("Meanwhile in", (row) => row.during || ""), text("Of", (row) => `${row.of.program}: ${row.of.kind}`),
  { ...inMilliseconds("A turn (ms)", (row) => row.seconds / row.of.turns), isMain: true },
  number("±", (row) => row.half_width_s, (row) => (row.half_width_s ? milliseconds(row.half_width_s / row.of.turns) : "-")),
  number("Share", (row) => row.share, (row) => `${fixed(row.share * 100, 1)} %`),
];

function slowColumns(longest) {
  return [
    { ...text("Kind", (row) => row.kind), cell: (row) => make("b", {}, shown(row.kind)) },
    text("Program", (row) => row.program), number("TID", (row) => row.tid, (row) => String(row.tid)),
    number("At (s)", (row) => row.begin_s, (row) => fixed(row.begin_s, 3)),
    { ...inMilliseconds("Length (ms)", (row) => row.seconds), isMain: true },
    { title: `Pieces, over ${milliseconds(longest)} ms`, value: (row) => row.seconds, cell: (row) => piecesBar(row, longest) },
  ];
}

const STATE_COLOURS = { running: 0, "waiting for a CPU": 1, blocked: 2, "not known": 4 };

/** The colour of a piece; running pieces of other processes have their own. */
const colourOf = ({ state, thread }) => (state === "running" && thread === "other process" ? 3 : STATE_COLOURS[state]);
const turnPieceText = ({ state, program, what, seconds }) => `${shown(program)}: ${shown(what || state)}, ${milliseconds(seconds)} ms`;

/** The pieces of a turn as a bar over its time, the longest turn as wide as all. */
function piecesBar(turn, longest) {
  const bar = make("span.slices.turn", { role: "img", "aria-label": `${turn.pieces.length} pieces, ${milliseconds(turn.seconds)} ms` });
  bar.style.width = `${(turn.seconds / longest) * 100}%`;
  let end = 0;
  for (const piece of turn.pieces) {
    const part = make(`i.slice${colourOf(piece)}`, { title: turnPieceText(piece) });
    part.style.width = `${(piece.seconds / turn.seconds) * 100}%`;
    part.style.marginLeft = `${(Math.max(piece.begin_s - end, 0) / turn.seconds) * 100}%`;
    bar.append(part);
    end = piece.begin_s + piece.seconds;
  }
  return bar;
}

function piecesTable(turn) {
  const more = turn.more_pieces ? `; ${countText(turn.more_pieces)} shorter ones are left out` : "";
  return sortableTable(`Pieces of the turn of ${milliseconds(turn.seconds)} ms at ${fixed(turn.begin_s, 3)} s${more}`, [
    inMilliseconds("From (ms)", (row) => row.begin_s),
    { ...inMilliseconds("Length (ms)", (row) => row.seconds), isMain: true },
    { ...text("What", (row) => row.what || row.state), cell: (row) => make("b", {}, shown(row.what || row.state)) },
    text("State", (row) => row.state), text("Program", (row) => row.program), text("Thread", (row) => row.thread),
  ], turn.pieces, null);
}
