"""The section of an archive → answers. `encoding` is its other half.

An archive may come from anyone. Every row that points into another table is checked here, so that
what reads the answers need not; what it says may be wrong, and is shown as any recording's word.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.archived.answers import (
    Answers,
    Asked,
    Code,
    FrameTree,
    Image,
    ObjectLines,
    Owner,
)
from prospect.archived.container import counted, damaged, texts_of, unpack
from prospect.profile.builder import NamedAddresses
from prospect.profile.model import KIND_NAMES
from prospect.profile.naming import NameSource
from prospect.symbols.objects import Missing, ObjectKey
from prospect.symbols.resolution import Resolution

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.archived.container import Columns

_MOST_PIDS = 1 << 16
_LATEST_S = 1e12


def decode(section: bytes | memoryview) -> Answers:
    """Read the section of an archive.

    Raises:
        RecordingError: it is damaged, or of another version.
    """
    columns = unpack(section)
    try:
        return _answers(columns)
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
        raise damaged("its facts cannot be read") from error


def _answers(columns: Columns) -> Answers:
    facts = columns.facts
    texts = texts_of(columns)
    owners = [_owner(*fields) for fields in _lists(facts["owners"], 7, 8)]
    return Answers(
        origin=_text(facts["origin"]),
        recorded_at=_finite(facts["recorded_at"]),
        limits=tuple(_text(limit) for limit in facts["limits"]),
        process_notes=tuple(
            (_whole(pid), _text(note)) for pid, note in _lists(facts.get("process_notes", []), 2)
        ),
        names=_names(columns, owners, texts),
        images=dict(_images(columns, owners)),
        lines=dict(_lines(columns, owners)),
        tree=_tree(columns, texts),
        code=dict(_code(columns, owners, texts)),
        source=_source(columns, texts),
        jit_dumps=_jit_dumps(columns),
    )


def _owner(  # noqa: PLR0913, PLR0917 - the fields of an owner as they are stored
    path: Any,
    build_id: Any,
    major: Any,
    minor: Any,
    inode: Any,
    kind: Any,
    pids: Any,
    life: Any = 0,
) -> Owner:
    key = ObjectKey(
        path=_text(path).encode("utf-8", "surrogateescape"),
        build_id=bytes.fromhex(build_id),
        major=_whole(major),
        minor=_whole(minor),
        inode=_whole(inode),
        kind=_kind(kind),
        life=_whole(life),
    )
    if len(pids) > _MOST_PIDS:
        raise damaged("an object has too many processes")
    return Owner(key, tuple(_whole(pid) for pid in pids))


def _names(
    columns: Columns, owners: Sequence[Owner], texts: Sequence[str]
) -> dict[Owner, list[Asked]]:
    listed = _lists(columns.facts["asked"], 6)
    parts = _named_parts(columns, texts)
    names: dict[Owner, list[Asked]] = {}
    for (row, path, kind, build_id, note, part_kinds), (address, named) in zip(
        listed, parts, strict=True
    ):
        answer = Resolution(
            named=named,
            path=_text(path),
            kind=_kind(kind),
            build_id=bytes.fromhex(build_id).hex(),
            note=_text(note),
            part_kinds={_text(part): _kind(one) for part, one in part_kinds.items()},
        )
        names.setdefault(owners[_row(row, owners)], []).append(Asked(address, answer))
    return names


def _named_parts(columns: Columns, texts: Sequence[str]) -> Iterator[tuple[Any, NamedAddresses]]:
    """Give, for each time that names were asked for, the addresses and their names."""
    asked, distance = columns.get("asked", np.uint64), columns.get("distance", np.uint64)
    function, reason = columns.get("function", np.int32), columns.get("reason", np.uint8)
    source = columns.get("source", np.uint8)
    address, size = (columns.get(f"function_{of}", np.uint64) for of in ("address", "size"))
    is_global = columns.get("is_global", np.uint8) != 0
    name, raw_name, object_path, alias = (
        _texts_at(columns, column, texts) for column in ("name", "raw_name", "object_path", "alias")
    )
    alias_count = columns.get("alias_count", np.uint32)
    _same_length("names", asked, distance, function, reason)
    _same_length(
        "functions", source, address, size, is_global, name, raw_name, object_path, alias_count
    )
    _check_sources(source, reason)
    asked_start = counted(columns.get("asked_count", np.uint32), len(asked), "addresses").tolist()
    counts = columns.get("function_count", np.uint32)
    function_start = counted(counts, len(name), "functions").tolist()
    alias_start = counted(alias_count, len(alias), "aliases").tolist()
    for (first, last), (low, high) in zip(
        itertools.pairwise(asked_start), itertools.pairwise(function_start), strict=True
    ):
        rows = function[first:last]
        if len(rows) and not -1 <= rows.min() <= rows.max() < high - low:
            raise damaged("an address is in no function that it has")
        bounds = itertools.pairwise(alias_start[low : high + 1])
        yield (
            asked[first:last],
            NamedAddresses(
                address=asked[first:last] + distance[first:last],
                function=rows,
                reason=reason[first:last],
                name=name[low:high],
                raw_name=raw_name[low:high],
                aliases=[tuple(alias[begin:end]) for begin, end in bounds],
                function_address=address[low:high],
                function_size=size[low:high],
                is_global=is_global[low:high],
                source=source[low:high],
                object_path=object_path[low:high],
            ),
        )


def _images(
    columns: Columns, owners: Sequence[Owner]
) -> Iterator[tuple[ObjectKey, Image | Missing]]:
    content = columns.get("image", np.uint8)
    position = 0
    for row, size_or_reason, ranges_or_note in _lists(columns.facts["images"], 3):
        key = owners[_row(row, owners)].key
        if isinstance(ranges_or_note, str):
            yield key, Missing(NameSource(size_or_reason), ranges_or_note)
            continue
        pieces = []
        for offset, size in ranges_or_note:
            if not 0 <= _whole(size) <= len(content) - position or _whole(offset) < 0:
                raise damaged("an image is cut")
            pieces.append((offset, content[position : position + size].tobytes()))
            position += size
        yield key, Image(_whole(size_or_reason), tuple(pieces))


def _lines(columns: Columns, owners: Sequence[Owner]) -> Iterator[tuple[ObjectKey, ObjectLines]]:
    start = columns.get("stretch", np.uint64)
    node = columns.index("stretch_frame", len(columns.get("frame_line", np.uint32)))
    _same_length("lines", start, node)
    bounds = counted(columns.get("stretch_count", np.uint32), len(start), "lines").tolist()
    listed = _lists(columns.facts["lines"], 2)
    for (row, note), (low, high) in zip(listed, itertools.pairwise(bounds), strict=True):
        lines = ObjectLines(start[low:high], node[low:high], _text(note))
        yield owners[_row(row, owners)].key, lines


def _tree(columns: Columns, texts: Sequence[str]) -> FrameTree:
    line = columns.get("frame_line", np.uint32)
    parent = columns.index("frame_parent", len(line))
    name, file = (columns.index(f"frame_{of}", len(texts)) for of in ("name", "file"))
    _same_length("frames", line, parent, name, file)
    if (parent >= np.arange(len(parent))).any():
        raise damaged("its inlined functions contain each other in a circle")
    return FrameTree(parent, name, file, line, texts)


def _code(
    columns: Columns, owners: Sequence[Owner], texts: Sequence[str]
) -> Iterator[tuple[tuple[Owner, int], Code]]:
    content = columns.get("code", np.uint8).tobytes()
    counts = columns.get("code_count", np.uint32)
    owner, start = columns.index("code_owner", len(owners)), columns.get("code_start", np.uint64)
    machine = columns.get("code_machine", np.uint32)
    reasons = _texts_at(columns, "code_reason", texts)
    _same_length("routines", owner, start, counts, machine, reasons)
    bounds = itertools.pairwise(counted(counts, len(content), "bytes of code").tolist())
    rows = zip(owner.tolist(), start.tolist(), machine.tolist(), reasons, bounds, strict=True)
    for row, first, em, reason, (low, high) in rows:
        if row < 0 or (low == high and not reason):
            raise damaged("a routine has neither code nor a reason")
        yield (owners[row], first), Code(content[low:high], em, reason)


def _source(columns: Columns, texts: Sequence[str]) -> dict[tuple[str, int], str]:
    files, lines = (_texts_at(columns, f"source_{of}", texts) for of in ("file", "text"))
    numbers = columns.get("source_line", np.uint32).tolist()
    _same_length("source lines", files, lines, numbers)
    return dict(zip(zip(files, numbers, strict=True), lines, strict=True))


def _jit_dumps(columns: Columns) -> dict[int, bytes | memoryview]:
    content = columns.get("jit", np.uint8).tobytes()
    listed = _lists(columns.facts["jit"], 2)
    sizes = np.array([_whole(size) for _, size in listed], np.uint32)
    bounds = counted(sizes, len(content), "bytes of jitdump files").tolist()
    pids = [_whole(pid) for pid, _ in listed]
    return {
        pid: content[low:high]
        for pid, (low, high) in zip(pids, itertools.pairwise(bounds), strict=True)
    }


def _texts_at(columns: Columns, name: str, texts: Sequence[str]) -> list[str]:
    rows = columns.index(name, len(texts))
    if len(rows) and rows.min() < 0:
        raise damaged(f"its column {name} lacks a text")
    return [texts[row] for row in rows.tolist()]


def _check_sources(*columns: Any) -> None:
    known = np.array(list(NameSource), np.uint8)
    if not all(np.isin(column, known).all() for column in columns):
        raise damaged("a name has no known source")


def _same_length(what: str, *columns: Any) -> None:
    if len({len(column) for column in columns}) > 1:
        raise damaged(f"its tables of {what} are of different lengths")


def _lists(value: Any, fields: int, most: int = 0) -> list[list[Any]]:
    lengths = range(fields, max(fields, most) + 1)
    if not all(isinstance(one, list) and len(one) in lengths for one in value):
        raise damaged("its facts cannot be read")
    return list(value)


def _row(value: Any, table: Sequence[object]) -> int:
    if not 0 <= _whole(value) < len(table):
        raise damaged("its facts point outside of a table")
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise damaged("its facts cannot be read")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or abs(value) >= 1 << 64:
        raise damaged("its facts cannot be read")
    return value


def _kind(value: Any) -> int:
    if not 0 <= _whole(value) < len(KIND_NAMES):
        raise damaged("its facts cannot be read")
    return int(value)


def _finite(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) < _LATEST_S:
        raise damaged("its facts cannot be read")
    return float(value)
