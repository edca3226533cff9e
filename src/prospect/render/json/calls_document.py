"""The JSON of `prospect calls`: time by call stacks, or shared by counted calls.

Figures are not rounded to their errors, as the text's are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.estimate.call_figures import CallNumbers, call_numbers
from prospect.figures.stacks.stack_quality import stack_quality
from prospect.records import NamedTuple, nested_asdict
from prospect.render.json.common_fields import (
    ANY_STACK_QUALITY,
    EVENT,
    NOTES,
    WARNINGS,
    WITH_CALLEES,
    WITH_CALLEES_ABOUT,
)
from prospect.render.json.document_fields import (
    COUNT,
    FLAG,
    GENERATOR,
    INTEGER,
    NUMBER,
    TEXT,
    TEXTS,
    Kind,
    Object,
    Part,
    Rows,
    document,
    each_row,
    itself,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.columns.array_types import F64, I64
    from prospect.estimate.errors.call_estimates import CallEstimates
    from prospect.figures.calls.call_shares import CallShares
    from prospect.figures.calls.call_tree import CallTree
    from prospect.figures.calls.calls_view import CallsView, EventCalls


class _Calls(NamedTuple):
    """An event's calls, their errors, and how often each was counted."""

    event: EventCalls
    known: CallEstimates
    numbers: CallNumbers

    @property
    def functions(self) -> I64:
        functions: I64 = self.event.graph.frames.function_index
        return functions

    @property
    def hottest(self) -> list[int]:
        frames: list[int] = self.event.hottest.tolist()
        return frames

    @property
    def arc_calls(self) -> list[float | None]:
        """How often each call was counted, None if it was not."""
        arcs, functions = self.event.arcs, self.functions
        if arcs is None:
            return []
        callers, callees = functions.take(arcs.caller), functions.take(arcs.callee)
        pairs = zip(callers.tolist(), callees.tolist(), strict=True)
        return [self.numbers.of_arc.get(pair) for pair in pairs]


class _Tree(NamedTuple):
    tree: CallTree
    half_width_s: F64


def _tree(tree: CallTree | None, half_width_s: F64) -> _Tree | None:
    return None if tree is None else _Tree(tree, half_width_s)


def _total(name: str) -> Callable[[_Calls], Any]:
    return lambda calls: getattr(calls.event.totals, name).take(calls.event.hottest)


def _label(end: str) -> Callable[[_Calls], list[str]]:
    def column(calls: _Calls) -> list[str]:
        labels = calls.event.graph.labels
        return [labels[frame] for frame in getattr(calls.event.arcs, end).tolist()]

    return column


_FUNCTION = Object(
    "",
    name=TEXT(get=lambda calls: [calls.event.graph.labels[f] for f in calls.hottest]),
    object=TEXT(get=lambda calls: [calls.event.graph.object_path(f) for f in calls.hottest]),
    total_samples=COUNT(get=_total("total_hits")),
    total_s=NUMBER(get=_total("total_s")),
    total_half_width_s=NUMBER.or_null(get="known.total_s"),
    self_samples=COUNT(get=_total("self_hits")),
    self_s=NUMBER(get=_total("self_s")),
    self_half_width_s=NUMBER.or_null(get="known.self_s"),
    calls=NUMBER.or_null(
        "`null` if not counted",
        lambda calls: [
            calls.numbers.of_function.get(function)
            for function in calls.functions.take(calls.event.hottest).tolist()
        ],
    ),
)
_NODE = Object(
    "",
    parent=INTEGER("a row or -1", "tree.parent"),
    name=TEXT(get=lambda node: [node.tree.labels[frame] for frame in node.tree.frame.tolist()]),
    samples=COUNT(get="tree.hits"),
    seconds=NUMBER(get="tree.total_s"),
    half_width_s=NUMBER.or_null(),
    ended_s=NUMBER("what is in no row below", "tree.ended_s"),
)
_ARC = Object(
    "",
    caller=TEXT(get=_label("caller")),
    callee=TEXT(get=_label("callee")),
    samples=COUNT(get="event.arcs.hits"),
    self_s=NUMBER("in the callee itself", "event.arcs.self_s"),
    total_s=NUMBER("with all that it called", "event.arcs.total_s"),
    calls=NUMBER.or_null("`null` if not counted", "arc_calls"),
)
_TREE = Rows(_NODE, by_column=True).or_null
EVENT_CALLS = Object(
    "event_calls",
    event=Part(EVENT, "event.event"),
    has_time=FLAG("whether its samples are worth time", "event.has_time"),
    samples=COUNT("samples and their time", "event.graph.hits"),
    seconds=NUMBER(get="event.graph.seconds"),
    without_callers=COUNT("samples of which no caller is known", "event.without_callers"),
    with_callees=WITH_CALLEES(WITH_CALLEES_ABOUT, "known.with_callees"),
    functions=Rows(_FUNCTION, by_column=True)("the totals", itself),
    callees=_TREE(
        "the trees, rows in the order of the text; `null` if not asked for",
        lambda calls: _tree(calls.event.callees, calls.known.callees_s),
    ),
    callers=_TREE(get=lambda calls: _tree(calls.event.callers, calls.known.callers_s)),
    arcs=Rows(_ARC, by_column=True).or_null(
        "who called whom; `null` if not asked for",
        lambda calls: None if calls.event.arcs is None else calls,
    ),
)


def event_calls(view: CallsView, estimates: tuple[CallEstimates, ...]) -> list[_Calls]:
    """Return the sources of `EVENT_CALLS`."""
    numbers = call_numbers(view) or CallNumbers({}, {})
    return [_Calls(*one, numbers) for one in zip(view.events, estimates, strict=True)]


class _View(NamedTuple):
    view: CallsView
    estimates: tuple[CallEstimates, ...]

    @property
    def options(self) -> dict[str, Any]:
        """The options, and the `-V` that is shown."""
        choice = nested_asdict(self.view.choice)
        choice["samples"]["detail"] = self.view.detail
        return choice


CALLS = Object(
    "calls",
    schema=schema("prospect-calls/1"),
    generator=GENERATOR,
    options=Kind({"type": "object"})("what was asked for"),
    warnings=TEXTS(
        WARNINGS.about,
        lambda calls: [*calls.view.warnings, *([calls.view.nothing] if calls.view.nothing else [])],
    ),
    any_stack_quality=Part(
        ANY_STACK_QUALITY, lambda calls: stack_quality(calls.view.profile, calls.view.detail)
    ),
    events=Rows(EVENT_CALLS)(
        "the calls of each event", lambda calls: event_calls(calls.view, calls.estimates)
    ),
)


def calls_json(view: CallsView, estimates: tuple[CallEstimates, ...]) -> Iterator[bytes]:
    """Return time by callers and callees, for programs."""
    return document(CALLS, _View(view, estimates))


# Of profiles with counted calls and without call stacks


def _in_order(name: str) -> Callable[[CallShares], Any]:
    return lambda shares: getattr(shares, name).take(shares.order)


def _arc_label(end: str) -> Callable[[CallShares], list[str]]:
    return lambda shares: [shares.labels[node] for node in getattr(shares, end).tolist()]


CALL_SHARES = Object(
    "call_shares",
    schema=schema("prospect-call-shares/1"),
    generator=GENERATOR,
    notes=TEXTS(NOTES.about, "profile.run.limits"),
    event=Part(EVENT, lambda shares: shares.profile.run.events[0]),
    samples=COUNT("samples and their time", "ticks"),
    seconds=NUMBER(get="total_s"),
    nodes=each_row(
        name=TEXT(get=lambda shares: [shares.labels[node] for node in shares.order.tolist()]),
        is_cycle=FLAG(get=lambda shares: shares.order >= shares.functions),
        cycle=INTEGER.within(1).or_null(
            "the cycle that it is in",
            lambda shares: [cycle or None for cycle in _in_order("cycle")(shares).tolist()],
        ),
        self_s=NUMBER(get=_in_order("self_s")),
        children_s=NUMBER(get=_in_order("child_s")),
        calls=INTEGER("from others", _in_order("calls")),
        self_calls=INTEGER("from itself", _in_order("self_calls")),
    )("functions and cycles of functions that ran or were called", itself),
    arcs=each_row(
        caller=TEXT(get=_arc_label("caller")),
        callee=TEXT(get=_arc_label("callee")),
        calls=INTEGER(get="arc_calls"),
        self_s=NUMBER("what the caller is charged with", "arc_self_s"),
        children_s=NUMBER(get="arc_child_s"),
    )("who called whom", itself),
)


def call_shares_json(shares: CallShares) -> Iterator[bytes]:
    """Return counted calls and the time shared by them, for programs."""
    return document(CALL_SHARES, shares)
