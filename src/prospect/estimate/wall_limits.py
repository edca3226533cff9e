"""Time of a critical path that a control group's CPU limit took, or the host of a virtual machine.

No record says which waits a limit caused: the kernel only counts how long it stopped a group, and
in how many periods. A stopped thread waits until the next period begins, so these are the longest
waits of the group's threads: as many as periods, and no longer together than the group was stopped.
On several CPUs the kernel's time is the sum of these.

While the host has a CPU, the thread on it seems to run. The kernel counts that time by CPU, and it
falls on the pieces that ran there in proportion to their length. The host takes a CPU for up to
some 10 ms at a time, a tick of /proc/stat: of time T within a path the error is that of T / 10 ms
events at random.

Source: tg_throttle_down(), cpu_cfs_stat_show() in ``kernel/sched/fair.c`` and ``core.c``, and
account_steal_time() in ``kernel/sched/cputime.c`` (Linux 6.18).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import PATH_RAN, PATH_WAITED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import WallPath
    from prospect.profile.run_info import Throttled

_NS = 1e-9
_SLICE_S = 0.01
_Z = 1.96
_MOST_PIDS = 64  # that a recording has of a group


def quota_ns(profile: CompleteProfile, path: WallPath) -> NDArray[np.int64]:
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


def _are_in(profile: CompleteProfile, group: Throttled) -> NDArray[np.bool_]:
    """Return bool[q] which processes are in a group; of a large one, the command's are."""
    processes = profile.processes
    if len(group.pids) >= _MOST_PIDS:
        return processes.is_command | processes.is_descendant
    return np.isin(processes.pid, np.array(group.pids, np.int64))


def stolen_ns(profile: CompleteProfile, path: WallPath) -> NDArray[np.int64]:
    """Return i64[p]: how much of the time of each piece that ran the host took, on average."""
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


def stolen_half_width_s(seconds: float) -> float:
    """Return half of the 95 % interval of the time that the host took of a path."""
    return min(_Z * float(np.sqrt(seconds * _SLICE_S)), seconds)
