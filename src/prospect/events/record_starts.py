"""Words of a block → the exact places of its records.

Every record is a multiple of 8 bytes. Two sinks get the word positions of samples and of all other
records while they are in the cache. The result is the same as that of following the headers one by
one, each `size` leading to the next (``struct perf_event_header`` in
``include/uapi/linux/perf_event.h``). The work is less:

1. Consecutive samples of one size are compared at that stride.
2. Elsewhere every word that looks like the header of a sample is a candidate.
3. The candidates are then proved: from the batch's first record, which is certain, the chain must
   lead through every one of them. Only the gaps between them are walked, many at once. A long gap,
   such as thousands of records of starting programs, costs a step of Python for each word that
   only looks like a header (`records_between`).
4. A batch whose proof fails (a payload that looks like a header, damage) is proved again piece by
   piece. A piece that fails is walked record by record. So are batches of large records, for which
   this is fastest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from prospect.abi import constants as abi
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prospect.columns.array_types import I64, U64, Bools

    Positions = range | I64

# Words searched at a time (512 KiB): few enough to stay in a core's L2 cache until their columns
# are gathered, enough to make numpy's cost per call small.
WINDOW_WORDS = 1 << 17
# Words proved at a time: enough gaps to walk at once, few to repeat when a proof fails.
BATCH_WORDS = 1 << 20
# A batch of large records, which are walked: it has a few thousand.
_LARGE_BATCH_WORDS = 1 << 22
# Batches whose proof fails are proved again in pieces of this size, of which few fail.
_REPEATED_WORDS = 1 << 15
# Smaller blocks are walked: numpy's fixed costs are higher. This is more than the fixed part of a
# sample, so the search never reads beyond a block.
_SMALL_WORDS = 1 << 10
# A larger record is walked over faster than its payload is searched.
_LARGE_RECORD_WORDS = 128
_PROBED_RECORDS = 32
# After this many records with one header, more are expected.
_ALIKE_BEFORE_RUN = 16
# Headers compared at first for a run of equal ones, and the factor for each further comparison.
_FIRST_COMPARED = 64
_COMPARED_FACTOR = 4
# A shorter strided run is not worth its fixed cost.
_LEAST_RUN = 256
# A gap of this size has a dozen records or more, and is worth numpy's fixed cost.
_LONG_GAP_WORDS = 256
# Fewer gaps than this are walked one after the other.
_FEW_LANES = 48
# struct perf_event_header: type u32, misc u16, size u16.
LARGEST_RECORD_WORDS = (1 << 16) // 8
_HEADER_BYTES = 8
_TYPE_MASK = (1 << 32) - 1
_TYPE_AND_SIZE_MASK = _TYPE_MASK | 0xFFFF << 48

_MASK_TYPE = np.uint64(_TYPE_MASK)
_SAMPLE = np.uint64(abi.PERF_RECORD_SAMPLE)
_HIDDEN = np.uint64(abi.PERF_RECORD_HIDDEN_SAMPLE)
_SIZE_SHIFT = np.uint64(48)
_NOT_WHOLE_WORDS = np.uint64(7)


class Fault(NamedTuple):
    """The place where a chain of records breaks, and the size in the header there."""

    word: int
    size_bytes: int


class SampleSink(Protocol):
    """Receives samples: appended provisionally, rewound if they prove not to be samples."""

    def begin_batch(self, words: int, words_left: int, samples: int | None = None) -> None:
        """Reserve memory for the samples of `words`, the next of `words_left` of this block.

        `samples` is their number, None if it is unknown.
        """

    def rewind(self) -> None:
        """Forget the samples appended since the batch began."""

    def append(self, words: U64, positions: Positions) -> None:
        """Append the samples whose headers are at `positions`, ascending and not overlapping."""


class RecordSink(Protocol):
    """Receives the other records."""

    def append(self, words: U64, positions: I64) -> None:
        """Append the records whose headers are at `positions`, ascending."""


class Ignored:
    """A sink that ignores samples or other records."""

    def begin_batch(self, *_: int | None) -> None:
        """Do nothing."""

    def rewind(self) -> None:
        """Do nothing."""

    def append(self, words: U64, positions: Positions) -> None:
        """Do nothing."""


class Looks(NamedTuple):
    """The properties, besides its type, that distinguish a sample's header from other words.

    Attributes:
        least_words: the smallest size of a sample.
        id_word: the word of its id, 0 if unknown.
        lowest_id, highest_id: the range of the recording's ids.
        has_hidden: whether records of type PERF_RECORD_HIDDEN_SAMPLE are samples too.
    """

    least_words: int
    id_word: int = 0
    lowest_id: int = 0
    highest_id: int = 0
    has_hidden: bool = False

    def are_samples(self, headers: U64) -> Bools:
        """Return whether headers are those of samples, by their types."""
        type_ = headers & _MASK_TYPE
        found: Bools = type_ == _SAMPLE
        if self.has_hidden:
            found |= type_ == _HIDDEN
        return found

    @property
    def types(self) -> tuple[int, ...]:
        """The types of samples."""
        hidden = (abi.PERF_RECORD_HIDDEN_SAMPLE,) if self.has_hidden else ()
        return (abi.PERF_RECORD_SAMPLE, *hidden)


def find_records(
    words: U64,
    looks: Looks,
    samples: SampleSink,
    others: RecordSink,
    progress: Callable[[int], None] | None = None,
) -> Fault | None:
    """Hand every record of a block to `samples` or `others`, in the order of the chain.

    Args:
        words: u64[n] the block, beginning with a record's header.
        looks: of this recording's samples; except `has_hidden`, they affect only speed.
        samples: gets those.
        others: gets all other types.
        progress: called after each batch with the words of the block that were read.

    Returns:
        None, or the first header with an impossible size; the records before it were handed over.
    """
    view = words.data
    total = len(words)
    position = repeated = 0
    fault = None
    while position < total and fault is None:
        size = BATCH_WORDS if position >= repeated else _REPEATED_WORDS
        if are_large := _records_are_large(view, position):
            size = _LARGE_BATCH_WORDS
        stop = min(position + size, total)
        proved = None
        is_searched = stop - position > _SMALL_WORDS and not are_large
        if is_searched:
            samples.begin_batch(stop - position, total - position)
            chain = _scan(words, position, stop, looks, samples)
            proved = _prove(words, view, chain, stop, looks) if chain else None
            if proved is None:
                samples.rewind()
                if stop - position > _REPEATED_WORDS:
                    repeated = stop
                    continue
        if proved is None:
            proved = _walk(words, view, position, stop, looks)
            if not is_searched:
                samples.begin_batch(stop - position, total - position, len(proved.samples))
            samples.append(words, np.array(proved.samples, np.int64))
        if len(proved.others):
            others.append(words, np.asarray(proved.others, np.int64))
        position, fault = proved.position, proved.fault
        if progress is not None:
            progress(position)
    return fault


class _Walk(NamedTuple):
    """Records, the position of the next one, and the fault that ended the walk early."""

    samples: list[int]
    others: list[int] | I64
    position: int
    fault: Fault | None = None


def _walk(words: U64, view: memoryview, position: int, stop: int, looks: Looks) -> _Walk:
    """Follow the headers from `position` until a record begins at or after `stop`."""
    total, types = len(view), looks.types
    samples: list[int] = []
    others: list[int] = []
    before = alike = 0
    while position < stop:
        header = view[position]
        size = header >> 48
        # Most samples with copies of stacks have one size, and so have consecutive throttle
        # records: then all headers are compared at once.
        alike = alike + 1 if header == before else 0
        before = header
        if alike == _ALIKE_BEFORE_RUN and size >= _HEADER_BYTES and not size & 7:
            alike = 0
            run = _same_headers(words, position, min(stop, total - (size >> 3) + 1))
            if len(run):
                (samples if header & _TYPE_MASK in types else others).extend(run)
                position = run.stop
                continue
        following = position + (size >> 3)
        if size < _HEADER_BYTES or size & 7 or following > total:
            return _Walk(samples, others, position, Fault(position, size))
        if header & _TYPE_MASK in types:
            samples.append(position)
        else:
            others.append(position)
        position = following
    return _Walk(samples, others, position)


def _walk_others(words: U64, view: memoryview, position: int, stop: int, looks: Looks) -> _Walk:
    """Follow the headers, with numpy in a long gap without samples."""
    if stop - position >= _LONG_GAP_WORDS:
        others = records_between(words, position, stop)
        if others is not None and not looks.are_samples(words.take(others)).any():
            return _Walk([], others, stop)
    return _walk(words, view, position, stop, looks)


def _same_headers(words: U64, position: int, stop: int) -> range:
    """Return the positions of consecutive records with the header of the first one."""
    header = words[position]
    step = int(header >> np.uint64(51))
    heads = words[position:stop:step]
    count, compared = 0, _FIRST_COMPARED
    while count < len(heads):
        differs = heads[count : count + compared] != header
        first = int(differs.argmax())
        if differs[first]:
            count += first
            break
        count = min(count + compared, len(heads))
        compared *= _COMPARED_FACTOR
    return range(position, position + count * step, step)


def _records_are_large(view: memoryview, start: int) -> bool:
    position, met = start, 0
    while met < _PROBED_RECORDS and position < len(view):
        size_words = view[position] >> 51
        if not size_words:
            break
        position += size_words
        met += 1
    return position - start > met * _LARGE_RECORD_WORDS


class _Chain(NamedTuple):
    """Gaps between the candidates up to `edge`, the end of the last one.

    The chain is proved if each walk from `gap_begin` leads exactly to its `gap_end`, which is
    after it.
    """

    gap_begin: I64
    gap_end: I64
    edge: int


def _scan(words: U64, start: int, stop: int, looks: Looks, samples: SampleSink) -> _Chain | None:
    """Find a batch's candidates for samples and append them; None if two of them overlap."""
    begins: list[Iterable[int]] = []
    ends: list[Iterable[int]] = []
    edge = cursor = start
    while cursor < stop:
        if edge >= cursor:
            cursor = edge
            run = _equal_run(words, edge, min(edge + WINDOW_WORDS, stop), looks.least_words)
            if len(run) >= _LEAST_RUN:
                samples.append(words, run)
                edge = cursor = run.stop
                continue
        end = min(cursor + WINDOW_WORDS, stop)
        found, following = _candidates(words, cursor, end, looks)
        if len(found):
            broken = (following[:-1] != found[1:]).nonzero()[0]
            gap_begin, gap_end = following.take(broken), found.take(broken + 1)
            if (gap_begin > gap_end).any():
                return None
            samples.append(words, found)
            if found[0] > edge:
                begins.append((edge,))
                ends.append((int(found[0]),))
            begins.append(gap_begin)
            ends.append(gap_end)
            edge = int(following[-1])
        cursor = end
    return _Chain(_joined(begins), _joined(ends), edge)


def _joined(parts: list[Iterable[int]]) -> I64:
    if not parts:
        return np.empty(0, np.int64)
    return np.concatenate([np.asarray(part, np.int64) for part in parts])


def _equal_run(words: U64, position: int, stop: int, least_words: int) -> range:
    """Return the consecutive samples of equal size from `position` that begin before `stop`."""
    if position >= stop:
        return range(0)
    header = int(words[position])
    size = header >> 48
    stride = size >> 3
    if header & _TYPE_MASK != abi.PERF_RECORD_SAMPLE or size & 7 or stride < least_words:
        return range(0)
    count = min(-(-(stop - position) // stride), (len(words) - position) // stride)
    # Most runs are short if there are other records at all.
    for compared in (min(count, _LEAST_RUN), count):
        headers = words[position : position + compared * stride : stride]
        differs = (headers ^ np.uint64(header)) & np.uint64(_TYPE_AND_SIZE_MASK)
        if differs.any():
            count = int((differs != 0).argmax())
            break
    return range(position, position + count * stride, stride)


def _candidates(words: U64, begin: int, end: int, looks: Looks) -> tuple[I64, I64]:
    """Return starts and ends of candidates for samples in ``words[begin:end]``."""
    window = words[begin:end]
    found = looks.are_samples(window).nonzero()[0]
    size = window.take(found) >> _SIZE_SHIFT
    found += begin
    following = found + (size >> np.uint64(3)).view(np.int64)
    seems = (size >= np.uint64(8 * looks.least_words)) & ((size & _NOT_WHOLE_WORDS) == 0)
    if end + LARGEST_RECORD_WORDS > len(words):
        seems &= following <= len(words)
    if looks.id_word:
        id_ = words[looks.id_word :].take(found, mode="clip")
        seems &= (id_ - np.uint64(looks.lowest_id)) <= np.uint64(looks.highest_id - looks.lowest_id)
    if not seems.all():
        found, following = found[seems], following[seems]
    return found, following


def _prove(words: U64, view: memoryview, chain: _Chain, stop: int, looks: Looks) -> _Walk | None:
    """Walk the gaps of `chain`; return the records in them, None if the proof fails."""
    position, end = chain.gap_begin, chain.gap_end
    met: list[Iterable[int]] = []
    while len(position) > _FEW_LANES:
        header = words.take(position)
        size = header >> _SIZE_SHIFT
        impossible = (size < _HEADER_BYTES) | ((size & _NOT_WHOLE_WORDS) != 0)
        if (impossible | looks.are_samples(header)).any():
            return None
        met.append(position)
        position = position + (size >> np.uint64(3)).view(np.int64)
        if (position > end).any():
            return None
        unfinished = position < end
        position, end = position[unfinished], end[unfinished]
    for lane_begin, lane_end in zip(position.tolist(), end.tolist(), strict=True):
        lane = _walk_others(words, view, lane_begin, lane_end, looks)
        if lane.samples or lane.fault or lane.position != lane_end:
            return None
        met.append(lane.others)
    rest = _walk_others(words, view, chain.edge, stop, looks)
    if rest.samples or rest.fault:
        return None
    met.append(rest.others)
    others = _joined(met)
    others.sort()
    return _Walk([], others, rest.position)


_WORDS_SHIFT = np.uint64(51)
_LEAST_SIZE = np.uint64(8)
# The kernel's types are below 32, and perf's own from 64 on (6.18). Words of text and addresses
# have far higher numbers.
_MOST_TYPES = np.uint64(256)


def records_between(words: U64, begin: int, end: int) -> I64 | None:
    """Follow the headers from one word to another.

    Args:
        words: u64[n].
        begin: the position of a record.
        end: the position of another one, perhaps.

    Returns:
        i64[r] positions of the records; None if the headers do not lead from `begin` to `end`, or
        one has an unknown type: then the caller follows them one by one.
    """
    window = words[begin:end]
    is_type = (window & _MASK_TYPE) < _MOST_TYPES
    found = is_type.nonzero()[0]
    header = window.take(found)
    size = header >> _SIZE_SHIFT
    is_size = (size >= _LEAST_SIZE) & ((size & _NOT_WHOLE_WORDS) == 0)
    found, header = found[is_size], header[is_size]
    if not len(found) or found[0]:
        return None
    following = found + (header >> _WORDS_SHIFT).view(np.int64)
    leads_on = following[:-1] == found[1:]
    breaks = (~leads_on).nonzero()[0].tolist()
    breaks.append(len(found) - 1)
    parts: list[I64] = []
    first, last = 0, len(window)
    for place in breaks:
        if place < first:
            continue  # inside a record
        parts.append(found[first : place + 1])
        target = int(following[place])
        if target >= last:
            break
        first = int(np.searchsorted(found, target))
        if first == len(found) or found[first] != target:
            return None
    if target != last:
        return None
    return np.concatenate(parts) + begin
