"""Read the long-term sums of all hosts: names and columns of their files, and their windows."""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import TYPE_CHECKING

from prospect.errors import StoreError
from prospect.fleet.host_counts import SKETCH
from prospect.records import NamedTuple
from prospect.store.engine import Engine, EngineError
from prospect.store.file_schema import HEAD_KEY, TICK_COUNTS, read_head
from prospect.store.hosts import FLEET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.store.file_schema import Head
    from prospect.store.hosts import HostsDirectory
    from prospect.store.segments import Segment

DAY_S = 86400
# Sums over hosts of functions or of all hits (`is_total`), and of one service or of all (`is_all`).
# `squares` are of the hosts' `w`, `products` those of `w` with the host's total.
FUNCTIONS_COLUMNS = {
    "is_total": "BOOLEAN",
    "is_all": "BOOLEAN",
    "service": "VARCHAR",
    "path": "VARCHAR",
    "name": "VARCHAR",
    "n": "BIGINT",
    "w": "DOUBLE",
    "hosts": "BIGINT",
    "squares": "DOUBLE",
    "products": "DOUBLE",
    **dict.fromkeys(SKETCH, "BIGINT"),
}
# As `asking.HostAccounting`.
HOSTS_COLUMNS = {
    "host": "VARCHAR",
    "cpus": "BIGINT",
    "begin_us": "BIGINT",
    "end_us": "BIGINT",
    "measured_s": "DOUBLE",
    **dict.fromkeys(("windows", *TICK_COUNTS), "BIGINT"),
}
PARTS_COLUMNS = {
    "place": "VARCHAR",
    **dict.fromkeys(("begin_s", "end_s", "first", "last"), "BIGINT"),
}
_KINDS = ("functions", "hosts", "parts")
_FILE = re.compile(
    rf"({FLEET}/date=\d{{4}}-\d\d-\d\d/[0-9a-f]{{32}})\.({'|'.join(_KINDS)})\.parquet"
)


class Ranges(NamedTuple):
    """The numbers of windows, by place: runs without a gap, in order."""

    runs: dict[str, list[tuple[int, int]]]

    def has(self, others: Ranges) -> bool:
        """Whether these include all windows of `others`."""
        return all(
            any(first <= begin and end <= last for first, last in self.runs.get(place, ()))
            for place, runs in others.runs.items()
            for begin, end in runs
        )

    def meets(self, others: Ranges) -> bool:
        """Whether they have a window in common."""
        return any(
            first <= end and begin <= last
            for place, runs in others.runs.items()
            for begin, end in runs
            for first, last in self.runs.get(place, ())
        )

    @property
    def windows(self) -> int:
        """Their number."""
        return sum(last - first + 1 for runs in self.runs.values() for first, last in runs)


class KeptDay(NamedTuple):
    """A day of sums of all hosts.

    Attributes:
        path: the beginning of its files' paths, below the store.
        begin_s, end_s: seconds since 1970; all of its windows are within.
        head: that of the latest segment.
    """

    path: str
    begin_s: int
    end_s: int
    ranges: Ranges
    head: Head

    def file(self, kind: str) -> str:
        """Return the path of a file, below the store."""
        return f"{self.path}.{kind}.parquet"


def path_of(day_s: int, digest: str) -> str:
    """Return the beginning of a day's paths; `day_s` is any second of that day."""
    return f"{FLEET}/date={time.strftime('%Y-%m-%d', time.gmtime(day_s))}/{digest}"


def ranges_of(segments: Iterable[Segment]) -> Ranges:
    """Return the windows of segments."""
    return _joined((one.place, one.first, one.last) for one in segments)


def _joined(windows: Iterable[tuple[str, int, int]]) -> Ranges:
    runs: dict[str, list[tuple[int, int]]] = {}
    for place, first, last in sorted(windows):
        own = runs.setdefault(place, [])
        if own and first <= own[-1][1] + 1:
            own[-1] = own[-1][0], max(own[-1][1], last)
        else:
            own.append((first, last))
    return Ranges(runs)


def days_of(store: HostsDirectory) -> tuple[list[KeptDay], list[str]]:
    """Return the days, each window in one of them, and a sentence for each file that is left out.

    If two share windows, as after a crash between the last file of a new one and the removal of the
    old one, the one with more windows counts.
    """
    files: dict[str, set[str]] = {}
    for name in store.kept_files():
        if found := _FILE.fullmatch(name):
            files.setdefault(found[1], set()).add(found[2])
    days, remarks = [], []
    with closing(Engine(store)) as engine:
        for path in sorted(path for path, kinds in files.items() if len(kinds) == len(_KINDS)):
            try:
                days.append(_read(store, engine, path))
            except (EngineError, StoreError) as error:
                remarks.append(f"{path} is left out: {str(error).replace(store.root, '')}")
    days.sort(key=lambda one: (-one.ranges.windows, one.path))
    chosen: list[KeptDay] = []
    for one in days:
        if not any(
            one.begin_s // DAY_S == other.begin_s // DAY_S and one.ranges.meets(other.ranges)
            for other in chosen
        ):
            chosen.append(one)
    return sorted(chosen, key=lambda one: (one.begin_s, one.path)), remarks


def _read(store: HostsDirectory, engine: Engine, path: str) -> KeptDay:
    """Read the head and the parts of a day, and check its other files."""
    whole = [store.root + f"{path}.{kind}.parquet" for kind in _KINDS]
    for name, columns in zip(whole, (FUNCTIONS_COLUMNS, HOSTS_COLUMNS), strict=False):
        read = ", ".join(f'"{one}"::{type_}' for one, type_ in columns.items())
        engine.rows(f"SELECT {read} FROM read_parquet(?) LIMIT 1", [name])
    rows = engine.rows(
        'SELECT place, begin_s::BIGINT, end_s::BIGINT, "first"::BIGINT, "last"::BIGINT'
        " FROM read_parquet(?)",
        [whole[-1]],
    )
    heads = engine.rows("SELECT key, value FROM parquet_kv_metadata(?)", [whole[-1]])
    written = [value for key, value in heads if key in (HEAD_KEY, HEAD_KEY.encode())]
    if not rows or not written:
        raise StoreError("it has no windows")
    head = written[0] if isinstance(written[0], bytes) else str(written[0]).encode()
    return KeptDay(
        path=path,
        begin_s=min(row[1] for row in rows),
        end_s=max(row[2] for row in rows),
        ranges=_joined((place, first, last) for place, _, _, first, last in rows),
        head=read_head(head),
    )
