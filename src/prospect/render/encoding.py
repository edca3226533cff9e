"""Values → JSON (RFC 8259) in UTF-8.

Bytes of a name that are no UTF-8 stand as the escapes U+DC80 to U+DCFF, as Python's `os.fsdecode`
makes them.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def encoded(value: object) -> bytes:
    """Return one value as JSON, without a line end."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:  # a lone surrogate: an undecodable byte of a name
        return json.dumps(value, allow_nan=False).encode("ascii")


def listed(values: Iterable[object]) -> Iterator[bytes]:
    """Yield what stands within a JSON array, a value a line."""
    for number, value in enumerate(values):
        yield b",\n" if number else b"\n"
        yield encoded(value)


def finite(value: float) -> float | None:
    """Return a number that JSON has, None for infinities and what is no number."""
    return value if math.isfinite(value) else None


def rounded(seconds: float) -> float | None:
    """Return a time to the nanosecond, None for what is not known."""
    return round(float(seconds), 9) if math.isfinite(seconds) else None
