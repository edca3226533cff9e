"""Answers about all hosts in sentences, which every layout shows: what was found, of how much."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.render.escape import escaped

if TYPE_CHECKING:
    from prospect.fleet.build_outliers import BuildOutliers
    from prospect.fleet.coverage import Coverage
    from prospect.fleet.deploys import Deploys
    from prospect.fleet.outliers import Outliers
    from prospect.fleet.top import Top

BUILD_DIGITS = 12
NO_NAME = "[no name]"
_MOST_PROGRAMS = 3
_PERCENT = 100.0
_US = 10**6


def percent(share: float) -> str:
    """Return a share in percent, to three digits."""
    return f"{_PERCENT * share:.3g} %"


def length(seconds: float) -> str:
    """Return a length of time in the largest unit that it has one of."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.0f} s"


def clock(at_us: int) -> str:
    """Return a moment, microseconds since 1970, to the minute."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_us // _US))
    except (OverflowError, OSError, ValueError):
        return "not known"


def of_top(answer: Top) -> tuple[str, str]:
    """Return what stands above and below the functions of all hosts."""
    measured = answer.measured
    above = (
        f"{counted(answer.hosts, 'host')}, {counted(answer.cpus, 'CPU')}, {answer.busy_cpus:.1f}"
        f" busy; measured {percent(measured.measured_share)} of"
        f" {_span(measured.begin_us, measured.end_us)}"
    )
    more = answer.functions - len(answer.rows)
    each = "between hosts" if answer.hosts_hit > 1 else "of the samples of one host"
    return above, (
        (f"... and {more} more; " if more > 0 else "")
        + f"± 95 %, {each}; {counted(answer.samples, 'sample')}"
    )


def of_outliers(answer: Outliers) -> tuple[str, str]:
    """Return what stands above and below hosts that differ."""
    return (
        f"{answer.differing_hosts} of {counted(answer.hosts, 'host')}"
        f" {_differ(answer.differing_hosts)} from the rest, in"
        f" {counted(answer.found, 'function')}"
    ), (
        f"{counted(answer.tests, 'comparison')} of {counted(answer.functions, 'function')};"
        f" at most {percent(answer.fdr)} of these are chance"
    )


def of_build_outliers(answer: BuildOutliers) -> tuple[str, str]:
    """Return what stands above and below builds that differ."""
    return (
        f"{answer.differing_builds} of {counted(answer.builds, 'build')}"
        f" {_differ(answer.differing_builds)} from the usual one, in"
        f" {counted(answer.found, 'function')}"
    ), (
        f"{counted(answer.tests, 'comparison')} in {counted(answer.programs, 'program')}, at most"
        f" {percent(answer.fdr)} of these chance; ± 95 %, by host"
    )


def of_deploys(answer: Deploys, widest: int) -> tuple[str, str]:
    """Return what stands above and below what a build changed.

    Args:
        answer: of a build.
        widest: how many signs of a path are shown.
    """
    build = answer.build
    if build is None:
        return "Files of which there are several builds", ""
    programs = ", ".join(escaped(one) for one in answer.processes[:_MOST_PROGRAMS])
    return (
        f"{build.build_id[:BUILD_DIGITS]} of {end_of(build.object, widest)} since"
        f" {clock(build.first_us)}: {answer.significant} of"
        f" {counted(answer.functions, 'function')} changed\n"
        f"Shares of {programs or 'nothing'} on {counted(answer.hosts, 'host')}, before"
        f" ({counted(answer.before_samples, 'sample')}) and after ({answer.after_samples})"
    ), (
        f"At most {percent(answer.fdr)} of those with q up to {answer.fdr:g} are expected to be"
        " chance; ± 95 %"
    )


def of_coverage(answer: Coverage) -> tuple[str, str]:
    """Return what stands above hosts, and above objects without names."""
    hosts = answer.hosts
    whole_s = answer.span_s * len(hosts)
    measured_s = sum(min(one.measured_s, answer.span_s) for one in hosts)
    expected = sum(one.expected for one in hosts)
    lost = sum(one.lost + one.throttled for one in hosts)
    missing = sum(one.missing for one in hosts)
    share = answer.nameless_samples / max(answer.samples, 1)
    return (
        f"{counted(len(hosts), 'host')}: {percent(measured_s / whole_s if whole_s else 1.0)} of"
        f" {_span(answer.begin_us, answer.end_us)} measured; of {expected} ticks {lost} lost,"
        f" {missing} missing"
    ), f"{percent(share)} of {counted(answer.samples, 'sample')} are in code without a name"


def end_of(text: str, widest: int) -> str:
    """Return the end of a text: of a path that says most."""
    shown = escaped(text)
    return shown if len(shown) <= widest else f"...{shown[-(widest - 3) :]}"


def _differ(number: int) -> str:
    return "differs" if number == 1 else "differ"


def _span(begin_us: int, end_us: int) -> str:
    return length(max(end_us - begin_us, 0) / _US)
