// Cells of samples → what stacks and functions took under a filter. Nothing here touches the page.
//
// A tree is in preorder: the subtree of row i is the rows from i to end[i]. Each question about a tree
// is one pass over typed arrays.

/** Prepare one event of the block for filters and sums. */
function openEvent(block, index) {
  const data = block.events[index];
  const cells = data.cells;
  const code = data.code && openCode(data);
  return { ...openTree(block, data), index, cells, node: runningSums(cells.node_step), code, weight: weightOf(data, data, cells) };
}

/** The cells of instructions, with their slots and weights. */
const openCode = (data) =>
  ({ data: data.code, slot: runningSums(data.code.slot_step), weight: weightOf(data, data.code, data.code) });

function runningSums(steps) {
  const sums = new Uint32Array(steps.length);
  for (let i = 0, at = 0; i < sums.length; i++) sums[i] = at += steps[i];
  return sums;
}

const weightOf = (data, times, cells) =>
  (data.has_time ? timesOf(times, cells) : Float64Array.from(cells.count));

/** Find the caller of each row of a tree, and the end of its subtree. */
function openTree(block, data) {
  const { frame, depth } = data;
  const size = frame.length;
  const parent = new Int32Array(size).fill(-1);
  const end = new Int32Array(size).fill(size);
  const open = [];
  for (let i = 0; i < size; i++) {
    while (open.length > depth[i]) end[open.pop()] = i;
    if (open.length) parent[i] = open[open.length - 1];
    open.push(i);
  }
  return { block, data, frame, depth, parent, end, size };
}

/** The seconds of each cell. */
function timesOf({ ns_each: each, time_ns: times }, cells) {
  return times
    ? Float64Array.from(times, (time) => time / 1e9)
    : Float64Array.from(cells.count, (count) => (count * each) / 1e9);
}

/** Which contexts a filter lets through. @returns {Uint8Array} */
function chosenContexts(event, filter) {
  const { thread, cpu } = event.data.context;
  const { threads, processes } = event.block;
  const chosen = new Uint8Array(thread.length);
  for (let i = 0; i < chosen.length; i++) {
    const process = threads.process[thread[i]]; // undefined for threads that were put together
    const row = process === undefined ? ["", -1, false, false] : processes[process];
    const inScope =
      filter.scope === "all" ||
      (filter.scope === "command" && row[2]) ||
      (filter.scope === "descendants" && row[3]) ||
      (filter.scope === "process" && process === filter.process);
    const lane = filter.lane;
    const inLane = !lane || (lane.kind === "cpu" ? cpu : thread)[i] === lane.row;
    chosen[i] = inScope && inLane ? 1 : 0;
  }
  return chosen;
}

/**
 * Add up the cells that pass a filter.
 * @param {object} filter scope, process, lane, and span: first and last stretch, or null
 * @returns own and total weight and samples by row of the tree, and both by context
 */
function selected(event, filter) {
  const chosen = chosenContexts(event, filter);
  const { context, stretch, count } = event.cells;
  const [first, last] = filter.span || [0, event.data.stretches];
  const own = new Float64Array(event.size);
  const ownSamples = new Float64Array(event.size);
  const contextWeight = new Float64Array(chosen.length);
  const contextSamples = new Float64Array(chosen.length);
  for (let i = 0; i < count.length; i++) {
    if (!chosen[context[i]] || stretch[i] < first || stretch[i] > last) continue;
    own[event.node[i]] += event.weight[i];
    ownSamples[event.node[i]] += count[i];
    contextWeight[context[i]] += event.weight[i];
    contextSamples[context[i]] += count[i];
  }
  return { ...withTotals(event, own, ownSamples), contextWeight, contextSamples };
}

/** Add up the cells of instructions that pass a filter, by slot. */
function slotSums(event, filter, slots) {
  const chosen = chosenContexts(event, filter);
  const { slot, weight: each, data } = event.code;
  const [first, last] = filter.span || [0, event.data.stretches];
  const [samples, weight] = [new Float64Array(slots), new Float64Array(slots)];
  for (let i = 0; i < slot.length; i++) {
    if (!chosen[data.context[i]] || data.stretch[i] < first || data.stretch[i] > last) continue;
    samples[slot[i]] += data.count[i];
    weight[slot[i]] += each[i];
  }
  return { samples, weight };
}

/** Weights and samples of rows of a tree, alone and with all that they call. */
function withTotals(event, own, ownSamples) {
  const [total, totalSamples] = [Float64Array.from(own), Float64Array.from(ownSamples)];
  for (let i = event.size - 1; i > 0; i--) {
    total[event.parent[i]] += total[i];
    totalSamples[event.parent[i]] += totalSamples[i];
  }
  return { own, ownSamples, total, totalSamples };
}

/** The frames from the outermost, which is a thread's name, to a row's own. */
function pathOf(event, row) {
  const path = [];
  for (let i = row; i > 0; i = event.parent[i]) path.unshift(event.frame[i]);
  return path;
}

/** Follow a path as far as it leads. */
function rowAtPath(event, path) {
  let row = 0;
  for (const frame of path) {
    let next = row + 1;
    while (next < event.end[row] && event.frame[next] !== frame) next = event.end[next];
    if (next >= event.end[row]) break;
    row = next;
  }
  return row;
}

/** The left edge of each row of the tree, siblings next to each other. @returns {Float64Array} */
function leftEdges(event, total) {
  const left = new Float64Array(event.size);
  const next = new Float64Array(event.size);
  for (let i = 1; i < event.size; i++) {
    const above = event.parent[i];
    left[i] = next[i] = next[above];
    next[above] += total[i];
  }
  return left;
}

/** The label of a frame, and its object. */
function frameNames(block, frame) {
  const [all, leftOut] = [block.first_thread_frame - 2, block.first_thread_frame - 1];
  if (frame === all) return { label: "all samples", object: "" };
  if (frame === leftOut) return { label: "(smaller ones together)", object: "" };
  const comm = frame - block.first_thread_frame;
  if (comm >= 0) return { label: block.comms[comm], object: "" };
  return { label: block.labels[frame], object: block.objects[block.frame_object[frame]] };
}

/** Add up rows by a key; of rows within each other only the outermost, so that recursion counts once. */
function sumsByKey(event, sums, keyOf) {
  const found = new Map();
  for (let i = 0; i < event.size; i++) {
    if (!sums.total[i]) {
      i = event.end[i] - 1;
      continue;
    }
    const key = keyOf(i);
    if (key < 0) continue;
    let entry = found.get(key);
    if (!entry) found.set(key, (entry = { key, self: 0, total: 0, samples: 0, selfSamples: 0, until: 0 }));
    entry.self += sums.own[i];
    entry.selfSamples += sums.ownSamples[i];
    if (i < entry.until) continue;
    entry.total += sums.total[i];
    entry.samples += sums.totalSamples[i];
    entry.until = event.end[i];
  }
  return [...found.values()];
}

/** The sums of each function. */
const functionSums = (event, sums) =>
  sumsByKey(event, sums, (i) =>
    event.frame[i] < event.block.first_thread_frame - 2 ? event.frame[i] : -1);

/** The callers of a function, with the time of their calls. */
const callersOf = (event, sums, frame) =>
  sumsByKey(event, sums, (i) =>
    event.frame[i] === frame && i > 0 ? event.frame[event.parent[i]] : -1);

/** The callees of a function. */
const calleesOf = (event, sums, frame) =>
  sumsByKey(event, sums, (i) =>
    i > 0 && event.frame[event.parent[i]] === frame ? event.frame[i] : -1);

/** The row of a wanted frame with most time; -1 for none. */
function widestRow(event, sums, isWanted) {
  let best = -1;
  for (let i = 1; i < event.size; i++) {
    if (isWanted(event.frame[i]) && (best < 0 || sums.total[i] > sums.total[best])) best = i;
  }
  return best >= 0 && sums.total[best] > 0 ? best : -1;
}

/** The weight of the samples with a wanted frame, each sample once. */
function weightThrough(event, sums, isWanted) {
  let weight = 0;
  for (let i = 0; i < event.size; i++) {
    if (!isWanted(event.frame[i])) continue;
    weight += sums.total[i];
    i = event.end[i] - 1;
  }
  return weight;
}

/** Weight by (lane, stretch) under a filter, without its span and lane; idle time is left out. */
function laneWeights(event, filter, kind) {
  const chosen = chosenContexts(event, { ...filter, lane: null });
  const { thread, cpu } = event.data.context;
  const { threads, processes } = event.block;
  const laneOf = kind === "cpu" ? cpu : thread;
  const stretches = event.data.stretches;
  const rows = new Map();
  for (let i = 0; i < event.cells.count.length; i++) {
    const context = event.cells.context[i];
    if (!chosen[context]) continue;
    const process = threads.process[thread[context]];
    if (process !== undefined && processes[process][1] === 0) continue;
    const lane = laneOf[context];
    let row = rows.get(lane);
    if (!row) rows.set(lane, (row = { lane, weights: new Float64Array(stretches), sum: 0 }));
    row.weights[event.cells.stretch[i]] += event.weight[i];
    row.sum += event.weight[i];
  }
  return [...rows.values()];
}
