"""Time and memory of every export of call stacks, of one profile made up in memory.

    python benchmarks/exports.py [--samples N] [--stacks N] [--depth N]

The profile has a million samples of 250,000 distinct stacks, 25 frames deep, of 20 threads on four
CPUs; each of its 40,000 places calls at most four others. Each format is a process of its own, so
that its peak memory is its own; what making the profile takes is the line ``(profile)``.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"


class Counted:
    """A file that only counts its bytes."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: bytes) -> int:
        """Count."""
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--stacks", type=int, default=250_000)
    parser.add_argument("--depth", type=int, default=25)
    parser.add_argument("--only", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        one(arguments)
        return
    from prospect.render.registry import FORMATS  # noqa: PLC0415 - after the options

    print(f"{'format':<12} {'seconds':>8} {'of CPU':>8} {'MB out':>8} {'peak MB':>8}")
    size = ("samples", "stacks", "depth")
    options = [word for name in size for word in (f"--{name}", str(getattr(arguments, name)))]
    for name in (
        "(profile)",
        *(name for name, one in FORMATS.items() if one.has_stacks and name != "html"),
    ):
        subprocess.run([sys.executable, __file__, "--only", name, *options], check=True)


def one(arguments: argparse.Namespace) -> None:
    sys.path.insert(0, str(TESTS))
    from builders.stacks import random_stacks_profile  # noqa: PLC0415 - tests are no package
    from prospect.render.registry import make_renderer  # noqa: PLC0415 - likewise

    begin, used = time.perf_counter(), time.process_time()
    profile = random_stacks_profile(arguments.samples, arguments.stacks, arguments.depth)
    out = Counted()
    if arguments.only != "(profile)":
        renderer = make_renderer(arguments.only, detail="4")
        begin, used = time.perf_counter(), time.process_time()
        renderer.render(profile, out)  # type: ignore[arg-type]  # only what renderers write with
    seconds, processor = time.perf_counter() - begin, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{arguments.only:<12} {seconds:>8.2f} {processor:>8.2f} {out.size / 1e6:>8.1f}"
        f" {peak:>8.0f}",
        flush=True,
    )


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
