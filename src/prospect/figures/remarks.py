"""Sentences of a report: what is missing, lost or damaged, and what to do.

Each is complete in itself.
"""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property
from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.columns.sorting import distinct
from prospect.figures.modes import event_has_time
from prospect.figures.processes import DETAIL_WORDS, chosen_by_detail, chosen_hits, shown_detail
from prospect.profile.complete import NO_EVENT_NAME
from prospect.profile.model import sampled
from prospect.profile.run_info import file_notes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile, ProfileByFunction
    from prospect.profile.run_info import EventInfo, RunInfo

# As the recorder's sentence begins (`capture.machine.surroundings`), with pids and names after it.
_UNREADABLE_MAPPINGS = "The kernel did not show the mappings of process "
# Limits of the events that a note names, and of the processes with notes.
_EVENTS_NAMED = 3
_PROCESSES_NAMED = 5
# Counters of lost records, with their kinds and the figures that lack them.
_LOST_RECORDS = {
    "lost_beside": "mappings, processes and the like, the kernel does not say which; samples may"
    " have wrong names or none",
    "lost_switches": "switches and waits; times of waiting and of single threads are too short or"
    " missing, samples and their names are not affected",
}


def limits_of(profile: CompleteProfile, shown: Detail) -> tuple[str, ...]:
    """Return the limits of this run, of the whole and of the processes and files shown."""
    run, processes = profile.run, profile.processes
    pids = set(processes.pid[chosen_by_detail(processes, shown)].tolist())
    of_processes = [sentence for pid, sentence in run.process_notes if pid in pids]
    if (more := len(of_processes) - _PROCESSES_NAMED) > 1:
        of_processes[_PROCESSES_NAMED:] = [f"There are {more} notes like these on other processes."]
    is_of_all = shown not in ("2", "3")
    of_run = [limit for limit in run.limits if is_of_all or not _is_of_others(limit, pids)]
    return tuple(dict.fromkeys((*file_notes(of_run, _Paths(profile, shown)), *of_processes)))


class _Paths(Container[str]):
    """The paths of shown files with hits, found on the first look-up."""

    def __init__(self, profile: CompleteProfile, shown: Detail) -> None:
        self._profile, self._shown = profile, shown

    def __contains__(self, path: object) -> bool:
        return path in self._paths

    @cached_property
    def _paths(self) -> set[str]:
        profile = self._profile
        location = profile.hits.location_index[chosen_hits(profile, self._shown)]
        function = distinct(profile.locations.function_index.take(location))
        objects = distinct(profile.functions.object_index.take(function))
        return {profile.objects.path[row] for row in objects.tolist()}


def _is_of_others(limit: str, pids: set[int]) -> bool:
    """Return whether a sentence is about the mappings of processes that were not requested."""
    if not limit.startswith(_UNREADABLE_MAPPINGS):
        return False
    named = limit.removeprefix(_UNREADABLE_MAPPINGS).split(", ")
    return not any(word.partition(" ")[0] in map(str, pids) for word in named)


def run_notes(
    profile: CompleteProfile, events: Sequence[EventInfo], *, asked: Detail, shown: Detail
) -> tuple[str, ...]:
    """Return the limits of this run, and what the report does about them.

    `asked` is the `-V` of the user, `shown` the one that is shown.
    """
    notes = list(limits_of(profile, shown))
    if profile.run.has_user_callers and profile.stacks is None:
        of_part = " --store" if profile.run.store_part else ""
        notes.append(
            f"The {'store' if of_part else 'recording'} has call stacks: "
            f"prospect calls{of_part} shows callers and callees."
        )
    if is_widened(profile.run, asked, shown):
        notes.append(
            f"The recording does not say which process is COMMAND, "
            f"so -V {shown} is shown instead of -V {asked}."
        )
    timeless = [event for event in events if not event_has_time(event)]
    if timeless:
        varies = any(event.weighs_periods for event in timeless)
        notes.append(
            f"Samples of {_some_events([event.name for event in timeless])} do not measure "
            f"time: rows are sorted by {'their periods' if varies else 'samples'}, "
            "and -m and -k leave nothing out."
        )
    return tuple(notes)


def is_widened(run: RunInfo, asked: Detail, shown: Detail) -> bool:
    """Return whether every process is shown although only the command's were requested.

    A report on a store shows every process by default: a store has no command.
    """
    return asked != shown and not (run.store_part and asked == "3")


def _some_events(names: Sequence[str]) -> str:
    """Name one event, or a few of several."""
    if len(names) == 1:
        return f"the event {names[0]}"
    more = len(names) - _EVENTS_NAMED
    shown = ", ".join(names[:_EVENTS_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{len(names)} events ({shown})"


def run_warnings(profile: CompleteProfile, counters: Mapping[str, float]) -> tuple[str, ...]:
    """Return sentences on damage and losses; `counters` are those of `run_counters`."""
    warnings = list(profile.run.damage)
    recorded = profile.run.statistics.get("samples")
    if recorded is not None and recorded != counters["samples"]:
        warnings.append(
            f"{pluralize(recorded, 'sample')} recorded, {counters['samples']} in this report."
        )
    if profile.run.is_cut:
        warnings.append(
            "The recording is cut: its file had no room for the last samples, or reached"
            " --max-size. They are lost in the sample accounting, and in no other figure."
        )
    lost = int(counters.get("lost", 0))
    if lost:
        whole = sampled(profile).profile
        samples = int(counters["samples"] if whole is profile else whole.hits.count.sum())
        due = profile.run.due_ticks or lost + samples
        warnings.append(
            f"{lost} of {due} samples were lost because the kernel's "
            "buffers were full: sample less often (-H), or drain them more often (-M)."
        )
    if profile.run.dropped_share:
        warnings.append(
            f"The kernel dropped up to {profile.run.dropped_share:.1%} of the samples, because"
            " another tracer's BPF programs ran as Python functions were read; they are lost in the"
            " sample accounting, and in no other figure (--no-python drops none)."
        )
    for counter, what in _LOST_RECORDS.items():
        if records := int(counters.get(counter, 0)):
            warnings.append(
                f"Lost with the kernel's full buffers: {pluralize(records, 'record')} of {what};"
                " drain more often (-M)."
            )
    throttled = int(counters.get("throttled", 0))
    if throttled:
        warnings.append(
            f"The kernel throttled sampling {pluralize(throttled, 'time')}: sample less often (-H),"
            " or raise sysctl kernel.perf_cpu_time_max_percent."
        )
    return tuple(warnings)


# Rows worth a look instead, the narrower first.
_OTHERS: tuple[Detail, ...] = ("3", "4")
NO_SAMPLES = "The recording has no samples: run longer, or raise the rate (-H)."
ONLY_SWITCHES = (
    "The recording's events are all of switches and wake-ups, which become waits, not rows: see"
    " Waiting in the text report."
)
NO_HITS = "This part of the store has no samples: nothing was measured, or nothing ran."


def nothing_chosen(profile: ProfileByFunction, detail: Detail) -> str:
    """Name the other `-V` that have hits, not of idle CPUs nor of Prospect."""
    processes, hits = profile.processes, profile.hits
    if not int(hits.count.sum()):
        if profile.run.store_part:
            return NO_HITS
        has_events = any(event.name != NO_EVENT_NAME for event in profile.run.events)
        return NO_SAMPLES if has_events else ONLY_SWITCHES
    shown = shown_detail(processes, detail)
    is_of_interest = ~((processes.pid == 0) | processes.is_recorder).take(hits.process_index)
    found: list[str] = []
    least = 0
    for other in _OTHERS:
        count = int(hits.count[chosen_hits(profile, other) & is_of_interest].sum())
        if other != shown and count > least:
            found.append(f"-V {other} ({_words(profile, other)}) has {count}")
            least = count
    none = f"No sample hit {_words(profile, shown)} (-V {shown})"
    if not found:
        return f"{none}, and none anything else that had work to do: run longer, or raise -H."
    return f"{none}; {' and '.join(found)}."


def has_chosen(profile: ProfileByFunction, detail: Detail) -> bool:
    """Return whether `-V` chooses any hit of a completed profile."""
    return bool(profile.hits.count[chosen_hits(profile, detail)].sum())


def below_thresholds(seconds: float, user_threshold_s: float, kernel_threshold_s: float) -> str:
    """Return the sentence that no function has enough time to be shown."""
    return (
        f"No function passes -m {user_threshold_s:g} and -k {kernel_threshold_s:g}, all together "
        f"have {seconds:.3g} s: give -m 0 -k 0, or name a function."
    )


def no_sample_left(detail: Detail, left_without: list[tuple[str, int]], everywhere: int) -> str:
    """Name filters whose removal leaves samples, if all together leave none.

    Args:
        detail: `-V`, which alone leaves something.
        left_without: each filter as it is typed, and how many samples pass all the others.
        everywhere: how many samples of all processes pass the filters.
    """
    given = " ".join(name for name, _ in left_without)
    ways = [f"{count} do without {name}" for name, count in left_without if count]
    if everywhere:
        ways.insert(0, f"{everywhere} do with -V 4")
    hint = ", ".join(ways) or "leave out more than one of them"
    return f"No sample of -V {detail} passes {given}: {hint}."


def _words(profile: ProfileByFunction, detail: Detail) -> str:
    """Return whose hits they are; processes that were attached to are not a command."""
    words = "the command itself" if detail == "2" else DETAIL_WORDS[detail]
    return words if profile.run.command else words.replace("the command", "the process")
