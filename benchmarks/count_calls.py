"""What a counted call costs, by the function's first instruction.

    python benchmarks/count_calls.py

Prints for each kind what a call of a probed function takes longer in a tight loop, as
`prospect --count-calls` measures it before each run, and how long it takes to place and to remove
probes at many functions of the C library. Needs root, Linux 6.6 and x86-64.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing

from prospect.capture.counting.call_probes import KINDS, CallProbes
from prospect.recording.counted_functions import CallPattern, counted_functions

_RUNS = 5
_PATTERNS = ("*alloc", "mem*", "[a-c]*")


def main() -> None:
    """Measure and print."""
    print(f"{'first instruction':20}{'ns a call':>12}{'±':>8}   best of {_RUNS}")
    with closing(CallProbes(())) as probes:
        probes.open()
        for kind in KINDS:
            best = min(probes.measure_cost(kind) for _ in range(_RUNS))
            print(f"{kind:20}{best.cost_ns:12.0f}{best.spread_ns:8.0f}")
    print(f"\n{'functions of libc':20}{'place, ms':>12}{'remove, ms':>12}")
    for name in _PATTERNS:
        with ExitStack() as stack:
            found = stack.enter_context(counted_functions([CallPattern("libc", name)], ["true"]))
            probes = stack.enter_context(closing(CallProbes(found)))
            probes.open()
            possible = sorted({*range(len(found))} - {*probes.find_impossible()})
            begin = time.perf_counter()
            probes.place(possible)
            placed = time.perf_counter()
            probes.remove()
            removed = time.perf_counter()
            times = ((placed - begin) * 1e3, (removed - placed) * 1e3)
            print(f"{len(possible):<20}{times[0]:12.1f}{times[1]:12.1f}")


if __name__ == "__main__":
    main()
