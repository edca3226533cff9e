"""Plain values → JSON, as `json.dumps` writes it without spaces.

For what every recording ends with: that module takes 3 ms to import, `re` before it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_CONSTANTS = {None: "null", True: "true", False: "false"}


def json_text(value: Any) -> str:
    """Return numbers, text, lists and dictionaries of them as JSON.

    Raises:
        TypeError: there is something else among them.
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
        entries = (f"{_key(key)}:{json_text(one)}" for key, one in value.items())
        return f"{{{','.join(entries)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(_entries(value))}]"
    raise TypeError(f"{type(value).__name__} is no plain value")


def _entries(values: Sequence[Any]) -> Sequence[str]:
    if set(map(type, values)) == {int}:
        return list(map(str, values))
    return list(map(json_text, values))


def _key(key: Any) -> str:
    return _quoted(key) if isinstance(key, str) else f'"{json_text(key)}"'


def _number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return float.__repr__(value) if value == value else "NaN"  # noqa: PLR0124 - only that one is not itself


def _quoted(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    from json.encoder import encode_basestring_ascii  # noqa: PLC0415 - seldom, see above

    return encode_basestring_ascii(text)
