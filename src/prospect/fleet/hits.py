"""The hits of all hosts by function, added up some hosts at a time.

Sums over hosts are kept of each function. A host's own sums are kept only during its turn, for
hosts times functions are more than memory holds. Sums of periods over hosts and those of squares
are DECIMAL(38): nanoseconds of 3,300 hosts' days of 64 CPUs, half of them busy, are more than 64
bits hold. They are exact, so that every engine says the same, however hosts take turns.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prospect.announcing import pluralize, silent
from prospect.records import NamedTuple
from prospect.store.segments import SAMPLES
from prospect.store.tables import make_placed, placed_hits

if TYPE_CHECKING:
    from prospect.announcing import Announce
    from prospect.fleet.asking import Question
    from prospect.store.tables import Queries

# By number of name: builds of a program are one, unless they are asked for. A name's number is
# that of one of its functions, so that no engine has to count them.
NAMES = "names"
# Sums over hosts, by number of name; `squares` and `products` with the host's total, of `w`.
SUMS = "sums_of_names"
# As `SUMS`, by service.
SERVICES = "sums_of_services"
# While its hosts have their turn, by number of host, and of name.
TOTALS = "totals_of_hosts"
BY_HOST = "hits_of_hosts"
# In the same way, of functions by segment, those without a name too.
HITS = "hits_of_functions"
# A sum of `w` over hosts, and of products of `w`, of a table `h` and another one.
PERIODS = "sum({}.w::DECIMAL(19, 0))"
SQUARE = "sum(h.w::DECIMAL(19, 0) * {}.w::DECIMAL(19, 0))"
# The number of the name of each function.
NUMBERS = "number_of_functions"
_FILES = "files_in_turn"
_BY_SERVICE = "hits_of_services"
# How often an answer so far is looked at, and how much of it.
_LOOK_S = 3.0
_MOST_LEADING = 3


class Busy(NamedTuple):
    """Sums of all chosen hits.

    Attributes:
        hosts: how many hosts have any.
        samples: how many there are.
        weight: the sum of their periods.
        squares: the sum of the squares of hosts' sums.
    """

    hosts: int
    samples: int
    weight: int
    squares: int


def keep_hits(asked: Question, announce: Announce = silent) -> Busy:
    """Add hits up by function, as `SUMS`, and by service, as `SERVICES`, but not of idle CPUs.

    Raises:
        EngineError: a file cannot be read.
    """
    engine = asked.engine
    announce("reading the names of functions")
    keep_names(asked)
    turns, host_of = turns_of(asked), asked.part.hosts
    # All files of a host have one turn.
    hosts = [len({host_of[segment] for _, segment in files}) for files in turns]
    every = pluralize(sum(hosts), "host")
    busy, leading, looked_at = Busy(0, 0, 0, 0), "", time.monotonic()
    for turn, files in enumerate(turns):
        if turn and time.monotonic() - looked_at > _LOOK_S:
            leading, looked_at = _leading(engine, turn - 1, busy), time.monotonic()
        announce(f"adding up, {sum(hosts[:turn])} of {every} done{leading}")
        add_up(asked, files)
        engine.keep(
            TOTALS,
            f"SELECT host_number, sum(n)::BIGINT AS n, sum(w)::BIGINT AS w FROM {HITS}"
            " JOIN segments USING (segment) GROUP BY host_number",
        )
        _keep_sums(engine, SUMS, turn, "number", BY_HOST)
        _keep_services(asked, turn)
        (found,) = engine.rows(
            f"SELECT count(*), coalesce(sum(h.n), 0)::BIGINT, coalesce({PERIODS.format('h')}, 0),"
            f" coalesce({SQUARE.format('h')}, 0) FROM {TOTALS} AS h"
        )
        busy = Busy(*(before + int(more) for before, more in zip(busy, found, strict=True)))
        for name in (TOTALS, _BY_SERVICE):
            engine.drop(name)
        if len(turns) > 1:
            let_go(asked)
    for name in (SUMS, SERVICES):
        engine.view(name, f"SELECT * FROM {name}_{len(turns) - 1}")
    return busy


def _keep_services(asked: Question, turn: int) -> None:
    """Add up the hits of a turn by service, whose files and totals are there."""
    condition, parameters = asked.condition
    asked.engine.keep(
        _BY_SERVICE,
        "SELECT host_number, service, sum(n)::BIGINT AS n, sum(w)::BIGINT AS w"
        f" FROM {_FILES} JOIN segments USING (segment) WHERE {condition} AND pid <> 0"
        " GROUP BY host_number, service",
        parameters,
    )
    _keep_sums(asked.engine, SERVICES, turn, "service", _BY_SERVICE)


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
    """Return which functions lead after a turn, to show while the rest is read."""
    rows = engine.rows(
        f"SELECT name, w::DOUBLE FROM {SUMS}_{turn} JOIN {NAMES} USING (number)"
        f" ORDER BY w DESC, name LIMIT {_MOST_LEADING}"
    )
    return "".join(
        f", {name or 'no name'} {100.0 * w / max(busy.weight, 1):.1f} %" for name, w in rows
    )


def keep_names(asked: Question) -> None:
    """Give the names of functions numbers.

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
    """Divide the files of hits among turns, so that the hits of a host are in one.

    Args:
        asked: what is asked.
        width: how many times as large as usual the sums are that are made of each row.

    Raises:
        EngineError: a file cannot be read.
    """
    store, part, engine = asked.store, asked.part, asked.engine
    placed = placed_hits(store, part, stacks=False)
    if engine.most_rows is None:
        return [placed]
    rows = dict(
        engine.planner.rows(
            "SELECT file_name, num_rows FROM parquet_file_metadata(?)",
            [[store.root + path for path, _ in placed]],
        )
    )
    hosts = part.hosts
    by_host: dict[str, list[tuple[str, int]]] = {}
    for path, segment in placed:
        by_host.setdefault(hosts[segment], []).append((path, segment))
    turns: list[list[tuple[str, int]]] = []
    left = 0
    for files in by_host.values():
        size = sum(rows[store.root + path] for path, _ in files)
        if not turns or size > left:
            turns.append([])
            left = engine.most_rows // width
        turns[-1] += files
        left -= size
    return turns


def add_up(asked: Question, files: list[tuple[str, int]], apart: str = "") -> None:
    """Keep `HITS` and `BY_HOST` of the hosts of a turn.

    Args:
        asked: what is asked, whose names `keep_names` has.
        files: of the turn.
        apart: a column by which hits are told apart, too.

    Raises:
        EngineError: a file cannot be read.
    """
    engine = asked.engine
    condition, parameters = asked.condition
    more = f", {apart}" if apart else ""
    make_placed(engine, _FILES, SAMPLES, asked.part, files)
    sums = "sum(n)::BIGINT AS n, sum(w)::BIGINT AS w"
    engine.keep(
        HITS,
        f"SELECT segment, function{more}, {sums} FROM {_FILES}"
        f" WHERE {condition} AND pid <> 0 GROUP BY segment, function{more}",
        parameters,
    )
    engine.keep(
        BY_HOST,
        f"SELECT host_number, number{more}, {sums} FROM {HITS} JOIN segments USING (segment)"
        f" JOIN {NUMBERS} USING (function) GROUP BY host_number, number{more}",
    )


def let_go(asked: Question) -> None:
    """Let go of what `add_up` keeps."""
    for name in (BY_HOST, HITS):
        asked.engine.drop(name)
