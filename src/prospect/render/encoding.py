"""Values → JSON (RFC 8259) in UTF-8. Figures are rounded here, and nowhere after.

The last digits of a sum of doubles depend on the vector unit that added it up, so they differ
between machines. Output has fewer: 12 significant digits, and from a million on six decimals, so
that times since 1970 keep their microseconds.

Bytes of a name that are not UTF-8 become the escapes U+DC80 to U+DCFF, as in Python's
`os.fsdecode`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SIGNIFICANT_DIGITS = 12
_DECIMALS = 6  # of numbers from 10**_DECIMALS on
_HAVE_NO_FRACTION = frozenset((bool, int, str, type(None)))


def encoded(value: object) -> bytes:
    """Return one value as JSON, without a line end: its numbers rounded, null for NaN and ±∞."""
    return encoded_exactly(_rounded(value))


def encoded_exactly(value: object) -> bytes:
    """Return one value as JSON, its numbers as they are: for long columns that hold no sums."""
    import json  # noqa: PLC0415 - not of text, which rounds as JSON does

    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:  # a lone surrogate: an undecodable byte of a name
        return json.dumps(value, allow_nan=False).encode("ascii")


def listed(values: Iterable[object]) -> Iterator[bytes]:
    """Yield the inside of a JSON array, a value a line."""
    for number, value in enumerate(values):
        yield b",\n" if number else b"\n"
        yield encoded(value)


def significant(value: float) -> float:
    """Return a number with as many digits as are the same on all machines; never -0.0."""
    if abs(value) < 10.0**_DECIMALS:
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") + 0.0
    return round(float(value), _DECIMALS)


def rounded(seconds: float) -> float:
    """Return a time to the nanosecond."""
    return round(float(seconds), 9)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return significant(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {
            key: item if type(item) in _HAVE_NO_FRACTION else _rounded(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)) and not _HAVE_NO_FRACTION.issuperset(map(type, value)):
        return [_rounded(item) for item in value]
    return value
