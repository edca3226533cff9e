"""Map and jitdump files that the recorder copied → their bytes, by process.

Comes in: the key ``jit_files`` of Prospect's own feature section, which anybody may have written
(docs/recording.md). Goes out: `JitCopies`.
"""

from __future__ import annotations

from typing import Any

from prospect.assembly.extras import is_i32, mapping_of, unpacked
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
        content = unpacked(packed, min(left, LARGEST_COPY_BYTES)) if left > 0 else b""
        left -= len(content)
        if one.get("kind") == "map":
            copies.maps[pid] = copies.maps.get(pid, b"") + content
        elif one.get("kind") == "dump" and content:
            copies.dumps[pid] = content
    return copies
