"""Timelines of threads in a few words → the scheduler's records of them."""

import numpy as np

from prospect.wall.schedule_records import Births, Processes, SchedulerRecords, Switches, Wakings


class Timeline:
    """Records of a scheduler, in any order; times are small numbers."""

    def __init__(self, begin_ns=0, end_ns=1000):
        self.begin_ns, self.end_ns = begin_ns, end_ns
        self._switches, self._wakings, self._births, self.lost = [], [], [], []
        self._processes = []

    def ran(self, tid, start, end, cpu=0, *, preempted=False):
        """Let a thread have a CPU; None for a record that was lost."""
        if start is not None:
            self._switches.append((start, tid, cpu, False, False))
        if end is not None:
            self._switches.append((end, tid, cpu, True, preempted))
        return self

    def woke(self, time, tid, waker=0):
        """Let a thread be woken, by another or by an interrupt."""
        self._wakings.append((time, tid, waker))
        return self

    def born(self, time, tid, parent):
        """Let a thread begin."""
        self._births.append((time, tid, parent))
        return self

    def within(self, pid, *tids):
        """Let threads belong to a process."""
        self._processes += [(tid, tid, pid) for tid in tids]
        return self

    def records(self):
        """Return the tables."""
        # What leaves a CPU is before what comes at the same time.
        switches = sorted(self._switches, key=lambda one: (one[0], not one[3]))
        time, tid, cpu, is_out, is_preempted = zip(*switches, strict=True)
        return SchedulerRecords(
            switches=Switches(
                np.array(time, np.uint64),
                np.array(tid, np.int32),
                np.array(cpu, np.int32),
                np.array(is_out, np.bool_),
                np.array(is_preempted, np.bool_),
            ),
            wakings=Wakings(*_columns(self._wakings)),
            births=Births(*_columns(self._births)),
            processes=Processes(*_columns(self._processes)[1:]),
            begin_ns=self.begin_ns,
            end_ns=self.end_ns,
            lost_ns=np.array(self.lost, np.uint64),
        )


def _columns(rows):
    time, first, second = zip(*sorted(rows), strict=True) if rows else ((), (), ())
    return np.array(time, np.uint64), np.array(first, np.int32), np.array(second, np.int32)
