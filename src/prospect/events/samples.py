"""Positions of samples → the columns of `Samples`, call chains and groups included.

Layouts: the comment of PERF_RECORD_SAMPLE and ``struct read_format`` in
``include/uapi/linux/perf_event.h`` (Linux 6.18). `user_states` reads what follows the call chain.

`SharedSamples`: if two profilers sample one software event on a CPU, the kernel fills in one
perf_sample_data for both, so the second event's samples have the id of the first and the time of
its clock. All samples in a recording's rings are those of its own events, so a foreign id only
shows that this has happened. The record of the context switch, which follows in the ring, has the
right time. Source: ___perf_sw_event(), perf_prepare_sample() and __perf_event_header__init_id() in
``kernel/events/core.c`` (Linux 6.18; since 6.2, which shares `sample_flags`).

`GroupReads`: in a group of events (``{a,b}:S``) each member has a row for each sample of its
leader, with its count since the leader's last sample, unless that is 0.
Source: ``deliver_sample_group()`` and ``deliver_sample_value()`` in ``tools/perf/util/session.c``,
Linux 6.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.buffers import Column, narrowed, segments
from prospect.columns.sorting import distinct
from prospect.events.events_limits import MOST_MEMBERS
from prospect.events.record_columns import Samples, chosen_samples
from prospect.events.record_starts import LARGEST_RECORD_WORDS
from prospect.events.sample_schema import at_rows
from prospect.events.user_states import Mark, UserStateColumns
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, U8, U64, Bools
    from prospect.columns.buffers import Scalar
    from prospect.events.raw_fields import RawColumns
    from prospect.events.runtime_records import RuntimeColumns
    from prospect.events.sample_schema import GroupLayout, IdTable, Schema

    Positions = range | I64


class ChainPlaces(NamedTuple):
    """The place of each sample's chain.

    Attributes:
        begin: i64[n] words.
        length: i64[n] words; 0 for a chain that is longer than its record.
        cut: the number of such chains.
        behind: i64[n] the word after the chain; beyond the record for a cut one.
    """

    begin: I64
    length: I64
    cut: int
    behind: I64


def find_chains(
    words: U64, positions: I64, size_words: I64, rows: I64 | None, schema: Schema
) -> ChainPlaces:
    """Find the call chains of whole samples.

    Args:
        words: u64 the block.
        positions: i64[n] the samples' headers.
        size_words: i64[n] the samples' sizes.
        rows: i64[n] the samples' events, None if the schema is uniform.
    """
    at: I64 = positions + at_rows(schema.fixed_words, rows)
    end = positions + size_words
    each = at_rows(schema.read_words_each, rows)
    if not isinstance(each, int) or each:
        # A group has `nr` values. Without a group `each` is 0 and that word is not used.
        values = _count_at(words, at, end, each)
        is_cut = (values < 0) & (np.asarray(each) > 0)
        at = np.where(is_cut, end, at + values * each)
    at = at + at_rows(schema.read_words, rows)
    has_chain = at_rows(schema.has_chain, rows)
    if isinstance(has_chain, int) and not has_chain:
        return ChainPlaces(at, np.zeros(len(at), np.int64), 0, at)
    length = _count_at(words, at, end, 1)
    if not isinstance(has_chain, int):
        length = np.where(has_chain, length, 0)
    is_cut = length < 0
    cut = int(np.count_nonzero(is_cut))
    behind = at + has_chain + length
    if cut:
        behind = np.where(is_cut, end + 1, behind)
        length = np.maximum(length, 0)
    return ChainPlaces(at + 1, length, cut, behind)


def _count_at(words: U64, at: I64, end: I64, each: int | I64) -> I64:
    """Return the count at `at`, -1 if its items would end after `end`."""
    room = end - at - 1
    count = words.take(at, mode="clip")
    most = np.maximum(room, 0).astype(np.uint64)
    if not isinstance(each, int) or each > 1:
        most //= np.maximum(each, 1).view(np.uint64)
    fits = (count <= most) & (room >= 0)
    length = count.view(np.int64)
    return length if fits.all() else np.where(fits, length, -1)


# Between a sample and the record of its switch: copies of stacks, perhaps an interrupt.
_SOON_NS = 100_000_000
_MASK_TYPE = np.uint64(0xFFFFFFFF)
_SWITCH_TYPES = np.array([abi.PERF_RECORD_SWITCH, abi.PERF_RECORD_SWITCH_CPU_WIDE], np.uint64)
_SIZE_SHIFT = np.uint64(51)
_OUT_BIT = np.uint64(abi.PERF_RECORD_MISC_SWITCH_OUT << 32)


class SharedSamples(NamedTuple):
    """Samples that may be shared.

    Attributes:
        end: the end of each sample, where the next record begins.
        rows: their events.
        is_foreign: whether they have the id of an event outside the recording.
    """

    end: I64
    rows: I64
    is_foreign: Bools


def true_times(words: U64, met: SharedSamples, task: U64, time_ns: U64, schema: Schema) -> U64:
    """Return the samples' times, u64[n], those of context switches by their own clock.

    Args:
        met: the samples.
        task: u64[n] their tasks.
        time_ns: u64[n] the times in the samples.
    """
    tail_time, tail_task = schema.switch_tail
    of_switch = np.flatnonzero(met.rows == schema.switch_event)
    if not (tail_time and tail_task and len(of_switch)):
        return time_ns
    at = met.end.take(of_switch)
    header = words.take(at, mode="clip")
    record_end = at + (header >> _SIZE_SHIFT).view(np.int64)
    is_switch = np.isin(header & _MASK_TYPE, _SWITCH_TYPES) & ((header & _OUT_BIT) != 0)
    is_own = is_switch & (record_end > at) & (record_end <= len(words))
    is_own &= words.take(record_end + tail_task, mode="clip") == task.take(of_switch)
    switch_ns = words.take(record_end + tail_time, mode="clip")
    ahead = (switch_ns - time_ns.take(of_switch)).view(np.int64)
    is_soon = (ahead >= 0) & (ahead <= _SOON_NS)
    if (is_soon | ~is_own).all():
        return time_ns
    # If a ring was emptied between the two, use the clocks' difference elsewhere.
    differs = np.int64(np.median(ahead[is_own & ~is_soon]))
    shifted = (time_ns.take(of_switch).view(np.int64) + differs).view(np.uint64)
    is_wrong = np.where(is_own, ~is_soon, met.is_foreign.take(of_switch))
    found = time_ns.copy()
    found[of_switch[is_wrong]] = np.where(is_own, switch_ns, shifted)[is_wrong]
    return found


class GroupSamples(NamedTuple):
    """Samples: i64[n] positions of headers and ends, their events; u64[n] their tasks."""

    begin: I64
    end: I64
    rows: I64
    task: U64


class _Reads(NamedTuple):
    """Values: the row of the sample, the counter's id, its value, and its owner.

    `owner` u64 is the thread if each has its own values, else 0.
    """

    sample: I64
    id: U64
    value: U64
    owner: U64


class GroupReads:
    """The values of all groups so far.

    Attributes:
        damaged: number of samples whose values could not be read.
    """

    def __init__(self, layouts: Sequence[GroupLayout | None]) -> None:
        self._layouts = layouts
        self._reads: list[_Reads] = []
        self.damaged = 0
        self.is_wanted = any(layouts)

    @property
    def mark(self) -> tuple[int, int]:
        """A moment that `rewind` can return to."""
        return len(self._reads), self.damaged

    def rewind(self, mark: tuple[int, int]) -> None:
        """Forget what was appended since `mark`."""
        reads, self.damaged = mark
        del self._reads[reads:]

    def append(self, words: U64, met: GroupSamples, first_sample: int) -> None:
        """Append the values of consecutive samples.

        A group that would end after its sample, or has too many members, is left out.

        Args:
            words: u64 the block.
            first_sample: the row of the first among all samples.
        """
        for row in distinct(met.rows).tolist():
            layout = self._layouts[row]
            if layout is None:
                continue
            of_event = np.flatnonzero(met.rows == row)
            at = met.begin.take(of_event) + layout.begin
            values = at + layout.values
            room = np.maximum(met.end.take(of_event) - values, 0) // layout.each
            count = words.take(at, mode="clip")
            is_whole = count <= np.minimum(room, MOST_MEMBERS).astype(np.uint64)
            self.damaged += int(np.count_nonzero(~is_whole))
            count = np.where(is_whole, count.view(np.int64), 0)
            place = segments(values, layout.each * count)[:: layout.each]
            owner = met.task.take(of_event) if layout.is_inherited else np.zeros(len(at), np.uint64)
            self._reads.append(
                _Reads(
                    np.repeat(first_sample + of_event, count),
                    words.take(place + 1),
                    words.take(place),
                    np.repeat(owner, count),
                )
            )

    def add_members(self, samples: Samples, ids: IdTable) -> Samples:
        """Return the samples, with those of the other members after each leader's."""
        if not self._reads:
            return samples
        columns = [np.concatenate(column) for column in zip(*self._reads, strict=True)]
        # The values of a window are ordered by event.
        in_order = np.argsort(columns[0], kind="stable")
        reads = _Reads(*(column.take(in_order) for column in columns))
        counted = _since_last(reads)
        event, clock = ids.events_of(reads.id)
        is_member = (event != samples.event.take(reads.sample)) & np.isin(reads.id, ids.ids)
        is_member &= counted > 0
        kept = np.flatnonzero(is_member)
        rows = np.concatenate((np.arange(len(samples)), reads.sample.take(kept)))
        order = np.argsort(rows, kind="stable")

        def merged(own: NDArray[Scalar], of_members: NDArray[Any]) -> NDArray[Scalar]:
            return np.concatenate((own, of_members.take(kept).astype(own.dtype))).take(order)

        return replace(
            chosen_samples(samples, rows.take(order)),
            event=merged(samples.event, event),
            clock=merged(samples.clock, clock),
            period=merged(samples.period, counted),
        )


def _since_last(reads: _Reads) -> U64:
    """Return each counter's count since its last value, or from the start, u64[m]."""
    order = np.lexsort((np.arange(len(reads.id)), reads.owner, reads.id))
    id_, owner, value = reads.id.take(order), reads.owner.take(order), reads.value.take(order)
    before = np.zeros(len(value), np.uint64)
    before[1:] = np.where((id_[1:] == id_[:-1]) & (owner[1:] == owner[:-1]), value[:-1], 0)
    counted = np.empty(len(value), np.uint64)
    # Only a reset counter has a smaller value than before.
    counted[order] = np.where(value >= before, value - before, value)
    return counted


NO_TASK = np.uint64((1 << 64) - 1)
NO_CPU = 0xFFFF

# A header's size in words, as a number of bytes in its highest 16 bits.
_WORDS_SHIFT = 51
# Memory beyond the estimate from the samples so far, so that buffers rarely grow twice.
_HEADROOM = 1.25
# Bytes of a header in the file: misc, after the type.
_MODE_BYTE = 4
_MODE_MASK = np.uint8(abi.PERF_RECORD_MISC_CPUMODE_MASK)


class _Done(NamedTuple):
    """Numbers of appended and left-out items, at some moment."""

    samples: int = 0
    chain_words: int = 0
    short: int = 0
    unknown: int = 0
    left_out_words: int = 0
    cut_chains: int = 0
    states: Mark = Mark()
    groups: tuple[int, int] = (0, 0)
    python: int = 0
    raw: tuple[int, int] = (0, 0)


class _Chosen(NamedTuple):
    """Samples that can be read.

    Attributes:
        positions: their headers.
        header: u64[n] the headers.
        rows: i64[n] their events, None if there is one.
        clock: u8[n] their clocks, None if there is one.
        is_foreign: bool[n] whether no event of the recording has their ids; None without ids.
    """

    positions: Positions
    header: U64
    rows: I64 | None = None
    clock: U8 | None = None
    is_foreign: Bools | None = None

    @property
    def size_words(self) -> I64:
        return (self.header >> np.uint64(_WORDS_SHIFT)).view(np.int64)

    def keep(self, keep: Bools) -> _Chosen:
        if keep.all():
            return self
        return _Chosen(
            _as_array(self.positions)[keep],
            self.header[keep],
            None if self.rows is None else self.rows[keep],
            None if self.clock is None else self.clock[keep],
            None if self.is_foreign is None else self.is_foreign[keep],
        )


class SampleColumns:
    """The columns of all samples so far; a `record_starts.SampleSink`."""

    def __init__(self, schema: Schema, python: RuntimeColumns | None = None) -> None:
        self._schema = schema
        self._python = python
        self._done = _Done()
        self._sure = self._done
        self._capacity = 0
        self._chain_capacity = 0
        self._words_met = 0
        self._block_cpu = np.uint64(NO_CPU)
        self._ip = Column(np.uint64)
        self._task = Column(np.uint64)
        self._time = Column(np.uint64)
        self._mode = Column(np.uint8)
        self._cpu = Column(np.uint16)
        self._period = Column(np.uint64)
        self._event = Column(np.uint16)
        self._clock = Column(np.uint8)
        self._control_group = Column(np.uint64)
        self._chain_begin = Column(np.int64)
        self._chain = Column(np.uint64)
        ids = schema.ids
        self._ids = ids if ids and (ids.several_events or ids.several_clocks) else None
        self._has_chains = not isinstance(schema.has_chain, int) or schema.has_chain == 1
        self._has_groups = bool(np.any(schema.group_word))
        self._states = UserStateColumns(schema.trailing)
        self._groups = GroupReads(schema.groups)
        self._raw: RawColumns | None = None
        if schema.raw_fields or schema.raw_data:
            from prospect.events.raw_fields import RawColumns  # noqa: PLC0415 - few have any

            self._raw = RawColumns(schema.raw_fields, schema.raw_data)

    def begin_block(self, cpu: int) -> None:
        """Set the CPU of the next samples without one (-1 unknown)."""
        self._block_cpu = np.uint64(cpu if 0 <= cpu < NO_CPU else NO_CPU)

    @property
    def met(self) -> int:
        """Number of samples, including those left out."""
        return self._done.samples + self._done.short + self._done.unknown

    @property
    def keeps_blocks(self) -> bool:
        """Whether the result of `finish` refers to the blocks."""
        return self._states.is_wanted

    @property
    def left_out_bytes(self) -> int:
        """Size of the samples left out."""
        return 8 * self._done.left_out_words

    def begin_batch(self, words: int, words_left: int, samples: int | None = None) -> None:
        """Reserve memory for the samples of `words`, the next of `words_left` of this block.

        The rate of samples so far determines the memory for the rest of the block. Memory that is
        never written is never resident, but copying grown buffers is expensive.
        """
        self._sure = self._done
        done, least = self._done, self._schema.least_fixed_words
        needed = words // least + 1 if samples is None else samples
        capacity = self._room(
            done.samples, self._capacity, needed, words_left // least + 1, words_left
        )
        if capacity > self._capacity:
            self._capacity = capacity
            columns = (self._ip, self._task, self._time, self._mode, self._cpu)
            more = (self._period, self._event, self._clock, self._chain_begin, self._control_group)
            for column in (*columns, *more):
                column.reserve(done.samples, capacity)
        if self._has_chains:
            # The last sample of a batch may end after it.
            needed = min(words + LARGEST_RECORD_WORDS, words_left)
            self._chain_capacity = self._room(
                done.chain_words, self._chain_capacity, needed, words_left, words_left
            )
            self._chain.reserve(done.chain_words, self._chain_capacity)
        self._words_met += words

    def _room(self, used: int, capacity: int, needed: int, at_most: int, words_left: int) -> int:
        if used + needed <= capacity:
            return capacity
        rate = used / self._words_met if self._words_met else 0.0
        expected = min(needed + int(rate * words_left * _HEADROOM), at_most)
        return max(used + expected, used + used // 2)

    def rewind(self) -> None:
        """Forget the samples appended since the batch began."""
        self._done = self._sure
        self._states.rewind(self._sure.states)
        self._groups.rewind(self._sure.groups)
        if self._python is not None:
            self._python.rewind(self._sure.python)
        if self._raw is not None:
            self._raw.rewind(self._sure.raw)

    def append(self, words: U64, positions: Positions) -> None:
        """Append the samples whose headers are at `positions`, ascending and not overlapping.

        Samples that are shorter than their event's fixed part, or whose id belongs to no event, are
        left out and counted.
        """
        if self._python is not None:
            positions = self._without_python(words, _as_array(positions), self._python)
        chosen = self._choose(words, positions)
        begin, count = self._done.samples, len(chosen.positions)
        if not count:
            return
        self._ip.put(begin, self._field(words, chosen, "ip", np.uint64(0)))
        task = self._field(words, chosen, "tid", NO_TASK)
        self._task.put(begin, task)
        self._time.put(begin, self._times(words, chosen, task))
        self._mode.put(begin, chosen.header.view(np.uint8)[_MODE_BYTE::8] & _MODE_MASK)
        cpu = self._field(words, chosen, "cpu", self._block_cpu)
        self._cpu.put(begin, cpu.astype(np.uint16))  # the upper half is reserved
        fixed_period = self._schema.period
        default = fixed_period[0] if chosen.rows is None else fixed_period.take(chosen.rows)
        self._period.put(begin, self._field(words, chosen, "period", default))
        if chosen.rows is not None:
            self._event.put(begin, narrowed(chosen.rows, np.uint16))
        if chosen.clock is not None:
            self._clock.put(begin, chosen.clock)
        if self._has_groups:
            self._control_group.put(begin, self._control_groups(words, chosen))
        if self._has_chains or self._states.is_wanted or self._raw is not None:
            self._put_chains(words, chosen)
        if self._groups.is_wanted and chosen.rows is not None:
            at = _as_array(chosen.positions)
            met = GroupSamples(at, at + chosen.size_words, chosen.rows, task)
            self._groups.append(words, met, begin)
            self._done = self._done._replace(groups=self._groups.mark)
        self._done = self._done._replace(samples=begin + count)

    def _without_python(self, words: U64, positions: I64, python: RuntimeColumns) -> I64:
        """Pass records of runtimes' frames on; return the positions of the samples."""
        ids = _gather(words, positions, self._schema.id_word)
        is_python = python.are_mine(ids)
        if not is_python.any():
            return positions
        mine, rest = positions[is_python], positions[~is_python]
        following = self._done.samples + np.searchsorted(rest, mine)
        python.append(words, mine, following)
        self._done = self._done._replace(python=python.mark)
        return rest

    def finish(self) -> Samples:
        """Return all samples, and those of the other members of their groups."""
        count, chain_words = self._done.samples, self._done.chain_words
        chain_start = chain = None
        if chain_words:
            self._chain_begin.reserve(count, count + 1)
            self._chain_begin.put(count, np.array([chain_words]))
            chain_start = self._chain_begin.finish(count + 1)
            chain = self._chain.finish(chain_words)
        user, calls = self._states.finish()
        samples = Samples(
            ip=self._ip.finish(count),
            task=self._task.finish(count),
            time_ns=self._time.finish(count),
            mode=self._mode.finish(count),
            cpu=self._cpu.finish(count),
            period=self._period.finish(count, broadcast=True),
            event=self._event.finish(count, broadcast=True),
            clock=self._clock.finish(count, broadcast=True),
            chain_start=chain_start,
            chain=chain,
            user=user,
            calls=calls,
            control_group=self._control_group.finish(count, broadcast=True)
            if self._has_groups
            else None,
        )
        if self._raw is not None:
            samples = self._raw.added_to(samples)
        return self._groups.add_members(samples, self._ids) if self._ids else samples

    def damage(self) -> list[str]:
        """Return a sentence for each kind of sample that could not be read whole."""
        counts = (
            ("samples left out, shorter than their event's fields", self._done.short),
            ("samples left out, with an id that no event has", self._done.unknown),
            ("call chains left out, longer than their record", self._done.cut_chains),
            ("user states left out, longer than their record", self._states.damaged),
            ("values of groups left out, longer than their record", self._groups.damaged),
        )
        return [f"{what}: {number}" for what, number in counts if number]

    def _choose(self, words: U64, positions: Positions) -> _Chosen:
        """Find the event and clock of each sample; leave out unreadable ones."""
        schema = self._schema
        chosen = _Chosen(positions, np.ascontiguousarray(_gather(words, positions, 0)))
        met, all_met = len(positions), chosen
        # The size is in the highest bits of a header.
        if met and chosen.header.min() < np.uint64(schema.least_fixed_words << _WORDS_SHIFT):
            chosen = chosen.keep(chosen.size_words >= schema.least_fixed_words)
        short, unknown = met - len(chosen.positions), 0
        if self._ids is not None and schema.id_word and len(chosen.positions):
            ids = _gather(words, chosen.positions, schema.id_word)
            rows, clock = self._ids.events_of(ids)
            is_foreign = rows < 0
            has_foreign = bool(is_foreign.any())
            if has_foreign:
                rows = np.where(is_foreign, schema.shared_event, rows)
            chosen = chosen._replace(rows=rows, clock=clock, is_foreign=is_foreign)
            if has_foreign:
                met = len(rows)
                chosen = chosen.keep(rows >= 0)
                unknown = met - len(chosen.positions)
            if not isinstance(schema.fixed_words, int):
                met = len(chosen.positions)
                chosen = chosen.keep(chosen.size_words >= at_rows(schema.fixed_words, chosen.rows))
                short += met - len(chosen.positions)
        if short or unknown:
            done = self._done
            left_out = int(all_met.size_words.sum()) - int(chosen.size_words.sum())
            self._done = done._replace(
                short=done.short + short,
                unknown=done.unknown + unknown,
                left_out_words=done.left_out_words + left_out,
            )
        return chosen

    def _field(self, words: U64, chosen: _Chosen, name: str, absent: np.uint64 | U64) -> U64:
        """Return a field of `chosen` samples, `absent` for events without it."""
        offset = at_rows(self._schema.sample[name], chosen.rows)
        if isinstance(offset, int):
            if offset:
                return _gather(words, chosen.positions, offset)
            return np.broadcast_to(absent, (len(chosen.positions),))
        values = words.take(_as_array(chosen.positions) + offset)
        return np.where(offset == 0, absent, values)

    def _times(self, words: U64, chosen: _Chosen, task: U64) -> U64:
        time_ns = self._field(words, chosen, "time", np.uint64(0))
        if self._schema.switch_event < 0 or chosen.rows is None or chosen.is_foreign is None:
            return time_ns

        end = _as_array(chosen.positions) + chosen.size_words
        met = SharedSamples(end, chosen.rows, chosen.is_foreign)
        return true_times(words, met, task, time_ns, self._schema)

    def _control_groups(self, words: U64, chosen: _Chosen) -> U64:
        offset = at_rows(self._schema.group_word, chosen.rows)
        values = words.take(_as_array(chosen.positions) + chosen.size_words + offset, mode="clip")
        return values if isinstance(offset, int) else np.where(offset == 0, np.uint64(0), values)

    def _put_chains(self, words: U64, chosen: _Chosen) -> None:
        done = self._done
        positions = _as_array(chosen.positions)
        size = chosen.size_words
        places = find_chains(words, positions, size, chosen.rows, self._schema)
        if self._states.is_wanted:
            ends = positions + size
            self._states.append(words, places.behind, ends, chosen.rows, done.samples)
            done = done._replace(states=self._states.mark)
        if self._raw is not None:
            rows = np.zeros(len(positions), np.int64) if chosen.rows is None else chosen.rows
            self._raw.append(words, places.behind, positions + size, rows, done.samples)
            done = done._replace(raw=self._raw.mark)
        if not self._has_chains:
            self._done = done
            return
        end = done.chain_words + np.cumsum(places.length)
        self._chain_begin.put(done.samples, end - places.length)
        chain = words.take(segments(places.begin, places.length))
        if len(chain):
            self._chain.put(done.chain_words, chain)
        self._done = done._replace(
            chain_words=done.chain_words + len(chain), cut_chains=done.cut_chains + places.cut
        )


def _as_array(positions: Positions) -> I64:
    if isinstance(positions, range):
        return np.arange(positions.start, positions.stop, positions.step)
    return positions


def _gather(words: U64, positions: Positions, offset: int) -> U64:
    """Return the words `offset` after each of `positions`; a view if these are a range."""
    if isinstance(positions, range):
        return words[positions.start + offset : positions.stop + offset : positions.step]
    return words[offset:].take(positions, mode="clip")
