"""Samples of ``perf record --off-cpu``: how long a thread waited, and where it stopped.

A BPF program writes such a sample while another task runs, so the kernel puts that task and its
address into the sample. The raw data has the true ones: u32 pid and tid, u64 ns off the CPU, number
of words of the call chain, these words, and the id of the control group. When perf ends, it adds
the waits below its threshold, with times from PERF_OFF_CPU_TIMESTAMP on. In waits above it, perf
7.2 and older write the ids of thread and process in the wrong order.

Source: ``__set_offcpu_sample()`` in ``tools/perf/util/evsel.c`` and ``off_cpu_write()`` in
``tools/perf/util/bpf_off_cpu.c``, Linux 7.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.buffers import segments
from prospect.records import replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, U64
    from prospect.events.record_columns import RawData, Samples, Tasks


_NO_TIME = np.uint64(abi.PERF_OFF_CPU_TIMESTAMP)
_HALF = np.uint64(32)
_TASK, _PERIOD, _COUNT, _CHAIN = range(4)


def with_waiting_tasks(samples: Samples, event: int, tasks: Tasks) -> Samples:
    """Return samples with the tasks that waited, and without the raw data of waits.

    Args:
        event: the row of perf's event of ``--off-cpu``.
        tasks: of the recording. Samples without a time get the time of the last of these, or of the
            last sample.
    """
    is_wait = samples.event == event
    if not is_wait.any():
        return samples
    is_timeless = is_wait & (samples.time_ns >= _NO_TIME)
    if is_timeless.any():
        last_ns = max(tasks.time_ns.max(initial=0), samples.time_ns[~is_timeless].max(initial=0))
        samples = replace(samples, time_ns=np.where(is_timeless, last_ns, samples.time_ns))
    data = samples.data
    if data is None:
        return samples
    is_mine = is_wait.take(data.sample)
    of_tasks = tasks.pid.astype(np.uint32) | tasks.tid.astype(np.uint32).astype(np.uint64) << _HALF
    known = np.unique(np.concatenate((samples.task[~is_wait], of_tasks)))
    samples = replace(samples, data=data.chosen(np.flatnonzero(~is_mine)))
    return _with_raw_data(samples, data, np.flatnonzero(is_mine), known)


def _with_raw_data(samples: Samples, data: RawData, rows: I64, known: U64) -> Samples:
    """Return samples with the values in some rows of raw data, unless these are damaged.

    `known` are tasks of other records.
    """
    words = data.shifted_words()
    begin = data.start.take(rows)
    size = data.sizes(rows) // 8
    rows, begin, size = (column[size > _CHAIN] for column in (rows, begin, size))
    count = words.take(begin + _COUNT)
    # The id of the control group is after the chain.
    is_whole = count < (size - _CHAIN).astype(np.uint64)
    row, begin = data.sample.take(rows[is_whole]), begin[is_whole]
    length = count[is_whole].astype(np.int64)

    def changed(column: NDArray[Any], values: U64 | int) -> NDArray[Any]:
        column = np.array(column)
        column[row] = values
        return column

    # The chain begins with a mark of user space.
    has_address = length > 1
    address = np.where(has_address, words.take(begin + _CHAIN + has_address), np.uint64(0))
    groups = samples.control_group
    if groups is not None:
        groups = changed(groups, words.take(begin + _CHAIN + length))
    samples = replace(
        samples,
        task=changed(samples.task, _in_order(words.take(begin + _TASK), known)),
        period=changed(samples.period, words.take(begin + _PERIOD)),
        ip=changed(samples.ip, address),
        mode=changed(samples.mode, abi.PERF_RECORD_MISC_USER),
        control_group=groups,
    )
    if samples.chain is None or samples.chain_start is None:
        return samples
    start, lengths = samples.chain_start[:-1].copy(), np.diff(samples.chain_start)
    start[row], lengths[row] = len(samples.chain) + begin + _CHAIN, length
    chain = np.concatenate((samples.chain, words)).take(segments(start, lengths))
    return replace(samples, chain=chain, chain_start=np.append(0, np.cumsum(lengths)))


def _in_order(task: U64, known: U64) -> U64:
    """Return tasks with exchanged ids of process and thread if only the exchanged one is known."""
    exchanged = task << _HALF | task >> _HALF
    is_other = ~np.isin(task, known) & np.isin(exchanged, known)
    return np.where(is_other, exchanged, task)
