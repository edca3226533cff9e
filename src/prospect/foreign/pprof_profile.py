"""pprof's profiles → a Profile.

The file is one message of google/pprof's ``proto/profile.proto``, gzipped or not, with sums of
samples. The reader knows the labels `process`, `pid`, `thread` and `entry_reason` that Prospect
writes; a profile without them has one process. A number of samples and the time or count that they
represent are two values of one event. Any other value is its own event, which counts its unit.
Types and units are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.protobuf_fields import (
    LENGTH,
    LONGEST_VARINT,
    VARINT,
    damaged,
    encode_varint,
    fields,
    signed,
)
from prospect.errors import RecordingError
from prospect.figures.stacks.frames import object_label
from prospect.foreign.detection import is_gzipped, unpacked
from prospect.foreign.foreign_limits import MOST_EVENTS, MOST_MESSAGES
from prospect.foreign.stack_profile import (
    NO_OBJECT,
    NamedFrames,
    WeightedStacks,
    check_frames,
    object_kind,
    run_info,
    stack_profile,
)
from prospect.profile.model import ENTRY_REASON_NONE, ENTRY_REASON_UNCLASSIFIED, EntryReasonTable
from prospect.profile.optional_tables import LineTable
from prospect.profile.run_info import TIME_UNITS, EventInfo
from prospect.records import Record, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.columns.array_types import I64, U8, U64, Bools
    from prospect.profile.model import Profile

_MOST = 2.0**62

_Line = tuple[int, int]  # function's row, source line

_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_TIME_NS, _DURATION_NS, _PERIOD_TYPE, _PERIOD, _DEFAULT_TYPE = 9, 10, 11, 12, 14


class EventColumns(Record):
    """Events, and a row for each sample and event with a weight; columns i64[w]."""

    events: tuple[EventInfo, ...]
    sample: I64
    event: I64
    count: I64
    period: I64


def read_events(
    types: Sequence[tuple[str, str]], values: I64, period_unit: str, period: int, default: str = ""
) -> EventColumns:
    """Sort values by event.

    Args:
        types: type and unit of each value.
        values: i64[n, v] of each sample.
        period_unit: the unit of `period`.
        period: between samples; 0 if unknown.
        default: the type that viewers show first; its event comes first.

    Raises:
        RecordingError: the numbers of types and values differ, or the values are too large.
    """
    if len(types) != values.shape[1] or len(types) > MOST_EVENTS:
        raise RecordingError("damaged pprof profile: values of samples without a type")
    # A comparison of two profiles has negative values, which are no samples.
    values = np.maximum(values, 0)
    if (values.sum(axis=0, dtype=np.float64) > _MOST).any():
        raise RecordingError("damaged pprof profile: more samples than can be counted")
    seconds = TIME_UNITS.get(period_unit, 0.0) * period
    rate_hz = 1 / seconds if seconds > 0 else 0.0
    events: list[EventInfo] = []
    columns: list[tuple[I64, I64]] = []
    place = 0
    while place < len(types):
        name, unit = types[place]
        counts = ""
        count = period_column = values[:, place]
        if _is_pair(types[place : place + 2]):
            place += 1
            counts = name
            name, unit = types[place]
            period_column = values[:, place]
        elif unit in TIME_UNITS:
            count = (count > 0).astype(np.int64)
        seconds_each = TIME_UNITS.get(unit, 0.0)
        is_first = bool(default) and default in (name, counts)
        at = 0 if is_first else len(events)
        frequency_hz = rate_hz if seconds_each else 0.0
        events.insert(
            at, EventInfo(name, seconds_each, 0.0, frequency_hz, unit=unit, counts=counts)
        )
        columns.insert(at, (count, period_column))
        place += 1
    rows = [np.flatnonzero((count > 0) | (amount > 0)) for count, amount in columns]
    return EventColumns(
        events=tuple(events),
        sample=np.concatenate(rows),
        event=np.repeat(np.arange(len(rows)), [len(row) for row in rows]),
        count=np.concatenate([count[row] for (count, _), row in zip(columns, rows, strict=True)]),
        period=np.concatenate(
            [amount[row] for (_, amount), row in zip(columns, rows, strict=True)]
        ),
    )


def _is_pair(types: Sequence[tuple[str, str]]) -> bool:
    """Return whether two values are samples and the time or count that they represent."""
    if len(types) < 2 or types[0][1] != "count":
        return False
    (name, _), (other, unit) = types
    return unit in TIME_UNITS or name in ("samples", f"{other} samples")


def read_frames(
    mappings: Sequence[bytes],
    locations: Sequence[bytes],
    functions: Sequence[bytes],
    text: Callable[[int], str],
) -> tuple[NamedFrames, LineTable | None, dict[int, int]]:
    """Read the frames of stacks.

    `text` gives a string by its number.

    Returns:
        The frames, their lines if there are any, and the row of each location by its id.

    Raises:
        RecordingError: one refers to another that is missing.
    """
    objects: dict[tuple[str, int, str], int] = {}
    mapping_rows = {}
    for part in mappings:
        of = _numbers(part)
        path = text(of.get(5, 0)) or NO_OBJECT[0]
        key = (path, object_kind(path), text(of.get(6, 0)))
        mapping_rows[of.get(1, 0)] = objects.setdefault(key, len(objects))
    paths = [path for path, _, _ in objects]
    known = _read_functions(functions, text)
    table: dict[tuple[str, str, int], int] = {}
    function_index: list[int] = []
    address: list[int] = []
    inlined: list[list[_Line]] = []
    row_of_id: dict[int, int] = {}
    for part in locations:
        numbers, lines = _read_location(part, known)
        row = mapping_rows.get(numbers.get(2, 0))
        if row is None:
            row = objects.setdefault(NO_OBJECT, len(objects))
            paths += [NO_OBJECT[0]] * (len(objects) - len(paths))
        name, linkage_name, _ = known[lines[-1][0]] if lines else ("", "", "")
        if name == f"[{object_label(paths[row])}]":
            name = linkage_name = ""
        function_index.append(table.setdefault((name, linkage_name, row), len(table)))
        row_of_id[numbers.get(1, 0)] = len(address)
        address.append(numbers.get(3, 0))
        inlined.append(lines[::-1])
    frames = NamedFrames(
        list(objects), list(table), np.array(function_index, np.int64), np.array(address, np.uint64)
    )
    return frames, _line_table(inlined, known), row_of_id


def with_no_place(
    frames: NamedFrames, lines: LineTable | None
) -> tuple[NamedFrames, LineTable | None]:
    """Append a location for samples without a stack."""
    objects = [*frames.objects, NO_OBJECT]
    functions = [*frames.functions, ("", "", len(objects) - 1)]
    whole = NamedFrames(
        objects,
        functions,
        np.append(frames.function_index, len(functions) - 1),
        np.append(frames.address, np.uint64(0)),
    )
    if lines is None:
        return whole, None
    return whole, replace(lines, frame_start=np.append(lines.frame_start, lines.frame_start[-1]))


def _numbers(part: bytes) -> dict[int, int]:
    return {number: value for number, kind, value, _ in fields(part) if kind == VARINT}


def _read_functions(
    functions: Sequence[bytes], text: Callable[[int], str]
) -> dict[int, tuple[str, str, str]]:
    """Return name, symbol and file of each function by its id."""
    known = {}
    for part in functions:
        of = _numbers(part)
        name, linkage_name = text(of.get(2, 0)), text(of.get(3, 0))
        known[of.get(1, 0)] = (name or linkage_name, linkage_name or name, text(of.get(4, 0)))
    return known


def _read_location(
    part: bytes, known: dict[int, tuple[str, str, str]]
) -> tuple[dict[int, int], list[_Line]]:
    numbers, lines = {}, []
    for number, kind, value, inner in fields(part):
        if kind == VARINT:
            numbers[number] = value
        elif kind == LENGTH and number == 4:
            of = _numbers(inner)
            if of.get(1, 0) not in known:
                raise RecordingError("damaged pprof profile: it lacks a function that it refers to")
            lines.append((of.get(1, 0), min(max(signed(of.get(2, 0)), 0), 2**32 - 1)))
    return numbers, lines


def _line_table(
    inlined: list[list[_Line]], known: dict[int, tuple[str, str, str]]
) -> LineTable | None:
    """Return the lines of locations, outermost first; None if all are unknown."""
    if not any(len(lines) > 1 or any(line for _, line in lines) for lines in inlined):
        return None
    names: dict[str, int] = {}
    files: dict[str, int] = {}
    rows = [
        (
            names.setdefault(known[function][0], len(names)),
            files.setdefault(known[function][2], len(files)) if known[function][2] else -1,
            line,
        )
        for lines in inlined
        for function, line in lines
    ]
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return LineTable(
        frame_start=np.append(0, np.cumsum([len(lines) for lines in inlined])),
        name_index=columns[:, 0].astype(np.int32),
        file_index=columns[:, 1].astype(np.int32),
        line=columns[:, 2].astype(np.uint32),
        names=list(names),
        files=list(files),
    )


class _Message(Record, frozen=False):
    """The fields of the outer message."""

    parts: dict[int, list[bytes]] = field(
        default_factory=lambda: {number: [] for number in range(1, 16)}
    )
    numbers: dict[int, int] = field(default_factory=dict)
    strings: list[str] = field(default_factory=list)

    def text(self, row: int) -> str:
        """Return a string by number.

        Raises:
            RecordingError: it is missing.
        """
        if 0 <= row < len(self.strings):
            return self.strings[row]
        raise RecordingError("damaged pprof profile: it lacks a string that it refers to")

    def value_type(self, part: bytes) -> tuple[str, str]:
        """Return the type and unit of a ValueType message."""
        of = _numbers(part)
        return self.text(of.get(1, 0)), self.text(of.get(2, 0))


def pprof_profile(origin: str, data: memoryview) -> Profile:
    """Read a profile, gzipped or not.

    Raises:
        RecordingError: it is none, is damaged or is empty.
    """
    is_packed = is_gzipped(bytes(data[:2]))
    whole = _read_message(unpacked(data) if is_packed else bytes(data))
    start, location_id, values, labels = _read_samples(whole.parts[_SAMPLE])
    frames, lines, row_of_id = read_frames(
        whole.parts[_MAPPING], whole.parts[_LOCATION], whole.parts[_FUNCTION], whole.text
    )
    location = _rows(location_id, row_of_id)
    is_empty = np.diff(start) == 0
    if is_empty.any():
        frames, lines = with_no_place(frames, lines)
        location = np.insert(location, start[:-1][is_empty], len(frames.address) - 1)
        start = start + np.append(0, np.cumsum(is_empty))
    location = _outermost_first(start, location)
    period_types = whole.parts[_PERIOD_TYPE]
    events = read_events(
        [whole.value_type(part) for part in whole.parts[_SAMPLE_TYPE]],
        values,
        whole.value_type(period_types[-1])[1] if period_types else "",
        signed(whole.numbers.get(_PERIOD, 0)),
        whole.text(whole.numbers.get(_DEFAULT_TYPE, 0)),
    )
    processes, comms, entry_reasons, place = _read_labels(labels, whole)
    return stack_profile(
        frames,
        _weighted(start, location, place, events),
        run=run_info(
            origin,
            events.events,
            max(signed(whole.numbers.get(_DURATION_NS, 0)), 0) / 1e9,
            started_at=max(signed(whole.numbers.get(_TIME_NS, 0)), 0) / 1e9,
        ),
        processes=processes,
        comms=comms,
        entry_reasons=entry_reasons,
        lines=lines,
    )


def _read_message(data: bytes) -> _Message:
    whole = _Message()
    for count, (number, kind, value, part) in enumerate(fields(data)):
        if count >= MOST_MESSAGES:
            raise _too_many("parts")
        if kind == LENGTH and number in whole.parts:
            whole.parts[number].append(part)
        elif kind == VARINT:
            whole.numbers[number] = value
    whole.strings += [text.decode("utf-8", "surrogateescape") for text in whole.parts[_STRING]]
    if not whole.parts[_SAMPLE_TYPE] or not whole.strings:
        raise RecordingError("no perf.data file, and no profile of a kind that is read")
    if not whole.parts[_SAMPLE]:
        raise RecordingError("there are no samples in it")
    return whole


def _read_samples(parts: Sequence[bytes]) -> tuple[I64, U64, I64, list[tuple[bytes, ...]]]:
    """Return where the locations of each sample begin, their ids, i64[n, v] values, and labels."""
    locations, values, labels = [], [], []
    label_count = 0
    for part in parts:
        found: list[list[bytes]] = [[], [], [], []]
        for number, kind, value, inner in fields(part):
            if 1 <= number <= 3:
                found[number].append(inner if kind == LENGTH else encode_varint(value))
        locations.append(b"".join(found[1]))
        values.append(b"".join(found[2]))
        labels.append(tuple(found[3]))
        label_count += len(found[3])
        if label_count > MOST_MESSAGES:
            raise _too_many("labels")
    check_frames(_count_packed(locations))
    if _count_packed(values) > MOST_MESSAGES:
        raise _too_many("values")
    location_id, location_start = _packed(locations)
    numbers, value_start = _packed(values)
    sizes = np.diff(value_start)
    if (sizes != sizes[0]).any() or not sizes[0]:
        raise RecordingError("damaged pprof profile: its samples have different numbers of values")
    table = numbers.view(np.int64).reshape(len(parts), int(sizes[0]))
    return location_start, location_id, table, labels


def _too_many(what: str) -> RecordingError:
    return RecordingError(f"it has more than {MOST_MESSAGES} {what}: give a part of it")


def _rows(ids: U64, row_of_id: dict[int, int]) -> I64:
    known = np.array(sorted(row_of_id), np.uint64)
    rows = np.array([row_of_id[number] for number in known.tolist()], np.int64)
    place = np.searchsorted(known, ids)
    if len(ids) and (not len(known) or (known.take(place, mode="clip") != ids).any()):
        raise RecordingError("damaged pprof profile: it lacks a location that it refers to")
    return rows.take(place)


def _outermost_first(start: I64, location: I64) -> I64:
    """Reverse each stack."""
    ends = np.repeat(start[:-1] + start[1:] - 1, np.diff(start))
    return location.take(ends - np.arange(len(location)))


def _read_labels(
    labels: Sequence[tuple[bytes, ...]], whole: _Message
) -> tuple[list[tuple[str, int]], list[str], EntryReasonTable, I64]:
    """Return processes, names of threads, entry reasons, and i64[n, 3] rows of these by sample."""
    processes: dict[tuple[str, int], int] = {}
    comms: dict[str, int] = {}
    entry_reasons: dict[str, int] = {"": 0}
    known: dict[tuple[bytes, ...], tuple[int, int, int]] = {}
    for encoded in labels:
        if encoded in known:
            continue
        found = {}
        for part in encoded:
            of = _numbers(part)
            value = whole.text(of[2]) if of.get(2) else str(signed(of.get(3, 0)))
            found[whole.text(of.get(1, 0))] = value
        name = found.get("process", found.get("thread", "[all]"))
        pid = found.get("pid", "")
        number = int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 10 else -1
        known[encoded] = (
            processes.setdefault((name, number), len(processes)),
            comms.setdefault(found.get("thread", name), len(comms)),
            entry_reasons.setdefault(found.get("entry_reason", ""), len(entry_reasons)),
        )
    rows = np.array([known[encoded] for encoded in labels], np.int64).reshape(-1, 3)
    kinds = np.full(len(entry_reasons), ENTRY_REASON_UNCLASSIFIED, np.uint8)
    kinds[0] = ENTRY_REASON_NONE
    table = EntryReasonTable(kinds, list(entry_reasons))
    return list(processes), list(comms), table, rows


def _weighted(start: I64, location: I64, place: I64, events: EventColumns) -> WeightedStacks:
    """Return a row for each stack and event with a weight."""
    size = np.diff(start).take(events.sample)
    end = np.cumsum(size)
    check_frames(int(end[-1]) if len(end) else 0)
    frame = np.arange(int(end[-1]) if len(end) else 0)
    frame += np.repeat(start.take(events.sample) - (end - size), size)
    process, comm, entry_reason = place.take(events.sample, axis=0).T
    return WeightedStacks(
        start=np.append(0, end),
        location=location.take(frame),
        process=process,
        comm=comm,
        event=events.event,
        entry_reason=entry_reason,
        count=events.count,
        period=events.period,
    )


_PACKED_AT_ONCE = 1 << 20


def _packed(parts: Sequence[bytes]) -> tuple[U64, I64]:
    """Decode packed numbers of many messages at once.

    Returns:
        u64[m] numbers, and i64[n + 1] where those of each message begin.
    """
    data = np.frombuffer(b"".join(parts), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    is_last = data < 0x80
    if len(data) and not is_last[ends[ends > 0] - 1].all():
        raise damaged()
    before = np.append(np.int32(0), np.cumsum(is_last, dtype=np.int32))
    numbers = np.empty(int(before[-1]), np.uint64)
    begin = 0
    while begin < len(data):
        # A part at a time, because each number takes the memory of several columns.
        end = min(begin + _PACKED_AT_ONCE, len(data))
        end -= int(is_last[begin:end][::-1].argmax())
        numbers[before[begin] : before[end]] = _decoded(data[begin:end], is_last[begin:end])
        begin = end
    return numbers, np.append(0, before.take(ends)).astype(np.int64)


def _count_packed(parts: Sequence[bytes]) -> int:
    """Return the number of packed numbers, without decoding them."""
    return int(np.count_nonzero(np.frombuffer(b"".join(parts), np.uint8) < 0x80))


def _decoded(data: U8, is_last: Bools) -> U64:
    """Decode consecutive numbers; the last one ends with the data."""
    last = np.flatnonzero(is_last)
    if not len(last):
        raise damaged()
    first = np.append(0, last[:-1] + 1)
    size = last - first + 1
    if size.max() > LONGEST_VARINT:
        raise damaged()
    numbers = np.zeros(len(last), np.uint64)
    for nth in range(int(size.max())):
        rows = np.flatnonzero(size > nth)
        bits = data.take(first.take(rows) + nth).astype(np.uint64) & np.uint64(0x7F)
        numbers[rows] |= bits << np.uint64(7 * nth)
    return numbers
