// Both sides of a comparison → weights of the flame graph's rows, their colours, and words for them.

const sides = {
  a: null, b: null, // times of rows of the tree on each side
  words: null, // the comparison in the text's words, and its unit
  calls: null, // by caller and callee, which of the tested calls it is
  width: "b",
};

function openSides(event) {
  const { own_a: a, own_b: b, samples_a: samplesA, samples_b: samplesB } = event.data;
  sides.a = withTotals(event, a, samplesA);
  sides.b = withTotals(event, b, samplesB);
}

/** The weight of each row in the picture: its time on a side, and the other side's if it has none. */
function weightsOf(event, width, withOthers) {
  const { a, b } = sides;
  const [main, other] = width === "a" ? [a, b] : [b, a];
  const adds = width === "sum" ? () => true : (row) => withOthers && !(main.totalSamples[row] > 0);
  const sum = (kind) => main[kind].map((value, row) => value + (adds(row) ? other[kind][row] : 0));
  return withTotals(event, sum("own"), sum("ownSamples"));
}

const changeOf = (row) => sides.b.total[row] - sides.a.total[row];

const diffLook = {
  shades: new Map(),
  renew() {
    this.shades.clear();
  },
  fill(row) {
    if (!view.event.data.is_significant[row]) return (flame.colours.same ??= colour("--same"));
    const change = changeOf(row);
    const part = Math.abs(change) / Math.max(sides.a.total[row], sides.b.total[row]);
    const shade = (change > 0 ? 1 : -1) * Math.ceil(part * 8);
    if (!this.shades.has(shade)) this.shades.set(shade, shadeOf(shade / 8));
    return this.shades.get(shade);
  },
  mark: (row) => (view.event.data.is_significant[row] ? (changeOf(row) > 0 ? "▲ " : "▼ ") : ""),
  lines(row) {
    const { label, object } = frameNames(view.block, view.event.frame[row]);
    return [shown(label), changeText(row), shown(object)];
  },
};

/** A colour from -1, all of it went, to 1, all of it came. */
function shadeOf(shade) {
  const hue = shade > 0 ? 8 : 212;
  return document.documentElement.dataset.theme === "dark"
    ? hexColour(hue, 58, 20 + 22 * Math.abs(shade))
    : hexColour(hue, 85, 90 - 26 * Math.abs(shade));
}

const scaled = (seconds) => seconds * sides.words.per_second;

/** The two times of a row of the tree, and its change with the interval of that. */
function changeText(row) {
  const { is_tested: isTested, is_significant: isSignificant, half_width: half } = view.event.data;
  const digits = isTested[row] ? Math.min(barDigits(scaled(half[row])), view.digits) : view.digits;
  const [a, b] = [scaled(sides.a.total[row]), scaled(sides.b.total[row])];
  const bar = isTested[row] ? ` ± ${fixed(scaled(half[row]), digits)}` : "";
  const sure = isSignificant[row] ? "significant" : isTested[row] ? "not significant" : "too few samples to tell";
  const part = relativeText((b - a) / a, sides.a.totalSamples[row], sides.b.totalSamples[row]);
  return `A ${fixed(a, digits)}, B ${fixed(b, digits)}, change ${signed(b - a, digits)}${bar} ${sides.words.unit} (${part}): ${sure}`;
}

const signed = (value, digits) => (value >= 0 ? "+" : "") + fixed(value, digits);

/** A relative change as in the text. */
function relativeText(share, samplesBefore, samplesAfter) {
  if (!samplesBefore) return "new";
  return samplesAfter ? percentText(share) : "gone";
}

/** A change as a percentage with its sign, with fewer digits from 100 % on. */
function percentText(share) {
  const percent = share * 100;
  return `${signed(percent, Math.abs(percent) < 100 ? 1 : 0)}%`;
}

/** The number of decimals that the most exact of some rows supports. */
function changeDigits(halves) {
  const least = halves.reduce((some, half) => (half > 0 ? Math.min(some, half) : some), Infinity);
  return isFinite(least) ? Math.min(Math.max(Math.ceil(-Math.log10(least)), 0), 6) : 0;
}
