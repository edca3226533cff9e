"""Map and jitdump files that the recorder copied → their bytes, by process.

Comes in: the key ``jit_files`` of Prospect's own feature section, which anybody may have written
(docs/recording.md). Goes out: `JitCopies`.
"""

from __future__ import annotations

import zlib
from typing import Any

from prospect.assembly.extras import is_i32, mapping_of
from prospect.records import Record, field

LARGEST_COPY_BYTES = 1 << 26
_MOST_COPIES = 1024
_MOST_BYTES = 1 << 28


class JitCopies(Record):
    """Files by process id; of several map files of one process, one behind the other."""

    maps: dict[int, bytes] = field(default_factory=dict)
    dumps: dict[int, bytes] = field(default_factory=dict)


def recorded_copies(extras: dict[str, Any]) -> JitCopies:
    """Unpack the copies; what is none is left out."""
    listed = extras.get("jit_files")
    copies = JitCopies()
    left = _MOST_BYTES
    for entry in listed[:_MOST_COPIES] if isinstance(listed, list) else ():
        one = mapping_of(entry)
        pid, packed = one.get("pid"), one.get("zlib")
        if not isinstance(pid, int) or not is_i32(pid) or not isinstance(packed, str):
            continue
        content = _unpacked(packed, min(left, LARGEST_COPY_BYTES)) if left > 0 else b""
        left -= len(content)
        if one.get("kind") == "map":
            copies.maps[pid] = copies.maps.get(pid, b"") + content
        elif one.get("kind") == "dump" and content:
            copies.dumps[pid] = content
    return copies


def _unpacked(packed: str, most_bytes: int) -> bytes:
    """Return at most so many bytes, none where the text is damaged."""
    import base64  # noqa: PLC0415 - few recordings have copies
    import binascii  # noqa: PLC0415 - likewise

    try:
        return zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), most_bytes)
    except (binascii.Error, ValueError, zlib.error):
        return b""
