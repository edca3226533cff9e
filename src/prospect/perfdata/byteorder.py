"""Records of a big-endian machine → the same records as a little-endian machine writes them.

All 64-bit words are swapped at once. Then the fields that are no such words are repaired: record
headers, pairs of 32-bit fields, names.
Source: ``perf_event__swap_ops`` in ``tools/perf/util/session.c`` and
``evsel__parse_sample()`` in ``tools/perf/util/evsel.c``, Linux 6.18. Unlike perf, this keeps the
bytes of raw data and user stacks, and bit-fields inside words (branch flags, data_src), as the
machine had them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.abi.record_layout import BODIES, MMAP2_BY_BUILD_ID, layout_of, read_format_words
from prospect.columns.sorting import distinct, run_lengths, run_starts
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prospect.abi.attr import EventAttr, EventDescription
    from prospect.abi.record_layout import SampleLayout
    from prospect.columns.array_types import I64, U64, Bools

    _Words = U64
    _Rows = I64

# Attributes that differ between events without changing the layout of their records.
_WITHOUT_EFFECT = {"type": 0, "config": 0, "sample_period": 0, "config1": 0, "config2": 0}


class _Records(NamedTuple):
    """Records by the words where they start and end, and the row of their event."""

    start: _Rows
    end: _Rows
    event: _Rows


class _SideLayout(NamedTuple):
    """A record's fields before its sample_id tail; bytes or 64-bit words follow them."""

    big: struct.Struct
    little: struct.Struct
    bytes_follow: bool


def _side(head: str, *, bytes_follow: bool = False) -> _SideLayout:
    return _SideLayout(struct.Struct(">" + head), struct.Struct("<" + head), bytes_follow)


_BYTES_FOLLOW = {
    abi.PERF_RECORD_MMAP,
    abi.PERF_RECORD_COMM,
    abi.PERF_RECORD_MMAP2,
    abi.PERF_RECORD_KSYMBOL,
    abi.PERF_RECORD_BPF_EVENT,
    abi.PERF_RECORD_CGROUP,
    abi.PERF_RECORD_TEXT_POKE,
}
_MMAP2_BY_BUILD_ID = _side(MMAP2_BY_BUILD_ID, bytes_follow=True)
# All others end with 64-bit words, which are already swapped.
_SIDE_LAYOUTS = {
    kind: _side(body, bytes_follow=True) if kind in _BYTES_FOLLOW else _side(body.rstrip("Q"))
    for kind, body in BODIES.items()
}


def to_little_endian(records: bytes, events: Sequence[EventDescription]) -> bytes:
    """Return big-endian records as little-endian ones.

    Records are whole, and multiples of 8 bytes. The events define samples and tails.
    """
    stored = np.frombuffer(records, np.uint64)
    words = stored.byteswap()
    start = _record_starts(words)
    head = words[start]
    type_ = head >> np.uint64(32)
    end = start + ((head & np.uint64(0xFFFF)) >> np.uint64(3)).astype(np.int64)
    misc = head >> np.uint64(16) & np.uint64(0xFFFF)
    words[start] = type_ | misc << np.uint64(32) | head << np.uint64(48)
    is_sample = type_ == abi.PERF_RECORD_SAMPLE
    event = _event_rows(words, start, end, is_sample, events)
    samples = np.flatnonzero(is_sample)
    for own in _by_event(samples, event[samples]):
        attr = events[int(event[own[0]])].attr
        _mend_samples(words, stored, start[own], end[own], attr)
    side = _Records(start[~is_sample], end[~is_sample], event[~is_sample])
    layouts = {row: layout_of(events[row].attr) for row in distinct(side.event).tolist()}
    _mend_side_records(words, stored, side, layouts)
    return words.tobytes()


def _by_event(records: _Rows, event: _Rows) -> Iterator[_Rows]:
    """Yield the records of each event; a file may describe thousands of events without records."""
    order = np.argsort(event, kind="stable")
    begin = run_starts(event[order])
    for first, length in zip(begin.tolist(), run_lengths(begin, len(order)).tolist(), strict=True):
        yield records[order[first : first + length]]


def _record_starts(words: _Words) -> _Rows:
    sizes = (words & np.uint64(0xFFFF)).view(np.int64) >> 3
    starts, at, end, step = [], 0, len(words), sizes.tolist()
    while at < end:
        starts.append(at)
        at += step[at] or end
    return np.array(starts, np.int64)


def _event_rows(
    words: _Words, start: _Rows, end: _Rows, is_sample: Bools, events: Sequence[EventDescription]
) -> _Rows:
    """Return each record's event, 0 if it names none."""
    rows = np.zeros(len(start), np.int64)
    if len({event.attr._replace(**_WITHOUT_EFFECT) for event in events}) < 2:
        return rows
    # perf allows events of different layouts in a recording only if their ids are in one place:
    # IDENTIFIER first in samples and last in other records, or ID.
    layout = layout_of(events[0].attr)
    sample_word = layout.sample.get("identifier") or layout.sample.get("id")
    tail_word = layout.tail.get("identifier") or layout.tail.get("id")
    ids = np.array([i for event in events for i in event.ids], np.uint64)
    row_of_id = np.repeat(np.arange(len(events)), [len(event.ids) for event in events])
    if not sample_word or not len(ids):
        return rows
    order = np.argsort(ids)
    at = np.where(is_sample, start + sample_word, end + (tail_word or 0))
    found = words.take(at, mode="clip")
    place = order.take(np.searchsorted(ids[order], found), mode="clip")
    return np.where(ids[place] == found, row_of_id[place], 0)


def _exchange_halves(words: _Words, at: _Rows) -> None:
    """Put the two 32-bit fields of each word into their order in memory."""
    pair = words[at]
    words[at] = pair >> np.uint64(32) | pair << np.uint64(32)


def _restore_bytes(words: _Words, stored: _Words, at: _Rows, count: _Rows) -> None:
    """Undo the swap of `count` words from `at` on."""
    total = int(count.sum())
    first = np.repeat(at - (np.cumsum(count) - count), count)
    place = first + np.arange(total)
    words[place] = stored[place]


def _mend_samples(words: _Words, stored: _Words, start: _Rows, end: _Rows, attr: EventAttr) -> None:
    """Repair the samples of an event, one field of all samples at a time."""
    layout = layout_of(attr)
    whole = start + layout.fixed_words <= end
    start, end = start[whole], end[whole]
    for field in ("tid", "cpu"):
        if field in layout.sample:
            _exchange_halves(words, start + layout.sample[field])
    at = start + layout.fixed_words

    def length_at(place: _Rows) -> _Rows:
        """Return a count of the file, bounded by the rest of the sample."""
        room = np.maximum(end - place - 1, 0)
        count: _Words = np.minimum(words.take(place, mode="clip"), room.astype(np.uint64))
        return count.astype(np.int64)

    if attr.sample_type & abi.PERF_SAMPLE_READ:
        words_fixed, words_each = read_format_words(attr.read_format)
        at = at + words_fixed + (words_each * length_at(at) if words_each else 0)
    if attr.sample_type & abi.PERF_SAMPLE_CALLCHAIN:
        at = at + 1 + length_at(at)
    if attr.sample_type & abi.PERF_SAMPLE_RAW:
        at = at + _mend_raw(words, stored, at, end)
    if attr.sample_type & abi.PERF_SAMPLE_BRANCH_STACK:
        extra = bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_HW_INDEX)
        entry = 3 + bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_COUNTERS)
        at = at + 1 + extra + entry * length_at(at)
    if attr.sample_type & abi.PERF_SAMPLE_REGS_USER:
        at = at + 1 + np.where(length_at(at) > 0, attr.sample_regs_user.bit_count(), 0)
    if attr.sample_type & abi.PERF_SAMPLE_STACK_USER:
        place = np.where(at < end, at, 0)
        size = np.where(at < end, words[place] >> np.uint64(3), np.uint64(0))
        room = np.maximum(end - at - 1, 0).astype(np.uint64)
        _restore_bytes(words, stored, at + 1, np.minimum(size, room).astype(np.int64))


def _mend_raw(words: _Words, stored: _Words, at: _Rows, end: _Rows) -> _Rows:
    """Repair raw data (u32 size, then bytes); return its size in words."""
    inside = at < end
    place = at[inside]
    size = words[place] >> np.uint64(32)
    room = (end - at)[inside].astype(np.uint64)
    count = np.minimum((size + np.uint64(4)) >> np.uint64(3), room).astype(np.int64)
    _restore_bytes(words, stored, place, np.maximum(count, 1))
    words[place] = words[place] & ~np.uint64(0xFFFF_FFFF) | size
    result = np.zeros(len(at), np.int64)
    result[inside] = count
    return result


def _mend_side_records(
    words: _Words, stored: _Words, records: _Records, layouts: Mapping[int, SampleLayout]
) -> None:
    """Repair records other than samples, one by one, because their names have any length."""
    out = words.data.cast("B")
    raw = stored.data.cast("B")
    for first, end, row in zip(
        records.start.tolist(), records.end.tolist(), records.event.tolist(), strict=True
    ):
        type_, misc = struct.unpack_from("<IH", out, 8 * first)
        layout = layouts[row]
        body_end = end - layout.tail_words
        if type_ >= abi.PERF_RECORD_USER_TYPE_START or body_end <= first:
            continue
        side = _SIDE_LAYOUTS.get(type_)
        if type_ == abi.PERF_RECORD_MMAP2 and misc & abi.PERF_RECORD_MISC_MMAP_BUILD_ID:
            side = _MMAP2_BY_BUILD_ID
        at = 8 * first + 8
        if side is not None and at + side.big.size <= 8 * body_end:
            side.little.pack_into(out, at, *side.big.unpack_from(raw, at))
            at += side.big.size
            if side.bytes_follow:
                out[at : 8 * body_end] = raw[at : 8 * body_end]
        for field in ("tid", "cpu"):
            if field in layout.tail:
                place = 8 * (end + layout.tail[field])
                struct.pack_into("<II", out, place, *struct.unpack_from(">II", raw, place))
