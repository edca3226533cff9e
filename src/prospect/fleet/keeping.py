"""Make long-term sums of whole days: by function, over all hosts.

    DIRECTORY/fleet/date=2026-11-22/DIGEST.functions.parquet    sums over hosts
                                    DIGEST.hosts.parquet        the accounting of each host
                                    DIGEST.parts.parquet        the windows of these sums

The digest is that of the parts, so a restarted writer writes the same files. The file of parts
comes last and makes a day whole. Readers of a day leave out the hosts' segments that are its parts.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import StoreError
from prospect.files.held_files import lock
from prospect.fleet.asking import accounting_of, question
from prospect.fleet.fleet_limits import MOST_KEPT_ROWS
from prospect.fleet.hits import BY_NAME, HITS, NAMES, PERIODS, SQUARE, add_up, keep_names, turns_of
from prospect.fleet.host_counts import SKETCH, bits_of_hosts, merged_columns, sketch_columns
from prospect.fleet.kept_days import (
    DAY_S,
    FUNCTIONS_COLUMNS,
    HOSTS_COLUMNS,
    PARTS_COLUMNS,
    days_of,
    path_of,
    ranges_of,
)
from prospect.records import NamedTuple, replace
from prospect.store.hosts import FLEET
from prospect.store.specification import Specification
from prospect.store.writing import Content, copy_to_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from prospect.fleet.asking import HostAccounting, Question
    from prospect.fleet.kept_days import KeptDay
    from prospect.store.engine import Columns, Engine
    from prospect.store.file_schema import Head
    from prospect.store.hosts import HostsDirectory
    from prospect.store.segments import Segment
    from prospect.store.tables import EngineMaker, Queries

# The last hours of a day arrive within this time.
_LATE_S = 3600
_LEVEL = 9
# Sums with sketches are wider than those without.
_WIDTH = 3
# Tables of a turn: sums of hosts by service; sums over hosts by name and of all hits.
_OF_SERVICES, _NAMED, _TOTALS = "services_of_hosts", "named_sums", "total_sums"
_SKETCH = ", ".join(SKETCH)


class Made(NamedTuple):
    """The number of days that were made, and of segments that could not become part of one."""

    days: int
    left: int


def keep_days(store: HostsDirectory, make_engine: EngineMaker, now_s: float) -> Made:
    """Make the sums of the days that are over, of all segments that are not in any yet.

    Raises:
        StoreError: a file cannot be read, or another process does the same.
        OSError: nothing can be written.
    """
    descriptor = store.open_lock(f"{FLEET}/lock")
    try:
        if not lock(descriptor):
            raise StoreError(f"{store.path}: another process is compacting this fleet")
        return _kept(store, make_engine, now_s)
    finally:
        os.close(descriptor)
        store.left_out = frozenset()


def _kept(store: HostsDirectory, make_engine: EngineMaker, now_s: float) -> Made:
    there, _ = days_of(store)
    every = store.segments()
    days = sorted({one.begin_s // DAY_S for one in every})
    made = left = 0
    for day in days:
        if (day + 1) * DAY_S + _LATE_S > now_s:
            continue
        own = [one for one in every if one.begin_s // DAY_S == day]
        before = [one for one in there if one.begin_s // DAY_S == day]
        new = [one for one in own if not any(each.ranges.has(ranges_of([one])) for each in before)]
        if not new:
            continue
        # New windows are added up with the rest of the day, if all of the rest is still there.
        is_all_there = all(ranges_of(own).has(each.ranges) for each in before)
        if not is_all_there:
            known = [each.ranges for each in before]
            apart = [one for one in new if not any(map(ranges_of([one]).meets, known))]
            left += len(new) - len(apart)
            own, before = apart, []
        if own:
            _make(store, make_engine, own, before)
            made += 1
    return Made(made, left)


def _make(
    store: HostsDirectory, make_engine: EngineMaker, own: list[Segment], before: list[KeptDay]
) -> None:
    wanted = set(own)
    store.left_out = frozenset()
    store.left_out = frozenset(one for one in store.segments() if one not in wanted)
    with question(store, Specification(), make_engine) as asked:
        columns = summed(asked)
        accounting = accounting_of(asked)
        parts, heads = asked.part.segments, asked.part.heads
        head = replace(heads[-1], host_share=min(one.host_share for one in heads))
        path = path_of(parts[0].begin_s, _digest(parts))
        # The last file makes the day whole.
        tables = {
            "functions": (FUNCTIONS_COLUMNS, columns),
            "hosts": (HOSTS_COLUMNS, _columns_of(HOSTS_COLUMNS, accounting)),
            "parts": (PARTS_COLUMNS, _columns_of(PARTS_COLUMNS, parts)),
        }
        _write(store, asked.engine.planner, path, tables, head)
    for one in before:
        if one.path != path:
            store.remove_kept(one.path)


def summed(asked: Question) -> dict[str, NDArray[Any]]:
    """Add up hits over hosts: by function, by function and service, and in total.

    Returns:
        `FUNCTIONS_COLUMNS`.

    Raises:
        EngineError: a file cannot be read.
    """
    engine = asked.engine
    keep_names(asked)
    numbers = engine.columns("SELECT host, host_number FROM hosts ORDER BY host_number")
    bits = bits_of_hosts(numbers["host"].tolist())
    engine.register("bits_of_hosts", bits | {"host_number": numbers["host_number"]})
    turns = turns_of(asked, _WIDTH)
    for turn, files in enumerate(turns):
        add_up(asked, files, "host_number, service, number")
        _keep_turn(engine, turn)
        engine.drop(HITS)
    last = len(turns) - 1
    sums = ", ".join(f"{name}::DOUBLE AS {name}" for name in ("w", "squares", "products"))
    figures = f"n, hosts, {sums}, {_SKETCH}"
    return engine.columns(
        f"SELECT true AS is_total, is_all, service, '' AS path, '' AS name, {figures}"
        f" FROM {_TOTALS}_{last} UNION ALL SELECT false AS is_total, is_all, service, path, name,"
        f" {figures} FROM {_NAMED}_{last} JOIN {NAMES} USING (number)"
        f" ORDER BY is_total DESC, is_all DESC, w DESC, service, path, name LIMIT {MOST_KEPT_ROWS}"
    )


def _keep_turn(engine: Queries, turn: int) -> None:
    """Add the hits of a turn's hosts to the sums of the turns before it.

    Raises:
        EngineError: a file cannot be read.
    """
    sums = "sum(n)::BIGINT AS n, sum(w)::BIGINT AS w"
    engine.keep(
        f"{_OF_SERVICES}_{turn}",
        f"SELECT host_number, service, {sums} FROM {HITS} GROUP BY host_number, service",
    )
    services = f"{_OF_SERVICES}_{turn}"
    hosts = f"(SELECT host_number, {sums} FROM {services} GROUP BY host_number)"
    named = f"(SELECT host_number, number, {sums} FROM {BY_NAME} AS a GROUP BY host_number, number)"
    _keep_sums(engine, _TOTALS, turn, "", [(services, services), (hosts, hosts)])
    _keep_sums(engine, _NAMED, turn, ", number", [(BY_NAME, services), (named, hosts)])


def _keep_sums(
    engine: Queries, name: str, turn: int, number: str, levels: list[tuple[str, str]]
) -> None:
    """Add up hosts' sums and their products with the hosts' totals, by service and for all."""
    own = [
        f"SELECT {is_all} AS is_all, {service} AS service{number}, sum(h.n)::BIGINT AS n,"
        f" {PERIODS.format('h')} AS w, count(*) AS hosts, {SQUARE.format('h')} AS squares,"
        f" {SQUARE.format('t')} AS products, {sketch_columns()} FROM {hits} AS h"
        f" JOIN {totals} AS t USING (host_number{using}) JOIN bits_of_hosts AS b"
        f" USING (host_number) GROUP BY {service}{number}"
        for (hits, totals), is_all, service, using in zip(
            levels, ("false", "true"), ("service", "''"), (", service", ""), strict=True
        )
    ]
    before = [f"SELECT * FROM {name}_{turn - 1}"] if turn else []
    engine.keep(
        f"{name}_{turn}",
        f"SELECT is_all, service{number}, sum(n)::BIGINT AS n, sum(w) AS w,"
        " sum(hosts)::BIGINT AS hosts, sum(squares) AS squares, sum(products) AS products,"
        f" {merged_columns()} FROM ({' UNION ALL '.join([*own, *before])}) AS s"
        f" GROUP BY is_all, service{number}",
    )
    if turn:
        engine.drop(f"{name}_{turn - 1}")


def _digest(parts: list[Segment]) -> str:
    words = "\n".join(sorted(f"{one.place} {one.first} {one.last}" for one in parts))
    return blake2b(words.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _columns_of(types: dict[str, str], rows: Sequence[HostAccounting | Segment]) -> Columns:
    return {
        name: [getattr(one, name) for one in rows]
        if type_ == "VARCHAR"
        else np.array([getattr(one, name) for one in rows])
        for name, type_ in types.items()
    }


def _write(
    store: HostsDirectory,
    engine: Engine,
    path: str,
    tables: dict[str, tuple[dict[str, str], Columns]],
    head: Head,
) -> None:
    for kind, (types, columns) in tables.items():
        engine.register("written", columns)
        chosen = ", ".join(f'"{name}"::{type_} AS "{name}"' for name, type_ in types.items())
        content = Content(f"SELECT {chosen} FROM written", level=_LEVEL)
        own_head = head if kind == "parts" else None
        copy_to_file(store, engine, content, f"{path}.{kind}.parquet", own_head)
        engine.unregister("written")
