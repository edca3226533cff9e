"""Answers about all hosts as text: what was asked first, in 80 columns and 24 lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.fleet import wording
from prospect.fleet.build_outliers import BuildOutliers
from prospect.fleet.coverage import Coverage
from prospect.fleet.outliers import Outliers
from prospect.fleet.top import Top
from prospect.fleet.wording import BUILD_DIGITS, NO_NAME, clock, end_of, length
from prospect.render.escape import escaped
from prospect.render.text.columns import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.fleet.deploys import Build, Deploys

_NAME, _OBJECT, _HOST = 30, 26, 18
_MOST_REMARKS = 3
_MOST_FILES = 2
_PERCENT = 100.0


def lines_of(
    answer: Top | Outliers | BuildOutliers | Deploys | Coverage, origin: str
) -> Iterator[str]:
    """Return the lines of an answer.

    Args:
        answer: to a question.
        origin: the store, and which part of it.
    """
    yield escaped(origin)
    if isinstance(answer, Top):
        yield from _top(answer)
    elif isinstance(answer, Outliers):
        yield from _outliers(answer)
    elif isinstance(answer, BuildOutliers):
        yield from _build_outliers(answer)
    elif isinstance(answer, Coverage):
        yield from _coverage(answer)
    else:
        yield from _deploys(answer)
    for remark in answer.remarks[:_MOST_REMARKS]:
        yield f"Note: {escaped(remark)}"


def _top(answer: Top) -> Iterator[str]:
    above, below = wording.of_top(answer)
    yield above
    half = [_PERCENT * (row.high - row.low) / 2.0 for row in answer.rows]
    rows = answer.rows
    yield from table_lines(
        [
            Column("", [str(rank) for rank in range(1, len(rows) + 1)]),
            Column("Function", [_function(row.function) for row in rows], right=False),
            Column("Share", [f"{_PERCENT * row.share:.1f} %" for row in rows]),
            Column("±", [f"{one:.1f}" for one in half]),
            Column(
                "CPUs", [f"{row.cpus:.3g}" if row.cpus < 100 else f"{row.cpus:.0f}" for row in rows]
            ),
            Column("Hosts", [str(row.hosts) for row in rows]),
            Column("Object", [end_of(row.object, _OBJECT) for row in rows], right=False),
        ]
    )
    yield below


def _outliers(answer: Outliers) -> Iterator[str]:
    above, below = wording.of_outliers(answer)
    yield above
    if answer.rows:
        rows = answer.rows
        yield from table_lines(
            [
                Column("Host", [end_of(row.host, _HOST) for row in rows], right=False),
                Column("Function", [_function(row.function, 24) for row in rows], right=False),
                Column("Share", [f"{_PERCENT * row.share:.2f} %" for row in rows]),
                Column("Usual", [f"{_PERCENT * row.usual:.2f} %" for row in rows]),
                Column("q", [f"{row.q:.0e}" for row in rows]),
                Column("Object", [end_of(row.object, 14) for row in rows], right=False),
            ]
        )
    if answer.found > len(answer.rows):
        yield f"... and {answer.found - len(answer.rows)} more"
    yield below


def _build_outliers(answer: BuildOutliers) -> Iterator[str]:
    above, below = wording.of_build_outliers(answer)
    yield above
    if answer.rows:
        rows = answer.rows
        yield from table_lines(
            [
                Column("Program", [end_of(row.process, 12) for row in rows], right=False),
                Column("Build", [row.build_id[:8] for row in rows], right=False),
                Column("Function", [_function(row.function, 20) for row in rows], right=False),
                Column("Share", [f"{_PERCENT * row.share:.2f} %" for row in rows]),
                Column("Usual", [f"{_PERCENT * row.usual:.2f} %" for row in rows]),
                Column("±", [f"{_PERCENT * row.half:.2f}" for row in rows]),
                Column("Hosts", [str(row.hosts) for row in rows]),
                Column("q", [f"{row.q:.0e}" for row in rows]),
            ]
        )
        files = {row.build_id: row for row in reversed(rows)}
        for row in [*files.values()][::-1][:_MOST_FILES]:
            yield (
                f"{row.build_id[:8]} is of {end_of(row.object, 36)}; usual is"
                f" {row.usual_build_id[:8]}, on {counted(row.usual_hosts, 'host')}"
            )
    if answer.found > len(answer.rows):
        yield f"... and {answer.found - len(answer.rows)} more"
    yield below


def _deploys(answer: Deploys) -> Iterator[str]:
    if answer.build is None:
        if not answer.builds:
            yield "No file has two builds in this part."
            return
        yield "Files of which there are several builds; prospect fleet deploys BUILD compares"
        yield from _builds(answer.builds)
        return
    above, below = wording.of_deploys(answer, _OBJECT)
    yield from above.splitlines()
    if answer.changes:
        rows = answer.changes
        yield from table_lines(
            [
                Column("Function", [_function(row.function, 24) for row in rows], right=False),
                Column("Before", [f"{_PERCENT * row.before:.2f} %" for row in rows]),
                Column("After", [f"{_PERCENT * row.after:.2f} %" for row in rows]),
                Column("Change", [f"{_PERCENT * (row.after - row.before):+.2f}" for row in rows]),
                Column("±", [f"{_PERCENT * row.half:.2f}" for row in rows]),
                Column("q", [f"{row.q:.0e}" for row in rows]),
                Column("Object", [end_of(row.object, 14) for row in rows], right=False),
            ]
        )
    yield below


def _builds(builds: Sequence[Build]) -> Iterator[str]:
    yield from table_lines(
        [
            Column("Build", [one.build_id[:BUILD_DIGITS] for one in builds], right=False),
            Column("First seen", [clock(one.first_us) for one in builds], right=False),
            Column("Last seen", [clock(one.last_us) for one in builds], right=False),
            Column("Hosts", [str(one.hosts) for one in builds]),
            Column("Samples", [str(one.samples) for one in builds]),
            Column("Object", [end_of(one.object, _OBJECT) for one in builds], right=False),
        ]
    )


def _coverage(answer: Coverage) -> Iterator[str]:
    hosts = answer.hosts
    measured, named = wording.of_coverage(answer)
    yield measured
    shown = hosts[:8]
    yield from table_lines(
        [
            Column("Host", [end_of(one.host, 24) for one in shown], right=False),
            Column("CPUs", [str(one.cpus) for one in shown]),
            Column("Not measured", [length(answer.unmeasured_s(one)) for one in shown]),
            Column("Last seen", [clock(one.end_us) for one in shown], right=False),
            Column("Expected", [str(one.expected) for one in shown]),
            Column("Lost", [str(one.lost + one.throttled) for one in shown]),
            Column("Missing", [str(one.missing) for one in shown]),
        ]
    )
    if len(hosts) > len(shown):
        yield f"... and {counted(len(hosts) - len(shown), 'more host')} that miss no more"
    yield ""
    yield named
    if answer.nameless:
        rows = answer.nameless[:7]
        yield from table_lines(
            [
                Column("Samples", [str(row.samples) for row in rows]),
                Column("Hosts", [str(row.hosts) for row in rows]),
                Column(
                    "Build",
                    [row.build_id[:BUILD_DIGITS] or "not known" for row in rows],
                    right=False,
                ),
                Column("Object", [end_of(row.object, _OBJECT) for row in rows], right=False),
                Column("Why", [escaped(row.why)[:24] for row in rows], right=False),
            ]
        )


def _function(name: str, width: int = _NAME) -> str:
    text = escaped(name) or NO_NAME
    return text if len(text) <= width else f"{text[: width - 3]}..."
