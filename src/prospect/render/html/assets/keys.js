// The keyboard: / searches, arrows move, Enter zooms, Escape goes back, ? helps.

const keyboard = { clear: null };

/** Listen to the keyboard. @param {function} clear removes the last selection */
function startKeys(clear) {
  keyboard.clear = clear;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    if (event.target === byId("search")) return keyInSearch(event);
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const isControl = /^(BUTTON|SUMMARY|TR)$/.test(event.target.tagName);
    if (isControl && event.key === "Enter") return;
    const act = KEYS[event.key] || (view.event && PICTURE_KEYS[event.key]);
    if (act) {
      event.preventDefault();
      act();
    }
  });
}

const KEYS = {
  "?": () => byId("help").showModal(),
  t: () => changeTheme(),
};

/** Keys for the picture. */
const PICTURE_KEYS = {
  "/": () => byId("search").select(),
  Escape: () => goBack(),
  Enter: () => {
    chooseFrame(view.event.frame[view.row]);
    focusOn(view.row);
  },
  ArrowUp: () => view.row > 0 && moveTo(view.event.parent[view.row]),
  ArrowDown: () => moveDown(),
  ArrowLeft: () => moveAside(-1),
  ArrowRight: () => moveAside(1),
};

/** To the widest row that the row calls. */
function moveDown() {
  const [widest] = calledRows(view.row);
  if (widest !== undefined) moveTo(widest);
}

/** To the next on one side that has time and the same depth. */
function moveAside(step) {
  const { event, sums, row, focus } = view;
  for (let i = row + step; i > focus && i < event.end[focus]; i += step) {
    if (event.depth[i] === event.depth[row] && sums.total[i] > 0) return moveTo(i);
  }
}

/** Back by one step: out of the zoom, then of the function, then of the selection. */
function goBack() {
  const { event, focus } = view;
  if (focus > 0) focusOn(event.parent[focus]);
  else if (view.frame >= 0) chooseFrame(-1);
  else keyboard.clear();
}

function keyInSearch(event) {
  if (event.key === "Escape") {
    event.target.value = "";
    search("");
    event.target.blur();
  }
  if (event.key === "Enter" && view.found) {
    const row = widestRow(view.event, view.sums, (frame) => view.found[frame]);
    if (row < 0) return;
    chooseFrame(view.event.frame[row]);
    focusOn(row);
    byId("flame").focus();
  }
}
