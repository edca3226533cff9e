"""Bytes that gzip compressed → the bytes, no more of them than a profile has."""

from __future__ import annotations

import zlib

from prospect.errors import RecordingError
from prospect.foreign.foreign_limits import LARGEST_UNPACKED_BYTES, MOST_MEMBERS

_MAGIC = b"\x1f\x8b"
_WINDOW = 16 + zlib.MAX_WBITS
_UNPACKED_BYTES = 1 << 24
_UNPACKED_EACH = 64
_PIECE_BYTES = 1 << 16  # zlib copies what follows the end of a member


def is_gzipped(head: bytes) -> bool:
    """Return whether a file begins as gzip's do."""
    return head.startswith(_MAGIC)


def unpacked_head(head: bytes) -> bytes:
    """Return what a file's first bytes unpack to, at most 64 times as many."""
    try:
        return zlib.decompressobj(_WINDOW).decompress(head, _UNPACKED_EACH * max(len(head), 1))
    except zlib.error:
        return b""


def unpacked(data: memoryview) -> bytes:
    """Unpack a whole file; concatenated gzip files are one.

    Raises:
        RecordingError: it is damaged, or unpacks to more than any profile.
    """
    most = min(_UNPACKED_BYTES + _UNPACKED_EACH * len(data), LARGEST_UNPACKED_BYTES)
    parts: list[bytes] = []
    room, at, members = most, 0, 0
    while at < len(data):
        members += 1
        unpacker = zlib.decompressobj(_WINDOW)
        while at < len(data) and not unpacker.eof:
            piece = data[at : at + _PIECE_BYTES]
            try:
                parts.append(unpacker.decompress(piece, max(room, 1)))
            except zlib.error as error:
                raise RecordingError(f"damaged gzip file: {error}") from error
            at += len(piece) - len(unpacker.unused_data)
            room -= len(parts[-1])
            if unpacker.unconsumed_tail or room < 0 or members > MOST_MEMBERS:
                raise RecordingError(
                    f"its {len(data)} bytes unpack to more than {most >> 20} MiB, or are of more"
                    f" than {MOST_MEMBERS} parts, which no profile is; if you trust it, unpack it"
                    " with gunzip first"
                )
        if not unpacker.eof:
            raise RecordingError("damaged gzip file: it ends too early")
    return b"".join(parts)
