"""Mapped files that a recording keeps ↔ the bytes of its section.

The section is a head, then for each file its numbers, the places of its pieces, its build id, its
path and the concatenated pieces, perhaps in a Zstandard frame. A recording is untrusted: sizes are
checked before anything is unpacked.
"""

from __future__ import annotations

import struct
from functools import partial

from prospect.abi.recorded_facts import KeptImage
from prospect.errors import RecordingError
from prospect.perfdata.perfdata_limits import LARGEST_FILE_BYTES, LARGEST_KEPT_BYTES, MOST_PIECES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.perfdata.format import FieldReader

MAGIC = b"PRSPIMGS"
VERSION = 2
_LEVEL = 1
# Compressing less is not worth loading the library.
_LEAST_PACKED_BYTES = 1 << 16
_HEAD = "8sII"  # magic, version, files
# device (major, minor), inode, size, time of modification, bytes of content; pieces, bytes of build
# id and of path, is packed. Version 1 has no time.
_FILE, _TIME, _REST = "IIQQ", "q", "QIHHI"
_PIECE = struct.Struct("<QQ")


def encode_images(images: Iterable[KeptImage], *, packs: bool) -> bytes:
    """Return the section; `packs` compresses their content."""
    parts: list[bytes] = []
    count = 0
    for image in images:
        content = bytes(image.content())
        is_packed = packs and len(content) >= _LEAST_PACKED_BYTES
        if is_packed:
            import zstandard  # noqa: PLC0415 - 12 ms, few recordings have files

            content = zstandard.ZstdCompressor(level=_LEVEL).compress(content)
        sizes = len(image.pieces), len(image.build_id), len(image.path)
        numbers = (*image.file, image.size, image.modified_ns, len(content), *sizes, int(is_packed))
        parts += [
            struct.pack(f"<{_FILE}{_TIME}{_REST}", *numbers),
            *(_PIECE.pack(*piece) for piece in image.pieces),
            image.build_id,
            image.path,
            content,
        ]
        count += 1
    head = struct.pack("<" + _HEAD, MAGIC, VERSION, count)
    return b"".join((head, *parts))


def decode_images(fields: FieldReader) -> tuple[KeptImage, ...]:
    """Return the files of a section.

    Raises:
        RecordingError: another version wrote it, or a file's numbers are impossible.
    """
    magic, version, count = fields.unpack(_HEAD)
    if magic != MAGIC or version not in {1, VERSION}:
        raise RecordingError("it was not written by this version of Prospect")
    return tuple(_decoded(fields, has_time=version == VERSION) for _ in range(count))


def _decoded(fields: FieldReader, *, has_time: bool) -> KeptImage:
    major, minor, inode, size = fields.unpack(_FILE)
    modified_ns = fields.unpack(_TIME)[0] if has_time else 0
    content_bytes, count, id_bytes, path_bytes, is_packed = fields.unpack(_REST)
    if count > MOST_PIECES or size > LARGEST_FILE_BYTES:
        raise RecordingError("a file in it is larger than any that is kept")
    pieces = tuple(_PIECE.iter_unpack(fields.take(_PIECE.size * count)))
    kept_bytes = sum(length for _, length in pieces)
    end = 0
    for offset, length in pieces:
        if offset < end or offset + length > size:
            raise RecordingError("pieces of a file in it are outside of the file")
        end = offset + length
    if kept_bytes > LARGEST_KEPT_BYTES or (not is_packed and content_bytes != kept_bytes):
        raise RecordingError("sizes in it contradict each other")
    build_id, path = bytes(fields.take(id_bytes)), bytes(fields.take(path_bytes))
    content = fields.take(content_bytes)
    unpacked = partial(_unpacked, content, kept_bytes) if is_packed else lambda: content
    file = major, minor, inode
    return KeptImage(file, build_id, path, size, pieces, unpacked, modified_ns)


def _unpacked(content: memoryview, size: int) -> bytes:
    import zstandard  # noqa: PLC0415 - 12 ms, few recordings have files

    try:
        if zstandard.frame_content_size(content) != size:
            raise ValueError
        found: bytes = zstandard.ZstdDecompressor().decompress(content, max_output_size=size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError from error
    if len(found) != size:
        raise ValueError
    return found
