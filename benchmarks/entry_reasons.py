"""Processor seconds to tell entry reasons from kernel chains: python benchmarks/entry_reasons.py.

Chains are made up as real ones are: about ten frames, some three thousand distinct calls among
them, most of them inside a system call, some interrupted. What naming the distinct addresses
costs is not in here: it is done once, whatever the number of samples.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prospect.records import replace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from builders.kernel_chains import CONTEXT_KERNEL, SIZE, TEXT, MadeUpKernel, chained
from prospect.assembly.entry_reasons.hit_reasons import label_samples

if TYPE_CHECKING:
    from prospect.events.record_columns import Samples

_REPEATS = 5
_FUNCTIONS = 3_000
_CALLS = [f"__x64_sys_call{number}" for number in range(100)]
_OUTER = ("do_syscall_64", "entry_SYSCALL_64_after_hwframe")
_INTERRUPT = ("handle_softirqs", "irq_exit_rcu", "asm_sysvec_apic_timer_interrupt")
_INNER_FRAMES = 6


def make_samples(kernel: MadeUpKernel, number: int) -> Samples:
    """Make samples of chains of 8 to 12 words; of one in ten the inside is a softirq."""
    random = np.random.default_rng(1)
    inner = (random.zipf(1.2, (number, _INNER_FRAMES)) % _FUNCTIONS).astype(np.uint64)
    call = (random.zipf(1.5, number) % len(_CALLS)).astype(np.uint64)
    rows = np.empty((number, 13), np.uint64)
    rows[:, 0] = CONTEXT_KERNEL
    rows[:, 1 : 1 + _INNER_FRAMES] = np.uint64(TEXT + 0x40) + np.uint64(SIZE) * inner
    for place, name in enumerate(_INTERRUPT, start=7):
        rows[:, place] = kernel.start(name) + 0x40
    rows[:, 10] = np.uint64(kernel.start(_CALLS[0]) + 0x40) + np.uint64(SIZE) * call
    for place, name in enumerate(_OUTER, start=11):
        rows[:, place] = kernel.start(name) + 0x40
    is_kept = np.ones(rows.shape, np.bool_)
    is_kept[random.random(number) > 0.1, 7:10] = False
    is_kept[random.random(number) > 0.5, 2:4] = False
    one = chained([[CONTEXT_KERNEL, TEXT]])
    return replace(
        one,
        ip=rows[:, 1].copy(),
        mode=np.ones(number, np.uint8),
        task=np.full(number, 7, np.uint64),
        chain=rows[is_kept],
        chain_start=np.append(0, np.cumsum(is_kept.sum(axis=1))),
    )


def main() -> None:
    functions = [f"function_{number}" for number in range(_FUNCTIONS)]
    kernel = MadeUpKernel([*functions, *_CALLS, *_INTERRUPT, *_OUTER])
    for number in (100_000, 1_000_000, 2_300_000):
        samples = make_samples(kernel, number)
        seconds = []
        for _ in range(_REPEATS):
            begin = time.process_time()
            told = label_samples(samples, kernel.resolve)
            seconds.append(time.process_time() - begin)
        words = len(samples.chain) if samples.chain is not None else 0
        print(
            f"{statistics.median(seconds):8.3f} s  {number:,} samples, {words:,} words, "
            f"{len(told.entry_reasons)} entry reasons"
        )


if __name__ == "__main__":
    main()
