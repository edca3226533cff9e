// Sortable tables whose times have error bars drawn as whiskers.
//
// On a narrow screen `page.css` stacks the cells of a row: its name, its time, and then the others,
// each with its title. Roles are explicit: a table with another display loses its own.

const ROWS_AT_FIRST = 60;
const CALLS_AT_FIRST = 12;

const text = (title, value, hint) => ({ title, value, cell: (row) => clipped(shown(String(value(row) ?? ""))), hint });
/** A column of functions: short names, and whole ones for the pointer. */
const functionColumn = (title, value) => ({ ...text(title, value), cell: (row) => named(shown(String(value(row) ?? ""))) });
const path = (title, value) => ({ ...text(title, value), isPath: true });
const number = (title, value, cell, hint) => ({ title, value, cell, hint, isNumber: true });

function named(name, objectName = "", tag = "span") {
  const brief = shortName(name, LONGEST_BRIEF, objectName);
  return brief === name && tag === "span" ? name : make(tag, { title: name }, brief);
}

/** A name in a few lines at most, in full under the pointer. */
const clipped = (name) => (name.length > LONGEST_BRIEF ? make("span.clip", { title: name }, name) : name);

/**
 * Make a table.
 * @param {string} caption what it shows
 * @param {object[]} columns: `title`; `value(row)` sorts, `cell(row)` is shown; `isNumber`; `isName`
 *   says which row it is (else the first with text does), `isMain` comes next to that
 * @param {object[]} rows in the order of the report
 * @param {function} choose called with the row that is clicked or entered, or null
 * @param {number} most rows that are shown at first
 */
function sortableTable(caption, columns, rows, choose, most = ROWS_AT_FIRST) {
  const state = { sorted: null, isDescending: true, most };
  const body = make("tbody", { role: "rowgroup" });
  const more = make("button.more", { type: "button" });
  const heads = columns.map((column) => headOf(column, () => sortBy(column)));
  const head = make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...heads));
  const table = make("table", { role: choose ? "grid" : "table", "aria-label": caption }, make("caption", {}, caption), head, body);
  more.onclick = () => {
    state.most = Infinity;
    fill();
  };

  function sortBy(column) {
    state.isDescending = state.sorted === column ? !state.isDescending : Boolean(column.isNumber);
    state.sorted = column;
    heads.forEach((head, i) => {
      const order = columns[i] !== column ? "none" : state.isDescending ? "descending" : "ascending";
      head.setAttribute("aria-sort", order);
    });
    fill();
  }

  function fill() {
    const order = state.sorted ? sortedRows(rows, state.sorted, state.isDescending) : rows;
    body.replaceChildren(...order.slice(0, state.most).map((row) => rowElement(row, columns, choose)));
    if (choose && body.firstChild) body.firstChild.tabIndex = 0;
    more.hidden = order.length <= state.most;
    more.textContent = `Show all ${countText(order.length)} rows`;
  }

  if (!rows.length) return make("div", {}, make("h3", {}, caption), make("p.quiet", {}, "Nothing."));
  fill();
  body.addEventListener("keydown", moveInTable);
  return make("div.scroll", {}, table, more);
}

function headOf(column, sort) {
  const button = make("button", { type: "button", onclick: sort, title: column.hint || "", "aria-label": column.title || column.hint || "marks" }, column.title);
  const head = make(column.isNumber ? "th.number" : "th", { scope: "col", role: "columnheader" }, button);
  head.setAttribute("aria-sort", "none");
  return head;
}

function sortedRows(rows, column, isDescending) {
  const sign = isDescending ? -1 : 1;
  const keyed = rows.map((row) => [column.value(row), row]);
  keyed.sort(([a], [b]) =>
    sign * (typeof a === "string" ? a.localeCompare(b) : (a ?? -Infinity) - (b ?? -Infinity)));
  return keyed.map(([, row]) => row);
}

function rowElement(row, columns, choose) {
  const name = columns.find((column) => column.isName) || columns.find((column) => column.title && !column.isNumber);
  const role = choose ? "gridcell" : "cell";
  const cells = columns.map((column) => {
    const shownCell = column.cell ? column.cell(row) : column.value(row);
    const kind = column.isNumber ? ".number" : column.isPath ? ".path" : "";
    const rank = column === name ? ".name" : column.isMain ? ".main" : "";
    return make(`td${kind}${rank}`, { role, "data-title": column.title }, shownCell ?? "");
  });
  // Tab stops at one of the rows; arrows lead to the others.
  const element = choose ? make("tr.choice", { role: "row", tabIndex: -1 }, ...cells) : make("tr", { role: "row" }, ...cells);
  if (choose) {
    element.addEventListener("click", () => choose(row));
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter") choose(row);
    });
  }
  return element;
}

function moveInTable(event) {
  const row = event.target.closest("tr.choice");
  if (!row) return;
  const rows = row.parentElement;
  const next = {
    ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling,
    Home: rows.firstElementChild, End: rows.lastElementChild,
  }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  if (!next) return;
  row.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** A time with its bar: "1.23 ± 0.04", of a selection "1.23 ≈± 0.04". */
function barText({ value, half, isRough }) {
  const text = timeText(value, half, view.digits);
  return isRough && half ? text.replace("±", "≈±") : text;
}

/** The cell of a time: the figure, its bar as long as its part of the most, and its whisker. */
function barCell(row, most) {
  if (row.value === null || row.value === undefined) return "-";
  const figure = make("span.figure", {}, barText(row));
  const place = (value) => `${Math.min(Math.max(value / (most || 1), 0), 1) * 100}%`;
  const fill = make("span.fill");
  fill.style.width = place(row.value);
  const bar = make("span.bar", {}, fill);
  if (row.low !== null && row.low !== undefined && row.high > row.low) {
    const whisker = make("span.whisker");
    whisker.style.left = place(row.low);
    whisker.style.width = `calc(${place(row.high)} - ${place(row.low)})`;
    bar.append(whisker);
    bar.title = `95 %: ${row.low.toFixed(view.digits)} to ${row.high.toFixed(view.digits)} s`;
  }
  return make("span.time", {}, figure, bar);
}

/** The widest that a bar of these rows reaches. */
const mostOf = (rows) => rows.reduce((most, row) => Math.max(most, row.value || 0, row.high || 0), 0);

/** Marks of a row: that it ties with the one above, and that it runs in step with a clock. */
function markCell(row) {
  const marks = [];
  if (row.above) {
    const title = `indistinguishable from ${shown(row.above)} at 95 %`;
    marks.push(make("abbr.like", { title, "aria-label": title }, "="));
  }
  if (row.aliased) {
    const title = "runs in step with a clock: the time may be off by more";
    marks.push(make("abbr.step", { title, "aria-label": title }, "!"));
  }
  return marks.length ? make("span", {}, ...marks) : "";
}

const sentences = (title, lines) => make("div", {}, make("h3", {}, title),
  make("ul", {}, ...lines.map((line) => make("li", {}, shown(line)))));
