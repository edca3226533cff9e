// The flame graph: a picture of the tree under the filter, drawn anew for each frame of the screen.
//
// Only rows that are in sight and at least half a pixel wide are visited: the rows of a narrow subtree
// follow each other and are skipped at once. Rows begin and end at whole points of the screen, which
// are filled several times as fast; rows between two points cost nothing.

const LEAST_WIDTH = 0.5;
const LABEL_WIDTH = 24;

const flame = {
  box: null, canvas: null, space: null, isAsked: false,
  look: null, // colours and texts of rows
  labels: [], // of frames, made when they are first drawn
  colours: null, // of the theme
  character: 7, // width of one
  width: 0,
  rowHeight: 19,
};

/**
 * Set up the picture and draw it whenever something changes.
 * @param {object} look: `fill(row)` is a row's colour, `lines(row)` its name, figures and object,
 *   `renew()` forgets colours when the theme changes
 */
function startFlame(look) {
  Object.assign(flame, {
    box: byId("flame"), canvas: byId("flame-canvas"), space: byId("flame-space"), look,
    // A finger needs more room than a mouse: WCAG 2.2, 2.5.8.
    rowHeight: matchMedia("(pointer: coarse)").matches ? 26 : 19,
  });
  flame.box.addEventListener("scroll", askForFlame);
  startPointing();
  new ResizeObserver(askForFlame).observe(flame.box);
  on("sums focus", () => {
    sizeFlame();
    askForFlame();
  });
  on("row", () => {
    scrollToCursor();
    askForFlame();
  });
  on("theme", () => {
    flame.colours = null;
    look.renew();
    askForFlame();
  });
  on("search", askForFlame);
}

/** Draw once at the next frame of the screen. */
function askForFlame() {
  if (flame.isAsked || !view.event) return;
  flame.isAsked = true;
  requestAnimationFrame(() => {
    flame.isAsked = false;
    performance.clearMeasures("flame");
    const start = performance.now();
    drawFlame();
    performance.measure("flame", { start });
  });
}

/** Make room for the deepest visible row. */
function sizeFlame() {
  const { event, sums, focus } = view;
  flame.width = flame.box.clientWidth;
  const scale = (flame.width || 1) / (sums.total[focus] || 1);
  let deepest = event.depth[focus];
  for (let i = focus; i < event.end[focus]; i++) {
    if (sums.total[i] * scale < LEAST_WIDTH) i = event.end[i] - 1;
    else if (event.depth[i] > deepest) deepest = event.depth[i];
  }
  flame.space.style.height = `${(deepest + 1) * flame.rowHeight}px`;
}

function drawFlame() {
  if (flame.box.clientWidth !== flame.width) sizeFlame();
  const [width, height] = [flame.width, flame.box.clientHeight];
  const draw = sizedContext(flame.canvas, width, height);
  prepareFlame(draw);
  const top = Math.round(flame.box.scrollTop);
  const { boxes, labels } = visibleRows(width, top, top + height);
  // A change of colour takes longer than a box, so all boxes of a colour are drawn at once.
  for (const [style, places] of boxes) {
    draw.fillStyle = style;
    for (let i = 0; i < places.length; i += 3) {
      const wide = places[i + 2];
      draw.fillRect(places[i], places[i + 1] - top, wide > 3 ? wide - 1 : wide, flame.rowHeight - 1);
    }
  }
  for (const label of labels) drawLabel(draw, label, top);
  drawCursor(draw, width, top);
}

/** The boxes in sight by colour, as x, y and width in turn; and the rows that have room for a label. */
function visibleRows(width, top, bottom) {
  const { event, sums, left, focus } = view;
  const { rowHeight } = flame;
  const [boxes, labels] = [new Map(), []];
  const add = (row, x, wide, y) => {
    const style = styleOf(row);
    const places = boxes.get(style);
    if (places) places.push(x, y, wide);
    else boxes.set(style, [x, y, wide]);
    if (wide > LABEL_WIDTH) labels.push({ row, x, wide, y });
  };
  for (let i = focus; i >= 0; i = event.parent[i]) add(i, 0, width, event.depth[i] * rowHeight);
  const scale = width / (sums.total[focus] || 1);
  const density = window.devicePixelRatio || 1;
  const [begin, last, total, { end, depth }] = [left[focus], event.end[focus], sums.total, event];
  for (let i = focus + 1; i < last; i++) {
    const wide = total[i] * scale;
    const y = depth[i] * rowHeight;
    if (wide < LEAST_WIDTH || y > bottom) {
      i = end[i] - 1;
      continue;
    }
    if (y + rowHeight <= top) continue;
    const from = (left[i] - begin) * scale;
    const x = Math.round(from * density) / density;
    const to = Math.round((from + wide) * density) / density;
    if (to > x) add(i, x, to - x, y);
  }
  return { boxes, labels };
}

const isDim = (row) => view.found !== null && !view.found[view.event.frame[row]];

function styleOf(row) {
  if (view.found === null) return flame.look.fill(row);
  return isDim(row) ? flame.colours.dim : flame.colours.found;
}

/** Give a canvas as many points as its size has on this screen. */
function sizedContext(canvas, width, height) {
  const density = window.devicePixelRatio || 1;
  const [across, down] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== across || canvas.height !== down) {
    [canvas.width, canvas.height] = [across, down];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  }
  const draw = canvas.getContext("2d");
  draw.setTransform(density, 0, 0, density, 0, 0);
  draw.clearRect(0, 0, width, height);
  return draw;
}

function prepareFlame(draw) {
  draw.font = "12px ui-monospace, monospace";
  draw.textBaseline = "middle";
  flame.character = draw.measureText("m").width;
  flame.colours = flame.colours || {
    text: colour("--flame-text"), dim: colour("--dim"), dimText: colour("--quiet"),
    found: colour("--found"), cursor: colour("--text"),
  };
}

function drawLabel(draw, { row, x, wide, y }, top) {
  const room = Math.floor((wide - 7) / flame.character);
  const label = flame.look.mark(row) + labelOfFrame(view.event.frame[row]);
  draw.fillStyle = isDim(row) ? flame.colours.dimText : flame.colours.text;
  draw.fillText(shortName(label, room), x + 3, y - top + flame.rowHeight / 2);
}

/** Mark the row with the cursor, over its neighbours. */
function drawCursor(draw, width, top) {
  const { event, left, sums, focus, row } = view;
  const scale = width / (sums.total[focus] || 1);
  const isAbove = row <= focus;
  const x = isAbove ? 0 : (left[row] - left[focus]) * scale;
  const wide = isAbove ? width : sums.total[row] * scale;
  draw.strokeStyle = flame.colours.cursor;
  draw.lineWidth = 2;
  draw.strokeRect(x + 1, event.depth[row] * flame.rowHeight - top + 1, Math.max(wide - 3, 1), flame.rowHeight - 3);
}

/**
 * A colour by hue in degrees, saturation and lightness in percent, as a canvas takes it fastest.
 * Source: CSS Color Module Level 4, 7.1 (HSL to RGB).
 */
function hexColour(hue, saturation, lightness) {
  const [s, l] = [saturation / 100, lightness / 100];
  const part = (n) => {
    const k = (n + hue / 30) % 12;
    const value = l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(255 * value).toString(16).padStart(2, "0");
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}

function labelOfFrame(frame) {
  return (flame.labels[frame] ??= shown(frameNames(view.block, frame).label));
}

/** The row of the tree at a place of the picture, -1 for none. */
function flameRowAt(pointer) {
  const { event, sums, left, focus } = view;
  const box = flame.canvas.getBoundingClientRect();
  const depth = Math.floor((pointer.clientY - box.top + flame.box.scrollTop) / flame.rowHeight);
  let row = focus;
  while (row > 0 && event.depth[row] > depth) row = event.parent[row];
  const at = left[focus] + ((pointer.clientX - box.left) / box.width) * sums.total[focus];
  while (row >= 0 && event.depth[row] < depth) row = childAt(row, at);
  return row;
}

/** The row that a row calls at a place, -1 for none. */
function childAt(row, at) {
  const { event, sums, left } = view;
  for (let i = row + 1; i < event.end[row]; i = event.end[i]) {
    if (at >= left[i] && at < left[i] + sums.total[i]) return i;
  }
  return -1;
}

function scrollToCursor() {
  const y = view.event.depth[view.row] * flame.rowHeight;
  if (y < flame.box.scrollTop) flame.box.scrollTop = y;
  const last = y + flame.rowHeight - flame.box.clientHeight;
  if (last > flame.box.scrollTop) flame.box.scrollTop = last;
}
