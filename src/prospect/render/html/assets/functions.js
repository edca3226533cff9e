// Rows of the tables: the report's figures if everything is shown, the page's own for a selection.

const MOST_LIKELY_Z = 1.96; // of the normal distribution: 95 %

/** Whether figures are those of the report: the whole interval of every CPU and thread. */
const isWhole = () => view.isReported && !view.filter.span && !view.filter.lane && !isCloser();

/** Whether the report lists functions and entry reasons of all shown processes: those that `-V` chose. */
function isDetailed() {
  const { scope, process } = view.filter;
  const [, , isCommand, isDescendant] = view.block.processes[process] || [];
  const isChosen = {
    2: scope === "command" || (scope === "process" && isCommand),
    3: scope === "command" || scope === "descendants" || (scope === "process" && isDescendant),
    4: true,
    k: scope === "all",
  };
  return isWhole() && Boolean(isChosen[view.report.options.detail]);
}

/** A rough error bar: as if samples fell at random. Waits and counts have none. */
const roughHalf = (weight, samples) => (samples > 0 && hasBars() ? (MOST_LIKELY_Z * weight) / Math.sqrt(samples) : null);

const hasBars = () => view.isReported && view.base.data.has_time && view.base.data.has_bars;

/** The processes of a report that a filter lets through. */
function reportProcesses(list, block, filter) {
  return list.filter((row) => {
    const process = block.processes[row.process_index];
    if (!process || filter.scope === "all") return true;
    if (filter.scope === "command") return process[2];
    if (filter.scope === "descendants") return process[3];
    return row.process_index === filter.process;
  });
}

/** The functions of the report, each in its process and mode. */
function reportFunctions(report, block, filter) {
  const rows = [];
  for (const process of reportProcesses(report.details, block, filter)) {
    for (const [mode, table] of Object.entries(process.functions)) {
      table.rows.forEach((row, rank) => rows.push({
        ...functionRow(row, mode, table.samples),
        process: `${process.name} ${process.pid ?? ""}`,
        above: row.tied && rank ? labelOf(table.rows[rank - 1]) : "",
      }));
    }
  }
  const parts = rows.length || filter.scope !== "all" ? [] : report.kernel_profiles;
  for (const part of parts) {
    part.rows.forEach((row, rank) => rows.push({
      ...functionRow(row, "kernel", part.samples),
      process: part.part,
      above: row.tied && rank ? labelOf(part.rows[rank - 1]) : "",
    }));
  }
  return rows;
}

/** The label of a function of the report in stacks: its name, or in brackets its object. */
function labelOf(row) {
  return row.name || `[${fileName(row.object).replace(/^\[|\]$/g, "") || row.object}]`;
}

/** A row of a table of so many samples. */
function functionRow(row, mode, allSamples) {
  return {
    label: labelOf(row), object: row.object, mode, samples: row.samples, allSamples, value: row.seconds,
    half: row.half_width_s, low: row.low_s, high: row.high_s, share: row.share,
    aliased: row.aliased, address: row.address,
  };
}

/** The functions of a selection, counted on this page. */
function selectedFunctions(event, sums) {
  const all = sums.total[0] || 1;
  return functionSums(event, sums)
    .filter((row) => row.self > 0)
    .map((row) => ({
      ...frameNames(event.block, row.key), mode: "", process: "", samples: row.selfSamples,
      ...roughBar(row.self, row.selfSamples), share: row.self / all, frame: row.key,
    }));
}

function roughBar(weight, samples) {
  const half = roughHalf(weight, samples);
  return {
    value: weight, half, low: half && Math.max(weight - half, 0), high: half && weight + half,
    isRough: true,
  };
}

/** Whether the report has kernel time by entry reason of the shown processes; it has that of the whole system. */
const hasEntryReasons = () => isDetailed() || (isWhole() && view.filter.scope === "all");

/** Kernel time of the report by entry reason, of the system or of what the filter lets through. */
function reportEntryReasons(report, block, filter) {
  if (filter.scope === "all") return entryReasonRows(report.kernel_entry_reasons, "");
  return reportProcesses(report.details, block, filter).flatMap((process) =>
    entryReasonRows(process.kernel_entry_reasons, `${process.name} ${process.pid ?? ""}`));
}

function entryReasonRows(entry_reasons, process) {
  return (entry_reasons ? entry_reasons.rows : []).map((row) => ({
    label: row.name || row.kind, kind: row.kind, process, samples: row.samples, allSamples: entry_reasons.samples, value: row.seconds,
    half: row.half_width_s, low: row.low_s, high: row.high_s, share: row.share,
  }));
}

/** Add up contexts by a key. */
function contextSums(event, sums, keyOf, rowOf) {
  const found = new Map();
  sums.contextWeight.forEach((weight, i) => {
    const key = keyOf(i);
    if (!sums.contextSamples[i] || key === null) return;
    const entry = found.get(key) || { weight: 0, samples: 0, ...rowOf(i) };
    entry.weight += weight;
    entry.samples += sums.contextSamples[i];
    found.set(key, entry);
  });
  const all = [...found.values()].reduce((sum, row) => sum + row.weight, 0) || 1;
  return [...found.values()].map((row) => ({
    ...row, ...roughBar(row.weight, row.samples), share: row.weight / all,
  }));
}

/** Kernel time of a selection by entry reason. */
function selectedEntryReasons(event, sums) {
  const { entry_reason } = event.data.context;
  const entry_reasons = event.block.entry_reasons;
  return contextSums(
    event, sums,
    (i) => (entry_reasons[entry_reason[i]][0] === "none" ? null : entry_reason[i]),
    (i) => ({ label: entry_reasons[entry_reason[i]][1] || entry_reasons[entry_reason[i]][0], kind: entry_reasons[entry_reason[i]][0], process: "" }),
  );
}

/** Time of a selection by process. */
function selectedProcesses(event, sums) {
  const { thread } = event.data.context;
  const { threads, processes } = event.block;
  return contextSums(
    event, sums,
    (i) => threads.process[thread[i]] ?? -1,
    (i) => {
      const row = threads.process[thread[i]];
      if (row === undefined) return { label: "(others)", pid: null, row: -1 };
      return { label: processes[row][0], pid: processes[row][1], row };
    },
  );
}
