// Parts of a recording that is too large for one page, requested from a server: stacks that were
// merged, and a stretch of time as finely as it was sampled.

const PATIENCE_MS = 150; // after so long without a change a selection is sent
const [MOST_FRAMES, LONGEST_SEARCH] = [2000, 256];
const EVERYTHING = { scope: "all", process: -1, span: null, lane: null };

const parts = { timer: 0, asked: 0 };

/** Ask whenever the selection has more than is shown; on a page in one file, never. */
function startParts() {
  if (!partOf) return;
  on("sums", () => {
    byId("closer").hidden = !view.filter.span;
    if (view.event === view.base) askForPart();
  });
  on("focus search", askForPart);
  byId("closer").addEventListener("click", lookCloser);
}

/** Ask for the stacks of the selection, soon; an answer that is overtaken is not shown. */
function askForPart() {
  clearTimeout(parts.timer);
  const number = (parts.asked += 1);
  if (!lacksStacks()) return;
  parts.timer = setTimeout(async () => {
    const part = await opened(placeQuery()).catch(showProblem);
    if (part && number === parts.asked) showTree(part, selected(part, EVERYTHING));
  }, PATIENCE_MS);
}

/** Whether stacks were merged in the selection. */
function lacksStacks() {
  const { event, sums, focus, found, block } = view;
  const leftOut = block.first_thread_frame - 1;
  const [first, end] = found ? [0, event.size] : [focus, event.end[focus]];
  for (let i = first; i < end; i++) if (event.frame[i] === leftOut && sums.total[i] > 0) return true;
  return false;
}

/** The selection in the server's words. */
function selectionQuery() {
  const { scope, process, span, lane } = view.filter;
  const { begin_ns, end_ns } = view.base.data;
  return {
    event: view.base.index,
    ...(span ? spanTimes(span) : { begin_ns, end_ns }),
    scope,
    ...(scope === "process" ? { process } : {}),
    ...(lane ? { [lane.kind]: lane.row } : {}),
  };
}

/** The same, with the stacks that should not be merged. */
function placeQuery() {
  const leftOut = view.block.first_thread_frame - 1;
  return {
    ...selectionQuery(),
    // As long as an address may be; deeper frames are favoured with those above them.
    path: pathOf(view.event, view.focus).filter((frame) => frame !== leftOut).slice(0, MOST_FRAMES).join("."),
    search: view.wanted.slice(0, LONGEST_SEARCH),
  };
}

/** Get a part as an event of the model. */
async function opened(query) {
  const { events } = await partOf(query);
  const all = [...view.block.events];
  all[query.event] = events[0];
  return openEvent({ ...view.block, events: all }, query.event);
}

/** Make the chosen stretch of time the whole map of time. */
async function lookCloser() {
  const base = await opened({ event: view.base.index, ...spanTimes(view.filter.span), by_time: 1 }).catch(showProblem);
  if (!base) return;
  view.base = base;
  refilter({ span: null });
}

function showProblem(error) {
  byId("state").hidden = false;
  byId("state").textContent = error.message;
}
