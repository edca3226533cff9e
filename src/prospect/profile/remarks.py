"""What a report must say before its figures: what could not be seen, what was lost or damaged.

Comes in: a completed Profile and its counters. Goes out: sentences, each complete in itself, with
what to do about it. Nothing degrades silently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prospect.profile.model import Profile
    from prospect.profile.processes import Detail
    from prospect.profile.run_info import EventInfo


def run_notes(
    profile: Profile, events: Sequence[EventInfo], *, asked: Detail, shown: Detail
) -> tuple[str, ...]:
    """Return what this run could not see, and what the report does about it.

    Args:
        profile: what is reported on.
        events: those of its events that the report shows.
        asked: the `-V` that was asked for.
        shown: the `-V` that is shown.
    """
    notes = list(profile.run.limits)
    if profile.run.has_user_callers and profile.stacks is None:
        notes.append("The recording has call stacks: prospect calls says who called whom.")
    if asked != shown:
        notes.append(
            f"The recording does not say which process is COMMAND, "
            f"so -V {shown} is shown instead of -V {asked}."
        )
    notes.extend(
        f"Hits of the event {event.name} cannot be told in seconds: "
        "rows are sorted by hits, and -m and -k leave nothing out."
        for event in events
        if not (event.seconds_per_period > 0 or event.seconds_per_hit > 0)
    )
    if not len(profile.hits):
        notes.append("The recording has no samples: there is nothing to profile.")
    return tuple(notes)


def run_warnings(profile: Profile, counters: Mapping[str, float]) -> tuple[str, ...]:
    """Return what was damaged or lost; `counters` are those of `run_counters`."""
    warnings = list(profile.run.damage)
    recorded = profile.run.statistics.get("samples")
    if recorded is not None and recorded != counters["samples"]:
        warnings.append(
            f"{recorded} samples were recorded, but {counters['samples']} are in this report."
        )
    lost = int(counters.get("lost", 0))
    if lost:
        warnings.append(
            f"{lost} of {lost + int(counters['samples'])} samples were lost because the kernel's "
            "buffers were full: sample less often (-H), or drain them more often (-M)."
        )
    throttled = int(counters.get("throttled", 0))
    if throttled:
        warnings.append(
            f"The kernel throttled sampling {throttled} times: sample less often (-H), "
            "or raise sysctl kernel.perf_cpu_time_max_percent."
        )
    return tuple(warnings)
