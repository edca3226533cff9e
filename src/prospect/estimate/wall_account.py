"""The wall-clock account of a command: what its critical path ran, and what it waited for.

Times of pieces are exact. While a thread of the path ran, its samples there divide its time among
functions, separately for each program. A share of n samples has the 95 % interval of Agresti and
Coull (The American Statistician 52, 1998), which holds for few samples too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.figures.critical_path import blocked_by, samples_on
from prospect.figures.modes import event_has_time
from prospect.figures.shown_rows import shown_names
from prospect.profile.model import PATH_BLOCKED, PATH_RAN, PATH_STATES, PATH_UNKNOWN, PATH_WAITED
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.columns.array_types import I32, I64, Bools
    from prospect.profile.complete import CompleteProfile, ProfileByFunction
    from prospect.profile.model import WallPath
    from prospect.profile.run_info import Throttled

_NS = 1e-9
RUNNING, FOR_A_CPU, BLOCKED, NOT_KNOWN = PATH_STATES
NO_SAMPLE = "(no sample)"
NOBODY, UNRECORDED = "(nobody)", "(not recorded)"
QUOTA, HOST = "cgroup quota", "the host (steal)"
INTERRUPT = "(interrupt)"
_Z = 1.96


class WallRow(NamedTuple):
    """Pieces of the path that are alike.

    Attributes:
        state: one of PATH_STATES.
        what: the function that ran, or the reason why the thread was blocked; for waiting for a CPU
            QUOTA or HOST, "" if threads had it; "" for other states.
        ended_by: the end of a blocked time: "(interrupt)", a program, or "" if not recorded.
        seconds: their length together.
        half_width_s: half of its 95 % interval; 0.0 for exact times, and for QUOTA.
        share: of the wall time, 0 to 1.
        pieces: for a function, those with a sample of it.
        samples: of a function.
    """

    state: str
    program: str
    what: str
    ended_by: str
    seconds: float
    half_width_s: float
    share: float
    pieces: int
    longest_s: float
    samples: int = 0


class Taker(NamedTuple):
    """A program that had the CPU while the path waited for one; `is_own` if it is of COMMAND."""

    program: str
    is_own: bool
    seconds: float


class WallAccount(Record):
    """The account of a command's wall time.

    Attributes:
        seconds: from its start to its exit; the rows add up to it.
        rows: the longest first.
        takers: programs that had the CPU instead, in the same way; they add up to the time of
            waiting for one.
    """

    seconds: float
    rows: tuple[WallRow, ...]
    takers: tuple[Taker, ...]
    pieces: int

    def seconds_of(self, state: str) -> float:
        """Return how long the path was in a state."""
        return sum(row.seconds for row in self.rows if row.state == state)

    @property
    def of_all_programs(self) -> tuple[WallRow, ...]:
        """Rows of all programs together, the longest first; without names of programs."""
        found: dict[tuple[str, str, str], WallRow] = {}
        for row in self.rows:
            # A program without a sample has its own row, without a function.
            program = row.program if row.what == NO_SAMPLE else ""
            by = "" if row.ended_by == INTERRUPT else row.ended_by
            key = row.state, program or row.what, by
            other = found.get(key)
            found[key] = (
                row._replace(program=program, ended_by=by)
                if other is None
                else other._replace(
                    seconds=other.seconds + row.seconds,
                    half_width_s=math.hypot(other.half_width_s, row.half_width_s),
                    share=other.share + row.share,
                    pieces=other.pieces + row.pieces,
                    longest_s=max(other.longest_s, row.longest_s),
                    samples=other.samples + row.samples,
                )
            )
        return tuple(sorted(found.values(), key=lambda row: -row.seconds))


def wall_account(
    profile: CompleteProfile, by_function: ProfileByFunction, event_index: int
) -> WallAccount | None:
    """Add up the pieces of the critical path; None for a profile without one.

    `by_function` is the same profile with fewer hits; the samples of the event divide the time on
    CPUs.
    """
    path = profile.wall
    if path is None or not len(path):
        return None
    programs = Programs(profile, path)
    limits = quota_ns(profile, path), stolen_ns(profile, path)
    rows = [
        row._replace(program=programs.names[program])
        for program, row in rows_by_owner(
            profile, by_function, event_index, Owned(path, programs.of_piece, *limits)
        )
    ]
    whole = Owned(path, np.zeros(len(path), np.int64), *limits)
    total_s = float(path.length_ns.sum()) * _NS
    return WallAccount(
        seconds=total_s,
        rows=tuple(
            row._replace(share=row.seconds / total_s)
            for row in sorted(rows, key=lambda row: -row.seconds)
        ),
        takers=tuple(taker for _, taker in takers_by_owner(profile, programs, whole)),
        pieces=len(path),
    )


class Owned(NamedTuple):
    """Pieces with an owner each: those of one owner are added up.

    Attributes:
        owner: i64[p] numbers, not negative.
        quota: i64[p] ns of each in which a CPU limit stopped the thread.
        stolen: i64[p] ns of each that the host took.
    """

    path: WallPath
    owner: I64
    quota: I64
    stolen: I64


def rows_by_owner(
    profile: CompleteProfile, by_function: ProfileByFunction, event_index: int, pieces: Owned
) -> Iterator[tuple[int, WallRow]]:
    """Yield rows for pieces that are alike, with their owners, without a program and a share."""
    yield from _running(by_function, event_index, pieces)
    yield from _by_host(pieces)
    yield from _waiting(pieces)
    yield from _blocked(profile, pieces)
    yield from _unknown(pieces)


class Programs:
    """Names of programs by number."""

    def __init__(self, profile: CompleteProfile, path: WallPath) -> None:
        numbers: dict[str, int] = {}
        processes, threads = profile.processes.name, path.names
        self._processes = [numbers.setdefault(name, len(numbers)) for name in processes]
        self._threads = [numbers.setdefault(name, len(numbers)) for name in threads]
        self.names = list(numbers)
        self.of_piece = self.number(path.process_index, path.name_index)

    def number(self, process: I32, name: I32) -> I64:
        """Return the number of each process's name, or of the thread's if that is unknown."""
        of_process = np.array([*self._processes, 0], np.int64).take(process)
        of_thread = np.array([*self._threads, 0], np.int64).take(name)
        return np.where(process >= 0, of_process, of_thread)


class _Sums(NamedTuple):
    """Pieces added up by equal keys: i64[g] of each key, time, number and the longest."""

    keys: list[I64]
    ns: list[int]
    pieces: list[int]
    longest_ns: list[int]


def _summed(length_ns: I64, rows: I64, keys: Sequence[I64]) -> _Sums:
    length = length_ns.take(rows)
    found, (ns, count) = group_sums(keys, [length, np.ones(len(rows), np.int64)])
    if not len(ns):
        return _Sums(found, [], [], [])
    order = np.lexsort(tuple(reversed(keys)))
    starts = np.append(0, np.cumsum(count)[:-1])
    longest = np.maximum.reduceat(length.take(order), starts)
    return _Sums(found, ns.tolist(), count.tolist(), longest.tolist())


def _running(
    profile: ProfileByFunction, event_index: int, pieces: Owned
) -> Iterator[tuple[int, WallRow]]:
    path, owner = pieces.path, pieces.owner
    rows = np.flatnonzero(path.state == PATH_RAN)
    every = _summed(path.length_ns - pieces.stolen, rows, [owner.take(rows)])
    piece, function = samples_of_event(profile, event_index, path)
    of_sample = owner.take(piece)
    number = np.ones(len(piece), np.int64)
    (of_owner, of_function), (samples,) = group_sums([of_sample, function], [number])
    sampled = np.bincount(of_sample, minlength=int(owner.max(initial=0)) + 1)
    keys, _ = group_sums([of_sample, function, piece], [number])
    seen = _summed(path.length_ns, keys[2], keys[:2]) if len(piece) else _Sums([], [], [], [])
    total_s = dict(zip(every.keys[0].tolist(), (ns * _NS for ns in every.ns), strict=True))
    names = shown_names(profile.functions, of_function.tolist())
    for at, (one, count) in enumerate(zip(of_owner.tolist(), samples.tolist(), strict=True)):
        share, half = _share(count, int(sampled[one]))
        row = WallRow(
            RUNNING,
            "",
            names[at],
            "",
            total_s[one] * share,
            total_s[one] * half,
            0.0,
            seen.pieces[at],
            seen.longest_ns[at] * _NS,
            count,
        )
        yield one, row
    for at, one in enumerate(every.keys[0].tolist()):
        if not sampled[one]:
            yield one, _exact((RUNNING, "", NO_SAMPLE, ""), every, at)


def samples_of_event(
    profile: ProfileByFunction, event_index: int, path: WallPath
) -> tuple[I64, I64]:
    """Return the piece and the function of each sample of a thread of the path."""
    if not event_has_time(profile.run.events[event_index]):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    hits = profile.hits
    rows, piece = samples_on(path, profile.samples)
    hit = profile.samples.hit_index.take(rows)
    is_of_event = hits.event.take(hit) == event_index
    location = hits.location_index.take(hit[is_of_event])
    function = profile.locations.function_index.take(location)
    return piece[is_of_event], function.astype(np.int64)


def _share(count: int, total: int) -> tuple[float, float]:
    """Return a function's share of samples, and half of its interval."""
    trials = total + _Z * _Z
    near = (count + _Z * _Z / 2) / trials
    return count / total, _Z * float(np.sqrt(near * (1 - near) / trials))


def _exact(row: tuple[str, str, str, str], sums: _Sums, at: int) -> WallRow:
    seconds, longest_s = sums.ns[at] * _NS, sums.longest_ns[at] * _NS
    return WallRow(*row, seconds, 0.0, 0.0, sums.pieces[at], longest_s)


def _by_host(pieces: Owned) -> Iterator[tuple[int, WallRow]]:
    """Yield the time that the host took, by owner."""
    rows = np.flatnonzero(pieces.stolen)
    owner = pieces.owner.take(rows)
    seconds = np.bincount(owner, pieces.stolen.take(rows)) * _NS
    number = np.bincount(owner)
    for one in np.flatnonzero(seconds).tolist():
        long_s = float(seconds[one])
        half_s = min(_Z * float(np.sqrt(long_s * _SLICE_S)), long_s)
        yield one, WallRow(FOR_A_CPU, "", HOST, "", long_s, half_s, 0.0, int(number[one]), 0.0)


def _waiting(pieces: Owned) -> Iterator[tuple[int, WallRow]]:
    """Yield waits for a CPU, those by a CPU limit separately."""
    path, quota = pieces.path, pieces.quota
    rows = np.flatnonzero(path.state == PATH_WAITED)
    for what, length in ((QUOTA, quota), ("", path.length_ns - quota)):
        of_kind = rows[length.take(rows) > 0]
        sums = _summed(length, of_kind, [pieces.owner.take(of_kind)])
        for at, one in enumerate(sums.keys[0].tolist()):
            yield one, _exact((FOR_A_CPU, "", what, ""), sums, at)


def _unknown(pieces: Owned) -> Iterator[tuple[int, WallRow]]:
    rows = np.flatnonzero(pieces.path.state == PATH_UNKNOWN)
    sums = _summed(pieces.path.length_ns, rows, [pieces.owner.take(rows)])
    for at, one in enumerate(sums.keys[0].tolist()):
        yield one, _exact((NOT_KNOWN, "", "", ""), sums, at)


def _blocked(profile: CompleteProfile, pieces: Owned) -> Iterator[tuple[int, WallRow]]:
    path = pieces.path
    rows = np.flatnonzero(path.state == PATH_BLOCKED)
    reason, reasons = blocked_by(profile, path)
    texts: dict[str, int] = {}
    number = np.array([texts.setdefault(str(one), len(texts)) for one in reasons], np.int64)
    programs = Programs(profile, path)
    is_kernel = np.append(profile.processes.is_kernel_thread, False)
    ended_by, process = path.ended_by.take(rows), path.ender_process_index.take(rows)
    # Threads of the kernel have many names, and all act for a device.
    is_device = (ended_by == 0) | is_kernel.take(process)
    ender = programs.number(process, path.ender_index.take(rows)) + 2
    ender = np.where(ended_by < 0, 0, np.where(is_device, 1, ender))
    keys = [pieces.owner.take(rows), number.take(reason.take(rows)), ender]
    sums = _summed(path.length_ns, rows, keys)
    enders = ["", INTERRUPT, *programs.names]
    what = list(texts)
    for at, (one, why, by) in enumerate(zip(*(key.tolist() for key in sums.keys), strict=True)):
        yield one, _exact((BLOCKED, "", what[why], enders[by]), sums, at)


def takers_by_owner(
    profile: CompleteProfile, programs: Programs, pieces: Owned
) -> Iterator[tuple[int, Taker]]:
    """Yield the programs that had the CPU during waits for one, by owner, the longest first."""
    had, quota = pieces.path.takers, pieces.quota
    program = programs.number(had.process_index, had.name_index) + 2
    program = np.where(had.tid > 0, program, np.where(had.tid == 0, 0, 1))
    is_own = np.append(profile.processes.is_descendant, False).take(had.process_index)
    # Threads that ran while a limit stopped the thread did not take the CPU from it.
    left = 1.0 - quota.take(had.piece) / pieces.path.length_ns.take(had.piece)
    names = [NOBODY, UNRECORDED, *programs.names]
    key = (pieces.owner.take(had.piece) * len(names) + program) * 2 + is_own
    key, place = np.unique(key, return_inverse=True)
    ns = np.bincount(place, had.length_ns * left, len(key))
    found = []
    for one, long_ns in zip(key.tolist(), ns.tolist(), strict=True):
        owner, which = divmod(one // 2, len(names))
        found.append((owner, Taker(names[which], bool(one % 2), float(long_ns) * _NS)))
    for name, length in ((QUOTA, quota), (HOST, pieces.stolen)):
        seconds = np.bincount(pieces.owner, length) * _NS
        found += [(one, Taker(name, False, float(long_s))) for one, long_s in enumerate(seconds)]
    known = [one for one in found if one[1].seconds > 0]
    yield from sorted(known, key=lambda one: -one[1].seconds)


# Time of a critical path that a control group's CPU limit took, or the host of a virtual machine.
#
# No record shows which waits a limit caused: the kernel only counts how long it stopped a group,
# and in how many periods. A stopped thread waits until the next period begins, so these are the
# longest waits of the group's threads: as many as periods, and no longer together than the group
# was stopped. On several CPUs the kernel's time is the sum of these.
#
# While the host has a CPU, the thread on it seems to run. The kernel counts that time by CPU. It is
# divided among the pieces that ran there in proportion to their length. The host takes a CPU for up
# to some 10 ms at a time, a tick of /proc/stat: of time T within a path the error is that of T /
# 10 ms events at random.
#
# Source: tg_throttle_down(), cpu_cfs_stat_show() in ``kernel/sched/fair.c`` and ``core.c``, and
# account_steal_time() in ``kernel/sched/cputime.c`` (Linux 6.18).

_SLICE_S = 0.01
_MOST_PIDS = 64  # of a group in a recording


def quota_ns(profile: CompleteProfile, path: WallPath) -> I64:
    """Return i64[p]: the part of each piece in which a CPU limit stopped the thread."""
    found = np.zeros(len(path), np.int64)
    waits = np.flatnonzero(path.state == PATH_WAITED)
    for group in profile.run.throttled:
        is_member = np.append(_are_in(profile, group), False)
        rows = waits[is_member.take(path.process_index.take(waits))]
        left = path.length_ns.take(rows) - found.take(rows)
        longest = np.argsort(-left, kind="stable")[: group.throttled]
        rows, left = rows.take(longest), left.take(longest)
        before = np.cumsum(left) - left
        found[rows] += np.clip(round(group.seconds / _NS) - before, 0, left)
    return found


def _are_in(profile: CompleteProfile, group: Throttled) -> Bools:
    """Return bool[q]: the processes in a group; for a large one, the command's are."""
    processes = profile.processes
    if len(group.pids) >= _MOST_PIDS:
        return processes.is_command | processes.is_descendant
    return np.isin(processes.pid, np.array(group.pids, np.int64))


def stolen_ns(profile: CompleteProfile, path: WallPath) -> I64:
    """Return i64[p]: the mean time that the host took of each piece that ran."""
    found = np.zeros(len(path), np.int64)
    if path.cpu is None:
        return found
    for cpu, seconds in profile.run.cpu_accounting.items():
        stolen = seconds.get("steal_s", 0.0)
        busy = sum(seconds.values()) - seconds.get("idle_s", 0.0) - seconds.get("iowait_s", 0.0)
        if 0 < stolen <= busy:
            rows = np.flatnonzero((path.cpu == cpu) & (path.state == PATH_RAN))
            found[rows] = np.rint(path.length_ns.take(rows) * (stolen / busy))
    return found
