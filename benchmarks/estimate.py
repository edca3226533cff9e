"""What error bars cost: processor time of one report's estimates, by part, on synthetic samples.

    python benchmarks/estimate.py [--samples N] [--cpus N] [--hits N] [--rows N] [--pairs N]

The samples are those of a bank of four clocks on each CPU, hitting `--hits` rows of the profile's
hits at random, in stays of some ticks. `design` is done once a report, `error bars` once for each
of its tables. Nothing is asserted: figures are the median and range of `--pairs` runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from builders.sampling import Schedule, sampled_profile
from prospect.capture.events.clock_bank import clock_periods_ns
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars

if TYPE_CHECKING:
    from collections.abc import Callable

MEAN_STAY_S = 0.003


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=2_300_000)
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--hits", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    random = np.random.default_rng(1)
    seconds = 60.0
    rate_hz = int(arguments.samples / seconds / arguments.cpus)
    # A few functions take most of the time, as in real programs.
    weight = 1.0 / np.arange(1, arguments.hits + 1)
    stays = int(seconds / MEAN_STAY_S * 1.1)
    shape = (arguments.cpus, stays)
    row = random.choice(arguments.hits, size=shape, p=weight / weight.sum())
    start_s = np.cumsum(random.exponential(MEAN_STAY_S, shape), axis=1)
    schedule = Schedule(start_s, row, seconds, arguments.hits)
    made = sampled_profile(random, schedule, clock_periods_ns(rate_hz, 4))
    row_of_hit = random.integers(0, arguments.rows, len(made.hits), dtype=np.int32)
    design = sampling_design(made, 0)
    next_row = np.append(np.arange(1, arguments.rows), -1)
    print(f"{len(made.samples)} samples, {len(made.hits)} hits, {arguments.rows} rows")
    measure("design", arguments.pairs, lambda: sampling_design(made, 0))
    measure(
        "error bars",
        arguments.pairs,
        lambda: error_bars(design, row_of_hit, arguments.rows, next_row),
    )


def measure(name: str, runs: int, work: Callable[[], object]) -> None:
    costs = []
    for _ in range(runs):
        begin = time.process_time()
        work()
        costs.append(time.process_time() - begin)
    print(f"{name:12} {statistics.median(costs):.3f} s CPU ({min(costs):.3f} to {max(costs):.3f})")


if __name__ == "__main__":
    main()
