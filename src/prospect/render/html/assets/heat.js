// The heat map: the load of each CPU or thread over time, and the selected stretch.

const MOST_LANES = 48; // of threads
const [LEAST_HEIGHT, MOST_HEIGHT] = [2, 900]; // of a lane; of all lanes
const NAME_HEIGHT = 13;
const AXIS = 18;

const heat = { canvas: null, lanes: [], lane: 0, label: 0, width: 0, from: -1 };

/** Set up the map, which is hidden if samples have no times. */
function startHeat() {
  heat.canvas = byId("heat");
  heat.canvas.addEventListener("pointerdown", beginSpan);
  heat.canvas.addEventListener("pointermove", widenSpan);
  heat.canvas.addEventListener("pointerup", endSpan);
  heat.canvas.addEventListener("pointercancel", endSpan);
  heat.canvas.addEventListener("keydown", moveSpan);
  byId("lanes").addEventListener("change", (event) => {
    view.lanes = event.target.value;
    wallPath.at = -1;
    refilter({ lane: null });
  });
  new ResizeObserver(drawHeat).observe(byId("time"));
  on("sums theme", drawHeat);
}

function drawHeat() {
  if (!view.base || !view.block.has_times) return;
  const lanes = sortedLanes();
  heat.lanes = view.lanes === "cpu" ? lanes : lanes.slice(0, MOST_LANES);
  heat.lane = laneHeight(heat.lanes.length);
  heat.width = byId("time").clientWidth;
  heat.label = Math.min(Math.max(heat.width * 0.16, view.lanes === "cpu" ? 56 : 120), 150);
  const draw = sizedContext(heat.canvas, heat.width, heat.lanes.length * heat.lane + AXIS);
  draw.font = "11px system-ui, sans-serif";
  draw.textBaseline = "middle";
  const most = fullWeight();
  heat.lanes.forEach((row, nth) => drawLane(draw, row, nth * heat.lane, most));
  drawWallPath(draw);
  drawNames(draw);
  drawAxis(draw, heat.lanes.length * heat.lane);
  if (view.filter.span) drawSpan(draw, view.filter.span);
  describeHeat(most);
  byId("time-note").textContent = [
    lanes.length > heat.lanes.length && `${showsWallPath() ? "the path's and " : ""}the busiest ${MOST_LANES} of ${countText(lanes.length)} threads`,
    !view.isReported && "each wait is where it began",
  ].filter(Boolean).join("; ");
}

/** Few lanes are high enough for a finger, and many still fit on one screen. */
function laneHeight(lanes) {
  const room = Math.max(Math.floor(MOST_HEIGHT / (lanes || 1)), LEAST_HEIGHT);
  return Math.min(room, matchMedia("(pointer: coarse)").matches ? 28 : lanes > 8 ? 16 : 22);
}

/** Names of lanes, as many as fit below each other. */
function drawNames(draw) {
  const step = Math.ceil(NAME_HEIGHT / heat.lane);
  const room = Math.floor(heat.label / 6.2);
  heat.lanes.forEach((row, nth) => {
    if (nth % step) return;
    draw.fillStyle = colour(isChosenLane(row) ? "--accent" : "--quiet");
    const name = shown(laneName(row.lane));
    draw.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, 2, nth * heat.lane + Math.max(heat.lane, NAME_HEIGHT) / 2);
  });
}

const isChosenLane = (row) => Boolean(view.filter.lane) && view.filter.lane.row === row.lane;

/** The map in words, for those who do not see it. */
function describeHeat(most) {
  const whole = most * view.base.data.stretches || 1;
  const rows = heat.lanes.slice(0, 8).map((row) => `${shown(laneName(row.lane)).trim()} ${Math.round((100 * row.sum) / whole)} %`);
  const span = view.filter.span ? `, ${spanText(view.filter.span)} selected` : "";
  heat.canvas.setAttribute("aria-label", `Samples by time${span}. How busy: ${rows.join(", ")}. Left and right select a stretch, up and down a row.${describePath()}`);
}

function sortedLanes() {
  const lanes = laneWeights(view.base, view.filter, view.lanes);
  return withPathLanes(lanes.sort(view.lanes === "cpu" ? (a, b) => a.lane - b.lane : (a, b) => b.sum - a.sum));
}

/** The most that a lane can weigh in one stretch: all of its time; without time, the largest weight. */
function fullWeight() {
  const { data } = view.base;
  if (data.has_time) return (data.end_ns - data.begin_ns) / 1e9 / data.stretches;
  return heat.lanes.reduce((most, row) => row.weights.reduce((a, b) => Math.max(a, b), most), 0) || 1;
}

function laneName(lane) {
  if (view.lanes === "cpu") return lane === 0xffff ? "CPU ?" : `CPU ${lane}`;
  const { threads, comms } = view.block;
  if (threads.comm[lane] === undefined) return "(others)";
  const tid = threads.tid[lane];
  return `${comms[threads.comm[lane]]} ${tid <= 4194304 ? tid : ""}`;
}

const stretchWidth = () => (heat.width - heat.label) / view.base.data.stretches;

function drawLane(draw, row, y, most) {
  const wide = stretchWidth();
  const high = heat.lane > 4 ? heat.lane - 1 : heat.lane;
  draw.fillStyle = colour("--lane");
  draw.fillRect(heat.label, y, heat.width - heat.label, high);
  draw.fillStyle = colour("--heat");
  row.weights.forEach((weight, stretch) => {
    if (!weight) return;
    draw.globalAlpha = 0.12 + 0.88 * Math.min(weight / most, 1);
    draw.fillRect(heat.label + stretch * wide, y, wide + 0.3, high);
  });
  draw.globalAlpha = 1;
  if (!isChosenLane(row)) return;
  draw.fillStyle = colour("--accent");
  draw.fillRect(heat.label - 4, y, 3, high);
}

function drawAxis(draw, y) {
  const [begin, seconds] = [view.base.data.begin_ns / 1e9, (view.base.data.end_ns - view.base.data.begin_ns) / 1e9];
  const step = axisStep(seconds / Math.max((heat.width - heat.label) / 80, 1));
  draw.fillStyle = colour("--quiet");
  for (let at = Math.ceil(begin / step) * step; at <= begin + seconds; at += step) {
    const text = `${+at.toFixed(6)} s`;
    const x = heat.label + ((at - begin) / seconds) * (heat.width - heat.label);
    if (x + draw.measureText(text).width > heat.width) break;
    draw.fillRect(x, y, 1, 4);
    draw.fillText(text, x + 3, y + AXIS / 2 + 1);
  }
}

/** The next of 1, 2, 5 times a power of ten. */
function axisStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least) || least;
}

function drawSpan(draw, [first, last]) {
  const wide = stretchWidth();
  const height = heat.lanes.length * heat.lane;
  const [x, end] = [heat.label + first * wide, heat.label + (last + 1) * wide];
  draw.fillStyle = colour("--veil");
  draw.fillRect(heat.label, 0, x - heat.label, height);
  draw.fillRect(end, 0, heat.width - end, height);
  draw.strokeStyle = colour("--accent");
  draw.lineWidth = 2;
  draw.strokeRect(x, 1, end - x, height - 2);
}

/** The stretch under the pointer; -1 on the names. */
function stretchAt(pointer) {
  const x = pointer.clientX - heat.canvas.getBoundingClientRect().left;
  if (x < heat.label) return -1;
  return Math.min(Math.floor((x - heat.label) / stretchWidth()), view.base.data.stretches - 1);
}

function beginSpan(pointer) {
  heat.from = stretchAt(pointer);
  if (heat.from >= 0) heat.canvas.setPointerCapture(pointer.pointerId);
  else chooseLane(pointer);
}

function chooseLane(pointer) {
  const y = pointer.clientY - heat.canvas.getBoundingClientRect().top;
  const row = heat.lanes[Math.floor(y / heat.lane)];
  if (row) filterLane(isChosenLane(row) ? null : row);
}

const filterLane = (row) => refilter({ lane: row && { kind: view.lanes, row: row.lane } });

function widenSpan(pointer) {
  const at = Math.max(stretchAt(pointer), 0);
  byId("time-text").textContent = spanText([at, at]) + pathTextAt(at);
  if (heat.from < 0 || (at === heat.from && !view.filter.span)) return;
  const [first, last] = [Math.min(heat.from, at), Math.max(heat.from, at)];
  const before = view.filter.span;
  if (!before || before[0] !== first || before[1] !== last) refilter({ span: [first, last] });
}

function endSpan(pointer) {
  // A click without a movement removes the selection.
  if (heat.from >= 0 && stretchAt(pointer) === heat.from) refilter({ span: null });
  heat.from = -1;
}

/** The row above or below the chosen one; beyond the first none is chosen. */
function moveLane(step) {
  const at = heat.lanes.findIndex(isChosenLane) + step;
  if (at < heat.lanes.length) filterLane(heat.lanes[at] || null);
}

/** Arrows move the stretch, with Shift they move its end; up and down choose a row. */
function moveSpan(event) {
  const rows = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (rows) {
    event.preventDefault();
    event.stopPropagation();
    moveLane(rows);
    return;
  }
  const along = { n: 1, p: -1 }[event.key];
  if (along) movePiece(along);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  const most = view.base.data.stretches - 1;
  const [first, last] = view.filter.span || [0, Math.floor(most / 8)];
  if (event.shiftKey) refilter({ span: [first, Math.min(Math.max(last + step, first), most)] });
  else if (first + step >= 0 && last + step <= most) refilter({ span: [first + step, last + step] });
}

function spanText(span) {
  const { begin_ns: begin, end_ns: end } = spanTimes(span);
  return `${(begin / 1e9).toFixed(3)} s to ${(end / 1e9).toFixed(3)} s`;
}

/** The times in which samples of some stretches were taken, the end excluded. */
function spanTimes([first, last]) {
  const { begin_ns: begin, end_ns: end, stretches } = view.base.data;
  const at = (stretch) => begin + Math.ceil((stretch * (end - begin)) / stretches);
  return { begin_ns: at(first), end_ns: at(last + 1) };
}
