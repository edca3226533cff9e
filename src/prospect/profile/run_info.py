"""The header of a recording: its command, recorder, machine, time and events.

Notes on the limits of a run are sentences. Reports merge notes of one kind: they add up counts and
list files. Recordings, archives, sessions and stores keep only sentences, so the count or the file
is read from the sentence. Reports show notes on files that are in their rows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from prospect.records import NamedTuple, Record, field

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

# A process id, and a sentence about that process alone.
ProcessNote = tuple[int, str]

# The sysctl for the largest number of frames that the kernel records of a stack.
MAX_STACK = "kernel.perf_event_max_stack"

# Units of time in pprof, in seconds.
TIME_UNITS = {"nanoseconds": 1e-9, "microseconds": 1e-6, "milliseconds": 1e-3, "seconds": 1.0}


class Throttled(NamedTuple):
    """How long a CPU limit stopped a control group: see `throttled` in docs/recording.md.

    Attributes:
        group: its path, from the root of its hierarchy.
        periods, throttled: periods in which the limit applied, and in which it stopped the group.
        seconds: how long the group was stopped, summed over CPUs.
        pids: some processes of the group.
    """

    group: str
    periods: int
    throttled: int
    seconds: float
    pids: tuple[int, ...] = ()


class EventInfo(Record):
    """An event of the run, and how its periods become time.

    Attributes:
        seconds_per_period: 1e-9 / `clocks` for timers; 0.0 if a period is not time.
        seconds_per_hit: 1 / rate if a period is not time and there is a rate, else 0.0.
        excludes_kernel: it counts only in user space, so that no kernel hits mean nothing.
        clocks: how many clocks of its bank count the same time: each sample is worth its period
            divided by them.
        is_waiting: it is a kind of wait off the CPU, whose periods are exact times.
        weighs_periods: samples represent different amounts, so shares are of summed periods, as in
            ``perf report``.
        relative_error: standard deviation of `seconds_per_period`, as a share of it.
        sample_period: events from sample to sample; 0 for a timer or a rate.
        unit_mask: of an x86 processor's event, 0 for none.
        most_frames: frames of a call stack that the kernel recorded at most; 0 if call stacks were
            not requested, or were copied.
        unit: of periods, in another tool's words, "nanoseconds" or "bytes"; "" for events of perf.
        counts: that tool's word for its samples, "contentions"; "" if it has values alone.
    """

    name: str
    seconds_per_period: float
    seconds_per_hit: float
    frequency_hz: float
    excludes_kernel: bool = False
    clocks: int = 1
    is_waiting: bool = False
    weighs_periods: bool = False
    relative_error: float = 0.0
    sample_period: int = 0
    unit_mask: int = 0
    most_frames: int = 0
    unit: str = ""
    counts: str = ""

    @property
    def time_title(self) -> str:
        """The title of a column of its seconds: of CPU time, or of another tool's measurements."""
        return "CPU s" if self.is_cpu_time else f"{self.name} s"

    @property
    def is_sampled(self) -> bool:
        """Whether its hits are samples, so that their number gives the error of their time."""
        return self.unit not in TIME_UNITS or "sample" in self.counts.lower()

    @property
    def is_cpu_time(self) -> bool:
        """Whether its seconds are CPU time, not another tool's measurements."""
        return self.unit not in TIME_UNITS or "cpu" in self.name.lower()

    @property
    def samples_title(self) -> str:
        """The title of a column of its hits."""
        if self.unit and not self.counts and self.unit not in TIME_UNITS:
            return self.name if self.unit == "count" else f"{self.unit[:1].upper()}{self.unit[1:]}"
        return "Samples" if self.counts in ("", "samples") else self.counts.capitalize()

    @property
    def samples_word(self) -> str:
        """The word for one of its hits in a sentence."""
        title = self.samples_title
        return "sample" if title == "Samples" else title.lower().removesuffix("s")


class RunInfo(Record):
    """The header of a report.

    Attributes:
        command: COMMAND and its arguments, empty if the recording is not of a command.
        recorder: "prospect 0.1.0" or "perf 6.1".
        begin_ns, end_ns: the interval on the samples' clock; 0 if unknown.
        cpus: how many were sampled.
        limits: a sentence for each thing that this run could not see and how to get it.
        process_notes: the same for single processes; a report shows those of its own processes.
        statistics: Prospect's counters by name (docs/report.md).
        accounting: the kernel's times of the interval, in seconds, under flat names.
        unread_bytes: of records that were not understood; `damage` gives the reason.
        is_cut: the file could not hold the records of the interval's end: the disk was full, or
            `--max-size` was reached.
        cut_chains: processes, and how many of their call chains are as long as the kernel records;
            none for copies of stacks.
        dropped_share: upper bound of the share of samples, 0 to 1, that the kernel dropped because
            of other tracers' BPF programs; it does not count these.
        cpu_accounting: CPU → its seconds in /proc/stat ("idle_s", "steal_s", …).
        kernel_build_id: of the recorded kernel, in hexadecimal; "" if unknown.
        has_user_callers: whether callers in user space were to be recorded.
        store_part: command-line words for this part of a store: --store, DIR and specifications;
            empty for a recording.
        host_share: the share of the hosts of a store's part that was chosen each hour to represent
            all.
        due_ticks: ticks of the timers of a store's part on the whole machine; 0 if unknown.
        seen_ticks: of these, the ones that were recorded or came due on an idle CPU.
        middle_at: when the later half of a store's windows begins, in seconds since 1970; 0.0 if
            there are fewer than two windows.
        busy: by event, samples of busy CPUs and the sum of their periods, of the whole machine
            during a part of a store or a recording; empty for a whole recording, which has all
            hits.
        jit_pids: processes that wrote a file with names of JIT code.
        throttled: control groups that a CPU limit stopped.
        wait_events: waits, blocked and for a CPU, as events for formats of call stacks; empty if
            the profile has no waits.
        calls_before: when the system calls were read in which threads waited as recording began,
            and thread → system call.
    """

    origin: str
    command: tuple[str, ...]
    recorder: str
    recorder_command_line: tuple[str, ...]
    hostname: str
    os_release: str
    uname: str
    arch: str
    cpu_description: str
    cpu_mhz: float
    cpus: int
    started_at: float
    wall_seconds: float
    system_wide: bool
    clock: str
    events: tuple[EventInfo, ...]
    begin_ns: int = 0
    end_ns: int = 0
    limits: tuple[str, ...] = ()
    process_notes: tuple[ProcessNote, ...] = ()
    damage: tuple[str, ...] = ()
    unread_bytes: int = 0
    statistics: dict[str, int] = field(default_factory=dict)
    accounting: dict[str, Any] = field(default_factory=dict)
    cpu_accounting: dict[int, dict[str, float]] = field(default_factory=dict)
    is_cut: bool = False
    cut_chains: tuple[tuple[int, int], ...] = ()
    dropped_share: float = 0.0
    kernel_build_id: str = ""
    has_user_callers: bool = False
    store_part: tuple[str, ...] = ()
    host_share: float = 1.0
    due_ticks: int = 0
    seen_ticks: int = 0
    middle_at: float = 0.0
    busy: tuple[tuple[int, int], ...] = ()
    jit_pids: tuple[int, ...] = ()
    throttled: tuple[Throttled, ...] = ()
    wait_events: tuple[EventInfo, ...] = ()
    calls_before: tuple[int, dict[int, str]] = (0, {})


# As `capture.runtimes.runtime_reader`, `assembly.tables` and `daemon.ceiling` write them.
_COUNTED = re.compile(
    r"((?:(?:Python|Ruby|PHP| and )+ functions|Functions of runtimes|Limits of the daemon):"
    r" [A-Za-z ,]{1,200}: )(\d{1,15})(\D.*)?",
    re.DOTALL,
)
# Kept once, whatever comes after.
_ONCE = re.compile(
    r"(?:(?:CPython|Ruby|V8) \d+\.\d+|PHP) \(process "
    r"|(?:Python|Ruby|PHP| and )+ functions were read from memory "
)
_MOST_NAMED = 3
_REPLACED = " was replaced since it ran, so its functions have no names."
_SEVERAL_REPLACED = "{} were replaced since they ran, so their functions have no names: {}."
_BELOW = "--sysroot "
_OTHER_BUILD = " has another build id than the recorded file, so its functions have no names."
_SEVERAL_OTHER_BUILDS = (
    "{} have other build ids than the recorded files, so their functions have no names: {}."
)


def counted_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Return each note once; notes of a kind with a count become one with the sum.

    The rest of that note is from the one with the largest count.
    """
    found: dict[str, tuple[int, int, str]] = {}
    for note in notes:
        match = _COUNTED.fullmatch(note)
        if match is None:
            once = _ONCE.match(note)
            found.setdefault(once.group() if once else note, (0, 0, note))
            continue
        kind, count, rest = match[1], int(match[2]), match[3] or ""
        total, most, kept = found.get(kind, (0, -1, ""))
        found[kind] = total + count, max(most, count), rest if count > most else kept
    return tuple(
        f"{key}{total}{rest}" if total else rest for key, (total, _, rest) in found.items()
    )


def left_out_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Return those of `counted_notes` about omitted data."""
    return tuple(note for note in counted_notes(notes) if _COUNTED.match(note) or _ONCE.match(note))


def replaced_note(path: str, sysroot: str = "") -> str:
    """Return the note that a file is not the one that ran.

    `sysroot` is the directory given by --sysroot if the file is below it.
    """
    return f"{_BELOW}{sysroot}: {path}{_OTHER_BUILD}" if sysroot else f"{path}{_REPLACED}"


def file_notes(notes: Iterable[str], shown: Container[str] | None = None) -> list[str]:
    """Return notes with one for all replaced files, which comes last.

    `shown` are the paths of files in rows; None for all files.
    """
    notes = list(notes)
    others = [note for note in notes if not _replaced_file(note)[0]]
    return [*others, *replaced_notes(notes, shown)]


def replaced_notes(notes: Iterable[str], shown: Container[str] | None = None) -> list[str]:
    """Return one note for all replaced files of each `replaced_note`, and no other notes."""
    replaced: dict[str, dict[str, None]] = {}
    for note in notes:
        path, sysroot = _replaced_file(note)
        if path and (shown is None or path in shown):
            replaced.setdefault(sysroot, {})[path] = None
    return [_note_on(list(paths), sysroot) for sysroot, paths in replaced.items()]


def _replaced_file(note: str) -> tuple[str, str]:
    """Return the file of a `replaced_note`, and its sysroot; "" for other notes."""
    path = note.removesuffix(_REPLACED)
    if path != note:
        return path, ""
    rest = note.removesuffix(_OTHER_BUILD)
    if rest == note or not note.startswith(_BELOW):
        return "", ""
    sysroot, _, path = rest.removeprefix(_BELOW).partition(": ")
    return path, sysroot


def _note_on(paths: list[str], sysroot: str) -> str:
    if len(paths) == 1:
        return replaced_note(paths[0], sysroot)
    files = f"{len(paths)} files"
    if sysroot:
        return f"{_BELOW}{sysroot}: " + _SEVERAL_OTHER_BUILDS.format(files, some(paths))
    return _SEVERAL_REPLACED.format(files, some(paths))


def grouped(reasons: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each reason, with its files."""
    by_reason: dict[str, dict[str, None]] = {}
    for path, reason in reasons:
        by_reason.setdefault(reason, {})[path] = None
    return [
        f"{next(iter(paths))}: {reason}."
        if len(paths) == 1
        else f"{len(paths)} files: {reason}: {some(list(paths))}."
        for reason, paths in by_reason.items()
    ]


def some(names: list[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    if more <= 0:
        return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
    return f"{', '.join(names[:_MOST_NAMED])} and {more} more"
