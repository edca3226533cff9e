"""A profile and what call chains say of its hits → the profile with the causes of kernel time.

Comes in: a `Profile` whose causes are not set, and a label for each hit (`sample_causes`). Goes
out: the profile with its `CauseTable`. What a chain does not say, the process or the function that
was hit may.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.causes.entry_points import (
    IDLE,
    KERNEL_THREAD,
    NEW_TASK,
    NO_CAUSE,
    UNCLASSIFIED,
    UNRECORDED,
    Cause,
    cause_of_place,
    entry_point,
)
from prospect.assembly.causes.sample_causes import NO_CHAIN, SILENT
from prospect.columns.grouping import distinct_keys
from prospect.profile.late import taken
from prospect.profile.model import (
    CAUSE_EXCEPTION,
    CAUSE_IDLE,
    CAUSE_KERNEL_THREAD,
    CAUSE_SYSCALL,
    KIND_KERNEL,
    MODE_KERNEL,
    CauseTable,
)
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.profile.model import Profile

# Without a chain, interrupts would be seen only at their very entry: better none than those few.
_SURE_KINDS = (CAUSE_SYSCALL, CAUSE_EXCEPTION, CAUSE_IDLE)
_PER_CPU = re.compile(r"/\d+$")
_WORKER = "kworker/"


def with_causes(profile: Profile, label: NDArray[np.uint16], of_chains: Sequence[Cause]) -> Profile:
    """Return a profile with the cause of each of its hits.

    Args:
        profile: its `causes` and `hits.cause_index` are replaced.
        label: u16[h] row of `of_chains`.
        of_chains: what the chains say; NO_CHAIN and SILENT are its first rows.
    """
    hits = profile.hits
    rows = np.flatnonzero(hits.mode == MODE_KERNEL)
    label = label.take(rows)
    pid, is_kthread = _facts_of_processes(profile, rows)
    is_silent = label == SILENT
    is_thread = is_kthread & (is_silent | _marked(of_chains, NEW_TASK).take(label))
    is_thread |= _marked(of_chains, KERNEL_THREAD).take(label)
    causes = [*of_chains, IDLE]
    cause = np.where(is_silent & (pid == 0), len(of_chains), label.astype(np.int64))
    cause[is_thread] = len(causes) + hits.comm_index.take(rows[is_thread])
    causes += [Cause(CAUSE_KERNEL_THREAD, _thread_name(name)) for name in profile.comms]
    unnamed = np.flatnonzero((label == NO_CHAIN) | (is_silent & (pid != 0) & ~is_thread))
    places = _function_rows(profile, rows.take(unnamed)) << 1 | is_silent[unnamed]
    met, rank = distinct_keys(places + 2, 2 * len(profile.functions.raw_name) + 2)
    cause[unnamed] = len(causes) + rank
    met -= 2
    causes += _causes_of_places(profile, met.tolist())
    table, row_of = _table(causes, cause, of_others=len(rows) < len(hits))
    cause_index = np.full(len(hits), row_of[NO_CHAIN])
    cause_index[rows] = row_of.take(cause)
    return replace(profile, causes=table, hits=replace(hits, cause_index=cause_index))


def _facts_of_processes(
    profile: Profile, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return of each of these hits the pid, i32, and whether its process is a kernel thread."""
    # A row of -1, no process, takes the last entry.
    pid = np.append(profile.processes.pid, np.int32(-1))
    is_kthread = np.append(profile.processes.is_kernel_thread, False)
    process = profile.hits.process_index.take(rows)
    return pid.take(process), is_kthread.take(process)


def _marked(causes: Sequence[Cause], wanted: Cause) -> NDArray[np.bool_]:
    return np.array([cause == wanted for cause in causes], np.bool_)


def _thread_name(comm: str) -> str:
    """Return what threads of one kind have in common: their name without the CPU's number."""
    if comm.startswith(_WORKER):
        return _WORKER[:-1]
    return _PER_CPU.sub("", comm)


def _function_rows(profile: Profile, hits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the functions of hits, -1 where there is none."""
    function = np.append(profile.locations.function_index, np.int32(-1))
    return function.take(profile.hits.location_index[hits]).astype(np.int64)


def _causes_of_places(profile: Profile, places: list[int]) -> list[Cause]:
    """Return why the kernel was entered where only the function that was hit can say.

    Args:
        profile: whose functions are meant.
        places: rows of functions, -1 for none, times two, and one more for those with a chain.
    """
    functions, objects = profile.functions, profile.objects
    hit = {one >> 1 for one in places if one >= 0}
    own = [row for row in hit if objects.kind[functions.object_index[row]] == KIND_KERNEL]
    named = zip(own, taken(functions.aliases, own), strict=True)
    names = {row: (functions.raw_name[row], *aliases) for row, aliases in named}
    return [_cause_of_names(names.get(one >> 1, ()), has_chain=bool(one & 1)) for one in places]


def _cause_of_names(names: Sequence[str], *, has_chain: bool) -> Cause:
    for name in names:
        if has_chain:
            cause = cause_of_place(name)
        else:
            point = entry_point(name)
            cause = point.cause if point and point.cause.kind in _SURE_KINDS else None
        if cause is not None:
            return cause
    return UNCLASSIFIED if has_chain else UNRECORDED


def _table(
    causes: Sequence[Cause], cause: NDArray[np.int64], *, of_others: bool
) -> tuple[CauseTable, NDArray[np.int32]]:
    """Keep the causes that occur, each once, behind CAUSE_NONE; return the row of each of `causes`.

    `of_others` says whether there are hits outside the kernel, which are NO_CHAIN.
    """
    is_met = np.zeros(len(causes), np.bool_)
    is_met[cause] = True
    is_met[NO_CHAIN] |= of_others
    met = np.flatnonzero(is_met).tolist()
    kept = sorted({NO_CAUSE, *(causes[row] for row in met)})
    rows = {one: row for row, one in enumerate(kept)}
    row_of = np.zeros(len(causes), np.int32)
    row_of[met] = [rows[causes[row]] for row in met]
    kinds = np.array([one.kind for one in kept], np.uint8)
    return CauseTable(kinds, [one.name for one in kept]), row_of
