"""Answers about all hosts as text: what was asked first, in 80 columns and 24 lines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.fleet.build_outliers import BuildOutliers
from prospect.fleet.coverage import Coverage
from prospect.fleet.outliers import Outliers
from prospect.fleet.top import Top
from prospect.render.escape import escaped
from prospect.render.text.columns import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.fleet.deploys import Build, Deploys

_NAME, _OBJECT, _HOST = 30, 26, 18
_BUILD = 12
_MOST_REMARKS = 3
_MOST_FILES = 2
_US = 10**6
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
    measured = answer.measured
    yield (
        f"{counted(answer.hosts, 'host')}, {counted(answer.cpus, 'CPU')}, {answer.busy_cpus:.1f}"
        f" busy; measured {_percent(measured.measured_share)} of {_span(*measured[:2])}"
    )
    half = [_PERCENT * (row.high - row.low) / 2.0 for row in answer.rows]
    rows = answer.rows
    yield from table_lines(
        [
            Column(""),
            Column("Function", right=False),
            Column("Share"),
            Column("±"),
            Column("CPUs"),
            Column("Hosts"),
            Column("Object", right=False),
        ],
        [
            [str(rank) for rank in range(1, len(rows) + 1)],
            [_function(row.function) for row in rows],
            [f"{_PERCENT * row.share:.1f} %" for row in rows],
            [f"{one:.1f}" for one in half],
            [f"{row.cpus:.3g}" if row.cpus < 100 else f"{row.cpus:.0f}" for row in rows],
            [str(row.hosts) for row in rows],
            [_end(row.object, _OBJECT) for row in rows],
        ],
    )
    more = answer.functions - len(rows)
    each = "between hosts" if answer.hosts_hit > 1 else "of the samples of one host"
    yield (
        (f"... and {more} more; " if more > 0 else "") + f"± 95 %, {each}; {answer.samples} samples"
    )


def _outliers(answer: Outliers) -> Iterator[str]:
    yield (
        f"{answer.differing_hosts} of {counted(answer.hosts, 'host')}"
        f" differ{'s' if answer.differing_hosts == 1 else ''} from the rest, in"
        f" {counted(answer.found, 'function')}"
    )
    if answer.rows:
        rows = answer.rows
        yield from table_lines(
            [
                Column("Host", right=False),
                Column("Function", right=False),
                Column("Share"),
                Column("Usual"),
                Column("q"),
                Column("Object", right=False),
            ],
            [
                [_end(row.host, _HOST) for row in rows],
                [_function(row.function, 24) for row in rows],
                [f"{_PERCENT * row.share:.2f} %" for row in rows],
                [f"{_PERCENT * row.usual:.2f} %" for row in rows],
                [f"{row.q:.0e}" for row in rows],
                [_end(row.object, 14) for row in rows],
            ],
        )
    if answer.found > len(answer.rows):
        yield f"... and {answer.found - len(answer.rows)} more"
    yield (
        f"{counted(answer.tests, 'comparison')} of {counted(answer.functions, 'function')};"
        f" at most {_percent(answer.fdr)} of these are chance"
    )


def _build_outliers(answer: BuildOutliers) -> Iterator[str]:
    yield (
        f"{answer.differing_builds} of {counted(answer.builds, 'build')}"
        f" differ{'s' if answer.differing_builds == 1 else ''} from the usual one, in"
        f" {counted(answer.found, 'function')}"
    )
    if answer.rows:
        rows = answer.rows
        yield from table_lines(
            [
                Column("Program", right=False),
                Column("Build", right=False),
                Column("Function", right=False),
                Column("Share"),
                Column("Usual"),
                Column("±"),
                Column("Hosts"),
                Column("q"),
            ],
            [
                [_end(row.process, 12) for row in rows],
                [row.build_id[:8] for row in rows],
                [_function(row.function, 20) for row in rows],
                [f"{_PERCENT * row.share:.2f} %" for row in rows],
                [f"{_PERCENT * row.usual:.2f} %" for row in rows],
                [f"{_PERCENT * row.half:.2f}" for row in rows],
                [str(row.hosts) for row in rows],
                [f"{row.q:.0e}" for row in rows],
            ],
        )
        files = {row.build_id: row for row in reversed(rows)}
        for row in [*files.values()][::-1][:_MOST_FILES]:
            yield (
                f"{row.build_id[:8]} is of {_end(row.object, 36)}; usual is"
                f" {row.usual_build_id[:8]}, on {counted(row.usual_hosts, 'host')}"
            )
    if answer.found > len(answer.rows):
        yield f"... and {answer.found - len(answer.rows)} more"
    yield (
        f"{counted(answer.tests, 'comparison')} in {counted(answer.programs, 'program')}, at most"
        f" {_percent(answer.fdr)} of these chance; ± 95 %, by host"
    )


def _deploys(answer: Deploys) -> Iterator[str]:
    if answer.build is None:
        if not answer.builds:
            yield "No file has two builds in this part."
            return
        yield "Files of which there are several builds; prospect fleet deploys BUILD compares"
        yield from _builds(answer.builds)
        return
    build = answer.build
    functions = counted(answer.functions, "function")
    yield (
        f"{build.build_id[:_BUILD]} of {_end(build.object, _OBJECT)} since"
        f" {_clock(build.first_us)}: {answer.significant} of {functions} changed"
    )
    programs = ", ".join(escaped(one) for one in answer.processes[:3])
    yield (
        f"Shares of {programs or 'nothing'} on {counted(answer.hosts, 'host')}, before"
        f" ({answer.before_samples} samples) and after ({answer.after_samples})"
    )
    if answer.changes:
        rows = answer.changes
        yield from table_lines(
            [
                Column("Function", right=False),
                Column("Before"),
                Column("After"),
                Column("Change"),
                Column("±"),
                Column("q"),
                Column("Object", right=False),
            ],
            [
                [_function(row.function, 24) for row in rows],
                [f"{_PERCENT * row.before:.2f} %" for row in rows],
                [f"{_PERCENT * row.after:.2f} %" for row in rows],
                [f"{_PERCENT * (row.after - row.before):+.2f}" for row in rows],
                [f"{_PERCENT * row.half:.2f}" for row in rows],
                [f"{row.q:.0e}" for row in rows],
                [_end(row.object, 14) for row in rows],
            ],
        )
    yield (
        f"At most {_percent(answer.fdr)} of those with q up to {answer.fdr:g} are expected to be"
        " chance; ± 95 %"
    )


def _builds(builds: Sequence[Build]) -> Iterator[str]:
    yield from table_lines(
        [
            Column("Build", right=False),
            Column("First seen", right=False),
            Column("Last seen", right=False),
            Column("Hosts"),
            Column("Samples"),
            Column("Object", right=False),
        ],
        [
            [one.build_id[:_BUILD] for one in builds],
            [_clock(one.first_us) for one in builds],
            [_clock(one.last_us) for one in builds],
            [str(one.hosts) for one in builds],
            [str(one.samples) for one in builds],
            [_end(one.object, _OBJECT) for one in builds],
        ],
    )


def _coverage(answer: Coverage) -> Iterator[str]:
    hosts = answer.hosts
    whole_s = answer.span_s * len(hosts)
    measured_s = sum(min(one.measured_s, answer.span_s) for one in hosts)
    expected = sum(one.expected for one in hosts)
    lost = sum(one.lost + one.throttled for one in hosts)
    missing = sum(one.missing for one in hosts)
    yield (
        f"{counted(len(hosts), 'host')}: {_percent(measured_s / whole_s if whole_s else 1.0)} of"
        f" {_span(answer.begin_us, answer.end_us)} measured; of {expected} ticks {lost} lost,"
        f" {missing} missing"
    )
    shown = hosts[:8]
    yield from table_lines(
        [
            Column("Host", right=False),
            Column("CPUs"),
            Column("Not measured"),
            Column("Last seen", right=False),
            Column("Expected"),
            Column("Lost"),
            Column("Missing"),
        ],
        [
            [_end(one.host, 24) for one in shown],
            [str(one.cpus) for one in shown],
            [_length(answer.unmeasured_s(one)) for one in shown],
            [_clock(one.end_us) for one in shown],
            [str(one.expected) for one in shown],
            [str(one.lost + one.throttled) for one in shown],
            [str(one.missing) for one in shown],
        ],
    )
    if len(hosts) > len(shown):
        yield f"... and {len(hosts) - len(shown)} hosts that miss no more than these"
    yield ""
    share = answer.nameless_samples / max(answer.samples, 1)
    yield f"{_percent(share)} of {answer.samples} samples are in code without a name"
    if answer.nameless:
        rows = answer.nameless[:7]
        yield from table_lines(
            [
                Column("Samples"),
                Column("Hosts"),
                Column("Build", right=False),
                Column("Object", right=False),
                Column("Why", right=False),
            ],
            [
                [str(row.samples) for row in rows],
                [str(row.hosts) for row in rows],
                [row.build_id[:_BUILD] or "not known" for row in rows],
                [_end(row.object, _OBJECT) for row in rows],
                [escaped(row.why)[:24] for row in rows],
            ],
        )


def _function(name: str, width: int = _NAME) -> str:
    text = escaped(name) or "[no name]"
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _end(text: str, width: int) -> str:
    """Return the end of a text: of a path that says most."""
    shown = escaped(text)
    return shown if len(shown) <= width else f"...{shown[-(width - 3) :]}"


def _percent(share: float) -> str:
    return f"{_PERCENT * share:.3g} %"


def _length(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.0f} s"


def _span(begin_us: int, end_us: int) -> str:
    return _length(max(end_us - begin_us, 0) / _US)


def _clock(at_us: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_us // _US))
    except (OverflowError, OSError, ValueError):
        return "not known"
