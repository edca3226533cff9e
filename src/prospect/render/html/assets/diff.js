// The page of a comparison: fills its controls and starts its parts.

const SHARES = 3; // functions that are named in short

openPage(["diff", "words", "stacks"], (diff, words, stacks) => {
  view.report = documentOf(diff);
  view.block = columnsOf(stacks);
  sides.words = documentOf(words);
  const { a, b, warnings } = view.report;
  const name = (recordings) => recordings[0].command.join(" ") || recordings[0].origin;
  startHead(name(a) === name(b) ? `Difference: ${name(b)}, B - A` : `Difference: ${name(b)} (B) - ${name(a)} (A)`, warnings);
  byId("run").textContent = `${sideText("A", a)} · ${sideText("B", b)} · ${sides.words.compared}`;
  view.digits = changeDigits(totalRows().map((row) => row.half));
  startKeys(() => {});
  PICTURE_KEYS.w = nextWidth;
  byId("state").hidden = true;
  byId("tables").hidden = false;
  startTables();
  fillAnswer();
  const [data] = view.block.events;
  if (!data) {
    for (const label of document.querySelectorAll(".controls label")) label.hidden = true;
    return;
  }
  view.event = openTree(view.block, { ...data, has_time: true });
  openSides(view.event);
  byId("stacks").hidden = false;
  startFlame(diffLook);
  for (const id of ["side", "others"]) byId(id).addEventListener("change", changeWidth);
  changeWidth();
});

const sideText = (side, recordings) =>
  `${side}: ${recordings.length > 1 ? `${recordings.length} recordings` : shown(recordings[0].origin)}`;

/** Let the picture show the chosen side. */
function changeWidth() {
  const side = byId("side").value;
  byId("others-label").hidden = side === "sum";
  byId("others-text").textContent = side === "a" ? "with what is new in B" : "with what is gone from A";
  weigh(weightsOf(view.event, side, byId("others").checked));
}

function nextWidth() {
  const select = byId("side");
  select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
  changeWidth();
}

/** The answer in short: the total, and the functions that changed most. */
function fillAnswer() {
  const { functions } = view.report;
  const marked = changeRows(functions.rows.filter((row) => row.significant));
  const most = (sign) => marked.filter((row) => sign * row.change > 0).slice(0, SHARES);
  const lines = [
    ...totalRows().slice(0, view.report.total.rows.length).map(totalLine),
    changedLine("Grew most", most(1)), changedLine("Shrank most", most(-1)),
    marked.length ? null : make("li", {}, "No function changed by more than runs differ by anyway."),
    sides.words.verdict ? make("li", {}, make("b", {}, "Condition: "), shown(sides.words.verdict)) : null,
  ].filter(Boolean);
  byId("answer").replaceChildren(make("h2", {}, "In short"), make("ul", {}, ...lines));
  byId("answer").hidden = false;
}

function totalLine(row) {
  const { unit, per } = sides.words;
  const [low, high] = [row.relative_low, row.relative_high].map(boundText);
  const bounds = (low ? ` from ${low}` : "") + (high ? ` to ${high}` : "");
  const sure = row.low > 0 || row.high < 0 ? "" : " That may be chance: the interval holds no change at all.";
  return make("li", {},
    `B takes ${fixed(row.b, view.digits)} ${unit} ${shown(per)}, A ${fixed(row.a, view.digits)}: `,
    make("b", {}, `${signed(row.change, view.digits)} ± ${fixed(row.half, view.digits)} ${unit} (${relativeText(row.relative, row.samples_a, row.samples_b)})`),
    bounds ? `, at 95 %${bounds}.` : ".", sure);
}

function changedLine(title, rows) {
  if (!rows.length) return null;
  const parts = rows.flatMap((row, nth) => {
    const digits = changeDigits([row.half]);
    const name = make("button.link", { type: "button", onclick: () => chooseChanged(row) }, shown(row.label));
    return [nth ? ", " : "", name, ` ${signed(row.change, digits)} ± ${fixed(row.half, digits)} ${sides.words.unit}`];
  });
  return make("li", {}, `${title}: `, ...parts, ".");
}
