// How rows of the report's flame graph look: the same name always has the same colour.

const KIND_HUES = [[6, 46], [205, 30], [168, 24], [96, 24]]; // user, kernel, inlined, of a runtime or a JIT

const KIND_NAMES = ["user", "kernel", "inlined", "runtime"];
const DARK_LIGHTNESS = 26; // of 100, least; at most 6 more: text on it has WCAG's contrast

const reportLook = {
  colours: [],
  renew() {
    this.colours = [];
    showKinds();
  },
  fill(row) {
    const frame = view.event.frame[row];
    return (this.colours[frame] ??= frameColour(frame));
  },
  mark: () => "",
  /** The name, the figures and the object of a row of the tree. */
  lines(row) {
    const { event, sums } = view;
    const { label, object } = frameNames(event.block, event.frame[row]);
    const share = shareText(sums.total[row] / (sums.total[0] || 1), sums.totalSamples[0]);
    const self = sums.own[row] > 0 ? `, self ${weightText(sums.own[row], sums.ownSamples[row])}` : "";
    return [shown(label), `${weightText(sums.total[row], sums.totalSamples[row])}, ${share}${self}`, shown(object)];
  },
};

/** Show the legend of the kinds of code on the page. */
function showKinds() {
  const { frame_kind: kinds, first_thread_frame: threads } = view.block;
  const shownKinds = new Set();
  for (let frame = 0; frame < threads - 2; frame++) shownKinds.add(kinds[frame]);
  const items = [...shownKinds].sort((a, b) => a - b).map((kind) => {
    const mark = make("i");
    const [hue, range] = KIND_HUES[kind];
    const isDark = document.documentElement.dataset.theme === "dark";
    mark.style.background = hexColour(hue + range / 2, isDark ? 48 : 72, isDark ? DARK_LIGHTNESS + 2 : 75);
    return make("span", {}, mark, ` ${KIND_NAMES[kind]}`);
  });
  const thread = make("i.thread");
  byId("kinds").replaceChildren(...items, make("span", {}, thread, " thread"));
}

function frameColour(frame) {
  const { block } = view;
  if (frame >= block.first_thread_frame - 2) return colour("--thread");
  const isDark = document.documentElement.dataset.theme === "dark";
  return kindColour(block.frame_kind[frame], hashOf(labelOfFrame(frame)), isDark);
}

/** A colour of a kind of code, by a hash of a name. */
function kindColour(kind, seed, isDark) {
  const [hue, range] = KIND_HUES[kind];
  const light = isDark ? DARK_LIGHTNESS + (seed % 7) : 70 + (seed % 11);
  return hexColour(hue + (seed >>> 8) % range, isDark ? 48 : 72, light);
}

/** FNV-1a, 32 bits. */
function hashOf(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
