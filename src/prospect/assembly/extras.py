"""Checked values of Prospect's feature section, and a recording's start and end.

The section is a JSON document from any writer (docs/recording.md). Each function returns a value of
the expected type, in a range that every column can hold; for an invalid value, the neutral one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.events.record_columns import Events

_LARGEST_I32 = (1 << 31) - 1
_LARGEST_I64 = (1 << 63) - 1
_LARGEST_I64_DIGITS = 19


def number_of(value: object) -> float:
    """Return a finite number, 0.0 for any other value."""
    if not isinstance(value, (int, float)):
        return 0.0
    try:
        number = float(value)
    except OverflowError:  # JSON's integers have any size
        return 0.0
    return number if math.isfinite(number) else 0.0


def is_i32(value: object) -> bool:
    """Return whether a value is an integer of 32 bits, as pids, CPUs and statuses are."""
    return isinstance(value, int) and abs(value) <= _LARGEST_I32


def mapping_of(value: object) -> dict[str, Any]:
    """Return a JSON object, an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def texts_of(value: object) -> tuple[str, ...]:
    """Return the texts in a list."""
    return tuple(item for item in value if isinstance(item, str)) if type(value) is list else ()


def counts_of(value: object) -> tuple[int, ...]:
    """Return a list of integers of 0 to 2**63 - 1, an empty one if any item is another value."""
    return tuple(value) if type(value) is list and all(_is_count(item) for item in value) else ()


def counts_by_name(value: object) -> dict[str, int]:
    """Return the counts of 0 to 2**63 - 1 in a JSON object."""
    return {name: count for name, count in mapping_of(value).items() if _is_count(count)}


def by_number(value: object) -> dict[int, Any]:
    """Return the items of a JSON object with keys of 0 to 2**31 - 1, such as pids and CPUs."""
    numbered = {
        int(key): item
        for key, item in mapping_of(value).items()
        if key.isdecimal() and len(key) <= _LARGEST_I64_DIGITS
    }
    return {number: item for number, item in numbered.items() if is_i32(number)}


def unpacked(packed: str, most_bytes: int) -> bytes:
    """Unpack zlib data in Base64, at most so many bytes; none if it is damaged."""
    import base64  # noqa: PLC0415 - few reports need it
    import binascii  # noqa: PLC0415 - few reports need it
    import zlib  # noqa: PLC0415 - few reports need it

    try:
        return zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), most_bytes)
    except (binascii.Error, ValueError, zlib.error):
        return b""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= _LARGEST_I64


def interval_ns(info: RecordingInfo, events: Events) -> tuple[int, int]:
    """Return begin and end of the interval on the samples' clock, both 0 if there is none."""
    recorded = counts_of(info.extras.get("interval_ns"))
    if len(recorded) == 2:
        return recorded[0], recorded[1]
    if info.last_sample_ns > info.first_sample_ns:
        return info.first_sample_ns, info.last_sample_ns
    times = events.samples.time_ns
    if not len(times):
        return 0, 0
    # A killed recorder has recorded its begin only.
    begin_ns, end_ns = counts_of([info.extras.get("begin_ns")]), int(times.max())
    return min(begin_ns[0] if begin_ns else int(times.min()), end_ns), end_ns


def recorded_until(info: RecordingInfo, events: Events) -> float:
    """Return when the recording ended at the latest, in seconds since the epoch; 0.0: unknown."""
    started_at = number_of(info.extras.get("started_at"))
    if not started_at:
        return info.ended_at or info.recorded_at
    begin_ns, end_ns = interval_ns(info, events)
    return started_at + (end_ns - begin_ns) * 1e-9
