"""The questions about all hosts, and the sentences and tables that show their answers.

Terminal output, pages of `prospect view` and CSV are made from these. JSON has all fields of an
answer. A new question is an entry of `QUESTIONS`.
"""

from __future__ import annotations

import time
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from prospect.announcing import pluralize
from prospect.fleet.build_outliers import build_outliers
from prospect.fleet.coverage import coverage
from prospect.fleet.deploys import deploys
from prospect.fleet.outliers import outliers
from prospect.fleet.top_functions import top
from prospect.records import NamedTuple
from prospect.render.escape import escaped
from prospect.render.html.answer_page import Interval, Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prospect.fleet.asking import Wanted
    from prospect.fleet.build_outliers import BuildOutlier, BuildOutliers
    from prospect.fleet.coverage import Coverage
    from prospect.fleet.deploys import Deploys
    from prospect.fleet.outliers import Outliers
    from prospect.fleet.top_functions import Top
    from prospect.render.html.answer_page import Cell
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker

    Answer = Top | Outliers | BuildOutliers | Deploys | Coverage

TERMINAL, PAGE = "terminal", "page"
_BUILD_DIGITS = 12
_NO_NAME = "[no name]"
_MOST_FILES = 2
# Functions that a terminal shows at least below the services.
_LEAST_FUNCTIONS = 3
_MOST_PROGRAMS = 3
# Rows of hosts, and of objects without names, by layout: both fit a terminal of 24 lines.
_MOST_HOSTS = {TERMINAL: 8, PAGE: 50}
_MOST_NAMELESS = {TERMINAL: 7, PAGE: None}
_WIDEST_FILE = {TERMINAL: 26, PAGE: 60}
_PERCENT = 100.0
_US = 10**6


class AnswerColumn(NamedTuple):
    """A column of an answer's table.

    Attributes:
        cell: returns the cell of a row; links and intervals are for pages.
        right: whether cells are aligned at the right edge, as numbers are.
        brief: shortens a text for a terminal.
        only: the layout that has this column, "" for both.
    """

    title: str
    cell: Callable[[Any], Cell]
    right: bool = True
    brief: Callable[[str], str] = str
    only: str = ""


class AnswerTable(NamedTuple):
    """A table of named tuples; if it is the main one, CSV has every field of them."""

    rows: Sequence[Any]
    columns: Sequence[AnswerColumn]
    most: int | None = None
    is_main: bool = True

    def columns_on(self, layout: str) -> list[AnswerColumn]:
        """Return the columns of a layout."""
        return [one for one in self.columns if one.only in ("", layout)]


class QuestionForm(NamedTuple):
    """A question.

    Attributes:
        title: the title of its page.
        ask: finds the answer.
        parts: yields the parts of an answer in a layout.
    """

    title: str
    ask: Callable[[StoreDirectory, Specification, EngineMaker, Wanted], Answer]
    parts: Callable[[Any, str], Iterator[str | AnswerTable]]


def clock(at_us: int) -> str:
    """Return a moment, microseconds since 1970, to the minute."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_us // _US))
    except (OverflowError, OSError, ValueError):
        return "not known"


def _top_parts(answer: Top, layout: str) -> Iterator[str | AnswerTable]:
    measured = answer.measured
    yield (
        f"{pluralize(answer.hosts, 'host')}, {pluralize(answer.cpus, 'CPU')}, "
        f"{answer.busy_cpus:.1f} busy; measured {_about(measured.measured_share)} of"
        f" {_span(measured.begin_us, measured.end_us)}"
    )
    shown = answer.rows
    if answer.services:
        yield AnswerTable(
            answer.services,
            (
                AnswerColumn(
                    "Service",
                    lambda row: row.service or "-",
                    right=False,
                    brief=lambda text: text if len(text) <= 44 else f"{text[:26]}...{text[-15:]}",
                ),
                *_shares_of(max(row.high for row in answer.services)),
                _number("Hosts", "hosts"),
            ),
            is_main=False,
        )
        more = answer.every_service - len(answer.services)
        yield from [f"... and {pluralize(more, 'service')} more"] if more else ()
        if layout == TERMINAL:
            yield ""
            shown = shown[: max(len(shown) - len(answer.services) - 3, _LEAST_FUNCTIONS)]
    rank = {row: at for at, row in enumerate(answer.rows, 1)}
    full = max((row.high for row in answer.rows), default=0.0)
    yield AnswerTable(
        shown,
        (
            AnswerColumn("", lambda row: str(rank[row]), only=TERMINAL),
            _function(30),
            *_shares_of(full),
            _number("Hosts", "hosts"),
            _path("Object", "object", 26),
        ),
    )
    more = answer.functions - len(shown)
    each = "between hosts" if answer.hosts_hit > 1 else "of the samples of one host"
    yield (
        f"{f'... and {more} more; ' if more > 0 else ''}± 95 %, {each};"
        f" {pluralize(answer.samples, 'sample')}"
    )


def _shares_of(full: float) -> tuple[AnswerColumn, ...]:
    """Return the columns of shares and busy CPUs; the bar of a page is as long as `full`."""
    return (
        AnswerColumn("Share", lambda row: f"{_PERCENT * row.share:.1f} %", only=TERMINAL),
        _percent("Share", "share", only=PAGE),
        AnswerColumn(
            "±", lambda row: f"{_PERCENT * (row.high - row.low) / 2.0:.1f}", only=TERMINAL
        ),
        AnswerColumn(
            "Interval",
            lambda row: Interval(row.share, row.low, row.high, full),
            right=False,
            only=PAGE,
        ),
        AnswerColumn(
            "CPUs", lambda row: f"{row.cpus:.3g}" if row.cpus < 100 else f"{row.cpus:.0f}"
        ),
    )


def _outliers_parts(answer: Outliers, layout: str) -> Iterator[str | AnswerTable]:
    yield (
        f"{answer.differing_hosts} of {pluralize(answer.hosts, 'host')}"
        f" {_differ(answer.differing_hosts)} from the rest, in"
        f" {pluralize(answer.found, 'function')}"
    )
    if answer.rows:
        yield AnswerTable(
            answer.rows,
            (
                _path("Host", "host", 18),
                _function(24),
                _percent("Share", "share"),
                _percent("Usual", "usual"),
                _number("Samples", "samples", only=PAGE),
                _Q,
                _path("Object", "object", 14),
            ),
        )
    yield from _more(answer.found, len(answer.rows), layout)
    yield (
        f"{pluralize(answer.tests, 'comparison')} of {pluralize(answer.functions, 'function')};"
        f" at most {_about(answer.fdr)} of these are chance"
    )


def _builds_parts(answer: BuildOutliers, layout: str) -> Iterator[str | AnswerTable]:
    yield (
        f"{answer.differing_builds} of {pluralize(answer.builds, 'build')}"
        f" {_differ(answer.differing_builds)} from the usual one, in"
        f" {pluralize(answer.found, 'function')}"
    )
    if answer.rows:
        yield AnswerTable(
            answer.rows,
            (
                _path("Program", "process", 12),
                *_builds_of(8),
                _path("File", "object", only=PAGE),
                _function(20),
                _percent("Share", "share"),
                _percent("Usual", "usual"),
                AnswerColumn("±", lambda row: f"{_PERCENT * row.half:.2f}"),
                _number("Hosts", "hosts", only=TERMINAL),
                AnswerColumn(
                    "Hosts / usual", lambda row: f"{row.hosts} / {row.usual_hosts}", only=PAGE
                ),
                _Q,
            ),
        )
        yield from _files_of(answer.rows) if layout == TERMINAL else ()
    yield from _more(answer.found, len(answer.rows), layout)
    yield (
        f"{pluralize(answer.tests, 'comparison')} in {pluralize(answer.programs, 'program')}, at"
        f" most {_about(answer.fdr)} of these chance; ± 95 %, by host"
    )


def _files_of(rows: Sequence[BuildOutlier]) -> Iterator[str]:
    """Yield a sentence about the file of each of the first builds."""
    first: dict[str, BuildOutlier] = {}
    for row in rows:
        first.setdefault(row.build_id, row)
    for row in [*first.values()][:_MOST_FILES]:
        yield (
            f"{row.build_id[:8]} is of {path_end(escaped(row.object), 36)}; usual is"
            f" {row.usual_build_id[:8]}, on {pluralize(row.usual_hosts, 'host')}"
        )


def _deploys_parts(answer: Deploys, layout: str) -> Iterator[str | AnswerTable]:
    build = answer.build
    if build is not None:
        programs = ", ".join(escaped(one) for one in answer.processes[:_MOST_PROGRAMS])
        path = path_end(escaped(build.object), _WIDEST_FILE[layout])
        yield (
            f"{build.build_id[:_BUILD_DIGITS]} of {path} since {clock(build.first_us)}:"
            f" {answer.significant} of {pluralize(answer.functions, 'function')} changed"
        )
        yield (
            f"Shares of {programs or 'nothing'} on {pluralize(answer.hosts, 'host')}, before"
            f" ({pluralize(answer.before_samples, 'sample')}) and after ({answer.after_samples})"
        )
        if answer.changes:
            yield AnswerTable(
                answer.changes,
                (
                    _function(24),
                    _percent("Before", "before"),
                    _percent("After", "after"),
                    AnswerColumn(
                        "Change", lambda row: f"{_PERCENT * (row.after - row.before):+.2f}"
                    ),
                    AnswerColumn("±", lambda row: f"{_PERCENT * row.half:.2f}"),
                    _Q,
                    _path("Object", "object", 14),
                ),
            )
        yield (
            f"At most {_about(answer.fdr)} of those with q up to {answer.fdr:g} are expected to be"
            " chance; ± 95 %"
        )
        if layout == TERMINAL:
            return
    elif layout == PAGE:
        yield "Files of which there are several builds"
    elif answer.builds:
        yield "Files of which there are several builds; prospect fleet deploys BUILD compares"
    if not answer.builds:
        yield f"No file has two builds{' in this part' if layout == TERMINAL else ''}."
        return
    yield AnswerTable(
        answer.builds,
        (
            *_builds_of(_BUILD_DIGITS),
            _path("File", "object", only=PAGE),
            AnswerColumn("First seen", lambda row: clock(row.first_us), right=False),
            AnswerColumn("Last seen", lambda row: clock(row.last_us), right=False),
            _number("Hosts", "hosts"),
            _number("Samples", "samples"),
            _path("Object", "object", 26, only=TERMINAL),
        ),
    )


def _coverage_parts(answer: Coverage, layout: str) -> Iterator[str | AnswerTable]:
    hosts = answer.hosts
    whole_s = answer.span_s * len(hosts)
    measured_s = sum(min(one.measured_s, answer.span_s) for one in hosts)
    yield (
        f"{pluralize(len(hosts), 'host')}: {_about(measured_s / whole_s if whole_s else 1.0)} of"
        f" {_span(answer.begin_us, answer.end_us)} measured; of"
        f" {sum(one.expected for one in hosts)} ticks"
        f" {sum(one.lost + one.throttled for one in hosts)} lost,"
        f" {sum(one.missing for one in hosts)} missing"
    )
    most = _MOST_HOSTS[layout]
    yield AnswerTable(
        hosts,
        (
            _path("Host", "host", 24),
            _number("CPUs", "cpus"),
            AnswerColumn("Not measured", lambda one: _length(answer.unmeasured_s(one))),
            AnswerColumn("Last seen", lambda one: clock(one.end_us), right=False),
            _number("Expected", "expected"),
            AnswerColumn("Lost", lambda one: str(one.lost + one.throttled)),
            _number("Missing", "missing"),
        ),
        most,
    )
    if len(hosts) > most:
        yield f"... and {pluralize(len(hosts) - most, 'more host')} that miss no more"
    yield from [""] if layout == TERMINAL else ()
    share = answer.nameless_samples / max(answer.samples, 1)
    yield f"{_about(share)} of {pluralize(answer.samples, 'sample')} are in code without a name"
    if answer.nameless:
        yield AnswerTable(
            answer.nameless,
            (
                _number("Samples", "samples"),
                _number("Hosts", "hosts"),
                AnswerColumn(
                    "Build",
                    lambda row: row.build_id[:_BUILD_DIGITS],
                    right=False,
                    brief=lambda text: text or "not known",
                ),
                _path("Object", "object", 26),
                AnswerColumn("Why", attrgetter("why"), right=False, brief=lambda text: text[:24]),
            ),
            _MOST_NAMELESS[layout],
        )


def _number(title: str, name: str, *, only: str = "") -> AnswerColumn:
    return AnswerColumn(title, lambda row: str(getattr(row, name)), only=only)


def _percent(title: str, name: str, *, only: str = "") -> AnswerColumn:
    return AnswerColumn(title, lambda row: f"{_PERCENT * getattr(row, name):.2f} %", only=only)


_Q = AnswerColumn("q", lambda row: f"{row.q:.0e}")


def _path(title: str, name: str, widest: int = 0, *, only: str = "") -> AnswerColumn:
    """Return a column of paths, hosts or programs, of which a terminal shows the ends."""
    return AnswerColumn(
        title, attrgetter(name), right=False, brief=lambda text: path_end(text, widest), only=only
    )


def _function(widest: int) -> AnswerColumn:
    return AnswerColumn(
        "Function",
        lambda row: row.function or _NO_NAME,
        right=False,
        brief=lambda text: text if len(text) <= widest else f"{text[: widest - 3]}...",
    )


def _builds_of(digits: int) -> tuple[AnswerColumn, AnswerColumn]:
    """Return the columns of build ids; on a page they link to the build's changes."""
    return (
        AnswerColumn("Build", lambda row: row.build_id[:digits], right=False, only=TERMINAL),
        AnswerColumn(
            "Build",
            lambda row: Link(f"deploys?build={row.build_id}", row.build_id[:_BUILD_DIGITS]),
            right=False,
            only=PAGE,
        ),
    )


def _more(found: int, shown: int, layout: str) -> Iterator[str]:
    if layout == TERMINAL and found > shown:
        yield f"... and {found - shown} more"


def _about(share: float) -> str:
    """Return a share in percent, to three digits."""
    return f"{_PERCENT * share:.3g} %"


def _length(seconds: float) -> str:
    """Return a duration in the largest unit that is not longer."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.0f} s"


def _span(begin_us: int, end_us: int) -> str:
    return _length(max(end_us - begin_us, 0) / _US)


def path_end(text: str, widest: int) -> str:
    """Return the end of a text, or both ends of a file name that is too long."""
    if len(text) <= widest:
        return text
    name = text.rpartition("/")[2]
    if name != text and len(name) > widest - 3:
        tail = widest // 3
        return f"{name[: widest - tail - 3]}...{name[-tail:]}"
    return f"...{text[-(widest - 3) :]}"


def _differ(number: int) -> str:
    return "differs" if number == 1 else "differ"


QUESTIONS = {
    "top": QuestionForm("Top functions", top, _top_parts),
    "outliers": QuestionForm("Hosts that differ", outliers, _outliers_parts),
    "builds": QuestionForm("Builds that differ", build_outliers, _builds_parts),
    "deploys": QuestionForm("Deploys", deploys, _deploys_parts),
    "coverage": QuestionForm("Coverage", coverage, _coverage_parts),
}
