"""Record blocks → `Events`: the entry of this room. It decodes a damaged block up to the damage."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.abi.runtime_frames import is_frames_event, without_frames_event
from prospect.columns.buffers import segments
from prospect.events.events_limits import MOST_ADDED_BYTES
from prospect.events.record_columns import Events
from prospect.events.record_starts import Fault, Looks, find_records
from prospect.events.sample_schema import schema_of
from prospect.events.samples import SampleColumns
from prospect.events.side_tables import SideRecords, side_tables
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prospect.abi.attr import EventDescription
    from prospect.abi.recorded_facts import RecordBlock
    from prospect.columns.array_types import I64, U64, Bools
    from prospect.events.record_columns import Samples, Tasks
    from prospect.events.runtime_records import RuntimeColumns
    from prospect.events.sample_schema import Schema
    from prospect.events.side_tables import Records


_HEADER_BYTES = 8
_TYPE_MASK = (1 << 32) - 1
# A sample with the shortest record of Python frames.
_LEAST_FRAMES_WORDS = 5


def decode(  # noqa: PLR0913 - those behind the first two have defaults
    blocks: Iterable[RecordBlock],
    events: Sequence[EventDescription],
    damage: list[str] | None = None,
    clock_of_id: Mapping[int, int] | None = None,
    progress: Callable[[int], None] | None = None,
    *,
    innermost_functions: bool = False,
) -> Events:
    """Decode every record of a recording in one pass.

    Args:
        blocks: read one by one; a block's memory is not used after the next block begins, unless
            its samples have stack copies, which `Samples.user` refers to.
        events: the recording's events; `Samples.event` has their rows.
        damage: gets sentences on damage; the source of `blocks` may append its own.
            `Events.damage` is its content in the end.
        clock_of_id: id → position of its clock, for recordings by a clock bank.
        progress: called every few megabytes with the bytes of records read.
        innermost_functions: whether only the innermost function of runtimes' stacks matters.

    Raises:
        RecordingError: `events` is empty or its members' samples cannot be told apart.
    """
    runtimes = _runtime_columns(events, innermost=innermost_functions)
    events = without_frames_event(events)
    schema = schema_of(events, clock_of_id)
    looks = looks_of(schema, runtimes)
    samples = SampleColumns(schema, runtimes)
    side = SideRecords(schema)
    sentences = [] if damage is None else damage
    bytes_before = unread_bytes = 0
    left_blocks = iter(blocks)
    while (block := next(left_blocks, None)) is not None:
        samples.begin_block(block.cpu)
        words = _words(block)
        # Samples refer to copies of stacks in the blocks.
        release = None if samples.keeps_blocks else block.release
        words_read = _in_bytes(progress, bytes_before, release)
        fault = find_records(words, looks, samples, side, words_read)
        if fault is not None and block.resume is not None and _is_of_perf(words, fault):
            bytes_before += 8 * fault.word
            left_blocks = chain(block.resume(8 * fault.word), left_blocks)
            continue
        bytes_before += len(block.data)
        if fault is None and len(block.data) % 8:
            fault = Fault(len(words), len(block.data) % 8)
        if fault is not None:
            left = len(block.data) - 8 * fault.word
            sentences.append(_sentence(block, fault, left))
            unread_bytes += 0 if block.may_end_cut and _is_cut(fault, left) else left
    records = side.finish()
    tables = side_tables(records, _asks_for_build_ids(records, events, schema))
    sentences.extend(samples.damage())
    if side.short:
        sentences.append(f"records left out, shorter than their type's fields: {side.short}")
    if side.left_out_names:
        sentences.append(f"names left out, because all take too much memory: {side.left_out_names}")
    if side.unknown:
        sentences.append(f"records of unknown types, left out: {side.unknown}")
    unread_bytes += samples.left_out_bytes + 8 * side.left_out_words
    counts = dict(side.counts)
    if samples.met:
        counts[abi.PERF_RECORD_SAMPLE] = samples.met
    return Events(
        samples=_completed(samples.finish(), side, schema, tables.tasks),
        mmaps=tables.mmaps,
        tasks=tables.tasks,
        losses=tables.losses,
        kernel_symbols=tables.kernel_symbols,
        names=tables.names,
        build_ids=tables.build_ids,
        counts=dict(sorted(counts.items())),
        damage=tuple(sentences),
        unread_bytes=unread_bytes,
        switches=tables.switches,
        control_groups=tables.control_groups,
        runtimes=runtimes.finish() if runtimes else None,
    )


def _completed(samples: Samples, side: SideRecords, schema: Schema, tasks: Tasks) -> Samples:
    """Return samples with data from other records, and from their raw data."""
    samples = _with_deferred_chains(samples, side.deferred_chains)
    if schema.off_cpu_event < 0:
        return samples
    from prospect.events.off_cpu_samples import with_waiting_tasks  # noqa: PLC0415 - few have any

    return with_waiting_tasks(samples, schema.off_cpu_event, tasks)


def _asks_for_build_ids(
    records: Records, events: Sequence[EventDescription], schema: Schema
) -> Bools:
    """Return bool[n]: whether the event of each record has ``attr.build_id``.

    Records that perf synthesized have the id 0, and belong to all events.
    """
    asks = np.array([event.attr.flags & abi.FLAG_BUILD_ID != 0 for event in events])
    if schema.ids is None or asks.all() or not asks.any():
        return np.full(len(records.id), asks.any())
    rows, _ = schema.ids.events_of(records.id)
    asked: Bools = asks.take(rows) | (records.id == 0) | (rows < 0)
    return asked


def _in_bytes(
    progress: Callable[[int], None] | None, bytes_before: int, release: Callable[[int], None] | None
) -> Callable[[int], None]:
    """Return a function of the words read of a block that calls both functions with bytes."""

    def words_read(words: int) -> None:
        if progress is not None:
            progress(bytes_before + 8 * words)
        if release is not None:
            release(8 * words)

    return words_read


def _runtime_columns(
    events: Sequence[EventDescription], *, innermost: bool
) -> RuntimeColumns | None:
    """Return columns for records of runtimes' frames; None if no event has them."""
    frames = [one for one in events if is_frames_event(one.attr, one.name)]
    if not frames or len(frames) == len(events):
        return None
    from prospect.events.runtime_records import RuntimeColumns  # noqa: PLC0415 - rarely recorded

    return RuntimeColumns(frames, innermost=innermost)


def looks_of(schema: Schema, runtimes: RuntimeColumns | None = None) -> Looks:
    """Return the looks of a recording's samples, and of those with runtimes' frames."""
    least = schema.least_fixed_words
    has_hidden = runtimes is not None
    if not schema.ids or not schema.id_word:
        return Looks(least, has_hidden=has_hidden)
    ids = schema.ids.ids
    if runtimes is not None:
        least, ids = min(least, _LEAST_FRAMES_WORDS), np.append(ids, runtimes.ids)
    return Looks(least, schema.id_word, int(ids.min()), int(ids.max()), has_hidden)


def _words(block: RecordBlock) -> U64:
    """Return a block as u64 words."""
    words = np.frombuffer(block.data, "<u8", len(block.data) // 8)
    # numpy's fast paths need aligned words; a mapped file and every ring are.
    return words if words.flags.aligned else words.copy()


def _is_of_perf(words: U64, fault: Fault) -> bool:
    """Return whether a record of perf's own, of a size in partial words, ended the chain."""
    type_ = int(words[fault.word]) & _TYPE_MASK
    return type_ >= abi.PERF_RECORD_USER_TYPE_START and fault.size_bytes % 8 != 0


def _is_cut(fault: Fault, left: int) -> bool:
    """Return whether a record is cut: its size is possible, and larger than the rest."""
    return left < _HEADER_BYTES or (fault.size_bytes > left and not fault.size_bytes % 8)


def _sentence(block: RecordBlock, fault: Fault, left: int) -> str:
    offset = 8 * fault.word
    if block.file_offset >= 0:
        offset += block.file_offset
    where = f"{block.origin or 'recording'}: the record at offset {offset}"
    return f"{where} claims {fault.size_bytes} bytes; {left} bytes from there on were not read"


# Call chains in user space that the kernel recorded later than their samples → the samples' own.
#
# With ``perf record --call-graph fp,defer`` the chain of a sample ends with a marker and a
# cookie. When the task returns to user space, a record has the rest of the chain, with that
# cookie. Several samples may have one cookie. Without such a record the chain ends at the marker.
#
# Source: ``include/uapi/linux/perf_event.h``, PERF_RECORD_CALLCHAIN_DEFERRED and
# PERF_CONTEXT_USER_DEFERRED (Linux 7.0).

_MARK = np.uint64(abi.PERF_CONTEXT_USER_DEFERRED % 2**64)
# Words of header, cookie and number of addresses, and their places.
_HEAD_WORDS, _COOKIE, _COUNT = 3, 1, 2


def _with_deferred_chains(samples: Samples, records: Sequence[U64]) -> Samples:
    """Append deferred chains to those of their samples.

    Args:
        samples: in any order.
        records: the words of PERF_RECORD_CALLCHAIN_DEFERRED, several records in each.
    """
    if not records or samples.chain is None or samples.chain_start is None:
        return samples
    chain, start = samples.chain, samples.chain_start
    mark = np.flatnonzero(chain == _MARK)
    if not len(mark):
        return samples
    row = np.searchsorted(start, mark, side="right") - 1
    row, first = np.unique(row, return_index=True)
    mark = mark.take(first)
    words = np.concatenate([np.zeros(1, np.uint64), *records])
    cookie, begin, count = _deferred(words)
    # If a chain ends with its marker, the word after it is that of another sample, not a cookie.
    wanted = chain.take(mark + 1, mode="clip")
    place = np.searchsorted(cookie, wanted)
    place[place == len(cookie)] = 0
    is_found = (cookie.take(place) == wanted) & (mark + 1 < start.take(row + 1))
    added = np.where(is_found, count.take(place), 0)
    added[np.cumsum(added) > MOST_ADDED_BYTES // 8] = 0
    # Each sample has two pieces: its own chain, and the deferred one.
    pieces = np.zeros((len(start) - 1, 2), np.int64)
    lengths = np.zeros_like(pieces)
    pieces[:, 0], lengths[:, 0] = start[:-1], np.diff(start)
    lengths[row, 0] = mark - start.take(row)
    pieces[row, 1], lengths[row, 1] = len(chain) + begin.take(place), added
    source = np.concatenate((chain, words))
    return replace(
        samples,
        chain=source.take(segments(pieces.reshape(-1), lengths.reshape(-1))),
        chain_start=np.append(0, np.cumsum(lengths.sum(axis=1))),
    )


def _deferred(words: U64) -> tuple[U64, I64, I64]:
    """Return the cookies of records, ascending, and start and number of their addresses.

    The last record of a cookie counts. There is always a row for cookie 0.
    """
    begins, at = [0], 1
    while at + _HEAD_WORDS <= len(words):
        begins.append(at)
        at += max(int(words[at]) >> 51, _HEAD_WORDS)
    rows = np.array(begins[1:], np.int64)
    end = np.append(rows[1:], len(words))[: len(rows)]
    count = np.minimum(words.take(rows + _COUNT), np.uint64(1 << 16)).astype(np.int64)
    count = np.minimum(count, np.maximum(end - rows - _HEAD_WORDS, 0))
    cookie = np.append(np.uint64(0), words.take(rows + _COOKIE))
    begin, count = np.append(0, rows + _HEAD_WORDS), np.append(0, count)
    backwards = np.arange(len(cookie))[::-1]
    known, last = np.unique(cookie.take(backwards), return_index=True)
    order = backwards.take(last)
    return known, begin.take(order), count.take(order)
