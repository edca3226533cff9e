"""Gathers what a recording says of itself, from a file's head or from a stream's records.

Events without a recorded name get the one that perf prints.

Source: ``perf_event__process_attr()``, ``perf_event__process_event_update()`` and
``perf_event__process_feature()`` in ``tools/perf/util/header.c``, ``event_symbols_hw``,
``event_symbols_sw``, ``evsel__hw_cache`` and ``evsel__name()`` in ``tools/perf/util/evsel.c``,
Linux 6.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import BuildId, RecordingInfo
from prospect.abi.runtime_frames import is_frames_event
from prospect.errors import RecordingError
from prospect.perfdata import format as fmt
from prospect.perfdata.feature_decoding import decode_build_id, decode_feature, target_in
from prospect.perfdata.fields import FieldReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HARDWARE = (
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
)
_SOFTWARE = (
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
)
_CACHES = ("L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node")
_CACHE_OPERATIONS = (("load", "loads"), ("store", "stores"), ("prefetch", "prefetches"))
# With PERF_PMU_TYPE_SHIFT the upper half of a hardware event's config is the PMU's type.
_CONFIG_MASK = 0xFFFF_FFFF


def event_name(attr: EventAttr, name_of_type: Mapping[tuple[int, int], str] | None = None) -> str:
    """Return what perf calls the event, ``raw 0x…`` if it has no name.

    A suffix says which modes are counted where some are excluded: ``cycles:u``.

    `name_of_type` are the recording's own names, by type and config.
    """
    own = (name_of_type or {}).get((attr.type, attr.config))
    return (own or _base_name(attr)) + _modifier(attr.flags)


def _base_name(attr: EventAttr) -> str:
    config = attr.config & _CONFIG_MASK
    if attr.type == abi.PERF_TYPE_HARDWARE and config < len(_HARDWARE):
        return _HARDWARE[config]
    if attr.type == abi.PERF_TYPE_SOFTWARE and config < len(_SOFTWARE):
        return _SOFTWARE[config]
    if attr.type == abi.PERF_TYPE_HW_CACHE:
        return _cache_name(config)
    if attr.type == abi.PERF_TYPE_BREAKPOINT:
        return f"mem:{attr.config1:#x}"
    if attr.type == abi.PERF_TYPE_TRACEPOINT:
        return f"tracepoint {attr.config}"
    return f"raw {attr.config:#x}"


def _cache_name(config: int) -> str:
    cache, operation, result = config & 0xFF, config >> 8 & 0xFF, config >> 16 & 0xFF
    if cache >= len(_CACHES) or operation >= len(_CACHE_OPERATIONS) or result > 1:
        return f"raw {config:#x}"
    one, many = _CACHE_OPERATIONS[operation]
    return f"{_CACHES[cache]}-{one}-misses" if result else f"{_CACHES[cache]}-{many}"


def _modifier(flags: int) -> str:
    modes = (
        ("k", abi.FLAG_EXCLUDE_KERNEL),
        ("u", abi.FLAG_EXCLUDE_USER),
        ("h", abi.FLAG_EXCLUDE_HV),
    )
    counted = "".join(letter for letter, bit in modes if not flags & bit)
    return "" if len(counted) == len(modes) else ":" + counted


class Metadata:
    """The facts gathered so far; `damage` gets a sentence for each that cannot be read."""

    def __init__(self, origin: str, order: str, damage: list[str]) -> None:
        self.order = order
        self._origin = origin
        self._damage = damage
        self._events: list[EventDescription] = []
        self._described: tuple[EventDescription, ...] = ()
        self._renamed: dict[int, str] = {}
        self._name_of_type: dict[tuple[int, int], str] = {}
        self._fields_of_type: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}
        self._build_ids: list[BuildId] = []
        self._facts: dict[str, Any] = {}

    def add_events(self, events: Iterable[EventDescription]) -> None:
        """Add events in the order of the recording."""
        self._events += events

    def add_feature(self, bit: int, content: memoryview) -> None:
        """Add a feature section."""
        try:
            facts = decode_feature(bit, content, self.order)
        except RecordingError as error:
            self._damage.append(str(error))
            return
        self._described = facts.pop("events", self._described)
        self._build_ids += facts.pop("build_ids", ())
        self._name_of_type |= facts.pop("event_types", {})
        self._fields_of_type |= facts.pop("event_fields", {})
        self._facts |= facts

    def add_record(self, type_: int, record: memoryview) -> bool:
        """Add a metadata record of a stream; returns False if it is none."""
        add = _RECORDS.get(type_)
        if add is None:
            return False
        try:
            add(self, FieldReader(record[fmt.RECORD_HEADER_BYTES :], self.order), record)
        except RecordingError as error:
            self._damage.append(f"a metadata record of type {type_} is damaged: {error}")
        return True

    @property
    def events(self) -> tuple[EventDescription, ...]:
        """The events, each with the name that it was recorded under or that perf gives it."""
        names = {event_id: event.name for event in self._described for event_id in event.ids[:1]}
        names |= self._renamed
        events = []
        for row, event in enumerate(self._events):
            # EVENT_DESC has the order of the attrs, which counts if there are no ids.
            in_order = self._described[row].name if row < len(self._described) else ""
            name = names.get(event.ids[0], "") if event.ids else in_order
            name = name or event_name(event.attr, self._name_of_type)
            wanted = self._fields_of_type.get((event.attr.type, event.attr.config), ())
            events.append(event._replace(name=name, fields=wanted))
        # That of runtimes' frames is kept from perf, which makes its events of the attrs.
        hidden = (e for e in self._described[len(events) :] if is_frames_event(e.attr, e.name))
        return (*events, *hidden)

    def info(self, recorded_at: float = 0.0, named_by: int = 0) -> RecordingInfo:
        """Return the facts; `recorded_at` is the file's own time, `named_by` who speaks in it."""
        return RecordingInfo(
            origin=self._origin,
            events=self.events,
            build_ids=tuple(self._build_ids),
            recorded_at=recorded_at,
            named_by=named_by,
            **self._facts,
        )

    def _add_attr(self, fields: FieldReader, _record: memoryview) -> None:
        _, size = fields.peek("II")
        attr = EventAttr.unpack(bytes(fields.take(size or abi.PERF_ATTR_SIZE_VER0)), self.order)
        self._events.append(EventDescription(attr, fields.u64s(fields.remaining // 8)))

    def _add_update(self, fields: FieldReader, _record: memoryview) -> None:
        kind, event_id = fields.unpack("QQ")
        if kind == fmt.PERF_EVENT_UPDATE_NAME:
            name = bytes(fields.take(fields.remaining)).partition(b"\0")[0]
            self._renamed[event_id] = name.decode("utf-8", "surrogateescape")

    def _add_build_id(self, _fields: FieldReader, record: memoryview) -> None:
        entry = decode_build_id(record, self.order)
        if entry.name.startswith(fmt.TARGET_MARK):  # the receiver's is the last
            self._facts["target"] = target_in(entry.name.removeprefix(fmt.TARGET_MARK))
        else:
            self._build_ids.append(entry)

    def _add_feature_record(self, fields: FieldReader, _record: memoryview) -> None:
        bit = fields.u64()
        self.add_feature(bit, fields.take(fields.remaining))


_RECORDS = {
    fmt.PERF_RECORD_HEADER_ATTR: Metadata._add_attr,  # noqa: SLF001 - the class's own table
    fmt.PERF_RECORD_EVENT_UPDATE: Metadata._add_update,  # noqa: SLF001 - the class's own table
    fmt.PERF_RECORD_HEADER_BUILD_ID: Metadata._add_build_id,  # noqa: SLF001 - the class's own table
    fmt.PERF_RECORD_HEADER_FEATURE: Metadata._add_feature_record,  # noqa: SLF001 - the class's own table
}
