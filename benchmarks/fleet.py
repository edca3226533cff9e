"""Questions about the days of 1 … 10,000 hosts: bytes, rows, and seconds on DuckDB and on Spark.

    sudo python benchmarks/fleet.py --store STORE [--hosts 1,10,100,1000,10000]
        [--questions 'top of all,outliers'] [--kept-days] [--engine spark://H:P]

Hosts' days are made from the windows of a real store: each host runs some of many services, chosen
by a Zipf law, and each service is what was really sampled with functions and stacks of its own;
the kernel and libraries are the same for all. Variants of a stack share its samples by a Zipf law
too. A host has 64 CPUs, half of them busy, sampled 19 times a second; stacks that are rare are left
out, as those of a day are. A few days are made, and the files of each stand under many names: a
query reads and finds as many hosts, but the disk holds the files once. Seconds are of whole
commands, start included; processor seconds and memory are those of the command, without a cluster's
workers. `--kept-days` has `store compact` make sums of all hosts, and asks these.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from prospect.records import replace
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine
from prospect.store.file_schema import (
    COLUMNS,
    ORDER,
    WHOLE_WINDOW,
    SegmentAccounting,
    written_head,
)
from prospect.store.segment_reading import choose
from prospect.store.segments import (
    COVERAGE,
    CURRENT,
    DAY,
    FUNCTIONS,
    KINDS,
    NAMED,
    SAMPLES,
    STACKS,
    SUMS,
    TOTALS,
    Segment,
)
from prospect.store.specification import Specification
from prospect.store.tables import make_tables

CPUS, RATE_HZ, BUSY = 64, 19, 0.5
HOURS, SERVICES, SERVICES_A_HOST, VARIANTS = 24, 200, 8, 1
BEGIN_S = 1_795_305_600  # 2026-11-22 00:00 UTC
HOUR_US = 3600 * 10**6
BEGIN_US = BEGIN_S * 10**6
PERIOD_NS = 10**9 // RATE_HZ
# Of a day: stacks that fewer samples have in common are cut, as `store.merging` does.
LEAST_SHARE = 2e-5
QUESTIONS = {
    "one service, 100 hosts": ("fleet", "top", "service:service-3", "host:h000*"),
    "top of all": ("fleet", "top"),
    "outliers": ("fleet", "outliers"),
    "deploys": ("fleet", "deploys"),
    "coverage": ("fleet", "coverage"),
    "report": ("report",),
}


def main() -> None:
    """Make days, and ask about more and more of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", required=True, help="a store with real windows")
    parser.add_argument("--hosts", default="1,10,100,1000")
    parser.add_argument("--days", type=int, default=10, help="how many different days are made")
    parser.add_argument("--engine", action="append", default=[], help="beside local")
    parser.add_argument("--questions", default=",".join(QUESTIONS), help="which are asked")
    parser.add_argument("--times", type=int, default=2, help="how often; the fastest counts")
    parser.add_argument("--kept-days", action="store_true", help="ask sums of all hosts, too")
    parser.add_argument("--keep", help="make the days in this directory, or use those in it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(options.keep or scratch)
        place.mkdir(mode=0o700, exist_ok=True)
        made = [place / f"day{number}" for number in range(options.days)]
        for number, path in enumerate(made):
            if not path.exists():
                make_day(options.store, path, number)
        describe(made)
        print(f"{'hosts':>6} {'engine':24} {'question':24} {'seconds':>8} {'CPU s':>7} {'MB':>6}")
        asked = {name: words for name, words in QUESTIONS.items() if name in options.questions}
        for hosts in map(int, options.hosts.split(",")):
            fleet = place / f"fleet{hosts}"
            if not fleet.exists():
                link_hosts(made, fleet, hosts)
            shutil.rmtree(fleet / "fleet", ignore_errors=True)
            for engine in ("local", *options.engine):
                for name, words in asked.items():
                    ask(hosts, engine, name, (*words, "--store", str(fleet)), options.times)
            if options.kept_days:
                words = ("--store", str(fleet))
                ask(hosts, "local", "store compact", ("store", "compact", *words), 1)
                ask(hosts, "local", "top of kept days", ("fleet", "top", *words), options.times)


def make_day(source: str, path: Path, number: int) -> None:
    """Write the day of one host, as a day's segment."""
    random = np.random.default_rng(number)
    ranks = np.arange(1, SERVICES + 1)
    chosen = random.choice(ranks, SERVICES_A_HOST, replace=False, p=(1 / ranks) / (1 / ranks).sum())
    weights = random.dirichlet(np.full(SERVICES_A_HOST, 2.0))
    with StoreDirectory(source) as real:
        engine = Engine(real, threads=2, memory="4GB")
        part = choose(real, engine, Specification())
        make_tables(real, engine, part)
        engine.register("mix", {"number": chosen.astype(np.int64), "weight": weights})
        engine.keep("pool", POOL)
        engine.run(f"SELECT setseed({(number % 100) / 100})")
        engine.keep("kept", KEPT)
        for kind, query in TABLES_OF_A_DAY.items():
            engine.keep(f"day_{kind}", query)
        head = part.heads[-1]
        accounting = SegmentAccounting(*engine.rows(ACCOUNTING)[0])
        run = {**head.run, "hostname": "host", "cpus": CPUS}
        head = replace(head, run=run, accounting=accounting)
        with StoreDirectory(str(path), create=True) as store:
            write_day(store, engine, written_head(head))
        engine.close()


def write_day(store: StoreDirectory, engine: Engine, head: str) -> None:
    """Write what the engine has made; it may write to the real store's directory alone."""
    segment = Segment(DAY, BEGIN_S, BEGIN_S + 86_400, CURRENT, 0, 1439)
    for kind in KINDS:
        columns = engine.columns(f"SELECT * FROM day_{kind} ORDER BY {ORDER[kind]}")
        writer = Engine(store, memory="4GB")
        writer.register("written", columns)
        typed = ", ".join(f'"{name}"::{type_} AS "{name}"' for name, type_ in COLUMNS[kind].items())
        options = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 9"
        if kind == SAMPLES:
            options += f", KV_METADATA {{prospect: '{head}'}}"
        copy = partial(_copy, writer, typed, options)
        store.write(segment.path(kind), copy, sync=False)
        writer.close()


def _copy(writer: Engine, columns: str, options: str, path: str) -> None:
    writer.run(f"COPY (SELECT {columns} FROM written) TO '{path}' ({options})")


def link_hosts(made: list[Path], fleet: Path, hosts: int) -> None:
    """Give the days the names of as many hosts."""
    fleet.mkdir(mode=0o700)
    for host in range(hosts):
        source, target = made[host % len(made)], fleet / f"host=h{host:05d}"
        shutil.copytree(source, target, copy_function=os.link)


def describe(made: list[Path]) -> None:
    """Print what a host's day takes."""
    sizes = dict.fromkeys(KINDS, 0)
    for path in made:
        for file in path.rglob("*.parquet"):
            sizes[file.name.split(".")[-2]] += file.stat().st_size
    parts = ", ".join(f"{kind} {size / len(made) / 1e6:.2f}" for kind, size in sizes.items())
    print(f"a host's day: {sum(sizes.values()) / len(made) / 1e6:.2f} MB ({parts})")
    query = "SELECT count(*) AS rows, sum(n)::BIGINT AS samples FROM samples"
    subprocess.run(
        [sys.executable, "-m", "prospect", "sql", query, "--store", str(made[0])], check=True
    )


def ask(hosts: int, engine: str, name: str, words: tuple[str, ...], times: int) -> None:
    """Ask a few times, and print what the fastest took."""
    best = (float("inf"), 0.0, 0.0)
    for _ in range(times):
        begin = time.perf_counter()
        with tempfile.TemporaryFile("w+") as said:
            asking = subprocess.Popen(
                [sys.executable, "-m", "prospect", *words, "--engine", engine],
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, "NO_COLOR": "1"},
            )
            _, status, used = os.wait4(asking.pid, 0)
            asking.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            last = said.read().strip().splitlines()[-1:]
        seconds = time.perf_counter() - begin
        if asking.returncode:
            print(f"{hosts:6} {engine:24} {name:24} {last}")
            return
        best = min(best, (seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
    seconds, cpu, memory = best
    print(f"{hosts:6} {engine:24} {name:24} {seconds:8.2f} {cpu:7.2f} {memory:6.0f}", flush=True)


# What the kernel and libraries do is the same for all services; the rest is each one's own.
_SHARED = "f.object_kind <> 0 OR f.path LIKE '%/lib/%' OR f.path LIKE '[%'"


def _own(column: str) -> str:
    """Return the number of something that a variant of a service has for itself."""
    return f"CASE WHEN {column} = 0 THEN 0 ELSE hash({column}, m.number, v.variant) END"


_VARIANTS = f"(SELECT unnest(range({VARIANTS})) AS variant)"
_FUNCTION = f"CASE WHEN {_SHARED} THEN f.function ELSE hash(f.function, m.number, v.variant) END"
POOL = (
    "SELECT process, comm, kind, event, mode, cause_kind, cause, function, stack,"
    " sum(n) / (SELECT sum(n) FROM samples WHERE pid <> 0) AS share FROM samples WHERE pid <> 0"
    " GROUP BY ALL"
)
_SAMPLES_AN_HOUR = CPUS * RATE_HZ * 3600 * BUSY
_SHARE = f"share * m.weight / (1 + v.variant) / {sum(1 / (1 + each) for each in range(VARIANTS))}"
KEPT = (
    "SELECT DISTINCT stack, m.number, m.weight, v.variant FROM (SELECT stack, sum(share) AS share"
    f" FROM pool GROUP BY stack) AS p CROSS JOIN mix AS m CROSS JOIN {_VARIANTS} AS v"
    f" WHERE {_SHARE} > {LEAST_SHARE}"
)
_DRAWN = (
    "SELECT 'service-' || m.number AS service, process, comm, p.kind, event, mode, cause_kind,"
    f" cause, {_FUNCTION} AS function, 0 AS address, {{stack}} AS stack, -1 AS pid, -1 AS start,"
    f" -1 AS tid, -1 AS cpu, {BEGIN_US} + h.hour * {HOUR_US} AS t,"
    f" floor({_SAMPLES_AN_HOUR} * {_SHARE} + random())::BIGINT AS n"
    " FROM {pool} JOIN functions AS f USING (function)"
    f" CROSS JOIN (SELECT unnest(range({HOURS})) AS hour) AS h"
)
_SUMS = f"SELECT * EXCLUDE (n), n, n * n AS q, n * {PERIOD_NS} AS w"
_ALL = f"pool AS p CROSS JOIN mix AS m CROSS JOIN {_VARIANTS} AS v"
_OF_KEPT = (
    "pool AS p JOIN kept AS m USING (stack) JOIN (SELECT DISTINCT variant FROM kept) AS v"
    " ON v.variant = m.variant"
)
_BY_FUNCTION = (
    "(SELECT process, comm, kind, event, mode, cause_kind, cause, function, sum(share) AS share"
    f" FROM pool GROUP BY ALL) AS p CROSS JOIN mix AS m CROSS JOIN {_VARIANTS} AS v"
)
# The row of a whole window has none.
_TICKS = f"CASE WHEN c >= 0 THEN {RATE_HZ * 60} ELSE 0 END"
TABLES_OF_A_DAY = {
    SAMPLES: f"{_SUMS} FROM ({_DRAWN.format(stack=_own('p.stack'), pool=_OF_KEPT)}) WHERE n > 0",
    TOTALS: f"{_SUMS} FROM ({_DRAWN.format(stack='0', pool=_BY_FUNCTION)}) WHERE n > 0",
    SUMS: (
        "SELECT * EXCLUDE (t, n, q, w), min(t) AS t, sum(n) AS n, sum(q) AS q, sum(w) AS w"
        f" FROM day_{TOTALS} GROUP BY ALL"
    ),
    STACKS: (
        "WITH RECURSIVE used AS (SELECT s.*, number, variant FROM stacks AS s JOIN kept"
        " USING (stack) UNION SELECT s.*, used.number, used.variant FROM stacks AS s JOIN used"
        f" ON s.stack = used.caller) SELECT DISTINCT ON (stack) {_own('s.stack')} AS stack,"
        f" {_own('s.caller')} AS caller, {_FUNCTION} AS function, s.address, s.mode, s.depth"
        " FROM (SELECT used.*, function AS function FROM used) AS s JOIN functions AS f"
        " USING (function) JOIN mix AS m ON m.number = s.number"
        f" JOIN {_VARIANTS} AS v ON v.variant = s.variant"
    ),
    FUNCTIONS: (
        f"SELECT DISTINCT ON (function) * FROM (SELECT f.* REPLACE ({_FUNCTION} AS function)"
        f" FROM functions AS f CROSS JOIN mix AS m CROSS JOIN {_VARIANTS} AS v) WHERE function IN"
        " (SELECT function FROM day_totals UNION SELECT function FROM day_stacks)"
    ),
    NAMED: (
        "WITH names AS (SELECT function, min(function) OVER (PARTITION BY path, name) AS least"
        " FROM day_functions) SELECT service, '' AS process, '' AS comm, 0 AS kind, event,"
        " 0 AS mode, 0 AS cause_kind, '' AS cause, least AS function, 0 AS address, 0 AS stack,"
        " pid, -1 AS start, -1 AS tid, -1 AS cpu, min(t) AS t, sum(n) AS n, sum(q) AS q,"
        f" sum(w) AS w FROM day_{SUMS} JOIN names USING (function) GROUP BY ALL"
    ),
    COVERAGE: (
        f"SELECT {BEGIN_US} + m * 60000000 AS t, {BEGIN_US} + (m + 1) * 60000000"
        f' AS "until", c AS cpu, 0 AS event, {_TICKS} AS expected,'
        f" ({_TICKS} * {BUSY})::BIGINT AS recorded, 0 AS lost, 0 AS throttled,"
        f" ({_TICKS} * {1 - BUSY})::BIGINT AS idle, 0 AS missing, 0 AS steal_us"
        " FROM (SELECT unnest(range(1440)) AS m) CROSS JOIN"
        f" (SELECT unnest(range({WHOLE_WINDOW}, {CPUS})) AS c)"
    ),
}

ACCOUNTING = (
    'SELECT min(t), max("until"), sum("until" - t) FILTER (WHERE cpu < 0)::BIGINT,'
    " count(*) FILTER (WHERE cpu < 0), "
    + ", ".join(f"sum({name})::BIGINT" for name in SegmentAccounting._fields[4:])
    + f" FROM day_{COVERAGE}"
)

if __name__ == "__main__":
    main()
