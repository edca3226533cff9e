"""How often error bars hold the truth: real runs of programs that measure themselves.

    python benchmarks/accuracy.py [--runs N] [--rate HZ] [--clocks K] [--json FILE] [KIND ...]

Each kind of program spends its time in `phase_a` and `phase_b` (benchmarks/phases.c) and knows how
long it was in each. It is recorded with Prospect, and both rows of the report are
compared with what it knows: how many of the 95 % intervals hold the truth (93 to 97 % is what is
claimed), how wide they are, and how wide intervals that knew the errors in advance would have to
be. Needs root, gcc and chrt. The programs run on one CPU before all that is not real-time.
Where the host of a virtual machine takes the CPU away for longer than a period of the clocks, ticks
are lost, and no report can know: such runs are left out. Interrupts are time in the function for
the
program and have their own place in the report: they are taken off in proportion.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import prospect
from prospect.estimate.finished_report import Report
from prospect.figures.modes import MODE_INTERRUPT, MODE_USER

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = Path(__file__).parent / "phases.c"
PHASES = ("phase_a", "phase_b")


class Figures(NamedTuple):
    """What the report says of a function."""

    reported_s: float
    half_width_s: float
    low_s: float
    high_s: float
    aliased: bool


@dataclass(frozen=True)
class Row:
    """One function of one run: the report's figures and the program's own, in seconds."""

    kind: str
    run: int
    function: str
    truth_s: float
    reported_s: float
    half_width_s: float
    low_s: float
    high_s: float
    aliased: bool
    steal_s: float

    @property
    def half_width_s(self) -> float:
        """How far the report is above the truth."""
        return self.reported_s - self.truth_s

    @property
    def holds(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low_s <= self.truth_s <= self.high_s


def locked(length_s: float, rate_hz: float, share: float) -> list[str]:
    return ["locked", f"{length_s}", f"{rate_hz}", f"{share}"]


def stays(length_s: float, in_a_us: float, in_b_us: float) -> list[str]:
    return ["random", f"{length_s}", f"{in_a_us}", f"{in_b_us}"]


# What each kind is asked to do, by the rate and a source of chance.
KINDS: dict[str, Callable[[float, random.Random], list[str]]] = {
    "steady": lambda _rate_hz, _chance: stays(1.5, 90, 210),
    "as fast as the clocks": lambda _rate_hz, _chance: stays(1.5, 1500, 3500),
    "bursts": lambda _rate_hz, _chance: stays(1.5, 10_000, 25_000),
    "phases": lambda _rate_hz, _chance: stays(2.0, 200_000, 300_000),
    "lock-step, 30 %": lambda rate_hz, _chance: locked(1.5, rate_hz, 0.3),
    "lock-step": lambda rate_hz, chance: locked(
        1.5, rate_hz * chance.choice((0.125, 0.25, 0.5, 1, 2)), chance.uniform(0.1, 0.9)
    ),
    "rare": lambda _rate_hz, chance: stays(1.5, 60, chance.choice((6e3, 1.2e4, 3e4))),
    "short": lambda _rate_hz, chance: stays(0.3, *chance.choice(((90, 210), (1500, 3500)))),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="of all kinds together")
    parser.add_argument("--rate", type=int, default=1000, help="-H")
    parser.add_argument("--clocks", type=int, default=4, help="--clocks")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=Path, help="write every row here")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    arguments = parser.parse_args()
    kinds = arguments.kinds or list(KINDS)
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"no kind {', '.join(unknown)}; there are {', '.join(KINDS)}")
    chance = random.Random(arguments.seed)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        program = str(Path(scratch) / "phases")
        compile_command = ["gcc", "-O1", "-g", "-o", program, str(PROGRAM), "-lm"]
        subprocess.run(compile_command, check=True)
        # In turn, so that whatever else the machine does meets all kinds alike.
        for run in range(math.ceil(arguments.runs / len(kinds))):
            for kind in kinds:
                rows += one_run(program, kind, run, arguments, chance)
                progress(f"{len(rows) // 2} runs")
    progress("")
    print(f"-H {arguments.rate} --clocks {arguments.clocks}, seed {arguments.seed}")
    print_table(rows, kinds)
    if arguments.json:
        document = {
            "rate_hz": arguments.rate,
            "clocks": arguments.clocks,
            "seed": arguments.seed,
            "rows": [asdict(row) for row in rows],
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


def one_run(
    program: str, kind: str, run: int, arguments: argparse.Namespace, chance: random.Random
) -> list[Row]:
    """Record one run and return the row of each phase, also where the report has none."""
    answer = Path(program).with_name("answer")
    words = KINDS[kind](arguments.rate, chance)
    cpu = max(os.sched_getaffinity(0))
    alone = ["taskset", "-c", str(cpu), "chrt", "--fifo", "10"]
    command = [*alone, program, *words, str(chance.randrange(1 << 30)), str(answer)]
    profile = prospect.record(command, frequency_hz=arguments.rate, clocks=arguments.clocks)
    if status := profile.run.accounting.get("command_exit_status"):
        sys.exit(f"{' '.join(command)}: status {status}")
    *truths_s, steal_s = map(float, answer.read_text().split())
    found, own = report_rows(profile)
    rows = []
    for function, truth_s in zip(PHASES, truths_s, strict=True):
        figures = found.get(function)
        if figures is None:
            continue  # a row without a hit is not shown, and claims nothing
        rows.append(Row(kind, run, function, own * truth_s, *figures, steal_s))
    return rows


def report_rows(profile: prospect.Profile) -> tuple[dict[str, Figures], float]:
    """Return the figures of each function of the command in user mode, and its part of its time.

    The part is what is left of the time on the CPU when interrupts are taken off.
    """
    view = Report(profile, "2", 0.0, 0.0)
    event, estimates = view.events[0], view.events[0].estimates
    found = {}
    seconds = event.processes.seconds[event.detailed].sum(axis=0)
    for process in event.detailed.tolist():
        rows = estimates.function_rows(event, process, MODE_USER)
        functions = event.function_table(process, MODE_USER).function.tolist()
        for row, function in enumerate(functions):
            found[profile.functions.name[function]] = Figures(
                float(rows.seconds[row]),
                float(rows.half_width_s[row]),
                float(rows.low_s[row]),
                float(rows.high_s[row]),
                bool(rows.aliased[row]),
            )
    return found, float(1.0 - seconds[MODE_INTERRUPT] / seconds.sum())


def print_table(rows: list[Row], kinds: list[str]) -> None:
    columns = ("rows", "hold", "mean ±", "needed", "error", "worst", "marked", "left out")
    print(f"{'':22}" + "".join(f"{name:>9}" for name in columns))
    for name in (*kinds, "all"):
        of_kind = [row for row in rows if name in (row.kind, "all")]
        chosen = [row for row in of_kind if not row.steal_s]
        if not chosen:
            continue
        errors = [row.half_width_s for row in chosen]
        rms = math.sqrt(statistics.fmean(error**2 for error in errors))
        cells = (
            f"{len(chosen)}",
            f"{sum(row.holds for row in chosen) / len(chosen):.1%}",
            milliseconds(statistics.fmean(row.half_width_s for row in chosen)),
            milliseconds(1.96 * rms),
            milliseconds(statistics.fmean(errors)),
            milliseconds(max(map(abs, errors))),
            f"{sum(row.aliased for row in chosen)}",
            f"{len(of_kind) - len(chosen)}",
        )
        print(f"{name:22}" + "".join(f"{cell:>9}" for cell in cells))
    print("hold: 95 % intervals that hold the truth; needed: ± that 95 % of these errors need; ms")


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f}"


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:20}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
