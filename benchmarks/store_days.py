"""Days of a large host in minutes: real windows, drawn anew, through the real store.

    sudo prospect daemon --store /tmp/real -H 304 --window 60     # for some minutes, under load
    python benchmarks/store_days.py /tmp/real [--days 2] [--keep DIRECTORY]

304 samples a second of each of two busy CPUs are as many as 19 of each of 64 CPUs, half of which
are busy. Each simulated window is one of the real ones, chosen at random, in which each row has a
number of hits that is drawn from the Poisson distribution of its mean. Hours and days are made as
the daemon makes them, in its memory. Printed are sizes by tier, and what questions take, start-up
included, each the least of five.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from prospect.store.compaction import compact
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine
from prospect.store.segment_reading import checked
from prospect.store.segments import COVERAGE, FUNCTIONS, SAMPLES, STACKS
from prospect.store.windows import Span, Window
from prospect.store.writing import Known, segment_for, without_known, write_segment

FIRST_DAY_S = 20_000 * 86400
DAY_MINUTES = 1440
US = 10**6
PROSPECT = (sys.executable, "-m", "prospect")
MEMORY = "384MB"  # of daemon/store_work.py

Columns = dict[str, np.ndarray[Any, Any]]


class Real:
    """Real windows of a store, with all that they refer to."""

    def __init__(self, path: str) -> None:
        """Read them."""
        with StoreDirectory(path) as store:
            engine = Engine(store)
            segments = sorted(store.segments(), key=lambda one: one.first)
            self.heads = list(checked(store, engine, segments)[0].values())
            kinds = (SAMPLES, COVERAGE, FUNCTIONS, STACKS)
            read = {
                kind: [
                    engine.columns(f"SELECT * FROM read_parquet('{store.root}{one.path(kind)}')")
                    for one in segments
                    if store.has_ours(one.path(kind))
                ]
                for kind in kinds
            }
        self.samples, self.coverage = read[SAMPLES], read[COVERAGE]
        self._functions = _distinct(read[FUNCTIONS], "function")
        self._stacks = _distinct(read[STACKS], "stack")
        self.names = [self._names_of(one) for one in self.samples]

    def _names_of(self, samples: Columns) -> tuple[Columns, Columns]:
        """Return the functions and stacks of a window."""
        numbers = self._stacks["stack"]
        used = np.zeros(len(numbers), np.bool_)
        wanted = np.unique(samples["stack"])
        while len(wanted := wanted[wanted != 0]):
            rows = np.searchsorted(numbers, wanted)
            rows = rows[~used.take(rows)]
            used[rows] = True
            wanted = np.unique(self._stacks["caller"].take(rows))
        stacks = {name: column[used] for name, column in self._stacks.items()}
        functions = np.unique(np.concatenate((samples["function"], stacks["function"])))
        at = np.searchsorted(self._functions["function"], functions)
        return {name: column.take(at) for name, column in self._functions.items()}, stacks


def _distinct(tables: list[Columns], key: str) -> Columns:
    joined = {name: np.concatenate([one[name] for one in tables]) for name in tables[0]}
    _, first = np.unique(joined[key], return_index=True)
    return {name: column.take(first) for name, column in joined.items()}


def drawn(samples: Columns, begin_us: int, random: np.random.Generator) -> Columns:
    """Return rows of a window with other numbers of hits."""
    count = random.poisson(samples["n"]).astype(np.int64)
    rows = np.flatnonzero(count)
    found = {name: column.take(rows) for name, column in samples.items()}
    each = found["w"] // np.maximum(found["n"], 1)
    count = count.take(rows)
    return found | {
        "n": count,
        "q": count * count,
        "w": each * count,
        "t": np.full(len(rows), begin_us),
    }


def fill(path: str, real: Real, days: int) -> None:
    """Write days of windows, and make hours and days of them as they end."""
    random = np.random.default_rng(1)
    known: Known | None = None
    hits, merging_s = 0, 0.0
    with StoreDirectory(path, create=True) as store:
        store.lock()
        for minute in range(days * DAY_MINUTES + 1):
            which = int(random.integers(len(real.samples)))
            begin_us = (FIRST_DAY_S + 60 * minute) * US
            span = Span(begin_us, begin_us + 60 * US)
            functions, stacks = real.names[which]
            accounting = real.coverage[which]
            times = {
                name: np.full(len(accounting["t"]), at)
                for name, at in zip(("t", "until"), span, strict=True)
            }
            tables = {
                SAMPLES: drawn(real.samples[which], begin_us, random),
                FUNCTIONS: functions,
                STACKS: stacks,
                COVERAGE: accounting | times,
            }
            hits += int(tables[SAMPLES]["n"].sum())
            segment = segment_for(span, "current", minute)
            window = Window(span, real.heads[which], tables)
            written, known = without_known(window, segment.directory, known)
            engine = Engine(store, memory=MEMORY)
            write_segment(store, engine, segment, window.head, written)
            if minute % 60 == 0:
                begin_s = time.process_time()
                compact(store, engine, segment.begin_s)
                merging_s += time.process_time() - begin_s
            engine.close()
        print(f"{minute} windows, {hits / minute:,.0f} hits each")
        print(f"  merged in {merging_s / days:.0f} s of a processor a day")
        for tier in ("hour", "day"):
            sizes = [store.size_bytes(one) for one in store.segments() if one.tier == tier]
            print(f"  {tier}: {len(sizes)} segments, {sum(sizes) / days / 1e6:.1f} MB a day")
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  at most {most_mb:.0f} MB of memory, with the real windows")


def least(words: list[str]) -> str:
    """Return what a command takes, in seconds of the clock and of processors."""
    took = []
    for _ in range(5):
        before, begin_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run([*PROSPECT, *words], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        took.append((time.monotonic() - begin_s, used_s))
    return (
        f"{min(wall for wall, _ in took):.2f} s, {min(used for _, used in took):.2f} of processors"
    )


def main() -> None:
    """Simulate, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("real", help="a store with real windows")
    parser.add_argument("--days", type=int, default=2, help="how many are simulated")
    parser.add_argument("--keep", help="make the store in this directory, or ask that in it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prospect-days-") as scratch:
        where = Path(given.keep or scratch)
        where.mkdir(exist_ok=True)
        path = str(where / "store")
        if not Path(path).exists():
            fill(path, Real(given.real), given.days)

        def day(number: int) -> list[str]:
            begin, end = (
                time.strftime("%Y-%m-%d", time.gmtime(FIRST_DAY_S + 86400 * (number + more)))
                for more in (0, 1)
            )
            return [f"since:{begin}T00:00+00:00", f"until:{end}T00:00+00:00"]

        last = given.days - 1
        questions = {
            "a day, first screen and kernel": ["report", *day(last), "-V", "k"],
            "a day, the whole report": ["report", *day(last)],
            "a day's flame graph": ["report", *day(last), "--format", "svg"],
            "a day's callers": ["calls", *day(last)],
            "two days apart": ["diff", *day(last - 1), "--against", *day(last)],
            "a quarter of an hour": [
                "report",
                f"since:{day(last)[0][6:16]}T02:10+00:00",
                f"until:{day(last)[0][6:16]}T02:25+00:00",
            ],
        }
        for name, words in questions.items():
            if name != "two days apart" or last > 0:
                print(f"  {name}: {least([*words, '--store', path])}")


if __name__ == "__main__":
    main()
