"""Questions about all hosts of a store: their tables, and the accounting of hosts."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from prospect.announcing import silent
from prospect.dimensions import FUNCTIONS as FUNCTION_ROWS
from prospect.dimensions import WORDS
from prospect.errors import StoreError
from prospect.records import NamedTuple
from prospect.store.choosing import conditions_of
from prospect.store.engine import EngineError
from prospect.store.file_schema import TICK_COUNTS, WHOLE_WINDOW
from prospect.store.segment_reading import choose
from prospect.store.segments import COVERAGE, FUNCTIONS, NAMED, SAMPLES, SUMS
from prospect.store.specification import Specification
from prospect.store.tables import make_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from prospect.announcing import Announce
    from prospect.store.directory import StoreDirectory
    from prospect.store.segment_reading import Part
    from prospect.store.tables import EngineMaker, Queries

_OF_FUNCTIONS = [
    name for name, word in WORDS.items() if word.table == FUNCTION_ROWS and not word.excludes
]
# Words that sums by service and name can answer.
_OF_NAMED = {"service", "container", "host", "session", "event"}
_US = 1e-6


class Question(NamedTuple):
    """The tables of a part of a store, and the specification."""

    store: StoreDirectory
    engine: Queries
    part: Part
    chosen: Specification

    @property
    def condition(self) -> tuple[str, list[Any]]:
        """The condition on rows of `samples`, without that on their functions."""
        texts = {
            word: patterns
            for word, patterns in self.chosen.texts.items()
            if word not in _OF_FUNCTIONS
        }
        conditions, parameters = conditions_of(self.part, self.chosen._replace(texts=texts))
        return " AND ".join(conditions), parameters

    @property
    def of_functions(self) -> tuple[str, list[Any]]:
        """The condition on functions."""
        texts = {
            word: patterns for word, patterns in self.chosen.texts.items() if word in _OF_FUNCTIONS
        }
        # Functions have no time.
        conditions, parameters = conditions_of(self.part, Specification(texts=texts))
        return " AND ".join(conditions), parameters


class Wanted(NamedTuple):
    """The wanted rows of an answer.

    Attributes:
        rows: their largest number.
        fdr: the false discovery rate.
        build: for `deploys`, the beginning of the build id to compare with the time before it, ""
            for a list of builds.
        announce: called with messages about the progress.
    """

    rows: int
    fdr: float = 0.05
    build: str = ""
    announce: Announce = silent


@contextmanager
def question(
    store: StoreDirectory,
    chosen: Specification,
    make_engine: EngineMaker,
    *,
    hours: bool = False,
    by_name: bool = False,
) -> Iterator[Question]:
    """Ask a store while the block runs.

    `hours`: whether hits of different hours are separate. `by_name`: whether host, service and name
    of the function are enough to tell hits apart.

    Raises:
        StoreError: nothing matches, or nothing can be read.
    """
    engine = make_engine(store)
    try:
        fine = bool(chosen.numbers)
        is_named = by_name and chosen.texts.keys() <= _OF_NAMED
        sums = () if hours else (NAMED, SUMS) if is_named else (SUMS,)
        part = choose(store, engine.planner, chosen, fine=fine, sums=sums)
        kinds = (SAMPLES, FUNCTIONS, COVERAGE)
        make_tables(store, engine, part, kinds, for_sums=True)
        yield Question(store, engine, part, part.chosen)
    except EngineError as error:
        raise StoreError(f"{store.path}: cannot be read: {error}") from None
    finally:
        engine.close()


class HostAccounting(NamedTuple):
    """The measured time and ticks of a host.

    Attributes:
        host: its name.
        cpus: its number of CPUs.
        begin_us, end_us: begin and end of its windows, in microseconds since 1970.
        measured_s: the sum of its windows' lengths, in seconds.
        windows: the number of its windows.
        expected, recorded, lost, throttled, idle, missing: numbers of ticks.
    """

    host: str
    cpus: int
    begin_us: int
    end_us: int
    measured_s: float
    windows: int
    expected: int
    recorded: int
    lost: int
    throttled: int
    idle: int
    missing: int


def accounting_of(asked: Question) -> list[HostAccounting]:
    """Read the accounting of each host, in the order of their names."""
    times = Specification(since_us=asked.chosen.since_us, until_us=asked.chosen.until_us)
    conditions, parameters = conditions_of(asked.part, times)
    condition = " AND ".join(conditions)
    sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in TICK_COUNTS)
    named = ", ".join(TICK_COUNTS)
    # Each window has one row of CPU `WHOLE_WINDOW`. Grouping the rows of all CPUs by window, 1,440
    # on a host's day, would take most of the time.
    rows = asked.engine.rows(
        f"WITH ticks AS (SELECT segment, {sums} FROM coverage WHERE {condition} GROUP BY segment),"
        ' windows AS (SELECT segment, min(t) AS begin, max("until") AS ended,'
        ' sum("until" - t)::BIGINT AS length, count(*) AS windows FROM coverage'
        f" WHERE cpu = {WHOLE_WINDOW} AND {condition} GROUP BY segment),"
        " accounting AS (SELECT host_number, min(begin) AS begin, max(ended) AS ended,"
        f" sum(length)::BIGINT AS length, sum(windows)::BIGINT AS windows, {sums} FROM windows"
        " JOIN ticks USING (segment) JOIN segments USING (segment) GROUP BY host_number)"
        f" SELECT host, cpus, begin, ended, length, windows, {named}"
        " FROM accounting JOIN hosts USING (host_number) ORDER BY host",
        [*parameters, *parameters],
    )
    found = [
        HostAccounting(host, cpus, begin, ended, max(length, 0) * _US, windows, *accounting)
        for host, cpus, begin, ended, length, windows, *accounting in rows
    ]
    part = asked.part
    cpus_of = dict(zip(part.hosts, (head.run["cpus"] for head in part.heads), strict=True))
    accounted = part.accounted
    for segment, host, head in zip(part.segments, part.hosts, part.heads, strict=True):
        if segment in accounted and head.accounting:
            begin, ended, length, *counts = head.accounting
            found.append(HostAccounting(host, cpus_of[host], begin, ended, length * _US, *counts))
    return by_host([found])


def by_host(pieces: Iterable[list[HostAccounting]]) -> list[HostAccounting]:
    """Add up the accounting of each host in several pieces, in the order of their names."""
    found: dict[str, HostAccounting] = {}
    for one in (each for accounting in pieces for each in accounting):
        before = found.get(one.host)
        if before is None:
            found[one.host] = one
            continue
        sums = {
            name: getattr(before, name) + getattr(one, name) for name in HostAccounting._fields[4:]
        }
        found[one.host] = one._replace(
            cpus=max(before.cpus, one.cpus),
            begin_us=min(before.begin_us, one.begin_us),
            end_us=max(before.end_us, one.end_us),
            **{**sums, "measured_s": before.measured_s + one.measured_s},
        )
    return [found[host] for host in sorted(found)]
