"""An entry of the walker's map of images: the Python in a process.

Comes in: what `interpreters` found. Goes out: the bytes of the entry, which begin with its own
IMAGE record; its key is that of `python_processes`.
"""

from __future__ import annotations

import struct

from prospect.abi import cpython
from prospect.abi import python_frames as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.python.interpreters import Interpreter

ID = 16
KEY_ADDRESS = wire.HEADER.size + wire.IMAGE.size
_OFFSETS = KEY_ADDRESS + 8
_NAMES = (
    *("thread_frame", "cframe", "base", "size", "code", "back", "last", "owner"),
    *("last_is_address", "signature", "name", "file", "lines", "ascii", "compact"),
)
_AT = {name: _OFFSETS + 4 * number for number, name in enumerate(_NAMES)}
THREAD_FRAME, CFRAME, BASE, SIZE = (_AT[name] for name in _NAMES[:4])
CODE, BACK, LAST, OWNER = (_AT[name] for name in _NAMES[4:8])
LAST_IS_ADDRESS, SIGNATURE, NAME, FILE = (_AT[name] for name in _NAMES[8:12])
LINES, ASCII, COMPACT = (_AT[name] for name in _NAMES[12:])
ENTRY_BYTES = -(-(_OFFSETS + 4 * len(_NAMES)) // 8) * 8


def encode(number: int, found: Interpreter) -> bytes:
    """Return the entry of an interpreter, by its number in the recording."""
    frame, code = cpython.FRAMES[found.minor], cpython.CODE[found.minor]
    facts = frame._asdict() | {
        name: getattr(code, name) for name in ("signature", "name", "file", "lines")
    }
    facts |= {"ascii": code.ascii, "compact": code.compact}
    record = wire.HEADER.pack(
        wire.MAGIC, wire.KIND_IMAGE, 0, wire.IMAGE.size, 0, number, 0, 0
    ) + wire.IMAGE.pack(0x300 | found.minor, 0, *found.text, *found.loop)
    entry = record + struct.pack("=Q", found.key_address)
    entry += struct.pack(f"={len(_NAMES)}I", *(facts[name] for name in _NAMES))
    return entry.ljust(ENTRY_BYTES, b"\0")
