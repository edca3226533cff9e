// In short: the first screen of the report as a panel; a selection changes none of its figures.

const [MOST_IN_SHORT, MOST_SLICES] = [5, 4];

/** @param {boolean} isOfAll whether all that the page shows is of the whole recording */
function fillAnswer(isOfAll) {
  const { summary, wall } = view.report;
  const about = summary.lines.slice(1, Math.max(summary.lines.indexOf(""), 1)).map(shown);
  byId("answer").replaceChildren(
    make("h2", {}, "In short"),
    make("p.lead", {}, ...about.flatMap((line, i) => (i ? [make("br"), line] : [line]))),
    make("div.panels", {}, ...[
      inShortTable("Services", summary.services.map((row) => ({ ...row, name: row.name || "-" })), (row) => shown(row.program)),
      inShortTable("Functions with all they call", summary.with_callees, (row) => row.end && `down to ${shown(row.end)}`),
      inShortTable("Functions, their own time", summary.functions, (row) => row.caller && `by ${shown(row.caller)}`),
      inShortTable("Programs", summary.programs, (row) => `${countText(row.processes)} ${row.processes === 1 ? "process" : "processes"}`),
      make("div.shares", {}, ...[
        slices("Kernel time by reason", summary.kernel, summary.entry_reasons.map((one) => [one.name, one.amount])),
        wall && slices("Wall time", wall.seconds, wallParts(wall.rows)),
      ].filter(Boolean)),
    ].filter(Boolean)),
    ...nextCommands(summary.lines),
    make("details", {}, make("summary", {}, "As text"), make("pre", { tabIndex: 0 }, summary.lines.map(shown).join("\n"))),
    ...(isOfAll ? [] : [make("p.quiet", {}, "Of the whole recording; what is selected is below.")]),
  );
  byId("answer").hidden = false;
}

/** The first rows with their bars; a click on a name finds it in the flame graph. */
function inShortTable(title, all, about) {
  const rows = (all || []).slice(0, MOST_IN_SHORT).map((row) => {
    const [value, half] = [row.seconds, row.half_width_s];
    const hasInterval = half !== null && half > 0;
    return { ...row, value, half, low: hasInterval ? Math.max(value - half, 0) : null, high: hasInterval ? value + half : null };
  });
  if (!rows.length) return null;
  const most = mostOf(rows);
  return make("div", {}, make("h3", {}, title), make("ol", {}, ...rows.map((row) => make("li", {},
    make("button.link.clip", { type: "button", title: `${shown(row.name)}: find in the flame graph` }, shown(row.name)),
    make("span.quiet.clip", {}, [row.tied && "=", about(row)].filter(Boolean).join(" ")),
    barCell(row, most),
  ))));
}

/** Parts of a whole as one bar and its legend, with the rest as "others". */
function slices(title, whole, parts) {
  if (!(whole > 0)) return null;
  const first = parts.slice(0, MOST_SLICES).filter(([, value]) => value > 0);
  const rest = whole - first.reduce((sum, [, value]) => sum + value, 0);
  if (rest > whole / 1000) first.push(["others", rest]);
  const bar = make("span.slices", { role: "img", "aria-label": title }, ...first.map(([, value], i) => {
    const part = make(`i.slice${i}`);
    part.style.width = `${Math.min(value / whole, 1) * 100}%`;
    return part;
  }));
  const names = first.map(([name, value], i) => make("li", {}, make(`i.slice${i}`), make("span.clip", {}, shown(name)), ` ${fixed(value, view.digits)}`));
  return make("div", {}, make("h3", {}, `${title}, ${fixed(whole, view.digits)} s`), bar, make("ul.legend", {}, ...names));
}

/** The critical path by function or wait, of all programs together, the longest first. */
function wallParts(rows) {
  const sums = new Map();
  for (const { state, what, seconds } of rows) {
    const name = state === "running" ? what || state : [state, what].filter(Boolean).join(": ");
    sums.set(name, (sums.get(name) || 0) + seconds);
  }
  return [...sums].sort((a, b) => b[1] - a[1]);
}

/** The line on missing samples, and the next commands, which a click copies. */
function nextCommands(lines) {
  const missing = lines.findIndex((line) => line.startsWith("Missing:"));
  const next = lines.findIndex((line) => line.startsWith("Next:"));
  const commands = next < 0 ? [] : lines.slice(next).map((line) => line.replace(/^Next:/, "").trim()).filter(Boolean);
  return [
    ...(missing < 0 ? [] : [make("p.quiet", {}, lines.slice(missing, next < 0 ? undefined : next).map(shown).map((line) => line.trim()).join(" "))]),
    ...(commands.length ? [make("p.next", {}, "Next ", ...commands.map(copied))] : []),
  ];
}

function copied(command) {
  const button = make("button", { type: "button", title: "Copy" }, make("code", {}, shown(command)));
  button.addEventListener("click", async () => {
    const isDone = await navigator.clipboard?.writeText(command).then(() => true, () => false);
    button.title = isDone ? "Copied" : "Select the text to copy it";
    button.classList.toggle("done", Boolean(isDone));
  });
  return button;
}

/** Find names that are clicked in the panel in the flame graph. */
function startAnswer() {
  byId("answer").addEventListener("click", ({ target }) => {
    if (!target.classList.contains("link")) return;
    byId("search").value = target.textContent;
    search(target.textContent);
    byId("stacks").scrollIntoView({ block: "start" });
  });
}
