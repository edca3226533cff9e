"""A recording's facts about itself, from a file's head or from a stream's records.

One function decodes each feature section, into keyword arguments of RecordingInfo. `Metadata`
collects them. Events without a recorded name get the name that perf prints.

Source: ``process_*()``, ``perf_event__process_attr()``, ``perf_event__process_event_update()`` and
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
from prospect.perfdata.format import FieldReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_CPUMODE_MASK = 7
_ZSTD = 1
_MOST_DIGITS = 20


def decode_feature(bit: int, content: bytes | memoryview, order: str) -> dict[str, Any]:
    """Return the RecordingInfo fields of a feature section, none for an unknown one.

    EVENT_DESC has a key ``events``, the events with their names. TRACING_DATA and simpleperf's
    META_INFO have a key ``event_types``, names by (type, config). Times are in seconds since 1970.

    Raises:
        RecordingError: the section is damaged; the message names the feature.
    """
    name, decode = _FEATURES.get(bit, ("", None))
    if decode is None:
        return {}
    try:
        return decode(FieldReader(content, order))
    except RecordingError as error:
        raise RecordingError(f"the {name} section is damaged: {error}") from error


def feature_name(bit: int) -> str:
    """Return perf's name of a feature, its number if Prospect does not read it."""
    return _FEATURES.get(bit, (f"feature {bit}", None))[0]


def decode_build_id(record: memoryview, order: str) -> BuildId:
    """Decode a build_id_event with its header: an entry of HEADER_BUILD_ID or a stream's record.

    Raises:
        RecordingError: it is cut.
    """
    fields = FieldReader(record, order)
    _, misc, _, pid, build_id, size = fields.unpack(fmt.BUILD_ID_LAYOUT)
    if misc & fmt.PERF_RECORD_MISC_BUILD_ID_SIZE:
        build_id = build_id[:size]
    name = bytes(fields.rest()).partition(b"\0")[0]
    return BuildId(name, build_id, pid, misc & _CPUMODE_MASK)


def _build_ids(fields: FieldReader) -> dict[str, Any]:
    entries = []
    while fields.remaining:
        _, _, size = fields.peek("IHH")
        entries.append(decode_build_id(fields.take(size), fields.order))
    return {"build_ids": tuple(entries)}


def _text(field: str) -> Callable[[FieldReader], dict[str, Any]]:
    return lambda fields: {field: fields.string()}


def _cmdline(fields: FieldReader) -> dict[str, Any]:
    # A string takes at least 4 bytes, so a wrong count ends at the section's end.
    return {"command_line": tuple(fields.string() for _ in range(fields.u32()))}


def _event_desc(fields: FieldReader) -> dict[str, Any]:
    count, attr_size = fields.unpack("II")
    events = []
    for _ in range(count):
        attr = EventAttr.unpack(bytes(fields.take(attr_size)), fields.order)
        ids_count = fields.u32()
        name = fields.string()
        events.append(EventDescription(attr, fields.u64s(ids_count), name))
    return {"events": tuple(events)}


def _sample_time(fields: FieldReader) -> dict[str, Any]:
    first_ns, last_ns = fields.unpack("QQ")
    if last_ns >= abi.PERF_OFF_CPU_TIMESTAMP:
        return {}
    return {"first_sample_ns": first_ns, "last_sample_ns": last_ns}


def _compressed(fields: FieldReader) -> dict[str, Any]:
    _, kind = fields.unpack("II")
    if kind != _ZSTD:
        raise RecordingError(f"compression {kind} is unknown, only Zstandard ({_ZSTD}) is read")
    return {}


def _clock_data(fields: FieldReader) -> dict[str, Any]:
    _, _, realtime_ns, _ = fields.unpack("IIQQ")
    return {"started_at": realtime_ns / 1e9}


def _meta_info(fields: FieldReader) -> dict[str, Any]:
    """Decode simpleperf's facts, written at the end: keys and values, each ended by NUL.

    Source: ``RecordCommand::DumpMetaInfoFeature()`` in ``system/extras/simpleperf/cmd_record.cpp``
    of Android.
    """
    words = bytes(fields.rest()).split(b"\0")
    facts = dict(zip(words[::2], words[1::2], strict=False))
    version = facts.get(b"simpleperf_version", b"").decode(errors="replace")
    names = {}
    for line in facts.get(b"event_type_info", b"").splitlines():
        name, _, numbers = line.partition(b",")
        type_, _, config = numbers.partition(b",")
        names[_decimal(type_), _decimal(config)] = name.decode(errors="replace")
    return {
        "perf_version": f"simpleperf-{version}",
        "ended_at": float(_decimal(facts.get(b"timestamp", b""))),
        "event_types": names,
    }


def _decimal(digits: bytes) -> int:
    """Return a number of up to 20 digits, 0 for anything else."""
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else 0


def _tracing_data(fields: FieldReader) -> dict[str, Any]:
    from prospect.perfdata.tracing_data import described_tracepoints  # noqa: PLC0415 - rarely

    described = described_tracepoints(fields.rest()).items()
    kind = abi.PERF_TYPE_TRACEPOINT
    return {
        "event_types": {(kind, number): one.name for number, one in described},
        "event_fields": {(kind, number): one.fields for number, one in described},
    }


def _prospect(fields: FieldReader) -> dict[str, Any]:
    magic, version, size = fields.unpack(fmt.PROSPECT_LAYOUT)
    if magic != fmt.PROSPECT_MAGIC or version != fmt.PROSPECT_VERSION:
        raise RecordingError("it was not written by this version of Prospect")
    import json  # noqa: PLC0415 - only Prospect's own section has JSON

    try:
        extras = json.loads(bytes(fields.take(size)))
    except (ValueError, RecursionError) as error:
        raise RecordingError("it holds no JSON") from error
    if not isinstance(extras, dict):
        raise RecordingError("it holds no JSON object")
    return {"extras": extras}


def _images(fields: FieldReader) -> dict[str, Any]:
    from prospect.perfdata.kept_images import decode_images  # noqa: PLC0415 - few recordings have them

    return {"images": decode_images(fields)}


def target_in(content: bytes | memoryview) -> str:
    """Return the target from which a recording came."""
    return bytes(content).rstrip(b"\0").decode("utf-8", "surrogateescape")


def _nrcpus(fields: FieldReader) -> dict[str, Any]:
    return {"cpus_available": fields.u32(), "cpus_online": fields.u32()}


_FEATURES: dict[int, tuple[str, Callable[[FieldReader], dict[str, Any]]]] = {
    fmt.HEADER_TRACING_DATA: ("TRACING_DATA", _tracing_data),
    fmt.HEADER_BUILD_ID: ("BUILD_ID", _build_ids),
    fmt.HEADER_HOSTNAME: ("HOSTNAME", _text("hostname")),
    fmt.HEADER_OSRELEASE: ("OSRELEASE", _text("os_release")),
    fmt.HEADER_VERSION: ("VERSION", _text("perf_version")),
    fmt.HEADER_ARCH: ("ARCH", _text("arch")),
    fmt.HEADER_NRCPUS: ("NRCPUS", _nrcpus),
    fmt.HEADER_CPUDESC: ("CPUDESC", _text("cpu_description")),
    fmt.HEADER_CPUID: ("CPUID", _text("cpuid")),
    fmt.HEADER_TOTAL_MEM: ("TOTAL_MEM", lambda fields: {"total_memory_kib": fields.u64()}),
    fmt.HEADER_CMDLINE: ("CMDLINE", _cmdline),
    fmt.HEADER_EVENT_DESC: ("EVENT_DESC", _event_desc),
    fmt.HEADER_SAMPLE_TIME: ("SAMPLE_TIME", _sample_time),
    fmt.HEADER_COMPRESSED: ("COMPRESSED", _compressed),
    fmt.HEADER_CLOCK_DATA: ("CLOCK_DATA", _clock_data),
    fmt.HEADER_SIMPLEPERF_META_INFO: ("META_INFO", _meta_info),
    fmt.HEADER_PROSPECT_ARCHIVE: ("ARCHIVE", lambda fields: {"archive": fields.rest()}),
    fmt.HEADER_PROSPECT_IMAGES: ("IMAGES", _images),
    fmt.HEADER_PROSPECT_TARGET: ("TARGET", lambda fields: {"target": target_in(fields.rest())}),
    fmt.HEADER_PROSPECT: ("PROSPECT", _prospect),
}


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
    """Return perf's name of an event, ``raw 0x…`` if it has none.

    A suffix has the counted modes if some are excluded: ``cycles:u``.

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
    """The facts read so far; `damage` gets a sentence for each that cannot be read."""

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
        """Add a metadata record of a stream; return False for another record."""
        fields = FieldReader(record[fmt.RECORD_HEADER_BYTES :], self.order)
        try:
            if type_ == fmt.PERF_RECORD_HEADER_ATTR:
                size = fields.peek("II")[1] or abi.PERF_ATTR_SIZE_VER0
                attr = EventAttr.unpack(bytes(fields.take(size)), self.order)
                self._events.append(EventDescription(attr, fields.u64s(fields.remaining // 8)))
            elif type_ == fmt.PERF_RECORD_EVENT_UPDATE:
                kind, event_id = fields.unpack("QQ")
                if kind == fmt.PERF_EVENT_UPDATE_NAME:
                    name = bytes(fields.rest()).partition(b"\0")[0]
                    self._renamed[event_id] = name.decode("utf-8", "surrogateescape")
            elif type_ == fmt.PERF_RECORD_HEADER_BUILD_ID:
                self._add_build_id(decode_build_id(record, self.order))
            elif type_ == fmt.PERF_RECORD_HEADER_FEATURE:
                self.add_feature(fields.u64(), fields.rest())
            else:
                return False
        except RecordingError as error:
            self._damage.append(f"a metadata record of type {type_} is damaged: {error}")
        return True

    def _add_build_id(self, entry: BuildId) -> None:
        if entry.name.startswith(fmt.TARGET_MARK):  # the last is that of the receiver
            self._facts["target"] = target_in(entry.name.removeprefix(fmt.TARGET_MARK))
        else:
            self._build_ids.append(entry)

    @property
    def events(self) -> tuple[EventDescription, ...]:
        """The events, each with its recorded name or else perf's name."""
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
        # The event of runtimes' frames has no attr, so that perf does not see it.
        hidden = (e for e in self._described[len(events) :] if is_frames_event(e.attr, e.name))
        return (*events, *hidden)

    def info(self, recorded_at: float = 0.0, named_by: int = 0) -> RecordingInfo:
        """Return the facts, with the file's time and the user whose rights its names get."""
        return RecordingInfo(
            origin=self._origin,
            events=self.events,
            build_ids=tuple(self._build_ids),
            recorded_at=recorded_at,
            named_by=named_by,
            **self._facts,
        )
