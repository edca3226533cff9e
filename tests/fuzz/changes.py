"""Changes to bytes and to JSON documents, drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random


_WORDS = (0, 1, 8, 0xFF, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1, (1 << 64) - 8)
_JUNK: tuple[Any, ...] = (
    *(None, True, 0, -1, 1 << 31, 1 << 63, 1 << 64, 1 << 200, 0.5, -1e308),
    *(float("inf"), float("-inf"), float("nan"), "", "x" * 300, "\0", "\ud800", "-1"),
    *([], [[]], [None], {}, {"": {}}, [1, 2, 3], ["a", 1]),
)


def changed(content: bytes, draw: random.Random) -> bytes:
    """Change, insert or remove bytes in a few places, or many."""
    out = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8, 50))):
        at = draw.randrange(len(out))
        match draw.randrange(7):
            case 0:
                out[at] ^= 1 << draw.randrange(8)
            case 1:
                out[at] = draw.choice((0, 1, 0x0A, 0x20, 0x7F, 0x80, 0xFF))
            case 2:
                del out[at : at + draw.choice((1, 4, 8, 100))]
            case 3:
                out[at:at] = draw.randbytes(draw.choice((1, 8, 50)))
            case 4 | 5:
                at &= ~(draw.choice((4, 8)) - 1)
                order = draw.choice(("little", "little", "big"))
                width = draw.choice((4, 8))
                out[at : at + width] = (draw.choice(_WORDS) & (1 << 8 * width) - 1).to_bytes(
                    width, order
                )
            case 6:
                source = draw.randrange(len(out))
                out[at:at] = out[source : source + draw.choice((8, 64, 500))]
        if not out:
            return b"\0"
    if not draw.randrange(20):
        del out[draw.randrange(len(out)) :]
    return bytes(out)


def changed_json(value: Any, draw: random.Random) -> Any:
    """Replace one value somewhere in a JSON document, or leave out or repeat an entry."""
    if isinstance(value, dict) and value and draw.randrange(8):
        key = draw.choice(sorted(value))
        if not draw.randrange(10):
            return {name: one for name, one in value.items() if name != key}
        return value | {key: changed_json(value[key], draw)}
    if isinstance(value, list) and value and draw.randrange(8):
        at = draw.randrange(len(value))
        if not draw.randrange(10):
            return value[:at] + value[at:] * 2
        return [*value[:at], changed_json(value[at], draw), *value[at + 1 :]]
    return draw.choice(_JUNK)
