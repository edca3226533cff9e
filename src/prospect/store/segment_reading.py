"""Find and check the segments of a store that a specification selects.

If a file of names is emptied or replaced, its segment stays readable. So each function and stack
that a hit refers to has to be in one of the files.

The Parquet files of other hosts are untrusted: a file of a few KB may have a text of 40 MB in each
of its rows. Its footer is read before any of its rows. If the footer does not show the size of the
texts, their lengths are added up. A footer may be wrong: then an answer runs out of memory, and
reading the files of each host alone finds that host.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fnmatch import fnmatchcase
from statistics import median
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from prospect.announcing import pluralize
from prospect.errors import StoreError
from prospect.records import NamedTuple
from prospect.store.engine import EngineError, OutOfMemoryError
from prospect.store.file_schema import COLUMNS, HEAD_KEY, read_head
from prospect.store.retention import left_names
from prospect.store.segments import (
    COVERAGE,
    DAY,
    FUNCTIONS,
    HOST_PREFIX,
    HOUR_US,
    MINUTE,
    NAMED,
    SAMPLES,
    STACKS,
    SUMS,
    TOTALS,
    coarsest,
)
from prospect.store.store_limits import (
    BASE_UNPACKED_BYTES,
    LARGEST_SEGMENT_BYTES,
    MOST_UNPACKED_TIMES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Engine
    from prospect.store.file_schema import Head
    from prospect.store.segments import Segment
    from prospect.store.specification import Specification


_MOST_NAMED = 3

_READ = "read_parquet(?, hive_partitioning=false)"
# By kind of file, the column that hits refer to, and a condition on hits that refer to a row.
_KEYS = {FUNCTIONS: ("function", "true"), STACKS: ("stack", "stack <> 0")}

_VALUE_BYTES = 8
# The lengths of texts are added up from this size on: every row may have all of a dictionary.
_LARGE_DICTIONARY_BYTES = 1 << 18
_MUCH_MORE = 4
# A query for each file would take longer than reading it.
_FILES_AT_ONCE = 64
_FOOTERS = (
    "SELECT file_name, sum(total_uncompressed_size), sum(total_compressed_size), sum(num_values),"
    # The size of a column bounds its plain texts, but not those of a dictionary.
    " coalesce(sum(total_uncompressed_size)"
    " FILTER (type = 'BYTE_ARRAY' AND encodings IS DISTINCT FROM 'PLAIN'), 0),"
    " least(min(total_uncompressed_size), min(num_values), min(total_compressed_size)),"
    " max(num_values) FROM parquet_metadata(?) GROUP BY file_name ORDER BY file_name"
)


class Part(NamedTuple):
    """Segments that are read together.

    Attributes:
        segments: in the order of their windows.
        remarks: a sentence for each thing that is left out.
        chosen: the specification; extended to whole hours if the store has only hours.
        sums: kinds of files with sums of whole days that may be read instead of hits by hour, those
            with the fewest rows first.
    """

    segments: list[Segment]
    heads: list[Head]
    remarks: list[str]
    chosen: Specification
    sums: tuple[str, ...] = ()

    @property
    def accounted(self) -> set[Segment]:
        """The segments whose accounting is complete in their heads."""
        span = self.chosen.since_us, self.chosen.until_us
        return {
            one
            for one, head in zip(self.segments, self.heads, strict=True)
            if self.sums and head.accounting and one.is_within(*span)
        }

    @property
    def hosts(self) -> list[str]:
        """The host of each segment."""
        return list(map(host_of, self.segments, self.heads))

    @property
    def is_share_of_hosts(self) -> bool:
        """Whether some of its hosts represent other hosts, hour by hour."""
        return any(head.host_share < 1 for head in self.heads)

    def only(self, rows: list[int]) -> Part:
        """Return a part with only some of its segments, by their places."""
        segments, heads = [self.segments[row] for row in rows], [self.heads[row] for row in rows]
        return self._replace(segments=segments, heads=heads)


def host_of(segment: Segment, head: Head | None = None) -> str:
    """Return the host of a segment, by its place or else by its head."""
    if segment.place:
        return unquote(segment.place.partition("/")[0].removeprefix(HOST_PREFIX))
    return str(head.run["hostname"]) if head else ""


def is_chosen_host(host: str, chosen: Specification) -> bool:
    """Whether a specification selects a host."""
    return any(fnmatchcase(host, each) for each in chosen.texts.get("host", ("*",)))


def choose(
    store: StoreDirectory,
    engine: Engine,
    chosen: Specification,
    *,
    fine: bool = True,
    sums: tuple[str, ...] = (),
) -> Part:
    """Find the segments that a specification selects, and check them.

    Damaged segments are left out. Their parts are read instead, if they are there.

    Args:
        fine: whether to prefer segments whose hits have more keys than function and hour.
        sums: as in `Part`. If given, only these sums and the accounting are read of the days within
            the span.

    Raises:
        StoreError: there are none, or none that can be read.
    """
    every = store.segments()
    if not every:
        raise StoreError(f"{store.path}: {store.why_empty}")
    sessions = chosen.texts.get("session", ())
    span = chosen.since_us, chosen.until_us
    found = [
        one
        for one in every
        if (not sessions or any(fnmatchcase(one.session, each) for each in sessions))
        and (not one.place or is_chosen_host(host_of(one), chosen))
        and not (one.place and host_of(one) in store.exhausting)
    ]
    if not any(one.overlaps(*span) for one in found):
        there_is = _there_is(every, chosen)
        raise StoreError(f"{store.path}: nothing matches {' '.join(chosen.words)}; {there_is}")
    refused: dict[Segment, str] = {}
    heads: dict[Segment, Head] = {}
    while True:
        sound = [one for one in found if one not in refused]
        segments = [one for one in coarsest(sound, *span, fine=fine) if one.overlaps(*span)]
        new = [one for one in segments if one not in heads]
        if not new:
            break
        whole, reasons = checked(store, engine, new, span, sums)
        heads |= whole
        refused |= reasons
    if refused.keys() - set(store.segments()):
        # It was not damaged but merged in the meantime.
        return choose(store, engine, chosen, fine=fine, sums=sums)
    remarks = [
        f"{one.path(SAMPLES)} is left out: {why}"
        for one, why in list(refused.items())[:_MOST_NAMED]
    ]
    remarks += [f"host {host} is left out: {why}" for host, why in store.exhausting.items()]
    if len(refused) > _MOST_NAMED:
        more = pluralize(len(refused) - _MOST_NAMED, "more segment")
        remarks.append(f"For the same reasons, {more} left out.")
    if not segments:
        raise StoreError(f"{store.path}: no segment can be read: {'; '.join(remarks)}")
    chosen, rounded = _whole_hours(segments, chosen)
    part = Part(segments, [heads[one] for one in segments], [*remarks, *rounded], chosen, sums)
    return _of_like_events(_of_hosts(store, part))


def _whole_hours(segments: list[Segment], chosen: Specification) -> tuple[Specification, list[str]]:
    """Extend a span to whole hours if it ends within a summary of a day; return a remark."""
    since_us, until_us = chosen.since_us, chosen.until_us
    if all(one.tier != DAY or one.answers(since_us, until_us) for one in segments):
        return chosen, []
    since_us, until_us = since_us // HOUR_US * HOUR_US, -(-until_us // HOUR_US) * HOUR_US
    sentence = "Minutes are not kept any more: this part is of whole hours."
    return chosen._replace(since_us=since_us, until_us=until_us), [sentence]


def _of_hosts(store: StoreDirectory, part: Part) -> Part:
    """Keep the segments of the selected hosts."""
    hosts, chosen = part.hosts, part.chosen
    kept = [row for row, host in enumerate(hosts) if is_chosen_host(host, chosen)]
    if not kept:
        there = ", ".join(sorted(set(hosts))[:_MOST_NAMED])
        raise StoreError(
            f"{store.path}: nothing matches {' '.join(chosen.words)}; host: there is {there}"
        )
    return part.only(kept)


def checked(
    store: StoreDirectory,
    engine: Engine,
    segments: list[Segment],
    span: tuple[int, int] = (0, 0),
    sums: tuple[str, ...] = (),
) -> tuple[dict[Segment, Head], dict[Segment, str]]:
    """Return the heads of readable segments, and the reasons why other segments are not.

    Damage within a file shows if the store `reads_all`. `span` and `sums` are those of
    `heads_of_segments`.
    """
    try:
        return heads_of_segments(store, engine, segments, span, sums), {}
    except (EngineError, StoreError, OSError) as error:
        if len(segments) == 1:
            return {}, {segments[0]: str(error).replace(engine.root, "")}
    # Bisect, to find the damaged ones.
    middle = len(segments) // 2
    first_heads, first_refused = checked(store, engine, segments[:middle], span, sums)
    heads, refused = checked(store, engine, segments[middle:], span, sums)
    return first_heads | heads, first_refused | refused


def heads_of_segments(
    store: StoreDirectory,
    engine: Engine,
    segments: list[Segment],
    span: tuple[int, int] = (0, 0),
    sums: tuple[str, ...] = (),
) -> dict[Segment, Head]:
    """Return the heads of segments, and check their files.

    Only the footers of other hosts' files are read. Of days within `span`, (begin, end) in
    microseconds since 1970, only the `sums` are read, as in `Part`: their files by hour have four
    fifths of the bytes of all footers. Coverage that a head has is not read either.
    """
    summed = _sums_of_days(store, segments, span, sums)
    unread = {store.root + one.path(kind) for one in summed for kind in (TOTALS, SAMPLES)}
    found: dict[str, list[str]] = {}
    for kind in (COVERAGE, TOTALS, SUMS, NAMED, SAMPLES):
        having = [one for one in segments if kind in (COVERAGE, SAMPLES) or one.tier == DAY]
        if sums and kind in (SUMS, NAMED):
            having = [one for one in having if summed.get(one) == kind]
        found[kind] = files(store, having, kind)
        if len(found[kind]) < len(having) and kind not in (SUMS, NAMED):
            why = store.refused.get(having[0].path(kind), "they are missing")
            raise StoreError(f"its {kind}: {why}")
    heads = _heads(store, engine, segments)
    unread |= {store.root + one.path(COVERAGE) for one in summed if heads[one].accounting}
    for kind, paths in found.items():
        read = [path for path in _untrusted(store, paths) if path not in unread]
        refuse_bombs(engine, read, kind)
        if store.reads_all and paths:
            _read_all(engine, paths, kind)
    return heads


def _sums_of_days(
    store: StoreDirectory, segments: Iterable[Segment], span: tuple[int, int], kinds: Iterable[str]
) -> dict[Segment, str]:
    """Return the first kind of sums that each day within a span has."""
    left = [one for one in segments if one.tier == DAY and one.is_within(*span)]
    found: dict[Segment, str] = {}
    for kind in kinds:
        there = set(files(store, left, kind))
        found |= {one: kind for one in left if store.root + one.path(kind) in there}
        left = [one for one in left if one not in found]
    return found


def _heads(store: StoreDirectory, engine: Engine, segments: list[Segment]) -> dict[Segment, Head]:
    written = {
        path: value
        for path, key, value in engine.rows(
            "SELECT file_name, key, value FROM parquet_kv_metadata(?)",
            [files(store, segments, SAMPLES)],
        )
        if key in (HEAD_KEY, HEAD_KEY.encode())
    }
    heads = {}
    known: dict[object, Head] = {}
    for one in segments:
        head = written.get(store.root + one.path(SAMPLES))
        if head is None:
            raise StoreError("it has no head")
        if head not in known:
            known[head] = read_head(head if isinstance(head, bytes) else str(head).encode())
        heads[one] = known[head]
    return heads


def files(store: StoreDirectory, segments: list[Segment], kind: str) -> list[str]:
    """Return the paths of the segments' files of a kind that exist and belong to this user."""
    names = [one.path(kind) for one in segments]
    store.bring(names)
    return [store.root + name for name in names if store.has_ours(name, LARGEST_SEGMENT_BYTES)]


def hit_files(store: StoreDirectory, part: Part, *, stacks: bool = False) -> list[str]:
    """Return the paths of the files that hold the hits of a part, each hit once.

    With `stacks`, hits of different stacks are separate.

    Raises:
        EngineError: one is gone, as its minutes have just become an hour. A second try finds the
            hour; see `hosts.asked`.
    """
    days = [] if stacks else [one for one in part.segments if one.tier == DAY]
    others = [one for one in part.segments if stacks or one.tier != DAY]
    span = part.chosen.since_us, part.chosen.until_us
    sums = _sums_of_days(store, days, span, part.sums)
    by_hour = [one for one in days if one not in sums]
    return [
        *all_files(store, others, SAMPLES),
        *all_files(store, by_hour, TOTALS),
        *sorted(store.root + one.path(kind) for one, kind in sums.items()),
    ]


def all_files(store: StoreDirectory, segments: list[Segment], kind: str) -> list[str]:
    """Return the paths of the segments' files of a kind, which all have.

    Raises:
        EngineError: as `hit_files`.
    """
    paths = files(store, segments, kind)
    if len(paths) < len(segments):
        raise EngineError("a segment was removed while it was read")
    return paths


def name_files(
    store: StoreDirectory,
    engine: Engine,
    segments: list[Segment],
    kind: str,
    remarks: list[str] | None = None,
) -> list[str]:
    """Return the paths of the files that hold these segments' functions or stacks.

    Those of a minute are in its own file, or in that of an earlier minute of the directory, even if
    this minute was removed. Damaged files are left out, and their names are lost.

    Args:
        engine: damage within a file shows if it `reads_all`.
        kind: FUNCTIONS or STACKS.
        remarks: gets a sentence for each damaged file.
    """
    directories = {one.directory for one in segments if one.tier == MINUTE}
    own = set(segments)
    sources = [one for one in store.segments() if one in own or one.directory in directories]
    paths = files(store, sources, kind)
    left = (store.root + name for name in left_names(store, sorted(directories), (kind,)))
    found = list(dict.fromkeys([*paths, *left]))
    damaged = _damaged(engine, _untrusted(store, found), kind, refuse_bombs)
    if engine.reads_all:
        rest = [path for path in found if path not in damaged]
        damaged |= _damaged(engine, rest, kind, _read_all)
    if remarks is not None:
        remarks += [
            f"{path.removeprefix(store.root)} is left out, and its names are lost: {why}"
            for path, why in damaged.items()
        ]
    return [path for path in found if path not in damaged]


def _untrusted(store: StoreDirectory, paths: list[str]) -> list[str]:
    """Return the files that other hosts wrote."""
    return [path for path in paths if path.removeprefix(store.root).startswith(HOST_PREFIX)]


def _damaged(
    engine: Engine, paths: list[str], kind: str, check: Callable[[Engine, list[str], str], None]
) -> dict[str, str]:
    """Return the files that a check refuses, with the reasons."""
    try:
        if paths:
            check(engine, paths, kind)
    except EngineError as error:
        middle = len(paths) // 2
        if not middle:
            return {paths[0]: str(error).replace(engine.root, "")}
        halves = paths[:middle], paths[middle:]
        first, second = (_damaged(engine, half, kind, check) for half in halves)
        return first | second
    return {}


def _read_all(engine: Engine, paths: list[str], kind: str) -> None:
    """Read every column of files, so that all damage shows.

    Raises:
        EngineError: a file is damaged, or a column or a value is missing.
    """
    # The statistics in a footer do not answer these, as they do a count or a maximum.
    missing = ", ".join(f'count(*) FILTER ("{name}" IS NULL)' for name in COLUMNS[kind])
    seen = ", ".join(
        f'bit_xor(length("{name}"::{type_}))'
        if type_ == "VARCHAR"
        else f'bit_xor(("{name}"::{type_})::BIGINT)'
        if type_ == "BOOLEAN"
        else f'bit_xor("{name}"::{type_})'
        for name, type_ in COLUMNS[kind].items()
    )
    (counts,) = engine.rows(f"SELECT {missing}, {seen} FROM {_READ}", [paths])
    for name, count in zip(COLUMNS[kind], counts, strict=False):
        if count:
            raise EngineError(f"{name} has no value in {pluralize(count, 'row')}")


def _of_like_events(part: Part) -> Part:
    """Keep the segments that have the events of the latest one, so that hits add up."""
    latest = part.heads[-1].events
    alike = [place for place, head in enumerate(part.heads) if head.events == latest]
    left = len(part.segments) - len(alike)
    if not left:
        return part
    sentence = (
        f"{left} of {pluralize(len(part.segments), 'segment')} left out: they have other events or"
        " another rate; give since: and until: to see them."
    )
    return part.only(alike)._replace(remarks=[*part.remarks, sentence])


def _there_is(segments: list[Segment], chosen: Specification) -> str:
    """Return what the store has, for the message that nothing matches."""
    from datetime import UTC, datetime  # noqa: PLC0415 - of an error

    newest_s = max(one.end_s for one in segments)
    begin, end = (
        datetime.fromtimestamp(at, UTC).astimezone().isoformat(" ", "minutes")
        for at in (min(one.begin_s for one in segments), newest_s)
    )
    sessions = Counter(one.session for one in segments)
    named = ", ".join(name for name, _ in sessions.most_common(_MOST_NAMED))
    hosts = sorted({host_of(one) for one in segments if one.place})
    of_hosts = f", host {', '.join(hosts[:_MOST_NAMED])}" if hosts else ""
    is_current = not hosts and chosen.since_us // 10**6 >= newest_s
    hint = "; prospect control dump writes a daemon's current window" if is_current else ""
    return f"there is {begin} to {end}, session {named}{of_hosts}{hint}"


def lost_names(store: StoreDirectory, engine: Engine, segments: list[Segment]) -> list[str]:
    """Return a sentence for each kind of names that segments refer to and no file has.

    Damage within a file shows if the engine `reads_all`.

    Raises:
        EngineError: the samples cannot be read.
    """
    remarks: list[str] = []
    samples = files(store, segments, SAMPLES)
    for kind, (key, refers) in _KEYS.items():
        known = name_files(store, engine, segments, kind, remarks)
        query = f"SELECT sum(n)::BIGINT FROM {_READ} WHERE {refers}"
        ((hits,),) = (
            engine.rows(f"{query} AND {key} NOT IN (SELECT {key} FROM {_READ})", [samples, known])
            if known
            else engine.rows(query, [samples])
        )
        if hits:
            remarks.append(
                f"{pluralize(int(hits), 'hit')} of {segments[0].directory} and later have"
                f" {key}s that are in no file: their names are lost"
            )
    return remarks


def refuse_bombs(engine: Engine, paths: list[str], kind: str) -> None:
    """Refuse files that unpack to much more than their size.

    Raises:
        EngineError: a file does, or cannot be read.
    """
    footers = _footers(engine, paths)
    unclear = [
        path
        for path, _, _, _, texts, _, rows in footers
        if texts > _LARGE_DICTIONARY_BYTES and texts * rows > BASE_UNPACKED_BYTES
    ]
    bytes_of = _text_bytes(engine, unclear, kind)
    for path, unpacked, packed, values, _, least, _ in footers:
        most = BASE_UNPACKED_BYTES + MOST_UNPACKED_TIMES * packed
        size = unpacked + _VALUE_BYTES * values + bytes_of.get(path, 0)
        if size > most or least < 0:
            raise EngineError(
                f"its {kind} unpack to {size / 1e6:,.0f} MB, from {packed / 1e6:.3f} MB"
            )


def heaviest(engine: Engine, files_of: dict[str, dict[str, list[str]]]) -> str:
    """Return the host whose files unpack to far more than those of the others; "" for none.

    `files_of` has the files of each host by kind.
    """
    bytes_of: dict[str, float] = defaultdict(float)
    for host, by_kind in files_of.items():
        try:
            for kind, paths in by_kind.items():
                footers = _footers(engine, paths)
                bytes_of[host] += sum(one[1] + _VALUE_BYTES * one[3] for one in footers)
                if kind == FUNCTIONS:
                    bytes_of[host] += sum(_text_bytes(engine, paths, kind).values())
        except OutOfMemoryError:
            return host
        except EngineError:  # damaged: found otherwise
            continue
    if len(bytes_of) < 2:
        return ""
    host = max(bytes_of, key=lambda one: bytes_of[one])
    others = median(size for one, size in bytes_of.items() if one != host)
    return host if bytes_of[host] > max(_MUCH_MORE * others, BASE_UNPACKED_BYTES) else ""


def _footers(engine: Engine, paths: list[str]) -> list[tuple[Any, ...]]:
    """Return a row of `_FOOTERS` for each file; its numbers are untrusted."""
    return engine.rows(_FOOTERS, [paths]) if paths else []


def _text_bytes(engine: Engine, paths: list[str], kind: str) -> dict[str, int]:
    """Return the length of all texts of each file."""
    texts = [name for name, type_ in COLUMNS[kind].items() if type_ == "VARCHAR"]
    sizes = " + ".join(f'sum(strlen("{name}"))' for name in texts) or "0"
    query = f"SELECT filename, {sizes} FROM read_parquet(?, filename=true) GROUP BY filename"
    found: dict[str, int] = {}
    for begin in range(0, len(paths), _FILES_AT_ONCE):
        rows = engine.rows(query, [paths[begin : begin + _FILES_AT_ONCE]])
        found |= {path: int(size or 0) for path, size in rows}
    return found
