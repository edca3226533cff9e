// How rows of the report's flame graph look: the same name always has the same colour.

const KIND_HUES = [[6, 46], [205, 30], [168, 24], [96, 24]]; // user, kernel, inlined, JIT code

const reportLook = {
  colours: [],
  renew() {
    this.colours = [];
  },
  fill(row) {
    const frame = view.event.frame[row];
    return (this.colours[frame] ??= frameColour(frame));
  },
  mark: () => "",
  /** What is to be said of a row of the tree. */
  lines(row) {
    const { event, sums } = view;
    const { label, object } = frameNames(event.block, event.frame[row]);
    const share = shareText(sums.total[row] / (sums.total[0] || 1), sums.totalHits[0]);
    const self = sums.own[row] > 0 ? `, self ${weightText(sums.own[row], sums.ownHits[row])}` : "";
    return [shown(label), `${weightText(sums.total[row], sums.totalHits[row])}, ${share}${self}`, shown(object)];
  },
};

function frameColour(frame) {
  const { block } = view;
  if (frame >= block.first_thread_frame - 2) return colour("--thread");
  const isDark = document.documentElement.dataset.theme === "dark";
  const [hue, range] = KIND_HUES[block.frame_kind[frame]];
  const seed = hashOf(labelOfFrame(frame));
  const light = isDark ? 30 + (seed % 9) : 70 + (seed % 11);
  return hexColour(hue + (seed >>> 8) % range, isDark ? 48 : 72, light);
}

/** FNV-1a, 32 bits. */
function hashOf(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
