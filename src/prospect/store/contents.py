"""List the contents of a store, and check whether it is whole."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING

from prospect.profile.naming import LABELS
from prospect.records import Record
from prospect.store.conditions import is_one_of
from prospect.store.engine import Engine
from prospect.store.file_schema import LOST, LOST_SAMPLES
from prospect.store.names import LOST_NAMES, SOURCES_WITH_NAMES
from prospect.store.retention import dropped
from prospect.store.segment_reading import choose, lost_names
from prospect.store.segments import COVERAGE, FUNCTIONS, SAMPLES
from prospect.store.specification import Specification
from prospect.store.tables import make_tables

if TYPE_CHECKING:
    from typing import Any

    from prospect.store.directory import StoreDirectory
    from prospect.store.retention import Dropped
    from prospect.store.segment_reading import Part

_US = 10**6
_MOST_ROWS = 20


class Day(Record):
    """A day of a session, in this machine's time zone.

    Attributes:
        day: as 2026-11-22.
        host: the machine that was sampled.
        measured_s: the sum of the windows' lengths.
        size_bytes: the size of its files.
    """

    day: str
    session: str
    host: str
    windows: int
    measured_s: float
    samples: int
    lost: int
    size_bytes: int


class Contents(Record):
    """The contents of a store.

    Attributes:
        services: the commonest, with their samples.
        events: the names of the sampled events.
        separate: the keys that were kept separate.
        remarks: what is left out, and why.
    """

    days: list[Day]
    services: list[tuple[str, int]]
    events: list[str]
    separate: tuple[str, ...]
    remarks: list[str]


class Nameless(Record):
    """An object that has samples in functions without names.

    Attributes:
        why: the reason, as far as it is known.
    """

    path: str
    hits: int
    why: str


class Health(Record):
    """Whether a store is whole.

    Attributes:
        segments: their number.
        damaged: a sentence for each segment that cannot be read or is left out.
        nameless: objects without names, most hits first.
    """

    segments: int
    damaged: list[str]
    nameless: list[Nameless]
    hits: int
    nameless_hits: int
    dropped: list[Dropped]


def contents_of(store: StoreDirectory, chosen: Specification) -> Contents:
    """List the contents of a store.

    Raises:
        StoreError: nothing matches, or nothing can be read.
        EngineError: a segment cannot be read.
    """
    with closing(Engine(store)) as engine:
        part = choose(store, engine, chosen, fine=False)
        chosen = part.chosen
        make_tables(store, engine, part, (SAMPLES, COVERAGE))
        services = engine.rows(
            "SELECT service, sum(n)::BIGINT AS hits FROM samples WHERE t >= ? AND t < ?"
            f" GROUP BY service ORDER BY hits DESC, service LIMIT {_MOST_ROWS}",
            [chosen.since_us, chosen.until_us],
        )
        return Contents(
            days=_days(store, engine, part, chosen),
            services=[(str(service), int(hits)) for service, hits in services],
            events=[event.name for event in part.heads[-1].events],
            separate=part.heads[-1].separate,
            remarks=part.remarks,
        )


def _days(store: StoreDirectory, engine: Engine, part: Part, chosen: Specification) -> list[Day]:
    found: dict[tuple[str, str, str], list[Any]] = {}
    accounting = engine.rows(
        f'SELECT segment, t, max("until") - t, sum(recorded), {LOST_SAMPLES} FROM coverage'
        " WHERE t >= ? AND t < ? GROUP BY segment, t",
        [chosen.since_us, chosen.until_us],
    )
    hosts = part.hosts
    for row, t, length, recorded, lost in sorted(accounting, key=lambda row: row[1]):
        segment = part.segments[row]
        sums = found.setdefault((_day(t / _US), segment.session, hosts[row]), [0, 0, 0, 0, 0])
        for place, value in enumerate((1, length, recorded, lost)):
            sums[place] += int(value)
    # Only one of an hour and its summary is read.
    host_of_place = dict(zip((one.place for one in part.segments), hosts, strict=True))
    for one in store.segments():
        key = (_day(one.begin_s), one.session, host_of_place.get(one.place, ""))
        if key in found:
            found[key][-1] += store.size_bytes(one)
    return [
        Day(*key, windows, length / _US, samples, lost, size)
        for key, (windows, length, samples, lost, size) in found.items()
    ]


def _day(at_s: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at_s))


def health_of(store: StoreDirectory) -> Health:
    """Read all of a store.

    Raises:
        StoreError: nothing is in it, or nothing can be read.
        EngineError: a segment cannot be read.
    """
    store.reads_all = True
    with closing(Engine(store)) as engine:
        part = choose(store, engine, Specification())
        # Days are next to the hours that they sum up.
        summaries = choose(store, engine, Specification(), fine=False)
        lost = [
            sentence
            for _, parts in groupby(
                dict.fromkeys((*part.segments, *summaries.segments)), lambda one: one.directory
            )
            for sentence in lost_names(store, engine, list(parts))
        ]
        make_tables(store, engine, part, (SAMPLES, FUNCTIONS))
        ((hits,),) = engine.rows("SELECT sum(n)::BIGINT FROM samples")
        condition, named = is_one_of("source", SOURCES_WITH_NAMES)
        rows = engine.rows(
            f"SELECT coalesce(path, '{LOST}') AS path, sum(n)::BIGINT AS hits, min(note),"
            " min(source) FROM samples LEFT JOIN functions USING (function)"
            f" WHERE path IS NULL OR NOT {condition} GROUP BY path ORDER BY hits DESC, path",
            named,
        )
        return Health(
            segments=len(store.segments()),
            damaged=list(dict.fromkeys((*part.remarks, *summaries.remarks, *lost))),
            nameless=[
                # A function that the store has lost has no source.
                Nameless(str(path), int(n), str(why or LABELS.get(how, LOST_NAMES)))
                for path, n, why, how in rows[:_MOST_ROWS]
            ],
            hits=int(hits or 0),
            nameless_hits=sum(int(n) for _, n, *_ in rows),
            dropped=dropped(store),
        )
