"""Answers ↔ the bytes of an archive's section.

The bytes are a head and one Zstandard frame. This has a JSON object with the columns' names, types
and lengths and with facts, then the columns. Numbers of 8 bytes are stored as differences, and all
numbers by planes of bytes of equal weight: each halves the compressed size. Tables of one kind are
concatenated, with the length of each; texts and owners have numbers in the whole archive.

An archive may come from anyone. Its size bounds its unpacked size, and every length and every row
of another table is checked here, so that readers of the answers need no checks. Its contents may be
wrong, as those of any recording.
"""

from __future__ import annotations

import itertools
import json
import struct
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import zstandard

from prospect.archived.archived_limits import (
    LATEST_S,
    MOST_PIDS,
    MOST_RATIO,
    MOST_UNPACKED_BYTES,
    SLACK_BYTES,
    WINDOW_BYTES,
)
from prospect.archived.kept_answers import (
    Answers,
    Asked,
    Code,
    FrameTree,
    Image,
    ObjectLines,
    Owner,
)
from prospect.errors import RecordingError
from prospect.profile.builder import NamedAddresses
from prospect.profile.model import KIND_NAMES
from prospect.profile.naming import NameSource
from prospect.symbols.objects import Missing, ObjectKey
from prospect.symbols.resolution import Resolution

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I32, I64, U8, U32


MAGIC = b"PRSPARCH"
VERSION = 1

# Magic, version, flags (0), bytes that the frame unpacks to.
_HEAD = struct.Struct("<8sIIQ")
_LENGTH = struct.Struct("<Q")
_LEVEL = 12
_TYPES: dict[str, type[np.generic]] = {
    "u1": np.uint8,
    "u4": np.uint32,
    "i4": np.int32,
    "u8": np.uint64,
}

_Scalar = TypeVar("_Scalar", bound=np.generic)


class Columns:
    """The unpacked columns, and `facts`, the JSON object."""

    def __init__(self, facts: dict[str, Any], columns: dict[str, NDArray[Any]]) -> None:
        self.facts = facts
        self._columns = columns

    def get(self, name: str, dtype: type[_Scalar]) -> NDArray[_Scalar]:
        """Return a column of this type.

        Raises:
            RecordingError: there is none.
        """
        column = self._columns.get(name)
        if column is None or column.dtype != np.dtype(dtype):
            raise damaged(f"it has no column {name}")
        return column

    def index(self, name: str, rows: int) -> I32:
        """Return a column of rows of a table, -1 for none.

        Raises:
            RecordingError: one is outside of the table.
        """
        column = self.get(name, np.int32)
        if len(column) and not -1 <= column.min() <= column.max() < rows:
            raise damaged(f"its column {name} points outside of a table")
        return column


def damaged(what: str) -> RecordingError:
    """Return the error for a damaged archive."""
    return RecordingError(f"the archive in the recording is damaged: {what}; archive it again")


def pack(facts: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the section; the types of columns are u1, u4, i4 and u8."""
    listed = [[name, column.dtype.str[1:], len(column)] for name, column in columns.items()]
    head = json.dumps({"columns": listed, "facts": facts}, separators=(",", ":")).encode("ascii")
    parts = [_LENGTH.pack(len(head)), head]
    parts += [_stored(column) for column in columns.values()]
    content = b"".join(parts)
    frame = zstandard.ZstdCompressor(level=_LEVEL).compress(content)
    return _HEAD.pack(MAGIC, VERSION, 0, len(content)) + frame


def unpack(section: bytes | memoryview) -> Columns:
    """Unpack a section.

    Raises:
        RecordingError: it is damaged, of another version, or too large when unpacked.
    """
    content = memoryview(_decompressed(memoryview(section)))
    if len(content) < _LENGTH.size:
        raise damaged("it is cut")
    (size,) = _LENGTH.unpack_from(content)
    position = _LENGTH.size + size
    try:
        document = json.loads(bytes(content[_LENGTH.size : position]))
        listed, facts = document["columns"], document["facts"]
        wanted = [(str(name), _TYPES[kind], int(rows)) for name, kind, rows in listed]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise damaged("its list of columns cannot be read") from error
    if not isinstance(facts, dict):
        raise damaged("it has no facts")
    columns = {}
    for name, kind, rows in wanted:
        length = rows * np.dtype(kind).itemsize
        if rows < 0 or length > len(content) - position:
            raise damaged(f"its column {name} is cut")
        columns[name] = _restored(content[position : position + length], kind)
        position += length
    return Columns(facts, columns)


def counted(column: U32, total: int, what: str) -> I64:
    """Return the bounds of parts by their lengths, i64[n + 1].

    Raises:
        RecordingError: they do not add up to `total`.
    """
    start = np.append(0, np.cumsum(column.astype(np.int64)))
    if start[-1] != total:
        raise damaged(f"the numbers of {what} do not add up")
    return start


def text_columns(texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the columns of a list of texts, which may have surrogates (PEP 383)."""
    encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
    return {
        "text": np.frombuffer(b"".join(encoded), np.uint8),
        "text_bytes": np.array([len(text) for text in encoded], np.uint32),
    }


def texts_of(columns: Columns) -> list[str]:
    """Return the list of texts.

    Raises:
        RecordingError: the columns are damaged.
    """
    text = columns.get("text", np.uint8).tobytes()
    start = counted(columns.get("text_bytes", np.uint32), len(text), "texts").tolist()
    return [
        text[begin:end].decode("utf-8", "surrogateescape")
        for begin, end in itertools.pairwise(start)
    ]


def _decompressed(section: memoryview) -> bytes:
    if len(section) < _HEAD.size:
        raise damaged("it is cut")
    magic, version, _, size = _HEAD.unpack_from(section)
    if magic != MAGIC or version != VERSION:
        raise RecordingError(
            "the archive in the recording was not written by this version of Prospect"
        )
    frame = section[_HEAD.size :]
    if size > min(MOST_UNPACKED_BYTES, SLACK_BYTES + MOST_RATIO * len(frame)):
        raise damaged("it claims to unpack to more than an archive can hold")
    try:
        if zstandard.frame_content_size(frame) != size:
            raise damaged("its sizes contradict each other")
        unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        content: bytes = unpacker.decompress(frame, max_output_size=size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise damaged("it cannot be unpacked") from error
    if len(content) != size:
        raise damaged("it cannot be unpacked")
    return content


def _stored(column: NDArray[Any]) -> bytes:
    if column.dtype.itemsize == 8:
        column = np.diff(column, prepend=column.dtype.type(0))
    octets = np.ascontiguousarray(column).view(np.uint8)
    weights = octets.reshape(len(column), column.dtype.itemsize)
    return weights.T.tobytes()


def _restored(content: memoryview, kind: type[np.generic]) -> NDArray[Any]:
    dtype = np.dtype(kind)
    weights = np.frombuffer(content, np.uint8).reshape(dtype.itemsize, -1)
    column = np.ascontiguousarray(weights.T).view(dtype.newbyteorder("<")).reshape(-1)
    return np.cumsum(column, dtype=dtype) if dtype.itemsize == 8 else column


_Columns = dict[str, "NDArray[Any]"]


class _Numbering:
    """Numbers of texts and owners, in the order of their first use."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.owners: dict[Owner, int] = {}

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def text_rows(self, texts: Iterable[str]) -> I32:
        return np.array([self.text(text) for text in texts], np.int32)

    def owner(self, owner: Owner) -> int:
        return self.owners.setdefault(owner, len(self.owners))

    def object(self, key: ObjectKey) -> int:
        return self.owner(Owner(key))


def encode(answers: Answers) -> bytes:
    """Return the section of these answers."""
    numbers = _Numbering()
    asked = [(owner, one) for owner, several in answers.names.items() for one in several]
    columns = (
        _name_columns([one for _, one in asked], numbers)
        | _line_columns(answers, numbers)
        | _code_columns(answers, numbers)
        | _source_columns(answers, numbers)
    )
    images, columns["image"] = _image_columns(answers, numbers)
    dumps = answers.jit_dumps
    columns["jit"] = np.frombuffer(b"".join(dumps.values()), np.uint8)
    facts = {
        "origin": answers.origin,
        "recorded_at": answers.recorded_at,
        "limits": list(answers.limits),
        "process_notes": [list(note) for note in answers.process_notes],
        "asked": [
            [numbers.owner(owner), one.path, one.kind, one.build_id, one.note, one.part_kinds]
            for owner, (_, one) in asked
        ],
        "images": images,
        "jit": [[pid, len(content)] for pid, content in dumps.items()],
        "lines": [[numbers.object(key), one.note] for key, one in answers.lines.items()],
    }
    facts["owners"] = [_owner_fields(owner) for owner in numbers.owners]
    return pack(facts, columns | text_columns(list(numbers.texts)))


def _owner_fields(owner: Owner) -> list[Any]:
    key = owner.key
    path = key.path.decode("utf-8", "surrogateescape")
    numbers = [key.major, key.minor, key.inode, key.kind]
    life = [key.life] if key.life else []
    return [path, key.build_id.hex(), *numbers, list(owner.pids), *life]


def _name_columns(asked: Sequence[Asked], numbers: _Numbering) -> _Columns:
    named = [one.answer.named for one in asked]
    aliases = [alias for part in named for several in part.aliases for alias in several]
    return {
        "asked_count": _counts(len(one.address) for one in asked),
        "asked": _joined([one.address for one in asked], np.uint64),
        # The distance is the same over a whole segment of an image.
        "distance": _joined(
            [part.address - one.address for one, part in zip(asked, named, strict=True)], np.uint64
        ),
        "function": _joined([part.function for part in named], np.int32),
        "reason": _joined([part.reason for part in named], np.uint8),
        "function_count": _counts(len(part.name) for part in named),
        "name": numbers.text_rows(name for part in named for name in part.name),
        "raw_name": numbers.text_rows(name for part in named for name in part.linkage_name),
        "alias_count": _counts(len(several) for part in named for several in part.aliases),
        "alias": numbers.text_rows(aliases),
        "function_address": _joined([part.function_address for part in named], np.uint64),
        "function_size": _joined([part.function_size for part in named], np.uint64),
        "is_global": _joined([part.is_global.astype(np.uint8) for part in named], np.uint8),
        "source": _joined([part.source for part in named], np.uint8),
        "object_path": numbers.text_rows(path for part in named for path in part.object_path),
    }


def _line_columns(answers: Answers, numbers: _Numbering) -> _Columns:
    ranges = list(answers.lines.values())
    none = np.zeros(0, np.int32)
    tree = answers.tree or FrameTree(none, none, none, none.astype(np.uint32), [])
    text_row = np.append(numbers.text_rows(tree.texts), np.int32(-1))
    return {
        "stretch_count": _counts(len(one.start) for one in ranges),
        "stretch": _joined([one.start for one in ranges], np.uint64),
        "stretch_frame": _joined([one.node for one in ranges], np.int32),
        "frame_parent": tree.parent,
        "frame_name": text_row.take(tree.name),
        "frame_file": text_row.take(tree.file),
        "frame_line": tree.line,
    }


def _code_columns(answers: Answers, numbers: _Numbering) -> _Columns:
    codes = list(answers.code.values())
    owners = [numbers.owner(owner) for owner, _ in answers.code]
    return {
        "code_owner": np.array(owners, np.int32),
        "code_start": np.array([start for _, start in answers.code], np.uint64),
        "code_count": _counts(len(code.content) for code in codes),
        "code_machine": np.array([code.machine for code in codes], np.uint32),
        "code_reason": numbers.text_rows(code.reason for code in codes),
        "code": np.frombuffer(b"".join(code.content for code in codes), np.uint8),
    }


def _source_columns(answers: Answers, numbers: _Numbering) -> _Columns:
    return {
        "source_file": numbers.text_rows(file for file, _ in answers.source),
        "source_line": np.array([line for _, line in answers.source], np.uint32),
        "source_text": numbers.text_rows(answers.source.values()),
    }


def _image_columns(answers: Answers, numbers: _Numbering) -> tuple[list[Any], U8]:
    """Return the owner and the ranges of pieces of each image, and the bytes of all pieces."""
    facts: list[Any] = []
    contents = []
    for key, image in answers.images.items():
        row = numbers.object(key)
        if isinstance(image, Image):
            ranges = [[offset, len(piece)] for offset, piece in image.pieces]
            facts.append([row, image.size, ranges])
            contents += [piece for _, piece in image.pieces]
        else:
            facts.append([row, int(image.reason), image.note])
    return facts, np.frombuffer(b"".join(contents), np.uint8)


def _counts(counts: Iterable[int]) -> U32:
    return np.array(list(counts), np.uint32)


def _joined(parts: list[NDArray[_Scalar]], dtype: type[_Scalar]) -> NDArray[_Scalar]:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)


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
    if len(pids) > MOST_PIDS:
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
    """Yield the addresses of each question, and their names."""
    asked, distance = columns.get("asked", np.uint64), columns.get("distance", np.uint64)
    function, reason = columns.get("function", np.int32), columns.get("reason", np.uint8)
    source = columns.get("source", np.uint8)
    address, size = (columns.get(f"function_{of}", np.uint64) for of in ("address", "size"))
    is_global = columns.get("is_global", np.uint8) != 0
    name, linkage_name, object_path, alias = (
        _texts_at(columns, column, texts) for column in ("name", "raw_name", "object_path", "alias")
    )
    alias_count = columns.get("alias_count", np.uint32)
    _same_length("names", asked, distance, function, reason)
    _same_length(
        "functions", source, address, size, is_global, name, linkage_name, object_path, alias_count
    )
    known = np.array(list(NameSource), np.uint8)
    if not np.isin(source, known).all() or not np.isin(reason, known).all():
        raise damaged("a name has no known source")
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
                linkage_name=linkage_name[low:high],
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
    _same_length("functions", owner, start, counts, machine, reasons)
    bounds = itertools.pairwise(counted(counts, len(content), "bytes of code").tolist())
    rows = zip(owner.tolist(), start.tolist(), machine.tolist(), reasons, bounds, strict=True)
    for row, first, em, reason, (low, high) in rows:
        if row < 0 or (low == high and not reason):
            raise damaged("a function has neither code nor a reason")
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
    if type(value) not in (int, float) or not abs(value) < LATEST_S:
        raise damaged("its facts cannot be read")
    return float(value)
