"""Questions about all hosts → pages. Opens no socket.

Comes in: which question, of which time, and a store. Goes out: the page that answers it. The
answers are those of ``prospect fleet``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.fleet import wording
from prospect.fleet.build_outliers import build_outliers
from prospect.fleet.coverage import coverage
from prospect.fleet.deploys import deploys
from prospect.fleet.outliers import outliers
from prospect.fleet.top import top
from prospect.fleet.wording import BUILD_DIGITS, NO_NAME, clock, length
from prospect.records import NamedTuple
from prospect.render.html.answer_page import AnswerPage, AnswerTable, Interval, Link
from prospect.store.hosts import asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.fleet.build_outliers import BuildOutliers
    from prospect.fleet.coverage import Coverage
    from prospect.fleet.deploys import Deploys
    from prospect.fleet.outliers import Outliers
    from prospect.fleet.top import Top
    from prospect.render.html.timeline import Span
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker

    Parts = list[str | AnswerTable]

ROOM = "fleet/"
QUESTIONS = {
    "top": "Top functions",
    "outliers": "Hosts that differ",
    "builds": "Builds that differ",
    "deploys": "Deploys",
    "coverage": "Coverage",
}
_ROWS = 50
_FDR = 0.05
_WIDEST = 60
_PERCENT = 100.0


class FleetQuestion(NamedTuple):
    """A question.

    Attributes:
        name: one of `QUESTIONS`.
        span: in seconds since 1970, None for all of the store.
        build: that is compared with what was before, "" for a list of builds; of "deploys".
    """

    name: str
    span: Span | None = None
    build: str = ""


def ways_to(span: Span | None, room: str = ROOM) -> list[Link]:
    """Return links to all questions about a span, from the time axis."""
    query = f"?span={span[0]}_{span[1]}" if span else ""
    return [Link(f"{room}{name}{query}", text) for name, text in QUESTIONS.items()]


def fleet_page(
    store: StoreDirectory,
    chosen: Specification,
    make_engine: EngineMaker,
    question: FleetQuestion,
    title: str,
) -> bytes:
    """Answer a question.

    Args:
        store: to read.
        chosen: which part of it.
        make_engine: what answers queries.
        question: that is asked.
        title: what is shown.

    Raises:
        StoreError: nothing fits, or nothing can be read.
    """
    answer_it = {
        "top": _top,
        "outliers": _outliers,
        "builds": _builds,
        "deploys": _deploys,
        "coverage": _coverage,
    }[question.name]
    parts, remarks = asked(store, lambda store: answer_it(store, chosen, make_engine, question))
    own = QUESTIONS[question.name]
    ways = [
        one._replace(address="") if one.text == own and not question.build else one
        for one in ways_to(question.span, "")
    ]
    span = question.span
    back = Link(f"../?span={span[0]}_{span[1]}" if span else "../?", "Over time")
    of_time = ""
    if span:
        since, until = (clock(at * 10**6) for at in span)
        of_time = f", {since} to {until}"
    return AnswerPage(f"{own}: {title}{of_time}", [*ways, back], parts, remarks).document()


def _top(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, _: FleetQuestion
) -> tuple[Parts, list[str]]:
    answer: Top = top(store, chosen, make_engine, _ROWS)
    above, below = wording.of_top(answer)
    full = max((one.high for one in answer.rows), default=0.0)
    rows = [
        (
            one.function or NO_NAME,
            _percent(one.share),
            Interval(one.share, one.low, one.high, full),
            f"{one.cpus:.3g}",
            str(one.hosts),
            one.object,
        )
        for one in answer.rows
    ]
    heads = ("Function", "Share\t", "Interval", "CPUs\t", "Hosts\t", "Object")
    return [above, AnswerTable(heads, rows), below], answer.remarks


def _outliers(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, _: FleetQuestion
) -> tuple[Parts, list[str]]:
    answer: Outliers = outliers(store, chosen, make_engine, rows=_ROWS, fdr=_FDR)
    above, below = wording.of_outliers(answer)
    rows = [
        (
            one.host,
            one.function or NO_NAME,
            _percent(one.share),
            _percent(one.usual),
            str(one.samples),
            f"{one.q:.0e}",
            one.object,
        )
        for one in answer.rows
    ]
    heads = ("Host", "Function", "Share\t", "Usual\t", "Samples\t", "q\t", "Object")
    return [above, *_if_any(heads, rows), below], answer.remarks


def _builds(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, asked_for: FleetQuestion
) -> tuple[Parts, list[str]]:
    answer: BuildOutliers = build_outliers(store, chosen, make_engine, rows=_ROWS, fdr=_FDR)
    above, below = wording.of_build_outliers(answer)
    rows = [
        (
            one.process,
            _to_build(one.build_id, asked_for),
            one.object,
            one.function or NO_NAME,
            _percent(one.share),
            _percent(one.usual),
            f"{_PERCENT * one.half:.2f}",
            f"{one.hosts} / {one.usual_hosts}",
            f"{one.q:.0e}",
        )
        for one in answer.rows
    ]
    heads = (
        *("Program", "Build", "File", "Function"),
        *("Share\t", "Usual\t", "±\t", "Hosts / usual\t", "q\t"),
    )
    return [above, *_if_any(heads, rows), below], answer.remarks


def _deploys(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, asked_for: FleetQuestion
) -> tuple[Parts, list[str]]:
    answer: Deploys = deploys(
        store, chosen, make_engine, rows=_ROWS, fdr=_FDR, build=asked_for.build
    )
    above, below = wording.of_deploys(answer, _WIDEST)
    parts: Parts = [*above.splitlines()]
    if answer.build is not None:
        heads = ("Function", "Before\t", "After\t", "Change\t", "±\t", "q\t", "Object")
        changes = [
            (
                one.function or NO_NAME,
                _percent(one.before),
                _percent(one.after),
                f"{_PERCENT * (one.after - one.before):+.2f}",
                f"{_PERCENT * one.half:.2f}",
                f"{one.q:.0e}",
                one.object,
            )
            for one in answer.changes
        ]
        parts += [*_if_any(heads, changes), below]
    builds = [
        (
            _to_build(one.build_id, asked_for),
            one.object,
            clock(one.first_us),
            clock(one.last_us),
            str(one.hosts),
            str(one.samples),
        )
        for one in answer.builds
    ]
    of_builds = ("Build", "File", "First seen", "Last seen", "Hosts\t", "Samples\t")
    return [*parts, *(_if_any(of_builds, builds) or ["No file has two builds."])], answer.remarks


def _coverage(
    store: StoreDirectory, chosen: Specification, make_engine: EngineMaker, _: FleetQuestion
) -> tuple[Parts, list[str]]:
    answer: Coverage = coverage(store, chosen, make_engine, _ROWS)
    measured, named = wording.of_coverage(answer)
    hosts = [
        (
            one.host,
            str(one.cpus),
            length(answer.unmeasured_s(one)),
            clock(one.end_us),
            str(one.expected),
            str(one.lost + one.throttled),
            str(one.missing),
        )
        for one in answer.hosts[:_ROWS]
    ]
    heads = ("Host", "CPUs\t", "Not measured\t", "Last seen", "Expected\t", "Lost\t", "Missing\t")
    nameless = [
        (str(one.samples), str(one.hosts), one.build_id[:BUILD_DIGITS], one.object, one.why)
        for one in answer.nameless
    ]
    parts: Parts = [measured, AnswerTable(heads, hosts)]
    if len(answer.hosts) > _ROWS:
        parts.append(f"... and {counted(len(answer.hosts) - _ROWS, 'more host')} that miss no more")
    of_objects = ("Samples\t", "Hosts\t", "Build", "Object", "Why")
    return [*parts, named, *_if_any(of_objects, nameless)], answer.remarks


def _if_any(heads: Sequence[str], rows: Sequence[Sequence[str | Interval | Link]]) -> Parts:
    return [AnswerTable(heads, rows)] if rows else []


def _to_build(build_id: str, question: FleetQuestion) -> Link | str:
    """Return a link to what a build changed."""
    span = f"&span={question.span[0]}_{question.span[1]}" if question.span else ""
    return Link(f"deploys?build={build_id}{span}", build_id[:BUILD_DIGITS])


def _percent(share: float) -> str:
    return f"{_PERCENT * share:.2f} %"
