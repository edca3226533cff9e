"""An entry of the walker's map of images: the Python in a process.

It begins with its own IMAGE record; its key is that of `python_processes`.
"""

from __future__ import annotations

import struct

from prospect.abi import python_frames as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.python.interpreters import Interpreter

ID = 16
# The address of the key's Py_tss_t, 0 if threads are found by their numbers; that of the first
# interpreter.
KEY_ADDRESS = wire.HEADER.size + wire.IMAGE.size
INTERPRETERS = KEY_ADDRESS + 8
_OFFSETS = INTERPRETERS + 8
_FRAME = (
    *("thread_frame", "cframe", "base", "size", "code", "back", "last", "owner"),
    *("last_is_address", "copy"),
)
_CODE = (
    *("signature", "name", "file", "lines", "ascii", "compact", "length", "bytes"),
    *("state_shift", "copies", "instructions"),
)
_THREADS = ("next_interpreter", "threads", "next_thread", "number")
_NAMES = (*_FRAME, *_CODE, *_THREADS, "room", "user_room")
_AT = {name: _OFFSETS + 4 * number for number, name in enumerate(_NAMES)}
THREAD_FRAME, CFRAME, BASE, SIZE, CODE = (_AT[name] for name in _FRAME[:5])
BACK, LAST, OWNER, LAST_IS_ADDRESS, COPY = (_AT[name] for name in _FRAME[5:])
SIGNATURE, NAME, FILE, LINES, ASCII, COMPACT = (_AT[name] for name in _CODE[:6])
LENGTH, BYTES, STATE_SHIFT, COPIES, INSTRUCTIONS = (_AT[name] for name in _CODE[6:])
NEXT_INTERPRETER, THREADS, NEXT_THREAD, NUMBER = (_AT[name] for name in _THREADS)
ROOM, USER_ROOM = _AT["room"], _AT["user_room"]
ENTRY_BYTES = -(-(_OFFSETS + 4 * len(_NAMES)) // 8) * 8


def encode(number: int, found: Interpreter, rooms: tuple[int, int]) -> bytes:
    """Return the entry of an interpreter.

    Args:
        number: of the interpreter in the recording.
        found: the interpreter.
        rooms: its own and its user's, see `walk_rooms`.
    """
    minor, frame, code, threads = found.layouts
    facts = dict.fromkeys(_NAMES, 0) | frame._asdict() | code._asdict()
    facts |= {"room": rooms[0], "user_room": rooms[1], "code": frame.code}
    facts |= threads._asdict()
    described = code.instructions | (code.first_line - code.signature) << wire.FIRST_LINE_SHIFT
    record = wire.HEADER.pack(
        wire.MAGIC, wire.KIND_IMAGE, 0, wire.IMAGE.size, 0, number, rooms[1], 0
    ) + wire.IMAGE.pack(0x300 | minor, described, *found.text, *found.loop)
    entry = record + struct.pack("=QQ", found.key_address, found.interpreters_address)
    entry += struct.pack(f"={len(_NAMES)}I", *(facts[name] for name in _NAMES))
    return entry.ljust(ENTRY_BYTES, b"\0")
