"""Add up the hits of all hosts by function, some hosts at a time.

Each function has sums over hosts. The sums of single hosts exist only during their turn: hosts
times functions do not fit into memory. Sums of periods over hosts and of squares are DECIMAL(38):
the nanoseconds of 3,300 host-days of 64 CPUs, half of them busy, overflow 64 bits. They are exact,
so that all engines and all divisions into turns give the same result.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prospect.announcing import pluralize, silent
from prospect.records import NamedTuple
from prospect.store.engine import Placed
from prospect.store.segments import SAMPLES
from prospect.store.tables import host_numbers, placed_hits

if TYPE_CHECKING:
    from prospect.announcing import Announce
    from prospect.fleet.asking import Question
    from prospect.store.tables import Queries

# Names of functions by number; all builds of a program share them. The number of a name is that of
# one of its functions.
NAMES = "names"
# Sums over hosts, by number of name; `squares` and `products` with the host's total, of `w`.
SUMS = "sums_of_names"
# As `SUMS`, by service.
SERVICES = "sums_of_services"
# Sums of the hosts of a turn: by number of host, and by the keys of `add_up`.
TOTALS = "totals_of_hosts"
HITS = "hits_of_hosts"
# Rows of `HITS` by number of name. Code whose name is lost or not chosen has no number.
BY_NAME = f"(SELECT * FROM {HITS} WHERE number IS NOT NULL)"
# A sum of `w` over hosts, and of products of `w`, of a table `h` and another one.
PERIODS = "sum({}.w::DECIMAL(19, 0))"
SQUARE = "sum(h.w::DECIMAL(19, 0) * {}.w::DECIMAL(19, 0))"
# The number of the name of each function.
NUMBERS = "number_of_functions"
_FILES = "files_in_turn"
# `HITS` of a turn by service and by name, from one reading of the files. NULLs distinguish the two;
# ClickHouse has them with group_by_use_nulls and join_use_nulls.
_SERVICES_AND_NAMES = "GROUPING SETS ((host_number, service), (host_number, number))"
_BY_SERVICE = f"(SELECT * FROM {HITS} WHERE service IS NOT NULL)"
# The interval and number of the leading functions that progress messages show.
_LOOK_S = 3.0
_MOST_LEADING = 3


class Busy(NamedTuple):
    """Sums of all chosen hits.

    Attributes:
        hosts: the number of hosts that have any.
        samples: their number.
        weight: the sum of their periods.
        squares: the sum of the squares of the hosts' weights.
    """

    hosts: int
    samples: int
    weight: int
    squares: int


def keep_hits(asked: Question, announce: Announce = silent) -> Busy:
    """Add up hits of busy CPUs by function, as `SUMS`, and by service, as `SERVICES`.

    Raises:
        EngineError: a file cannot be read.
    """
    engine = asked.engine
    announce("reading the names of functions")
    keep_names(asked)
    turns = turns_of(asked)
    # All files of a host have one turn.
    hosts = [len({host for _, host in files}) for files in turns]
    every = pluralize(sum(hosts), "host")
    busy, leading, looked_at = Busy(0, 0, 0, 0), "", time.monotonic()
    for turn, files in enumerate(turns):
        if turn and time.monotonic() - looked_at > _LOOK_S:
            leading, looked_at = _leading(engine, turn - 1, busy), time.monotonic()
        announce(f"adding up, {sum(hosts[:turn])} of {every} done{leading}")
        add_up(asked, files, _SERVICES_AND_NAMES)
        engine.keep(
            TOTALS,
            "SELECT host_number, sum(n)::BIGINT AS n, sum(w)::BIGINT AS w"
            f" FROM {_BY_SERVICE} AS s GROUP BY host_number",
        )
        _keep_sums(engine, SUMS, turn, "number", BY_NAME)
        _keep_sums(engine, SERVICES, turn, "service", _BY_SERVICE)
        (found,) = engine.rows(
            f"SELECT count(*), coalesce(sum(h.n), 0)::BIGINT, coalesce({PERIODS.format('h')}, 0),"
            f" coalesce({SQUARE.format('h')}, 0) FROM {TOTALS} AS h"
        )
        busy = Busy(*(before + int(more) for before, more in zip(busy, found, strict=True)))
        for name in (TOTALS, HITS):
            engine.drop(name)
    for name in (SUMS, SERVICES):
        engine.view(name, f"SELECT * FROM {name}_{len(turns) - 1}")
    return busy


def _keep_sums(engine: Queries, name: str, turn: int, key: str, hits: str) -> None:
    """Add a turn's hits by host and key to the sums of the turns before it."""
    before = f" UNION ALL SELECT * FROM {name}_{turn - 1}" if turn else ""
    engine.keep(
        f"{name}_{turn}",
        f"SELECT {key}, sum(n)::BIGINT AS n, sum(w) AS w, sum(hosts)::BIGINT AS hosts,"
        f" sum(squares) AS squares, sum(products) AS products FROM (SELECT {key},"
        f" sum(h.n)::BIGINT AS n, {PERIODS.format('h')} AS w, count(*) AS hosts,"
        f" {SQUARE.format('h')} AS squares, {SQUARE.format('t')} AS products"
        f" FROM {hits} AS h JOIN {TOTALS} AS t USING (host_number) GROUP BY {key}{before}) AS s"
        f" GROUP BY {key}",
    )
    if turn:
        engine.drop(f"{name}_{turn - 1}")


def _leading(engine: Queries, turn: int, busy: Busy) -> str:
    """Return the leading functions after a turn, for the progress message."""
    rows = engine.rows(
        f"SELECT name, w::DOUBLE FROM {SUMS}_{turn} JOIN {NAMES} USING (number)"
        f" ORDER BY w DESC, name LIMIT {_MOST_LEADING}"
    )
    return "".join(
        f", {name or 'no name'} {100.0 * w / max(busy.weight, 1):.1f} %" for name, w in rows
    )


def keep_names(asked: Question) -> None:
    """Number the names of functions.

    Raises:
        EngineError: a file cannot be read.
    """
    engine = asked.engine
    of_functions, parameters = asked.of_functions
    engine.keep(
        "name_of_functions",
        "SELECT function, min(path) AS path, min(name) AS name FROM function_rows"
        f" WHERE {of_functions} GROUP BY function",
        parameters,
    )
    engine.keep(
        NAMES,
        "SELECT path, name, min(function) AS number FROM name_of_functions GROUP BY path, name",
    )
    engine.keep(
        NUMBERS, f"SELECT function, number FROM name_of_functions JOIN {NAMES} USING (path, name)"
    )


def turns_of(asked: Question, width: int = 1) -> list[list[tuple[str, int]]]:
    """Divide the files of hits, with their hosts' numbers, into turns; a host's files share one.

    Args:
        width: the size of a row's sums, as a multiple of the usual size.

    Raises:
        EngineError: a file cannot be read.
    """
    store, part, engine = asked.store, asked.part, asked.engine
    numbers = host_numbers(part)
    placed = [(path, numbers[row]) for path, row in placed_hits(store, part, stacks=False)]
    if engine.most_rows is None:
        return [placed]
    rows = dict(
        engine.planner.rows(
            "SELECT file_name, num_rows FROM parquet_file_metadata(?)",
            [[store.root + path for path, _ in placed]],
        )
    )
    by_host: dict[int, list[str]] = {}
    for path, host in placed:
        by_host.setdefault(host, []).append(path)
    turns: list[list[tuple[int, int, str]]] = []
    left = 0
    for host in sorted(by_host):
        size = sum(rows[store.root + path] for path in by_host[host])
        if not turns or size > left:
            turns.append([])
            left = engine.most_rows // width
        turns[-1] += [(place, host, path) for place, path in enumerate(by_host[host])]
        left -= size
    # `Engine.table` is fastest for consecutive hosts.
    return [[(path, host) for _, host, path in sorted(files)] for files in turns]


def add_up(asked: Question, files: list[tuple[str, int]], apart: str) -> None:
    """Keep `HITS` of the hosts of a turn.

    Args:
        asked: a question that `keep_names` was called with.
        files: those of the turn, as `turns_of` returns them.
        apart: the keys of the sums, of `host_number`, `service` and `number`.

    Raises:
        EngineError: a file cannot be read.
    """
    engine = asked.engine
    condition, parameters = asked.condition
    paths, hosts = [path for path, _ in files], [host for _, host in files]
    # The number of the host replaces that of the segment, which this does not need.
    engine.table(_FILES, SAMPLES, Placed(paths, hosts, []))
    engine.keep(
        HITS,
        "SELECT host_number, service, number, sum(n)::BIGINT AS n, sum(w)::BIGINT AS w FROM"
        f" (SELECT segment AS host_number, service, function, n, w FROM {_FILES}"
        f" WHERE {condition} AND pid <> 0) AS h LEFT JOIN {NUMBERS} USING (function)"
        f" GROUP BY {apart}",
        parameters,
    )
