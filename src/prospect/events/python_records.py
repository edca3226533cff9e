"""Samples of the event of Python frames → the stacks and names that they carry.

Comes in: words and positions of such samples, and the sample of the other events that follows each.
Goes out: `PythonRecords`. Whoever wrote the recording may have put anything there: what does not
fit its own record is left out and counted.

Defined by: `abi.python_frames`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import python_frames as wire
from prospect.abi.layout import layout_of
from prospect.columns.buffers import segments
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.abi.attr import EventDescription

    Words = NDArray[np.uint64]

_HEADER_HALVES = wire.STACK_BYTES // 4
_BLOB_HALVES = wire.HEADER.size // 4
_FRAME_HALVES = wire.FRAME.size // 4
_MOST_BLOBS = 1 << 18
_MOST_IMAGES = 1 << 16
_OF_STACKS = ("task", "status", "walk_ns", "image")
_OF_FRAMES = ("code", "last", "owner", "signature")


class CodeKey(NamedTuple):
    """What a code object is known by: of which image, at which address, with what signature."""

    image: int
    code: int
    signature: int


class CodeText(NamedTuple):
    """What is known of a code object, None for what is not there.

    `name` and `file` come with the `status` of their records. `beginning` is the 8 bytes with its
    first line.
    """

    name: tuple[int, bytes] | None = None
    file: tuple[int, bytes] | None = None
    lines: bytes | None = None
    beginning: int = 0


class PythonImage(NamedTuple):
    """An interpreter in a process: version as 0x030B, where its code and its loop are."""

    version: int
    text_begin: int
    text_end: int
    loop_begin: int
    loop_end: int


class PythonRecords(Record):
    """Stacks of Python frames, and what they consist of.

    Attributes:
        sample: i64[s] row of `Samples` that each stack belongs to, ascending.
        task: u64[s] pid in the low 32 bits, tid in the high 32, of the stack's own record.
        status: u16[s] as in `abi.python_frames`.
        walk_ns: u32[s] what reading it took.
        image: u64[s] key of `images`.
        start: i64[s + 1] into the frames below, the innermost first.
        code: u64[f] address of the frame's code object.
        last: u32[f] its last instruction: an offset in the code object, or a number.
        owner: u8[f] what marks where a run of frames begins.
        signature: u32[f] of the code object.
        images: by number.
        texts: of code objects.
        damaged: records that could not be read.
    """

    sample: NDArray[np.int64]
    task: NDArray[np.uint64]
    status: NDArray[np.uint16]
    walk_ns: NDArray[np.uint32]
    image: NDArray[np.uint64]
    start: NDArray[np.int64]
    code: NDArray[np.uint64]
    last: NDArray[np.uint32]
    owner: NDArray[np.uint8]
    signature: NDArray[np.uint32]
    images: dict[int, PythonImage]
    texts: dict[CodeKey, CodeText]
    damaged: int = 0

    def __len__(self) -> int:
        return len(self.sample)


def of_chosen_samples(records: PythonRecords, rows: NDArray[np.int64]) -> PythonRecords:
    """Return the stacks of samples that are chosen from those of a recording.

    Args:
        records: of the recording.
        rows: i64[n] the sample that each of the new ones was, ascending; one may be there twice.
    """
    if not len(records):
        return records
    # Of several before one sample only the last was read at it.
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
    words: Words
    length: NDArray[np.int64]
    sample: NDArray[np.int64]


class PythonColumns:
    """Takes the records in, provisionally as `SampleColumns` does."""

    def __init__(self, events: Sequence[EventDescription]) -> None:
        ids = [number for event in events for number in event.ids]
        self.ids = np.array(sorted(ids), np.uint64)
        # header, fixed part, then 32 bits with the size of the raw data
        layouts = [layout_of(event.attr) for event in events]
        self._raw = 2 * layouts[0].fixed_words if layouts else 0
        self._tid = layouts[0].sample.get("tid", 0) if layouts else 0
        self._parts: list[_Part] = []

    @property
    def mark(self) -> int:
        """How far it is, for `rewind`."""
        return len(self._parts)

    def rewind(self, mark: int) -> None:
        """Forget what was appended since."""
        del self._parts[mark:]

    def append(self, words: Words, positions: NDArray[np.int64], sample: NDArray[np.int64]) -> None:
        """Take records whose headers stand at `positions`, ascending.

        Args:
            words: of the block.
            positions: i64[p].
            sample: i64[p] row of the next sample of another event.
        """
        length = (words.take(positions) >> np.uint64(51)).view(np.int64)
        self._parts.append(_Part(words.take(segments(positions, length)), length, sample))

    def finish(self) -> PythonRecords | None:
        """Return all of them, None without any."""
        if not self._parts:
            return None
        words = np.concatenate([part.words for part in self._parts])
        length = np.concatenate([part.length for part in self._parts])
        sample = np.concatenate([part.sample for part in self._parts])
        self._parts.clear()
        return self._decoded(words, length, sample)

    def _decoded(
        self, words: Words, length: NDArray[np.int64], sample: NDArray[np.int64]
    ) -> PythonRecords:
        halves = words.view("<u4")
        begin = np.cumsum(length) - length
        at = 2 * begin + self._raw
        end = 2 * (begin + length)
        is_whole = at + 1 + _HEADER_HALVES <= end
        raw_end = at + 1 + halves.take(at, mode="clip").astype(np.int64) // 4
        end = np.minimum(end, raw_end)
        at = at + 1

        def field(number: int) -> NDArray[np.uint32]:
            return halves.take(at + number, mode="clip")

        is_whole &= (at + _HEADER_HALVES <= end) & (field(0) == wire.MAGIC)
        kind, count = field(1) & 0xFFFF, field(2).astype(np.int64)
        is_stack = is_whole & (kind == wire.KIND_STACK)
        fits = count * _FRAME_HALVES + _HEADER_HALVES <= end - at
        stacks = np.flatnonzero(is_stack & fits & (count <= wire.MOST_FRAMES))
        is_blob = is_whole & ~is_stack & (at + _BLOB_HALVES <= end)
        is_blob &= count <= 4 * (end - at - _BLOB_HALVES)
        blobs = np.flatnonzero(is_blob)
        images, texts = _read_blobs(words.view(np.uint8), at.take(blobs), count.take(blobs))
        frames = count.take(stacks)
        task = words.take(begin + self._tid) if self._tid else np.zeros(len(begin), np.uint64)
        image = field(4).astype(np.uint64) | field(5).astype(np.uint64) << np.uint64(32)
        start = np.zeros(len(stacks) + 1, np.int64)
        np.cumsum(frames, out=start[1:])
        # Where each frame stands, by its number among all.
        place = np.repeat(at.take(stacks) + _HEADER_HALVES - _FRAME_HALVES * start[:-1], frames)
        place += np.arange(0, _FRAME_HALVES * len(place), _FRAME_HALVES)
        low, high, last, marks = (halves.take(place + half) for half in range(_FRAME_HALVES))
        return PythonRecords(
            sample=sample.take(stacks),
            task=task.take(stacks),
            status=(field(1) >> np.uint32(16)).astype(np.uint16).take(stacks),
            walk_ns=field(3).take(stacks),
            image=image.take(stacks),
            start=start,
            code=low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32),
            last=last,
            owner=marks.astype(np.uint8),
            signature=marks >> np.uint32(wire.SIGNATURE_SHIFT),
            images=images,
            texts=texts,
            damaged=len(length) - len(stacks) - len(blobs),
        )


def _read_blobs(
    data: NDArray[np.uint8],
    at: NDArray[np.int64],
    count: NDArray[np.int64],
) -> tuple[dict[int, PythonImage], dict[CodeKey, CodeText]]:
    """Read records of names and images; the last one of a kind counts."""
    images: dict[int, PythonImage] = {}
    # Processes say the same names again and again: what is known of a key is made into one in the
    # end. Keys are plain tuples until then, which `CodeKey`s are equal to.
    beginnings: dict[tuple[int, int, int], int] = {}
    named: dict[int, dict[tuple[int, int, int], Any]] = {
        kind: {} for kind in (wire.KIND_NAME, wire.KIND_FILE, wire.KIND_LINES)
    }
    content = data.data
    for place, size in zip(at.tolist(), count.tolist(), strict=True):
        fields = wire.HEADER.unpack_from(content, 4 * place)
        _, kind, status, _, signature, image, code, beginning = fields
        begin = 4 * (place + _BLOB_HALVES)
        payload = bytes(content[begin : begin + size])
        if kind == wire.KIND_IMAGE and size == wire.IMAGE.size and len(images) < _MOST_IMAGES:
            version, _, *places = wire.IMAGE.unpack(payload)
            images[image] = PythonImage(version, *places)
            continue
        key = image, code, signature
        if kind not in named or (len(beginnings) >= _MOST_BLOBS and key not in beginnings):
            continue
        beginnings[key] = beginning
        named[kind][key] = payload if kind == wire.KIND_LINES else (status, payload)
    names, files, lines = named.values()
    texts = {
        CodeKey(*key): CodeText(names.get(key), files.get(key), lines.get(key), beginning)
        for key, beginning in beginnings.items()
    }
    return images, texts
