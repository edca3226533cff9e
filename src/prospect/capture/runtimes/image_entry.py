"""An entry of the walker's map of images: the runtime in a process.

It begins with its own IMAGE record; its key is that of `runtime_processes`.
"""

from __future__ import annotations

import struct

from prospect.abi import runtime_frames as wire
from prospect.capture.runtimes.runtime import MOST_ADDRESSES, MOST_WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.capture.runtimes.runtime import Placed

ID = 16
TEXT_BEGIN = wire.HEADER.size + 8
TEXT_END = TEXT_BEGIN + 8
RUNTIME = wire.HEADER.size + wire.IMAGE.size
ROOM = RUNTIME + 4
USER_ROOM = ROOM + 4
_ADDRESSES = RUNTIME + 16
_WORDS = _ADDRESSES + 8 * MOST_ADDRESSES
ENTRY_BYTES = _WORDS + 4 * MOST_WORDS


def entry_fields(addresses: Sequence[str], words: Sequence[str]) -> dict[str, int]:
    """Return the offsets in entries of a runtime's `Image.addresses` and `Image.words`, by name."""
    at = {name: _ADDRESSES + 8 * number for number, name in enumerate(addresses)}
    return at | {name: _WORDS + 4 * number for number, name in enumerate(words)}


def image_record(number: int, found: Placed, user: int) -> bytes:
    """Return the IMAGE record of a runtime, from its number in the recording and its user's."""
    facts = wire.MAGIC, wire.KIND_IMAGE, 0, wire.IMAGE.size, 0, number, user, 0
    version = found.version | found.runtime << wire.RUNTIME_SHIFT
    places = *found.text, *found.loop
    return wire.HEADER.pack(*facts) + wire.IMAGE.pack(version, found.described, *places)


def encode(number: int, found: Placed, rooms: tuple[int, int]) -> bytes:
    """Return the entry of a runtime, with the rooms of itself and its user (`walk_rooms`)."""
    entry = image_record(number, found, rooms[1]) + struct.pack("=4I", found.runtime, *rooms, 0)
    addresses = *found.addresses, *[0] * (MOST_ADDRESSES - len(found.addresses))
    words = *found.words, *[0] * (MOST_WORDS - len(found.words))
    return entry + struct.pack(f"={MOST_ADDRESSES}Q{MOST_WORDS}I", *addresses, *words)
