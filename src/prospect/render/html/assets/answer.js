// The report in short: the very lines of the text report, which no selection changes.

/** @param {boolean} isOfAll whether all that the page shows is of the whole recording */
function fillAnswer(isOfAll) {
  const whole = isOfAll ? [] : [make("p.quiet", {}, "Of the whole recording: what is selected stands below.")];
  const lines = view.report.summary.lines.map(shown).join("\n");
  byId("answer").replaceChildren(make("h2", {}, "In short"), make("pre", { tabIndex: 0 }, lines), ...whole);
  byId("answer").hidden = false;
}
