"""Event descriptions → the place of every field of a sample and of a sample_id tail.

An offset is one number if all events agree, and otherwise one number for each event.
Source: ``include/uapi/linux/perf_event.h`` (Linux 6.18): the comment of PERF_RECORD_SAMPLE, with
raw data, branch stack, user registers and user stack after the call chain in this order, and
``struct read_format``; ``evlist__valid_sample_type`` in ``tools/perf/util/evlist.c``: all events
have the id at the same place, so that perf finds the event of a sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.abi.record_layout import SampleLayout, layout_of, read_format_words
from prospect.columns.buffers import is_scalar
from prospect.errors import RecordingError
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prospect.abi.attr import EventAttr, EventDescription
    from prospect.columns.array_types import I64, U8, U64, Bools

    PerEvent = int | I64


class GroupLayout(NamedTuple):
    """The place of the values of a group in one event's samples, in words.

    Attributes:
        begin: from the header to the number of values.
        values: from there to the first value.
        each: size of a value with its id, which follows it.
        is_inherited: whether each thread has its own values.
    """

    begin: int
    values: int
    each: int
    is_inherited: bool


def group_layout(attr: EventAttr, fixed_words: int) -> GroupLayout | None:
    """Return the place of the values of a group in an event's samples; None if they have none."""
    needed = abi.PERF_FORMAT_GROUP | abi.PERF_FORMAT_ID
    if not attr.sample_type & abi.PERF_SAMPLE_READ or attr.read_format & needed != needed:
        return None
    values, each = read_format_words(attr.read_format)
    return GroupLayout(fixed_words, values, each, bool(attr.flags & abi.FLAG_INHERIT))


_REGISTER_LIMIT = 64


class Trailing(NamedTuple):
    """The fields after the call chain of one event's samples.

    Attributes:
        has_raw: raw data comes first.
        branch_words_each: words of each branch with its counter, 0 without a branch stack.
        has_branch_index: a word is between the number of branches and the branches.
        are_branches_calls: the branches are calls that have not returned yet.
        registers: the kernel's numbers of the user's registers, ascending; empty without.
        has_stack: a copy of the user's stack.
    """

    has_raw: bool = False
    branch_words_each: int = 0
    has_branch_index: bool = False
    are_branches_calls: bool = False
    registers: tuple[int, ...] = ()
    has_registers: bool = False
    has_stack: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether any of these fields is decoded."""
        return self.has_registers or self.has_stack or self.are_branches_calls


def trailing_of(attr: EventAttr) -> Trailing:
    """Return the fields after the call chains of an event's samples, all absent if unwanted."""
    kinds = attr.sample_type
    branches, each = bool(kinds & abi.PERF_SAMPLE_BRANCH_STACK), 0
    if branches:
        each = 3 + bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_COUNTERS)
    has_registers = bool(kinds & abi.PERF_SAMPLE_REGS_USER)
    mask = attr.sample_regs_user if has_registers else 0
    found = Trailing(
        has_raw=bool(kinds & abi.PERF_SAMPLE_RAW),
        branch_words_each=each,
        has_branch_index=bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_HW_INDEX),
        are_branches_calls=branches
        and bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_CALL_STACK),
        registers=tuple(bit for bit in range(_REGISTER_LIMIT) if mask >> bit & 1),
        has_registers=has_registers,
        has_stack=bool(kinds & abi.PERF_SAMPLE_STACK_USER),
    )
    return found if found.is_wanted else Trailing()


# Ids come from one counter of the kernel, so those of a recording are close to each other, and a
# table by id - lowest id is the fastest look-up. Ids of a larger range are searched.
_DENSE_RANGE = 1 << 16

_CLOCK_LIMIT = 1 << 8
_EVENT_LIMIT = 1 << 16


class IdTable(Record):
    """The ids of a recording's events, with the event and clock of each.

    Attributes:
        ids: ascending.
        event: row of the recording's events.
        clock: position of the id's clock in the bank.
        several_events: whether `event` has more than one value.
        several_clocks: whether `clock` has more than one value.
    """

    ids: U64
    event: I64
    clock: U8
    several_events: bool
    several_clocks: bool
    _dense: I64 | None

    def events_of(self, ids: U64) -> tuple[I64, U8]:
        """Return the event row (i64[n], -1 unknown) and the clock (u8[n]) of each of `ids`.

        As in perf, an id of 0 means the first event, and so does any id if there is only one.
        Both are broadcast scalars if all ids are the same.

        Source: ``evlist__event2evsel`` (``tools/perf/util/evlist.c``, 6.18).
        """
        if len(ids) > 1 and (ids == ids[0]).all():
            # Samples of one ring are together.
            event, clock = self.events_of(ids[:1])
            return np.broadcast_to(event, ids.shape), np.broadcast_to(clock, ids.shape)
        row = self._find(ids)
        event, clock = self.event.take(row), self.clock.take(row)
        missing = row < 0
        if missing.any():
            clock[missing] = 0
            event[missing] = -1 if self.several_events else 0
            event[missing & (ids == 0)] = 0
        return event, clock

    def knows(self, ids: U64) -> Bools:
        """Return whether each of `ids` is in the table, bool[n]."""
        return self._find(ids) >= 0

    def _find(self, ids: U64) -> I64:
        if self._dense is not None:
            # An id below the lowest wraps around to a large number and is clipped with the rest.
            reach = np.uint64(len(self._dense) - 1)
            place: U64 = np.minimum(ids - self.ids[0], reach)
            return self._dense.take(place.view(np.int64))
        row: I64 = np.searchsorted(self.ids, ids)
        row = np.minimum(row, len(self.ids) - 1)
        row[self.ids.take(row) != ids] = -1
        return row

    @classmethod
    def build(
        cls, events: Sequence[EventDescription], clock_of_id: Mapping[int, int] | None
    ) -> IdTable | None:
        """Return the table of all ids that `events` declare, None if they declare none.

        Raises:
            RecordingError: a clock position is outside 0..255.
        """
        event_of_id: dict[int, int] = {}
        for row, event in enumerate(events):
            for id_ in event.ids:
                event_of_id.setdefault(id_, row)
        if not event_of_id:
            return None
        ordered = sorted(event_of_id)
        clocks = [(clock_of_id or {}).get(id_, 0) for id_ in ordered]
        if not all(0 <= clock < _CLOCK_LIMIT for clock in clocks):
            raise RecordingError("the recording names a clock outside 0..255; record it again")
        ids = np.array(ordered, np.uint64)
        rows = [event_of_id[id_] for id_ in ordered]
        return cls(
            ids=ids,
            event=np.array(rows, np.int64),
            clock=np.array(clocks, np.uint8),
            several_events=len(events) > 1,
            several_clocks=len(set(clocks)) > 1,
            _dense=_dense_rows(ids),
        )


def _dense_rows(ids: U64) -> I64 | None:
    reach = int(ids[-1]) - int(ids[0])
    if reach >= _DENSE_RANGE:
        return None
    # The last entry means "not found": clipped ids get it.
    rows = np.full(reach + 2, -1)
    rows[(ids - ids[0]).view(np.int64)] = np.arange(len(ids))
    return rows


class Schema(Record):
    """Offsets of a recording's fields, in u64 words; 0 means that the field is absent.

    A `PerEvent` is an int if all events agree, else i64[events].

    Attributes:
        sample: field → words from the header.
        fixed_words: header and fixed part of a sample.
        least_fixed_words: the smallest `fixed_words` of all events.
        read_words: fixed words of the PERF_SAMPLE_READ part.
        read_words_each: further words of it for each of its `nr` values.
        has_chain: 1 if samples have a call chain.
        group_word: the id of the control group, words from the end of samples.
        tail: field → words from a record's end (negative).
        tail_words: size of the tail.
        id_word: the id in every sample; 0 if they have none.
        id_tail_word: the id in every tail (negative); 0 if they have none.
        ids: None if the recording declares no ids.
        period: u64[events], for samples without one.
        trailing: fields after the call chains, for each event; one if all agree.
        groups: the values of the event's group in samples, for each event.
        shared_event: that of samples with unknown ids, -1 for none; see `samples.SharedSamples`.
        switch_event: that of context switches, -1 for none.
        raw_fields: offset and size of the wanted fields of raw data, for each event; empty for
            none.
        raw_data: rows of events whose raw data is kept whole: special PMUs, pieces of stacks, and
            waits of ``perf record --off-cpu``.
        off_cpu_event: that of these waits, -1 for none.
        switch_tail: time and task in records of switches, words from their end.
    """

    sample: dict[str, PerEvent]
    fixed_words: PerEvent
    least_fixed_words: int
    read_words: PerEvent
    read_words_each: PerEvent
    has_chain: PerEvent
    group_word: PerEvent
    tail: dict[str, PerEvent]
    tail_words: PerEvent
    id_word: int
    id_tail_word: int
    ids: IdTable | None
    period: U64
    trailing: tuple[Trailing, ...] = (Trailing(),)
    groups: tuple[GroupLayout | None, ...] = ()
    shared_event: int = -1
    switch_event: int = -1
    switch_tail: tuple[int, int] = (0, 0)
    raw_fields: tuple[tuple[tuple[int, int], ...], ...] = ()
    raw_data: tuple[int, ...] = ()
    off_cpu_event: int = -1

    @property
    def is_uniform(self) -> bool:
        """Whether all events lay out their samples and tails alike."""
        offsets = (*self.sample.values(), *self.tail.values(), self.fixed_words, self.tail_words)
        reads = (self.read_words, self.read_words_each, self.has_chain, self.group_word)
        return len(self.trailing) == 1 and all(
            isinstance(offset, int) for offset in (*offsets, *reads)
        )


def schema_of(
    events: Sequence[EventDescription], clock_of_id: Mapping[int, int] | None = None
) -> Schema:
    """Compute the schema of a recording's events.

    Args:
        events: in the order of the recording; their rows are the numbers of the events.
        clock_of_id: id → position of its clock in a clock bank.

    Raises:
        RecordingError: there is no event or too many, or their samples cannot be told apart.

    Source: ``__evsel__calc_id_pos``, ``__evsel__calc_is_pos`` (``tools/perf/util/evsel.c``, 6.18).
    """
    if not events:
        raise RecordingError("the recording describes no event, so its samples cannot be read")
    if len(events) > _EVENT_LIMIT:
        raise RecordingError(
            f"the recording describes {len(events)} events; 65536 can be told apart"
        )
    attrs = [event.attr for event in events]
    layouts = [layout_of(attr) for attr in attrs]

    def per_event(value: Callable[[EventAttr, SampleLayout], int]) -> PerEvent:
        values = [value(attr, layout) for attr, layout in zip(attrs, layouts, strict=True)]
        return values[0] if len(set(values)) == 1 else np.array(values, np.int64)

    def offset_in(part: str, name: str) -> PerEvent:
        return per_event(lambda _, layout: getattr(layout, part).get(name, 0))

    trailing = tuple(trailing_of(attr) for attr in attrs)
    of_switches, *switch_tail = _switch_event(events)
    schema = Schema(
        sample={name: offset_in("sample", name) for name in ("ip", "tid", "time", "cpu", "period")},
        fixed_words=per_event(lambda _, layout: layout.fixed_words),
        least_fixed_words=min(layout.fixed_words for layout in layouts),
        read_words=per_event(lambda attr, _: _read_words(attr)[0]),
        read_words_each=per_event(lambda attr, _: _read_words(attr)[1]),
        has_chain=per_event(lambda attr, _: int(attr.sample_type & abi.PERF_SAMPLE_CALLCHAIN != 0)),
        group_word=per_event(lambda attr, _: _group_word(attr)),
        tail={name: offset_in("tail", name) for name in ("time", "cpu", "tid")},
        tail_words=per_event(lambda _, layout: layout.tail_words),
        id_word=_id_position(layouts, "sample"),
        id_tail_word=_id_position(layouts, "tail"),
        ids=IdTable.build(events, clock_of_id),
        period=np.array(
            [1 if attr.flags & abi.FLAG_FREQ else attr.sample_period for attr in attrs], np.uint64
        ),
        trailing=trailing if len(set(trailing)) > 1 else trailing[:1],
        groups=tuple(
            group_layout(attr, layout.fixed_words)
            for attr, layout in zip(attrs, layouts, strict=True)
        ),
        shared_event=_shared_event(events),
        switch_event=of_switches,
        switch_tail=(switch_tail[0], switch_tail[1]),
        raw_fields=tuple(event.fields for event in events) if any(e.fields for e in events) else (),
        raw_data=tuple(row for row, event in enumerate(events) if _has_own_data(event)),
        off_cpu_event=next((row for row, one in enumerate(events) if _is_off_cpu_event(one)), -1),
    )
    if not schema.is_uniform and not (schema.id_word and schema.ids):
        raise RecordingError(
            "the recording's events have different sample types and no id at a common place, "
            "so their samples cannot be told apart; record them with PERF_SAMPLE_IDENTIFIER"
        )
    return schema


def _shared_event(events: Sequence[EventDescription]) -> int:
    """Return the row of the only event to which samples of unknown ids can belong; -1 for none."""
    rows = [row for row, event in enumerate(events) if event.attr.shares_samples]
    return rows[0] if len(rows) == 1 else -1


def _has_own_data(event: EventDescription) -> bool:
    """Return whether samples have raw data that is neither fields nor known here."""
    attr = event.attr
    if attr.has_pieces_of_stacks:
        return True
    has_layout = attr.type > abi.PERF_TYPE_BREAKPOINT or _is_off_cpu_event(event)
    return has_layout and bool(attr.sample_type & abi.PERF_SAMPLE_RAW)


def _is_off_cpu_event(event: EventDescription) -> bool:
    """Whether it is perf's own event of ``--off-cpu``."""
    kind = event.attr.type, event.attr.config
    return event.name == "offcpu-time" and kind == (
        abi.PERF_TYPE_SOFTWARE,
        abi.PERF_COUNT_SW_BPF_OUTPUT,
    )


def _switch_event(events: Sequence[EventDescription]) -> tuple[int, int, int]:
    """Return the row of the event that samples context switches, if there are records of them.

    Returns:
        The row, -1 for none, and the words from these records' ends to time and task; 0 for none.
    """
    has_records = any(event.attr.flags & abi.FLAG_CONTEXT_SWITCH for event in events)
    for row, event in enumerate(events):
        kind = event.attr.type, event.attr.config
        is_switch = kind == (abi.PERF_TYPE_SOFTWARE, abi.PERF_COUNT_SW_CONTEXT_SWITCHES)
        if is_switch and has_records:
            tail = layout_of(event.attr).tail
            return row, tail.get("time", 0), tail.get("tid", 0)
    return -1, 0, 0


def at_rows(value: PerEvent, rows: I64 | None) -> PerEvent:
    """Return `value` for each of `rows` of events; one number if all events or rows agree."""
    if isinstance(value, int) or rows is None:
        return value
    return int(value[rows[0]]) if len(rows) and is_scalar(rows) else value.take(rows)


def _id_position(layouts: list[SampleLayout], part: str) -> int:
    fields: list[dict[str, int]] = [getattr(layout, part) for layout in layouts]
    positions = {offsets.get("identifier", offsets.get("id", 0)) for offsets in fields}
    return positions.pop() if len(positions) == 1 else 0


def _group_word(attr: EventAttr) -> int:
    """Return the place of the id of the control group, in words from a sample's end; 0 for none.

    Only fields of one word follow it, except AUX data; samples with AUX data count as having none.
    """
    kinds = attr.sample_type
    if not kinds & abi.PERF_SAMPLE_CGROUP or kinds & abi.PERF_SAMPLE_AUX:
        return 0
    following = abi.PERF_SAMPLE_DATA_PAGE_SIZE | abi.PERF_SAMPLE_CODE_PAGE_SIZE
    return -1 - (kinds & following).bit_count()


def _read_words(attr: EventAttr) -> tuple[int, int]:
    is_followed = attr.sample_type & abi.PERF_SAMPLE_CALLCHAIN or trailing_of(attr).is_wanted
    if not (attr.sample_type & abi.PERF_SAMPLE_READ and is_followed):
        return 0, 0  # no field that is decoded follows it
    return read_format_words(attr.read_format)
