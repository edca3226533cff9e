"""RecordingInfo → feature sections, as perf writes them.

Sections are (feature bit, bytes) in ascending order; a missing fact gives no section. Every
recording ends with these, so this module writes JSON itself: importing `json` takes 3 ms.
Source: ``write_*()`` of ``tools/perf/util/header.c``, Linux 6.18.
"""

from __future__ import annotations

import os
import struct

from prospect.perfdata import format as fmt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from prospect.abi.attr import EventDescription
    from prospect.abi.recorded_facts import BuildId, RecordingInfo

_CONSTANTS = {None: "null", True: "true", False: "false"}

_PATH_MAX = 4096
_MISC_CPUMODE_MASK = 7


def json_text(value: Any) -> str:
    """Return numbers, text, lists and dictionaries of them as JSON.

    Raises:
        TypeError: there is a value of another type.
    """
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return _CONSTANTS[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dict):
        keys = (key if isinstance(key, str) else json_text(key) for key in value)
        entries = map("{}:{}".format, map(_quoted, keys), map(json_text, value.values()))
        return f"{{{','.join(entries)}}}"
    if isinstance(value, list | tuple):
        is_numbers = set(map(type, value)) == {int}
        return f"[{','.join(map(str if is_numbers else json_text, value))}]"
    raise TypeError(f"{type(value).__name__} is no plain value")


def _number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return float.__repr__(value) if value == value else "NaN"  # noqa: PLR0124 - NaN is unequal to itself


def _quoted(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    from json.encoder import encode_basestring_ascii  # noqa: PLC0415 - rarely needed

    return encode_basestring_ascii(text)


def encode_features(
    info: RecordingInfo, events: Sequence[EventDescription], clock: fmt.ClockPair | None = None
) -> list[tuple[int, bytes]]:
    """Return the feature sections that `info` has facts for, in the order of their bits.

    Args:
        info: facts about the recorded machine and run, except its `events`.
        events: the recorded events, with all ids.
        clock: the events' clock, if they have FLAG_USE_CLOCKID.
    """
    nr_cpus = (info.cpus_available, info.cpus_online)
    times_ns = (info.first_sample_ns, info.last_sample_ns)
    sections = {
        fmt.HEADER_TRACING_DATA: info.tracing_data,
        fmt.HEADER_BUILD_ID: b"".join(map(build_id_record, info.build_ids)),
        fmt.HEADER_HOSTNAME: _string(info.hostname),
        fmt.HEADER_OSRELEASE: _string(info.os_release),
        fmt.HEADER_VERSION: _string(info.perf_version),
        fmt.HEADER_ARCH: _string(info.arch),
        fmt.HEADER_NRCPUS: struct.pack("<II", *nr_cpus) if any(nr_cpus) else b"",
        fmt.HEADER_CPUDESC: _string(info.cpu_description),
        fmt.HEADER_CPUID: _string(info.cpuid),
        fmt.HEADER_TOTAL_MEM: _u64(info.total_memory_kib),
        fmt.HEADER_CMDLINE: _command_line(info.command_line),
        fmt.HEADER_EVENT_DESC: _event_desc(events),
        fmt.HEADER_SAMPLE_TIME: struct.pack("<QQ", *times_ns) if any(times_ns) else b"",
        fmt.HEADER_CLOCKID: _u64(clock.resolution_ns) if clock else b"",
        fmt.HEADER_COMPRESSED: _compressed(*info.compression) if info.compression else b"",
        fmt.HEADER_CLOCK_DATA: (
            struct.pack("<IIQQ", 1, clock.clock_id, clock.realtime_ns, clock.clock_ns)
            if clock
            else b""
        ),
        fmt.HEADER_PROSPECT_IMAGES: info.image_section,
        fmt.HEADER_PROSPECT_TARGET: os.fsencode(info.target),
        fmt.HEADER_PROSPECT: _prospect(info.extras) if info.extras else b"",
    }
    return [(bit, content) for bit, content in sections.items() if content]


def _compressed(level: int, ratio: int, unpacked_bytes: int) -> bytes:
    # version, PERF_COMP_ZSTD, level, ratio, and the size of the buffer to unpack a record into
    return struct.pack("<5I", 1, 1, level, ratio, unpacked_bytes)


def _u64(value: int) -> bytes:
    return struct.pack("<Q", value) if value else b""


def _string(text: str) -> bytes:
    return _padded_string(text) if text else b""


def _padded_string(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogateescape")
    size = fmt.aligned(len(encoded) + 1, fmt.NAME_ALIGN)
    return struct.pack("<I", size) + encoded.ljust(size, b"\0")


def build_id_record(entry: BuildId, type_: int = 0) -> bytes:
    """Return a build id as an entry of HEADER_BUILD_ID, or as a record of a type for a stream."""
    name = entry.name[: _PATH_MAX - 1]
    padded = name.ljust(fmt.aligned(len(name) + 1, fmt.NAME_ALIGN), b"\0")
    build_id = entry.build_id[:20]
    head = struct.pack(
        "<" + fmt.BUILD_ID_LAYOUT,
        type_,
        entry.cpumode & _MISC_CPUMODE_MASK | fmt.PERF_RECORD_MISC_BUILD_ID_SIZE,
        fmt.BUILD_ID_BYTES + len(padded),
        entry.pid,
        build_id,
        len(build_id),
    )
    return head + padded


def _command_line(arguments: Sequence[str]) -> bytes:
    if not arguments:
        return b""
    return struct.pack("<I", len(arguments)) + b"".join(map(_padded_string, arguments))


def _event_desc(events: Sequence[EventDescription]) -> bytes:
    parts = [struct.pack("<II", len(events), fmt.ATTR_BYTES)]
    for event in events:
        parts += (
            fmt.encode_attr(event.attr),
            struct.pack("<I", len(event.ids)),
            _padded_string(event.name),
            struct.pack(f"<{len(event.ids)}Q", *event.ids),
        )
    return b"".join(parts)


def _prospect(extras: dict[str, Any]) -> bytes:
    text = json_text(extras).encode("ascii")
    head = struct.pack(
        "<" + fmt.PROSPECT_LAYOUT, fmt.PROSPECT_MAGIC, fmt.PROSPECT_VERSION, len(text)
    )
    return head + text
