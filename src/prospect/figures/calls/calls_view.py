"""The figures of `prospect calls`, computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.errors import UsageError
from prospect.figures.calls.call_graph import call_arcs, call_graph, frame_totals
from prospect.figures.calls.call_tree import callees_tree, callers_tree, self_callers_tree
from prospect.figures.calls.sample_choice import (
    SampleChoice,
    choose_samples,
    functions_called,
    why_nothing,
)
from prospect.figures.function_choice import inlined_called
from prospect.figures.modes import event_has_time
from prospect.figures.processes import shown_detail
from prospect.figures.remarks import run_warnings
from prospect.figures.report.counters import run_counters
from prospect.figures.stacks.stack_weights import stack_samples, with_waits
from prospect.profile.complete import complete
from prospect.profile.model import CPUMODE_USER, END_NO_ROW, copies_of_waits_alone
from prospect.records import Record, field

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, Bools
    from prospect.figures.calls.call_graph import Arcs, CallGraph, FrameTotals
    from prospect.figures.calls.call_tree import CallTree
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile, StackCopies
    from prospect.profile.run_info import EventInfo

TOTALS = "totals"
CALLEES = "callees"
CALLERS = "callers"
GRAPH = "graph"
SECTIONS = (TOTALS, CALLEES, CALLERS, GRAPH)

# A smaller share of hits without a caller needs no remedy: outermost functions have none.
_LEAST_ALONE, _LEAST_HITS = 0.05, 10
_WITHOUT_ROWS = (
    "Their code has no call-frame information: compile it without"
    " -fno-asynchronous-unwind-tables, or with -g or -fno-omit-frame-pointer."
)


class CallsChoice(Record):
    """The samples and sections to show.

    Attributes:
        sections: of `SECTIONS`, in the order of the report.
        callers_of: a function whose callers are shown instead of those of all; "" for all.
        most: how many functions are in a table.
        share: trees omit rows with a smaller share of the hits.
    """

    samples: SampleChoice = field(default_factory=SampleChoice)
    sections: tuple[str, ...] = (TOTALS, CALLEES)
    callers_of: str = ""
    most: int = 20
    share: float = 0.01


class EventCalls(Record):
    """The calls of one event.

    Attributes:
        has_time: whether its hits are time.
        without_callers: hits whose stack is the function alone.
        remedy: how to record most callers in user space; "" if unknown.
        hottest: i64[n] frames in the table of totals.
        callees, callers, arcs: None if not requested.
        blocks: i64[b] frames with a block in the graph.
    """

    graph: CallGraph
    has_time: bool
    without_callers: int
    remedy: str
    totals: FrameTotals
    hottest: I64
    callees: CallTree | None
    callers: CallTree | None
    arcs: Arcs | None
    blocks: I64

    @property
    def event(self) -> EventInfo:
        """The event."""
        return self.graph.event


class CallsView(Record):
    """Every figure about calls.

    Attributes:
        profile: completed.
        detail: the `-V` that is shown.
        warnings: of losses and damage.
        events: those with chosen hits.
        nothing: if there are none, the existing hits and the option that shows them; else "".
    """

    profile: CompleteProfile
    choice: CallsChoice
    detail: Detail
    warnings: tuple[str, ...]
    events: tuple[EventCalls, ...]
    nothing: str


def calls_view(profile: Profile, choice: CallsChoice) -> CallsView:
    """Compute every figure about calls.

    Raises:
        UsageError: the recording has no call chains, or a name without a match.
    """
    if profile.stacks is None:
        raise UsageError(
            "this recording has no call chains: record with --call-graph auto, or perf record -g"
        )
    whole = complete(profile)
    samples = stack_samples(with_waits(whole), "4")
    chosen = choose_samples(samples, choice.samples)
    events = distinct(samples.of_hit(samples.profile.hits.event)[chosen]).tolist()
    return CallsView(
        profile=samples.profile,
        choice=choice,
        detail=shown_detail(samples.profile.processes, choice.samples.detail),
        warnings=run_warnings(whole, run_counters(whole)),
        events=tuple(_event_calls(samples, chosen, choice, event) for event in events),
        nothing="" if events else why_nothing(samples, choice.samples),
    )


def _event_calls(
    samples: StackSamples, chosen: Bools, choice: CallsChoice, event: int
) -> EventCalls:
    graph = call_graph(samples, chosen, event)
    totals = frame_totals(graph)
    by_time = totals.hottest(len(graph.frames))
    is_block = totals.total_hits.take(by_time) >= choice.share * graph.hits
    sections = choice.sections
    is_root = graph.forest.depth == 0
    return EventCalls(
        graph=graph,
        has_time=event_has_time(graph.event),
        without_callers=int(graph.self_hits[is_root].sum()),
        remedy=_remedy(graph, is_root),
        totals=totals,
        hottest=by_time[: choice.most],
        callees=callees_tree(graph, choice.share) if CALLEES in sections else None,
        callers=_callers(graph, choice) if CALLERS in sections or choice.callers_of else None,
        arcs=call_arcs(graph) if GRAPH in sections else None,
        blocks=by_time[is_block],
    )


def _remedy(graph: CallGraph, is_root: Bools) -> str:
    """Return a remedy if a large share of hits in user space has no caller.

    For copies of stacks there is one only if they end in images without call-frame information.
    """
    hits = graph.profile.hits
    is_user = (hits.mode == CPUMODE_USER) & (graph.row_of_hit >= 0)
    count, row = hits.count[is_user], graph.row_of_hit[is_user]
    alone = int(count[is_root.take(row)].sum())
    run = graph.profile.run
    is_much = 2 * alone > int(count.sum())
    if run.has_user_callers:
        is_much |= alone > max(_LEAST_ALONE * int(count.sum()), _LEAST_HITS)
    if not is_much:
        return ""
    copies = graph.profile.stack_copies
    if copies is not None and not copies_of_waits_alone(graph.profile):
        return _WITHOUT_ROWS if _end_without_rows(copies) else ""
    if not run.recorder:  # nor could it be recorded otherwise
        return ""
    why = "Their code keeps no frame pointers" if run.has_user_callers else "They were not recorded"
    if run.store_part:
        return f"{why}: start the daemon with --call-graph auto."
    return f"{why}: record with --call-graph auto or dwarf."


def _end_without_rows(copies: StackCopies) -> bool:
    """Return whether most copies of stacks end in images without call-frame information."""
    is_image = np.array([*(path.startswith("/") for path in copies.paths), False])
    no_row = copies.ends.index(END_NO_ROW) if END_NO_ROW in copies.ends else len(copies.ends)
    return 2 * int(((copies.end == no_row) & is_image[copies.place]).sum()) > len(copies.end)


def _callers(graph: CallGraph, choice: CallsChoice) -> CallTree:
    if not choice.callers_of:
        return self_callers_tree(graph, np.arange(len(graph.frames)), choice.share)
    function = graph.frames.function_index
    is_inlined = function < 0
    names = [
        name if inlined else ""
        for name, inlined in zip(graph.frames.name, is_inlined.tolist(), strict=True)
    ]
    is_wanted = is_inlined & inlined_called(names, choice.callers_of)
    if not is_wanted.any():
        wanted = functions_called(graph.profile, choice.callers_of)
        is_wanted = ~is_inlined & wanted.take(np.maximum(function, 0))
    return callers_tree(graph, np.flatnonzero(is_wanted), choice.share)
