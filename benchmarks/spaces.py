"""Processor seconds of `spaces` on made-up recordings: python benchmarks/spaces.py.

Samples come in runs of 12 of one task, user and kernel mixed, at addresses that repeat as those
of programs do; processes are forked, named, mapped and ended at even intervals.
"""

from __future__ import annotations

import functools
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.events.record_columns import (
    TASK_EXEC,
    TASK_EXIT,
    TASK_FORK,
    Events,
    KernelSymbols,
    Losses,
    Mmaps,
    Samples,
    Tasks,
)
from prospect.spaces.attribution import attribute
from prospect.spaces.process_history import build_spaces

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_REPEATS = 5
_MAPPINGS = 7
_RUN_SAMPLES = 12
_STEP_NS = 1_000
_LIBRARY_BYTES = 1 << 21


def make_events(processes: int, samples: int, periods: int) -> Events:
    """Make a recording: each process is forked, execs, maps 7 objects and exits at the end."""
    empty = np.empty(0)
    return Events(
        samples=_make_samples(processes, samples, periods),
        mmaps=_make_mmaps(processes),
        tasks=_make_tasks(processes),
        losses=Losses(*[empty] * 5),
        kernel_symbols=KernelSymbols(*[empty] * 7),
        names=[b"program", *(b"/lib/%d.so" % number for number in range(_MAPPINGS))],
        build_ids=[],
    )


def _make_tasks(processes: int) -> Tasks:
    pid = np.repeat(np.arange(1000, 1000 + processes, dtype=np.int32), 3)
    kind = np.tile(np.array([TASK_FORK, TASK_EXEC, TASK_EXIT], np.uint8), processes)
    first = np.repeat(np.arange(processes) * (_MAPPINGS + 3), 3)
    order = first + np.tile([0, 1, _MAPPINGS + 2], processes)
    parent = np.where(kind == TASK_EXEC, -1, 999).astype(np.int32)
    name = np.where(kind == TASK_EXEC, 0, -1).astype(np.int32)
    time_ns = ((order + 1) * _STEP_NS).astype(np.uint64)
    return Tasks(order, time_ns, kind, pid, pid, parent, parent, name)


def _make_mmaps(processes: int) -> Mmaps:
    rows = processes * _MAPPINGS
    pid = np.repeat(np.arange(1000, 1000 + processes, dtype=np.int32), _MAPPINGS)
    number = np.tile(np.arange(_MAPPINGS), processes)
    order = np.repeat(np.arange(processes) * (_MAPPINGS + 3), _MAPPINGS) + 2 + number
    # Address space layout randomisation: a base of its own for each process.
    base = np.uint64(0x7F0000000000) + (pid.astype(np.uint64) * np.uint64(7919) << np.uint64(12))
    zero32, zero64 = np.zeros(rows, np.uint32), np.zeros(rows, np.uint64)
    return Mmaps(
        order=order,
        time_ns=((order + 1) * _STEP_NS).astype(np.uint64),
        pid=pid,
        tid=pid,
        start=base + number.astype(np.uint64) * np.uint64(_LIBRARY_BYTES),
        length=np.full(rows, _LIBRARY_BYTES - 4096, np.uint64),
        pgoff=zero64,
        name=(number + 1).astype(np.int32),
        build_id=np.full(rows, -1, np.int32),
        major=zero32,
        minor=zero32,
        inode=number.astype(np.uint64),
        prot=zero32 + np.uint32(5),
        mode=np.full(rows, abi.PERF_RECORD_MISC_USER, np.uint8),
    )


def _make_samples(processes: int, samples: int, periods: int) -> Samples:
    random = np.random.default_rng(1)
    runs = samples // _RUN_SAMPLES + 1
    pid = np.sort(random.integers(1000, 1000 + processes, runs).astype(np.uint64))
    # Several processes at a time: shuffle within a window.
    pid = pid[np.argsort(np.arange(runs) + random.integers(0, 200, runs))]
    pid = np.repeat(pid, _RUN_SAMPLES)[:samples]
    end_ns = (processes * (_MAPPINGS + 3) + 1) * _STEP_NS
    base = np.uint64(0x7F0000000000) + (pid * np.uint64(7919) << np.uint64(12))
    hot = (random.zipf(1.3, samples) % (_MAPPINGS * _LIBRARY_BYTES // 16)).astype(np.uint64)
    is_kernel = random.random(samples) < 0.3
    kernel_ip = np.uint64(0xFFFFFFFF81000000) + hot
    return Samples(
        ip=np.where(is_kernel, kernel_ip, base + hot * np.uint64(16)),
        task=pid | pid << np.uint64(32),
        time_ns=np.linspace(_STEP_NS, end_ns, samples).astype(np.uint64),
        mode=np.where(is_kernel, 1, 2).astype(np.uint8),
        cpu=np.broadcast_to(np.uint16(0), samples),
        period=np.broadcast_to(np.uint64(250_000), samples)
        if periods == 1
        else random.integers(250_000, 250_000 + periods, samples).astype(np.uint64),
        event=np.broadcast_to(np.uint8(0), samples),
        clock=np.broadcast_to(np.uint8(0), samples),
    )


def make_labels(samples: Samples) -> NDArray[np.uint16]:
    """Make a label for each kernel sample: a few of 200 for most of them."""
    label = np.random.default_rng(2).zipf(1.5, len(samples)) % 200
    return np.where(samples.mode == abi.PERF_RECORD_MISC_KERNEL, label, 0).astype(np.uint16)


def measure(what: str, work: Callable[[], object]) -> None:
    """Print the median processor seconds of some runs of `work`."""
    seconds = []
    for _ in range(_REPEATS):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    print(f"{statistics.median(seconds):8.3f} s  {what}")


def measure_attribution(processes: int, samples: int, periods: int) -> None:
    """Print what it costs to attribute samples and to locate the distinct hits."""
    events = make_events(processes, samples, periods)
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    print(f"{samples:,} samples, {processes:,} processes, {periods:,} periods, {len(hits):,} hits:")
    measure("attribute", lambda: attribute(events.samples, history.timeline))
    label = make_labels(events.samples)
    measure("attribute, 200 labels", lambda: attribute(events.samples, history.timeline, label))
    measure("locate", lambda: history.address_spaces.locate(hits.space, hits.epoch, hits.address))


def main() -> None:
    for processes in (1_000, 10_000, 100_000):
        events = make_events(processes, 1_000, 1)
        print(f"{processes:,} processes of 10 side records:")
        measure("build_spaces", functools.partial(build_spaces, events))
    measure_attribution(1_000, 2_000_000, 1)
    measure_attribution(1_000, 2_000_000, 4)
    measure_attribution(100_000, 2_000_000, 1)
    measure_attribution(1_000, 16_000_000, 1)


if __name__ == "__main__":
    main()
