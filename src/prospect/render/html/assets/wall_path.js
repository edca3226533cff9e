// The critical path of the command over the rows of its threads: lines along threads, and an arrow
// at each change to another thread.

const PATH_STATES = ["ran", "waited for a CPU", "was blocked", "is not known"];
const MOST_PATH_LANES = 32;
const ARROW = 4;
const LEAST_GAP = 7; // between arrow heads

const wallPath = { at: -1 }; // the piece that the keys chose

/** Set up the switch; a page without a path has none. */
function startWallPath() {
  const { path } = view.block;
  byId("path-label").hidden = !path;
  if (!path) return;
  view.lanes = byId("lanes").value = "thread";
  byId("path-shown").addEventListener("change", drawHeat);
}

const showsWallPath = () => Boolean(view.block.path) && view.lanes === "thread" && byId("path-shown").checked;

/** The rows of threads: first those with most of the path, in its order, then the others. */
function withPathLanes(lanes) {
  if (!showsWallPath()) return lanes;
  const rows = new Map(lanes.map((row) => [row.lane, row]));
  const nothing = () => ({ weights: new Float64Array(view.base.data.stretches), sum: 0 });
  const lengths = pathLengths();
  const longest = [...lengths.keys()].sort((a, b) => lengths.get(b) - lengths.get(a)).slice(0, MOST_PATH_LANES);
  const met = new Set([...lengths.keys()].filter((lane) => longest.includes(lane)));
  const first = [...met].map((lane) => rows.get(lane) || { lane, ...nothing() });
  return [...first, ...lanes.filter((row) => !met.has(row.lane))];
}

/** The length of the path in each thread, in the order of the path. */
function pathLengths() {
  const lengths = new Map();
  view.block.path.thread.forEach((lane, i) => {
    const [begin, end] = pieceTimes(i);
    if (lane < view.block.threads.tid.length) lengths.set(lane, (lengths.get(lane) || 0) + end - begin);
  });
  return lengths;
}

/** When a piece begins and ends, in ns. */
const pieceTimes = (i) => [view.block.path.begin_ns[i], view.block.path.begin_ns[i + 1] ?? view.block.path.end_ns];

/** The horizontal place of a time. */
function pathX(ns) {
  const { begin_ns: begin, end_ns: end } = view.base.data;
  const share = Math.min(Math.max((ns - begin) / (end - begin), 0), 1);
  return heat.label + share * (heat.width - heat.label);
}

/** Draw the path over the rows that are shown. */
function drawWallPath(draw) {
  if (!showsWallPath()) return;
  const { thread, state } = view.block.path;
  const middle = new Map(heat.lanes.map((row, nth) => [row.lane, nth * heat.lane + heat.lane / 2]));
  const { begin_ns: from, end_ns: until } = view.base.data;
  let [before, headAt] = [null, -LEAST_GAP];
  for (let i = 0; i < thread.length; i++) {
    const [begin, end] = pieceTimes(i);
    if (end < from || begin > until) continue;
    const [x, right, y] = [pathX(begin), pathX(end), middle.get(thread[i])];
    if (y !== undefined) drawPiece(draw, x, Math.max(right - x, 1), y, state[i]);
    if (before !== null && y !== undefined && before !== y) {
      drawChange(draw, x, before, y, x - headAt >= LEAST_GAP);
      if (x - headAt >= LEAST_GAP) headAt = x;
    }
    before = y ?? null;
  }
  if (wallPath.at >= 0) markPiece(draw, middle);
}

/** A bar if the thread ran, a line if it waited for a CPU, dots if it was blocked. */
function drawPiece(draw, x, width, y, state) {
  draw.fillStyle = colour(state === 0 ? "--accent" : state === 1 ? "--text" : "--quiet");
  const high = state === 0 ? Math.min(5, heat.lane) : 2;
  if (state < 2 || width < 4) draw.fillRect(x, y - high / 2, width, high);
  else for (let at = x; at < x + width; at += 4) draw.fillRect(at, y - 1, Math.min(2, x + width - at), 2);
}

function drawChange(draw, x, from, to, hasHead) {
  draw.fillStyle = colour("--text");
  draw.globalAlpha = hasHead ? 0.9 : 0.35;
  draw.fillRect(x - 0.5, Math.min(from, to), 1, Math.abs(to - from));
  if (hasHead) {
    const tail = to > from ? to - ARROW : to + ARROW;
    draw.beginPath();
    draw.moveTo(x, to);
    draw.lineTo(x - ARROW / 1.5, tail);
    draw.lineTo(x + ARROW / 1.5, tail);
    draw.fill();
  }
  draw.globalAlpha = 1;
}

function markPiece(draw, middle) {
  const y = middle.get(view.block.path.thread[wallPath.at]);
  if (y === undefined) return;
  const [x, right] = pieceTimes(wallPath.at).map(pathX);
  draw.strokeStyle = colour("--text");
  draw.lineWidth = 1.5;
  draw.strokeRect(x - 2, y - heat.lane / 2 + 0.5, Math.max(right - x, 1) + 4, heat.lane - 1);
}

/** The piece at a time; -1 outside of the path. */
function pieceAt(ns) {
  const { begin_ns: begins, end_ns: end } = view.block.path;
  let [low, high] = [0, begins.length];
  while (low < high) {
    const at = (low + high) >> 1;
    if (begins[at] <= ns) low = at + 1;
    else high = at;
  }
  return ns < end ? low - 1 : -1;
}

/** A piece in words. */
function pieceText(i) {
  const { thread, state, is_whole: isWhole } = view.block.path;
  const [begin, end] = pieceTimes(i).map((ns) => ns / 1e9);
  const who = thread[i] < view.block.threads.tid.length ? shown(laneName(thread[i])).trim() : "a thread without samples";
  const about = isWhole ? "" : "about ";
  return `critical path: ${who} ${PATH_STATES[state[i]]} for ${about}${(end - begin).toFixed(6)} s from ${begin.toFixed(3)} s on`;
}

/** The path in the middle of a stretch, in words after its times. */
function pathTextAt(stretch) {
  if (!showsWallPath()) return "";
  const { begin_ns: begin, end_ns: end } = spanTimes([stretch, stretch]);
  const at = pieceAt((begin + end) / 2);
  return at < 0 ? "" : ` · ${pieceText(at)}`;
}

/** Go along the path, to the next piece that is wide enough to see. */
function movePiece(step) {
  if (!showsWallPath()) return;
  const { thread } = view.block.path;
  const isSeen = (i) => pieceTimes(i).map(pathX).reduce((x, right) => right - x) >= 2;
  let at = wallPath.at < 0 && step < 0 ? thread.length : wallPath.at;
  do at += step; while (at >= 0 && at < thread.length && !isSeen(at));
  if (at < 0 || at >= thread.length) return;
  wallPath.at = at;
  byId("time-text").textContent = pieceText(at);
  drawHeat();
}

/** The path in words, for those who do not see it. */
function describePath() {
  if (!showsWallPath()) return "";
  const { thread } = view.block.path;
  const changes = thread.reduce((sum, one, i) => sum + (i > 0 && one !== thread[i - 1] ? 1 : 0), 0);
  return ` The critical path changes threads ${countText(changes)} times; n and p go along it.`;
}
