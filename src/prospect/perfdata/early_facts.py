"""Facts that a recorder writes before its records, for readers of a file that was never finished.

perf.data has its feature sections after the records, where a recorder that is killed writes none.
So ours writes those that it knows from the start between the event ids and the records as
well: no reader of perf.data looks there. A finished file has all of them at its end, and these are
    not
read.

Layout: for each feature its bit and its size (u64 each) and the content, padded to 8 bytes; zeros
up to the last 16 bytes before the records; there the magic, a version and the size of the whole.

This module is on the way to the command's start: it imports nothing but cheap modules.
"""

from __future__ import annotations

import struct

from prospect.perfdata import format as fmt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prospect.perfdata.file_header import FileHeader

_END = struct.Struct("<" + fmt.PROSPECT_LAYOUT)
_ENTRY = struct.Struct("<QQ")


def encode_early_facts(features: Iterable[tuple[int, bytes]], size: int) -> bytes:
    """Return `size` bytes that hold the features, without those for which there is no room.

    Features are (bit, content), the most important ones first; `size` is a multiple of 8.
    """
    entries, left = [], size - _END.size
    for bit, content in features:
        padded = content.ljust(fmt.aligned(len(content)), b"\0")
        if _ENTRY.size + len(padded) <= left:
            entries.append(_ENTRY.pack(bit, len(content)) + padded)
            left -= _ENTRY.size + len(padded)
    end = _END.pack(fmt.PROSPECT_MAGIC, fmt.PROSPECT_VERSION, size)
    return b"".join(entries) + bytes(left) + end


def early_facts(file: memoryview, header: FileHeader) -> Iterator[tuple[int, memoryview]]:
    """Yield (feature bit, content) of a file that was not finished; nothing if it has none."""
    end = header.data.offset
    if end > len(file) or end < fmt.FILE_HEADER_BYTES + _END.size:
        return
    magic, version, size = _END.unpack(file[end - _END.size : end])
    begin = end - size
    if magic != fmt.PROSPECT_MAGIC or version != fmt.PROSPECT_VERSION:
        return
    if begin < fmt.FILE_HEADER_BYTES or size < _END.size:
        return
    rest = file[begin : end - _END.size]
    while len(rest) >= _ENTRY.size:
        bit, size = _ENTRY.unpack(rest[: _ENTRY.size])
        if not bit or size > len(rest) - _ENTRY.size:
            return
        yield bit, rest[_ENTRY.size : _ENTRY.size + size]
        rest = rest[_ENTRY.size + fmt.aligned(size) :]
