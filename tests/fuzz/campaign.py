"""A campaign of mutated files: ``scripts/fuzz MINUTES [SEED]``.

Each case of `fuzz.cases` runs in a child process with bounds on its processor time and memory. A
case may end with a report or be refused with one line; everything else is a failure, and its files
are kept together with the command line that reads them.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import mmap
import os
import pkgutil
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import prospect as package
from fuzz.cases import all_targets
from prospect.cli.main import main as prospect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuzz.cases import Target

READ, REFUSED, CRASHED, LATE, BIG = "read", "refused", "crashed", "too long", "too big"
FAILURES = (CRASHED, LATE, BIG)
MOST_CPU_S = 20
MOST_WALL_S = 240
MOST_BYTES = 1 << 30
_TRACEBACK_STATUS = 99
_MOST_KEPT = 50


class Outcome(NamedTuple):
    """How one case ended, what it wrote to stderr, and what it cost."""

    kind: str
    said: str
    cpu_s: float
    peak_bytes: int


def run_case(words: Sequence[str], directory: Path) -> Outcome:
    """Run ``prospect WORDS`` in a child that starts with everything imported."""
    _, resident_bytes = _own_memory()
    with tempfile.TemporaryFile() as stderr:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _be_the_case(words, directory, stderr.fileno())
        _, status, usage = os.wait4(pid, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it has started and left behind
        stderr.seek(0)
        said = stderr.read(1 << 16).decode(errors="replace")
    peak_bytes = (usage.ru_maxrss << 10) - resident_bytes
    return Outcome(
        _kind(status, said, peak_bytes), said, usage.ru_utime + usage.ru_stime, peak_bytes
    )


def _kind(status: int, said: str, peak_bytes: int) -> str:
    if os.WIFSIGNALED(status):
        is_late = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)
        return LATE if is_late else CRASHED
    if os.WEXITSTATUS(status) == _TRACEBACK_STATUS:
        return CRASHED
    if peak_bytes > MOST_BYTES or "out of memory" in said:
        return BIG
    return REFUSED if os.WEXITSTATUS(status) else READ


def _be_the_case(words: Sequence[str], directory: Path, stderr: int) -> NoReturn:
    status = _TRACEBACK_STATUS
    try:
        os.setsid()
        os.chdir(directory)
        null = os.open(os.devnull, os.O_RDWR)
        for old, new in ((null, 0), (null, 1), (stderr, 2)):
            os.dup2(old, new)
        signal.alarm(MOST_WALL_S)
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Address space beyond what is there, some of which is never touched.
        limit = _own_memory()[0] + 2 * MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        status = prospect(list(words))
    except BaseException:  # noqa: BLE001 - which one it is, is what the campaign is for
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _own_memory() -> tuple[int, int]:
    """Return how many bytes of address space this process has, and how many are its own memory.

    A child begins with these; pages of files it does not have before it touches them.
    """
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(pages[0]) * mmap.PAGESIZE, (int(pages[1]) - int(pages[2])) * mmap.PAGESIZE


def campaign(
    targets: Sequence[Target], seconds: float, seed: int, kept: Path
) -> dict[str, collections.Counter[str]]:
    """Run cases of all targets in turn until the time is over; return counts by target and kind.

    Args:
        targets: what is tried.
        seconds: for how long; each target is tried once at least.
        seed: the same seed makes the same cases, in the same order.
        kept: the directory for cases that failed.
    """
    counts = {target.name: collections.Counter() for target in targets}
    seen: set[str] = set()
    end_s = time.monotonic() + seconds
    turn = 0
    while turn < len(targets) or time.monotonic() < end_s:
        target = targets[turn % len(targets)]
        name = f"{seed}-{turn}"
        with tempfile.TemporaryDirectory(prefix="prospect-fuzz-") as made:
            directory = Path(made)
            words = target.make(random.Random(name), directory)
            outcome = run_case(words, directory)
            counts[target.name][outcome.kind] += 1
            if outcome.kind in FAILURES:
                place = _last_frame(outcome)
                if place not in seen and len(seen) < _MOST_KEPT:
                    seen.add(place)
                    _keep(kept / f"{target.name}-{name}", directory, words, outcome)
        turn += 1
    return counts


def _last_frame(outcome: Outcome) -> str:
    """Return what tells apart failures: where the exception left, or what else it was."""
    frames = [line for line in outcome.said.splitlines() if line.startswith("  File ")]
    return frames[-1] if frames and outcome.kind == CRASHED else outcome.kind + outcome.said[:40]


def _keep(place: Path, directory: Path, words: Sequence[str], outcome: Outcome) -> None:
    shutil.copytree(directory, place)
    (place / "command").write_text(" ".join(("prospect", *words)) + "\n")
    (place / "stderr").write_text(outcome.said)
    print(f"{outcome.kind}: {place}", file=sys.stderr, flush=True)
    print(
        "    " + (outcome.said.strip().splitlines() or [""])[-1][:200], file=sys.stderr, flush=True
    )


def _table(counts: dict[str, collections.Counter[str]]) -> str:
    kinds = (READ, REFUSED, *FAILURES)
    rows = [("", *kinds)]
    rows += [(name, *(str(found[kind]) for kind in kinds)) for name, found in counts.items()]
    total = sum(counts.values(), collections.Counter())
    rows.append(("all", *(str(total[kind]) for kind in kinds)))
    return "\n".join(f"{row[0]:<14}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows)


def _import_all() -> None:
    """Import what commands would import themselves, once for all cases."""
    for found in pkgutil.walk_packages(package.__path__, "prospect."):
        if not found.name.startswith(("prospect.tui", "prospect.__main__")):
            importlib.import_module(found.name)


def main() -> int:
    """Run the campaign; return 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("minutes", nargs="?", type=float, default=1.0)
    parser.add_argument("seed", nargs="?", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--only", default="", help="one target's name")
    chosen = parser.parse_args()
    kept = Path(tempfile.mkdtemp(prefix="prospect-fuzz-failed-"))
    # Neither what this user keeps nor a server is part of a case.
    os.environ |= {"XDG_CACHE_HOME": str(kept / "cache"), "HOME": str(kept)}
    os.environ.pop("DEBUGINFOD_URLS", None)
    print(f"seed {chosen.seed}: scripts/fuzz {chosen.minutes:g} {chosen.seed}", flush=True)
    _import_all()
    targets = [one for one in all_targets() if chosen.only in ("", one.name)]
    counts = campaign(targets, 60 * chosen.minutes, chosen.seed, kept)
    print(_table(counts))
    failed = any(found[kind] for found in counts.values() for kind in FAILURES)
    if failed:
        print(f"what failed is kept in {kept}, a directory a case, with its command")
    else:
        shutil.rmtree(kept)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
