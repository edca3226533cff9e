"""Replay the schedule of a command with some of its time on CPUs shorter: how soon would it end?

Each time on a CPU depends on the thread's own time before, on the wake-up by another thread, or on
its birth. If some of these are shorter, each later one moves forward as far as its dependencies let
it. Waiting for a CPU, a timer or a device takes as long as it did. The recording has no waits that
the change would add, so the answer is the earliest end.

Source: Curtsinger and Berger, "Coz" (SOSP 2015), answers the same question by slowing all other
threads down while the program runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import replace
from prospect.wall.path import schedule
from prospect.wall.schedule_records import stretches

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, U64
    from prospect.wall.path import Schedule
    from prospect.wall.schedule_records import Command, SchedulerRecords, Stretches


def ended_schedule(
    records: SchedulerRecords, command: Command, exits: tuple[I32, U64]
) -> Schedule | None:
    """Return the schedule of a command; None if the thread that ended last never had a CPU.

    Args:
        exits: i32[x] threads that ended, and u64[x] when: some leave their last CPU without a
            record.
    """
    return schedule(records, command, _ended(stretches(records), *exits))


def _ended(found: Stretches, tid: I32, time_ns: U64) -> Stretches:
    """Return the stretches, each cut where its thread ended; later ones have no length.

    A thread may lose its CPU and get it back between the record of its exit and its last switch.
    """
    threads = found.threads
    row = threads.row(tid)
    key = np.sort(threads.key(row, time_ns)[row >= 0])
    if not len(key) or not len(found):
        return found
    first = np.flatnonzero(found.is_first)
    life = np.cumsum(found.is_first) - 1
    born = threads.key(found.thread.take(first), found.since_ns.take(first)).take(life)
    # The first end of the thread after its birth, in its own life or in a later one.
    at = np.searchsorted(key, born)
    end = key.take(np.minimum(at, len(key) - 1))
    is_there = (at < len(key)) & (end >> threads.bits == found.thread)
    out = threads.key(found.thread, found.out_ns)
    length = (found.out_ns - found.in_ns).view(np.int64)
    ran = np.maximum(end - found.keys, 0) << threads.shift
    left = np.where(is_there & (end < out), ran, length)
    return replace(found, out_ns=found.in_ns + np.minimum(left, length).view(np.uint64))


class Replay:
    """Replays one schedule, any number of times."""

    def __init__(self, of: Schedule) -> None:
        self._of = of
        found, every = of.stretches, of.steps
        self._in_ns, out_ns = found.in_ns.view(np.int64), found.out_ns.view(np.int64)
        ready_ns, enter_ns = every.ready_ns.view(np.int64), every.enter_ns.view(np.int64)
        self._length = np.maximum(out_ns - self._in_ns, 1)
        at = np.maximum(every.previous, 0)
        part = np.clip((enter_ns - self._in_ns.take(at)) / self._length.take(at), 0.0, 1.0)
        own = np.where(found.is_first, -1, np.arange(len(found)) - 1)
        slack = (ready_ns - out_ns.take(np.maximum(own, 0))).astype(np.float64)
        self._order = np.argsort(self._in_ns, kind="stable").tolist()
        # The stretch with which the path goes on, and the thread's own before; -1 for none.
        self._cause, self._own = every.previous.tolist(), own.tolist()
        # The place in the cause at which the path enters it, as a part of its length; and the time
        # from the end of the thread's own stretch until it was ready again.
        self._part, self._slack = part.tolist(), slack.tolist()

    def gain_ns(self, saved_ns: F64) -> float:
        """Return how much sooner the command would have ended, if stretches were shorter."""
        begin, end = self._gains(saved_ns.tolist())
        # Savings in its last stretch after the command's exit do not count.
        last = self._of.last
        since_ns = self._of.exit_ns - int(self._in_ns[last])
        part = min(max(since_ns / int(self._length[last]), 0.0), 1.0)
        return begin[last] + (end[last] - begin[last]) * part

    def _gains(self, saved_ns: list[float]) -> tuple[list[float], list[float]]:
        """Return how much sooner each stretch would have begun and ended.

        The dependencies of a stretch began before it, so one chronological pass is enough.
        """
        causes, owns, parts, slacks = self._cause, self._own, self._part, self._slack
        begin, end = [0.0] * len(causes), [0.0] * len(causes)
        for row in self._order:
            by, before = causes[row], owns[row]
            if by < 0:
                gain = 0.0
            elif by == before:
                gain = end[before]
            else:
                gain = begin[by] + (end[by] - begin[by]) * parts[row]
                if before >= 0:
                    # The wake-up is sooner, but the wait begins only after the thread's own time.
                    gain = min(gain, end[before] + slacks[row])
            begin[row] = gain
            end[row] = gain + saved_ns[row]
        return begin, end


def saved_by(of: Schedule, samples: tuple[I32, U64], weight: F64) -> F64:
    """Return how much shorter each stretch would be, f64[s], from samples of the threads.

    The time of a thread on CPUs is divided among its samples: each moment belongs to the nearest.
    So all of it counts even if most stretches have no sample.

    Args:
        samples: i32[n] thread and u64[n] time of each sample.
        weight: f64[n] the part of the time of each that would be saved.
    """
    found = of.stretches
    # An unknown stretch does not show how long the thread had a CPU.
    length = np.where(found.is_known, found.out_ns - found.in_ns, 0).astype(np.float64)
    axis = np.append(0.0, np.cumsum(length))
    tid, time_ns = samples
    row = found.threads.row(tid)
    at = np.searchsorted(found.keys, found.threads.key(row, time_ns), "right") - 1
    is_on = (row >= 0) & (at >= 0)
    at = np.maximum(at, 0)
    is_on &= (found.thread.take(at) == row) & (time_ns <= found.out_ns.take(at))
    is_on &= found.is_known.take(at)
    chosen = np.flatnonzero(is_on)
    if not len(chosen):
        return np.zeros(len(found))
    at = at.take(chosen)
    place = axis.take(at) + (time_ns.take(chosen) - found.in_ns.take(at)).astype(np.float64)
    order = np.argsort(place, kind="stable")
    place, at, weight = place.take(order), at.take(order), weight.take(chosen).take(order)
    thread = found.thread.take(at)
    # Each sample's part begins halfway to the one before, or where its thread does.
    changes = np.append(True, thread[1:] != thread[:-1])
    first_row = np.searchsorted(found.thread, thread)
    end_row = np.searchsorted(found.thread, thread, "right")
    begin = np.where(changes, axis.take(first_row), np.append(0.0, (place[1:] + place[:-1]) / 2))
    end = np.where(np.append(changes[1:], True), axis.take(end_row), np.append(begin[1:], 0.0))
    x = np.stack((begin, end), axis=1).reshape(-1)
    y = np.stack((np.zeros(len(begin)), (end - begin) * weight), axis=1).reshape(-1).cumsum()
    return np.diff(np.interp(axis, x, y))
