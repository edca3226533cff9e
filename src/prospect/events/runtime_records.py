"""Samples of the event of runtimes' frames → their stacks and names.

A stack belongs to the next sample of another event. The records are untrusted: damaged ones are
left out and counted. See `abi.runtime_frames`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import runtime_frames as wire
from prospect.abi.record_layout import layout_of
from prospect.columns.buffers import segments
from prospect.events.events_limits import MOST_BLOBS, MOST_IMAGES, MOST_RUNTIME_BYTES
from prospect.events.sample_schema import IdTable
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.attr import EventDescription
    from prospect.columns.array_types import I64, U8, U16, U32, U64, Bools


_HEADER_HALVES = wire.STACK_BYTES // 4
_BLOB_HALVES = wire.HEADER.size // 4
_FRAME_HALVES = wire.FRAME.size // 4
# Memory of the objects around the text of a code object.
_OBJECT_BYTES = 1 << 9
# Fields of `CodeText`: texts, which have a status, and tables.
TEXTS = {wire.KIND_NAME: "name", wire.KIND_FILE: "file", wire.KIND_SCOPE: "scope"}
TABLES = {wire.KIND_LINES: "lines", wire.KIND_POSITIONS: "positions"}
_OF_STACKS = ("task", "status", "walk_ns", "image")
_OF_FRAMES = ("code", "last", "owner", "signature")


class CodeKey(NamedTuple):
    """The identity of a function: its image, its number there, and its signature."""

    image: int
    code: int
    signature: int


class CodeText(NamedTuple):
    """The text of a function, None for missing parts.

    `name`, `file` and `scope` have the `status` of their records. `beginning` is 8 bytes from the
    records; in a code object of CPython they contain its first line.
    """

    name: tuple[int, bytes] | None = None
    file: tuple[int, bytes] | None = None
    lines: bytes | None = None
    beginning: int = 0
    scope: tuple[int, bytes] | None = None
    positions: bytes | None = None


class RuntimeImage(NamedTuple):
    """A runtime in a process: version as 0x030B, bounds of its code and its loop.

    For `described` see `abi.runtime_frames`; `user` distinguishes users.
    """

    version: int
    text_begin: int
    text_end: int
    loop_begin: int
    loop_end: int
    described: int = 0
    user: int = 0
    runtime: int = wire.CPYTHON


class NameRoom:
    """A bound on the names of code objects, for each image, for each user, and for all.

    If there is no room for more, the present names stay.
    """

    def __init__(self, most_bytes: int) -> None:
        """Begin with a bound on all bytes; a user may have half of them, an image an eighth."""
        self._most = most_bytes
        self._taken: dict[CodeKey, tuple[int, int]] = {}
        self._of_image: dict[int, int] = {}
        self._of_user: dict[int, int] = {}
        self._all = 0

    @property
    def taken_share(self) -> float:
        """The part of the room that is in use, 0 to 1."""
        return self._all / self._most

    def take(self, key: CodeKey, text: CodeText, user: int) -> bool:
        """Reserve room for a code object, in exchange for its present room, if there is any."""
        texts = (part[1] for part in (text.name, text.file, text.scope) if part)
        parts = *texts, text.lines or b"", text.positions or b""
        size = _OBJECT_BYTES + sum(map(len, parts))
        before = self._taken.get(key)
        self.forget(key)
        is_taken = (
            self._of_image.get(key.image, 0) + size <= self._most // 8
            and self._of_user.get(user, 0) + size <= self._most // 2
            and self._all + size <= self._most
        )
        if is_taken:
            self._take(key, size, user)
        elif before:
            self._take(key, *before)
        return is_taken

    def forget(self, key: CodeKey) -> None:
        """Release the room of a code object, if it has any."""
        size, user = self._taken.pop(key, (0, 0))
        if size:
            self._add(key, -size, user)

    def _take(self, key: CodeKey, size: int, user: int) -> None:
        self._taken[key] = size, user
        self._add(key, size, user)

    def _add(self, key: CodeKey, size: int, user: int) -> None:
        self._all += size
        self._of_image[key.image] = self._of_image.get(key.image, 0) + size
        self._of_user[user] = self._of_user.get(user, 0) + size
        if not self._of_image[key.image]:
            del self._of_image[key.image]


class RuntimeRecords(Record):
    """Stacks of frames of runtimes.

    Attributes:
        sample: i64[s] row of `Samples` of each stack, ascending.
        task: u64[s] pid in the low 32 bits, tid in the high 32, of the stack's own record.
        status: u16[s] as in `abi.runtime_frames`.
        walk_ns: u32[s] the time of the walk.
        image: u64[s] key of `images`.
        start: i64[s + 1] into the frames below, the innermost first.
        code: u64[f] number of the frame's function, such as the address of its code object.
        last: u32[f] its last instruction: an offset in the code object, or a number.
        owner: u8[f] the runtime's mark of the frame.
        signature: u32[f] of the function.
        damaged: records that could not be read.
        left_out: image and number of its functions without room for their names.
    """

    sample: I64
    task: U64
    status: U16
    walk_ns: U32
    image: U64
    start: I64
    code: U64
    last: U32
    owner: U8
    signature: U32
    images: dict[int, RuntimeImage]
    texts: dict[CodeKey, CodeText]
    damaged: int = 0
    left_out: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.sample)


def of_chosen_samples(records: RuntimeRecords, rows: I64) -> RuntimeRecords:
    """Return the stacks of chosen samples of a recording.

    Args:
        rows: i64[n] the former row of each sample, ascending; one may occur twice.
    """
    if not len(records):
        return records
    # If several precede one sample, the last one belongs to it.
    last = np.maximum(np.searchsorted(records.sample, rows, side="right") - 1, 0)
    sample = np.flatnonzero(records.sample.take(last) == rows)
    stacks = last.take(sample)
    length = np.diff(records.start).take(stacks)
    frames = segments(records.start.take(stacks), length)
    start = np.zeros(len(stacks) + 1, np.int64)
    np.cumsum(length, out=start[1:])
    return replace(
        records,
        sample=sample,
        start=start,
        **{name: getattr(records, name).take(stacks) for name in _OF_STACKS},
        **{name: getattr(records, name).take(frames) for name in _OF_FRAMES},
    )


class _Part(NamedTuple):
    """The content of some records: columns as in `RuntimeRecords`, and words of all except stacks.

    `length` i64[s] is the number of frames of each stack. `blobs` i64[b] is the place in `words` of
    the header of each name or image, in halves, and `bytes` i64[b] the size of its content.
    """

    sample: I64
    task: U64
    status: U16
    walk_ns: U32
    image: U64
    length: I64
    code: U64
    last: U32
    owner: U8
    signature: U32
    words: U64
    blobs: I64
    bytes: I64
    damaged: int


class RuntimeColumns:
    """Receives the records, provisionally as `SampleColumns` does.

    Each is read while it is in the cache, and nothing else of its block is kept.
    """

    def __init__(self, events: Sequence[EventDescription], *, innermost: bool = False) -> None:
        """Begin with the events that have such records.

        Args:
            innermost: whether to keep only the frames of a stack up to the first one that is
                certainly a function, not a call from C.
        """
        self._table = IdTable.build(events, None)
        self.ids = np.empty(0, np.uint64) if self._table is None else self._table.ids
        # header, fixed part, then 32 bits with the size of the raw data
        layouts = [layout_of(event.attr) for event in events]
        self._raw = 2 * layouts[0].fixed_words if layouts else 0
        self._tid = layouts[0].sample.get("tid", 0) if layouts else 0
        self._innermost = innermost
        self._parts: list[_Part] = []

    @property
    def mark(self) -> int:
        """A moment that `rewind` can return to."""
        return len(self._parts)

    def rewind(self, mark: int) -> None:
        """Forget the records appended since `mark`."""
        del self._parts[mark:]

    def are_mine(self, ids: U64) -> Bools:
        """Return whether ids of samples are those of such records, bool[n]."""
        return np.zeros(len(ids), np.bool_) if self._table is None else self._table.knows(ids)

    def append(self, words: U64, positions: I64, sample: I64) -> None:
        """Append the records whose headers are at `positions`, ascending.

        `sample` i64[p] is the row of the next sample of another event.
        """
        halves = words.view("<u4")
        length = (words.take(positions) >> np.uint64(51)).view(np.int64)
        at = 2 * positions + self._raw
        end = 2 * (positions + length)
        is_whole = at + 1 + _HEADER_HALVES <= end
        raw_end = at + 1 + halves.take(at, mode="clip").astype(np.int64) // 4
        end = np.minimum(end, raw_end)
        at += 1

        def field(number: int) -> U32:
            return halves.take(at + number, mode="clip")

        is_whole &= (at + _HEADER_HALVES <= end) & np.isin(field(0), (wire.MAGIC, wire.OLD_MAGIC))
        kind, count = field(1) & 0xFFFF, field(2).astype(np.int64)
        is_stack = is_whole & (kind == wire.KIND_STACK)
        fits = count * _FRAME_HALVES + _HEADER_HALVES <= end - at
        stacks = np.flatnonzero(is_stack & fits & (count <= wire.MOST_FRAMES))
        is_blob = is_whole & ~is_stack & (at + _BLOB_HALVES <= end)
        is_blob &= count <= 4 * (end - at - _BLOB_HALVES)
        blobs = np.flatnonzero(is_blob)
        first = at.take(stacks) + _HEADER_HALVES
        frames = count.take(stacks)
        if self._innermost:
            frames = _innermost(halves, first, frames)
        place = np.repeat(first - _FRAME_HALVES * (np.cumsum(frames) - frames), frames)
        place += np.arange(0, _FRAME_HALVES * len(place), _FRAME_HALVES)
        low, high, last, marks = (halves.take(place + half) for half in range(_FRAME_HALVES))
        task = words.take(positions + self._tid) if self._tid else np.zeros(len(at), np.uint64)
        image = field(4).astype(np.uint64) | field(5).astype(np.uint64) << np.uint64(32)
        blob_words, before = length.take(blobs), positions.take(blobs)
        moved = before - (np.cumsum(blob_words) - blob_words)
        self._parts.append(
            _Part(
                sample=sample.take(stacks),
                task=task.take(stacks),
                status=(field(1) >> np.uint32(16)).astype(np.uint16).take(stacks),
                walk_ns=field(3).take(stacks),
                image=image.take(stacks),
                length=frames,
                code=low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32),
                last=last,
                owner=marks.astype(np.uint8),
                signature=marks >> np.uint32(wire.SIGNATURE_SHIFT),
                words=words.take(segments(before, blob_words)),
                blobs=at.take(blobs) - 2 * moved,
                bytes=count.take(blobs),
                damaged=len(at) - len(stacks) - len(blobs),
            )
        )

    def finish(self) -> RuntimeRecords | None:
        """Return all records, None for none."""
        parts = self._parts
        if not parts:
            return None
        self._parts = []
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("sample", *_OF_STACKS, *_OF_FRAMES)
        }
        images, texts, left_out = _read_blobs(parts)
        return RuntimeRecords(
            **columns,
            start=np.cumsum(np.concatenate([[0], *(part.length for part in parts)])),
            images=images,
            texts=texts,
            left_out=tuple(left_out.items()),
            damaged=sum(part.damaged for part in parts),
        )


def _innermost(halves: U32, first: I64, count: I64) -> I64:
    """Return the number of frames up to the first one that is not a call from C, i64[s].

    CPython before 3.12 has no frame for a call from C, so one frame more may be kept.
    """
    from prospect.abi import cpython  # noqa: PLC0415 - few recordings have such frames

    found = np.minimum(count, 1)
    left = np.flatnonzero(count)
    while len(left):
        place = first.take(left) + _FRAME_HALVES * found.take(left) - 1
        is_call = (halves.take(place) & 0xFF) >= cpython.OWNED_BY_C
        left = left[is_call & (found.take(left) < count.take(left))]
        found[left] += 1
    return found


def _read_blobs(
    parts: Sequence[_Part],
) -> tuple[dict[int, RuntimeImage], dict[CodeKey, CodeText], dict[int, int]]:
    """Read records of names and images; the last one of a kind counts.

    Returns:
        Images, names, and the number of code objects of each image without room.
    """
    images: dict[int, RuntimeImage] = {}
    # Processes repeat names, so each key's parts are joined in the end. Until then keys are plain
    # tuples, which are equal to `CodeKey`s.
    beginnings: dict[tuple[int, int, int], int] = {}
    named: dict[int, dict[tuple[int, int, int], Any]] = {kind: {} for kind in (*TEXTS, *TABLES)}
    blobs = (
        (part.words.view(np.uint8).data, *blob)
        for part in parts
        for blob in zip(part.blobs.tolist(), part.bytes.tolist(), strict=True)
    )
    for content, place, size in blobs:
        fields = wire.HEADER.unpack_from(content, 4 * place)
        _, kind, status, _, signature, image, code, beginning = fields
        begin = 4 * (place + _BLOB_HALVES)
        payload = bytes(content[begin : begin + size])
        if kind == wire.KIND_IMAGE and size == wire.IMAGE.size and len(images) < MOST_IMAGES:
            version, described, *places = wire.IMAGE.unpack(payload)
            runtime, version = version >> wire.RUNTIME_SHIFT, version & wire.VERSION_MASK
            images[image] = RuntimeImage(version, *places)._replace(
                described=described, user=code, runtime=runtime
            )
            continue
        key = image, code, signature
        if kind not in named or (len(beginnings) >= MOST_BLOBS and key not in beginnings):
            continue
        beginnings[key] = beginning
        named[kind][key] = payload if kind in TABLES else (status, payload)
    names, files, scopes, lines, positions = named.values()
    room, left_out = NameRoom(MOST_RUNTIME_BYTES), dict[int, int]()
    texts = {}
    for place, beginning in beginnings.items():
        key = CodeKey(*place)
        text = CodeText(
            *(names.get(place), files.get(place), lines.get(place), beginning),
            *(scopes.get(place), positions.get(place)),
        )
        image = images.get(key.image)
        if room.take(key, text, image.user if image else 0):
            texts[key] = text
        else:
            left_out[key.image] = left_out.get(key.image, 0) + 1
    return images, texts, left_out
