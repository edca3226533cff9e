"""Feature sections → keyword arguments of RecordingInfo; one function a feature.

Source: ``process_*()`` of ``tools/perf/util/header.c``, Linux 6.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import BuildId
from prospect.errors import RecordingError
from prospect.perfdata import format as fmt
from prospect.perfdata.fields import FieldReader

if TYPE_CHECKING:
    from collections.abc import Callable

_CPUMODE_MASK = 7
_ZSTD = 1
_MOST_DIGITS = 20


def decode_feature(bit: int, content: bytes | memoryview, order: str) -> dict[str, Any]:
    """Return the RecordingInfo fields that a feature section holds; empty for others.

    The key ``events`` of EVENT_DESC lists the events with their names, ``event_types`` of
    TRACING_DATA and of simpleperf's META_INFO the names by (type, config); times are in seconds
    since 1970.

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
    """Return perf's name of a feature, its number where Prospect does not read it."""
    return _FEATURES.get(bit, (f"feature {bit}", None))[0]


def decode_build_id(record: memoryview, order: str) -> BuildId:
    """Decode a build_id_event: an entry of HEADER_BUILD_ID or the record of pipe mode.

    `record` has its header; `order` is ``"<"`` or ``">"``.

    Raises:
        RecordingError: it is cut.
    """
    fields = FieldReader(record, order)
    _, misc, _, pid, build_id, size = fields.unpack(fmt.BUILD_ID_LAYOUT)
    if misc & fmt.PERF_RECORD_MISC_BUILD_ID_SIZE:
        build_id = build_id[:size]
    name = bytes(fields.take(fields.remaining)).partition(b"\0")[0]
    return BuildId(name, build_id, pid, misc & _CPUMODE_MASK)


def _build_ids(fields: FieldReader) -> dict[str, Any]:
    entries = []
    while fields.remaining:
        _, _, size = fields.peek("IHH")
        entries.append(decode_build_id(fields.take(size), fields.order))
    return {"build_ids": tuple(entries)}


def _text(field: str) -> Callable[[FieldReader], dict[str, Any]]:
    return lambda fields: {field: fields.string()}


def _nrcpus(fields: FieldReader) -> dict[str, Any]:
    return {"cpus_available": fields.u32(), "cpus_online": fields.u32()}


def _total_mem(fields: FieldReader) -> dict[str, Any]:
    return {"total_memory_kib": fields.u64()}


def _cmdline(fields: FieldReader) -> dict[str, Any]:
    # A string takes 4 bytes at least, so a wrong count ends at the section's end.
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
    return {"first_sample_ns": fields.u64(), "last_sample_ns": fields.u64()}


def _compressed(fields: FieldReader) -> dict[str, Any]:
    _, kind = fields.unpack("II")
    if kind != _ZSTD:
        raise RecordingError(f"compression {kind} is unknown, only Zstandard ({_ZSTD}) is read")
    return {}


def _clock_data(fields: FieldReader) -> dict[str, Any]:
    _, _, realtime_ns, _ = fields.unpack("IIQQ")
    return {"started_at": realtime_ns / 1e9}


def _meta_info(fields: FieldReader) -> dict[str, Any]:
    """Decode simpleperf's facts: keys and values, each ended by NUL.

    Source: ``RecordCommand::DumpMetaInfoFeature()`` in ``system/extras/simpleperf/cmd_record.cpp``
    of Android, which runs as the recording ends.
    """
    words = bytes(fields.take(fields.remaining)).split(b"\0")
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
    """Return a number of u64's size or about it, 0 for anything else."""
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else 0


def _tracing_data(fields: FieldReader) -> dict[str, Any]:
    from prospect.perfdata.tracing_data import described_tracepoints  # noqa: PLC0415 - rarely

    described = described_tracepoints(fields.take(fields.remaining)).items()
    kind = abi.PERF_TYPE_TRACEPOINT
    return {
        "event_types": {(kind, number): one.name for number, one in described},
        "event_fields": {(kind, number): one.fields for number, one in described},
    }


def _prospect(fields: FieldReader) -> dict[str, Any]:
    magic, version, size = fields.unpack(fmt.PROSPECT_LAYOUT)
    if magic != fmt.PROSPECT_MAGIC or version != fmt.PROSPECT_VERSION:
        raise RecordingError("it was not written by this version of Prospect")
    import json  # noqa: PLC0415 - Prospect's own section alone has any

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
    """Return the target that a recording says it came from."""
    return bytes(content).rstrip(b"\0").decode("utf-8", "surrogateescape")


def _rest(fields: FieldReader) -> memoryview:
    return fields.take(fields.remaining)


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
    fmt.HEADER_TOTAL_MEM: ("TOTAL_MEM", _total_mem),
    fmt.HEADER_CMDLINE: ("CMDLINE", _cmdline),
    fmt.HEADER_EVENT_DESC: ("EVENT_DESC", _event_desc),
    fmt.HEADER_SAMPLE_TIME: ("SAMPLE_TIME", _sample_time),
    fmt.HEADER_COMPRESSED: ("COMPRESSED", _compressed),
    fmt.HEADER_CLOCK_DATA: ("CLOCK_DATA", _clock_data),
    fmt.HEADER_SIMPLEPERF_META_INFO: ("META_INFO", _meta_info),
    fmt.HEADER_PROSPECT_ARCHIVE: ("ARCHIVE", lambda fields: {"archive": _rest(fields)}),
    fmt.HEADER_PROSPECT_IMAGES: ("IMAGES", _images),
    fmt.HEADER_PROSPECT_TARGET: ("TARGET", lambda fields: {"target": target_in(_rest(fields))}),
    fmt.HEADER_PROSPECT: ("PROSPECT", _prospect),
}
