// The flame graph: a picture of the tree under the filter, drawn anew for each frame of the screen.
//
// Only what is at least half a pixel wide and scrolled into sight is visited: the rows of a narrow
// subtree follow each other and are passed over at once.

const ROW = 19;
const LEAST_WIDTH = 0.5;
const LABEL_WIDTH = 24;
const KIND_HUES = [[6, 46], [205, 30], [168, 24], [96, 24]]; // user, kernel, inlined, JIT code

const flame = { box: null, canvas: null, space: null, colours: null, character: 7, isAsked: false };

/** Set up the picture and draw it whenever something changes. */
function startFlame() {
  flame.box = byId("flame");
  flame.canvas = byId("flame-canvas");
  flame.space = byId("flame-space");
  flame.box.addEventListener("scroll", askForFlame);
  flame.canvas.addEventListener("click", (event) => {
    const row = flameRowAt(event);
    if (row < 0) return;
    chooseFrame(view.event.frame[row]);
    focusOn(row);
  });
  flame.canvas.addEventListener("pointermove", showFlameTip);
  flame.canvas.addEventListener("pointerleave", () => (byId("tip").hidden = true));
  new ResizeObserver(askForFlame).observe(flame.box);
  on("sums focus", () => {
    sizeFlame();
    showPath();
    showCursor();
    askForFlame();
  });
  on("row", () => {
    showCursor();
    scrollToCursor();
    askForFlame();
  });
  on("theme", () => {
    flame.colours = null;
    askForFlame();
  });
  on("search", () => {
    showFound();
    askForFlame();
  });
}

/** Draw at the next frame of the screen, however often this is asked for before. */
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

/** Make room for the deepest row that can be seen. */
function sizeFlame() {
  const { event, sums, focus } = view;
  const width = flame.box.clientWidth || 1;
  const scale = width / (sums.total[focus] || 1);
  let deepest = event.depth[focus];
  for (let i = focus; i < event.end[focus]; i++) {
    if (sums.total[i] * scale < LEAST_WIDTH) i = event.end[i] - 1;
    else if (event.depth[i] > deepest) deepest = event.depth[i];
  }
  flame.space.style.height = `${(deepest + 1) * ROW}px`;
}

function drawFlame() {
  const { event, sums, left, focus } = view;
  const [width, height] = [flame.box.clientWidth, flame.box.clientHeight];
  const draw = sizedContext(flame.canvas, width, height);
  draw.font = "12px ui-monospace, monospace";
  draw.textBaseline = "middle";
  flame.character = draw.measureText("m").width;
  flame.colours = flame.colours || frameColours(event.block);
  const [top, bottom] = [flame.box.scrollTop, flame.box.scrollTop + height];
  for (let i = focus; i >= 0; i = event.parent[i]) {
    drawFrame(draw, i, 0, width, event.depth[i] * ROW - top);
  }
  const scale = width / (sums.total[focus] || 1);
  for (let i = focus + 1; i < event.end[focus]; i++) {
    const wide = sums.total[i] * scale;
    const y = event.depth[i] * ROW;
    if (wide < LEAST_WIDTH || y > bottom) i = event.end[i] - 1;
    else if (y + ROW > top) drawFrame(draw, i, (left[i] - left[focus]) * scale, wide, y - top);
  }
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

function drawFrame(draw, row, x, wide, y) {
  const frame = view.event.frame[row];
  const colours = flame.colours;
  const isDim = view.found && !view.found[frame];
  draw.fillStyle = isDim ? colours.dim : view.found ? colours.found : colours.frames[frame];
  draw.fillRect(x, y, Math.max(wide - (wide > 3 ? 1 : 0), LEAST_WIDTH), ROW - 1);
  if (wide > LABEL_WIDTH) {
    const room = Math.floor((wide - 7) / flame.character);
    const label = colours.labels[frame];
    draw.fillStyle = isDim ? colours.dimText : colours.text;
    draw.fillText(label.length > room ? `${label.slice(0, room - 1)}…` : label, x + 3, y + ROW / 2);
  }
  if (row === view.row) {
    draw.strokeStyle = colours.cursor;
    draw.lineWidth = 2;
    draw.strokeRect(x + 1, y + 1, Math.max(wide - 3, 1), ROW - 3);
  }
}

/** What each frame looks like; the same name always has the same colour. */
function frameColours(block) {
  const isDark = document.documentElement.dataset.theme === "dark";
  const count = block.first_thread_frame + block.comms.length;
  const labels = Array.from({ length: count }, (_, i) => shown(frameNames(block, i).label));
  const frames = labels.map((label, i) => {
    if (i >= block.first_thread_frame - 2) return colour("--thread");
    const [hue, range] = KIND_HUES[block.frame_kind[i]];
    const seed = hashOf(label);
    const light = isDark ? 30 + (seed % 9) : 70 + (seed % 11);
    return `hsl(${hue + (seed >>> 8) % range} ${isDark ? 48 : 72}% ${light}%)`;
  });
  return {
    frames, labels, text: colour("--flame-text"), dim: colour("--dim"), dimText: colour("--quiet"),
    found: colour("--found"), cursor: colour("--text"),
  };
}

/** FNV-1a, 32 bits. */
function hashOf(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** The row of the tree under the pointer, -1 for none. */
function flameRowAt(pointer) {
  const { event, sums, left, focus } = view;
  const box = flame.canvas.getBoundingClientRect();
  const depth = Math.floor((pointer.clientY - box.top + flame.box.scrollTop) / ROW);
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

/** What is to be said of a row of the tree. */
function rowText(row) {
  const { event, sums } = view;
  const { label, object } = frameNames(event.block, event.frame[row]);
  const share = shareText(sums.total[row] / (sums.total[0] || 1), sums.totalHits[0]);
  const self = sums.own[row] > 0 ? `, self ${weightText(sums.own[row], sums.ownHits[row])}` : "";
  return [shown(label), `${weightText(sums.total[row], sums.totalHits[row])}, ${share}${self}`, shown(object)];
}

function showFlameTip(pointer) {
  const row = flameRowAt(pointer);
  const tip = byId("tip");
  tip.hidden = row < 0;
  if (row < 0) return;
  const [label, figures, object] = rowText(row);
  tip.replaceChildren(make("b", {}, label), make("span", {}, figures), make("small", {}, object));
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(Math.min(pointer.clientX + 12, room), 4)}px`;
  const above = pointer.clientY + 18 + tip.offsetHeight > window.innerHeight;
  tip.style.top = `${above ? pointer.clientY - tip.offsetHeight - 10 : pointer.clientY + 18}px`;
}

/** The callers of what is shown, to go back to. */
function showPath() {
  const steps = [];
  for (let i = view.focus; i >= 0; i = view.event.parent[i]) {
    const row = i;
    const label = shown(frameNames(view.block, view.event.frame[i]).label);
    steps.unshift(make("button", { type: "button", onclick: () => focusOn(row) }, label));
  }
  const few = steps.length > 5 ? [steps[0], make("span", {}, "…"), ...steps.slice(-3)] : steps;
  byId("path").replaceChildren(...few);
}

const showCursor = () => byId("flame-text").replaceChildren(rowText(view.row).filter(Boolean).join(" · "));

function scrollToCursor() {
  const y = view.event.depth[view.row] * ROW;
  if (y < flame.box.scrollTop) flame.box.scrollTop = y;
  const last = y + ROW - flame.box.clientHeight;
  if (last > flame.box.scrollTop) flame.box.scrollTop = last;
}

/** Say how much of all the search found. */
function showFound() {
  const { event, sums, found } = view;
  const weight = found ? weightThrough(event, sums, (frame) => found[frame]) : 0;
  byId("found").textContent = found
    ? `found in ${shareText(weight / (sums.total[0] || 1), sums.totalHits[0])} of what is shown`
    : "";
}
