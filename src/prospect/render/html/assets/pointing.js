// Texts next to the flame graph: on the row under the pointer or the cursor, on its callers, on the
// result of the search; the picture in words; and the function that is chosen in it.

function startPointing() {
  flame.canvas.addEventListener("click", (event) => {
    const row = flameRowAt(event);
    if (row < 0) return;
    chooseFrame(view.event.frame[row]);
    focusOn(row);
  });
  flame.canvas.addEventListener("pointermove", showFlameTip);
  flame.canvas.addEventListener("pointerleave", () => (byId("tip").hidden = true));
  on("sums focus", () => {
    showPath();
    showCursor();
    describeFlame();
  });
  on("row", showCursor);
  on("sums search", showFound);
}

function showFlameTip(pointer) {
  const row = flameRowAt(pointer);
  const tip = byId("tip");
  tip.hidden = row < 0;
  if (row < 0) return;
  const [label, figures, object] = flame.look.lines(row);
  tip.replaceChildren(make("b", {}, label), make("span", {}, figures), make("small", {}, object));
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(Math.min(pointer.clientX + 12, room), 4)}px`;
  const above = pointer.clientY + 18 + tip.offsetHeight > window.innerHeight;
  tip.style.top = `${above ? pointer.clientY - tip.offsetHeight - 10 : pointer.clientY + 18}px`;
}

/** Buttons that go back to the callers of the shown rows. */
function showPath() {
  const steps = [];
  for (let i = view.focus; i >= 0; i = view.event.parent[i]) {
    const row = i;
    const label = labelOfFrame(view.event.frame[i]);
    steps.unshift(make("button", { type: "button", onclick: () => focusOn(row) }, label));
  }
  const few = steps.length > 5 ? [steps[0], make("span", {}, "…"), ...steps.slice(-3)] : steps;
  byId("path").replaceChildren(...few);
}

function showCursor() {
  const [label, figures, object] = flame.look.lines(view.row);
  byId("flame-text").textContent = [brief(label), figures, brief(object)].filter(Boolean).join(" · ");
}

/** The picture in words, for those who do not see it. */
function describeFlame() {
  const { event, sums, focus } = view;
  const rows = calledRows(focus).slice(0, 5).map((row) =>
    `${labelOfFrame(event.frame[row])} ${shareText(sums.total[row] / (sums.total[focus] || 1), sums.totalSamples[focus])}`);
  const below = rows.length ? `. Below it: ${rows.join(", ")}` : "";
  flame.canvas.setAttribute("aria-label", `Flame graph of ${labelOfFrame(event.frame[focus])}${below}.`);
}

/** Choose a function, and move to its row with most time. */
function showFunction(frame) {
  if (frame < 0) return;
  const widest = widestRow(view.event, view.sums, (other) => other === frame);
  if (widest >= 0) moveTo(widest);
  chooseFrame(frame);
  byId("function").scrollIntoView({ block: "nearest" });
}

/** Buttons that zoom to the chosen function, and close it. */
function functionButtons(frame) {
  const zoom = () => focusOn(Math.max(widestRow(view.event, view.sums, (other) => other === frame), 0));
  const close = { type: "button", onclick: () => chooseFrame(-1), "aria-label": "Close this function" };
  return [make("button", { type: "button", onclick: zoom }, "Zoom to it"), " ", make("button", close, "Close")];
}

/** The rows that a row calls and that have time, the widest first. */
function calledRows(row) {
  const { event, sums } = view;
  const rows = [];
  for (let i = row + 1; i < event.end[row]; i = event.end[i]) if (sums.total[i] > 0) rows.push(i);
  return rows.sort((a, b) => sums.total[b] - sums.total[a]);
}

/** Show the share of the samples that the search found. */
function showFound() {
  const { event, sums, found } = view;
  const weight = found ? weightThrough(event, sums, (frame) => found[frame]) : 0;
  byId("found").textContent = found
    ? `found in ${shareText(weight / (sums.total[0] || 1), sums.totalSamples[0])} of what is shown`
    : "";
}
