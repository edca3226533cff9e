"""A recording → the same recording with one more feature section.

Records and sections keep their places, except sections that the table of sections overlaps when it
grows by an entry: these move to the end. perf reads sections by the table, and skips unknown ones.
Source: ``perf_header__process_sections()`` in ``tools/perf/util/header.c``, Linux 6.18.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from prospect.errors import RecordingError
from prospect.perfdata import format as fmt
from prospect.perfdata.file_header import (
    feature_sections,
    is_pipe_form,
    read_byte_order,
    read_file_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.perfdata.file_header import FileHeader

_BIT = fmt.HEADER_PROSPECT_ARCHIVE
_FEATURES_OFFSET = fmt.FILE_HEADER_BYTES - fmt.FEATURE_BITS // 8
_ALIGNMENT = 8


def check_archivable(file: memoryview) -> FileHeader:
    """Return the header of a recording that can be archived.

    Raises:
        RecordingError: it is not a complete, little-endian perf.data file, or already an archive.
    """
    order = read_byte_order(bytes(file[:8]))
    if is_pipe_form(bytes(file[: fmt.PIPE_HEADER_BYTES]), order):
        raise RecordingError(
            "a recording made into a pipe cannot be archived; record to a file with -o"
        )
    header = read_file_header(file, order)
    if header.has(_BIT):
        raise RecordingError("it is an archive already")
    if order != "<":
        raise RecordingError("recordings of big-endian machines cannot be archived")
    if not header.data.size or not header.features:
        raise RecordingError(
            "its recorder was stopped before it finished the file, which cannot be archived"
        )
    if header.data.offset + header.data.size > len(file):
        raise RecordingError("the file is cut: restore the whole recording to archive it")
    return header


def with_archive(
    file: memoryview, header: FileHeader, content: bytes
) -> Iterator[bytes | memoryview]:
    """Yield the pieces of the recording with an archive section.

    Raises:
        RecordingError: as `section_patches`.
    """
    at = 0
    for place, piece in section_patches(file, header, _BIT, content):
        yield file[at:place]
        yield bytes(max(place - max(at, len(file)), 0))
        yield piece
        at = place + len(piece)
    yield file[at:]


def section_patches(
    file: memoryview, header: FileHeader, added_bit: int, content: bytes
) -> list[tuple[int, bytes]]:
    """Return the bytes to write to add a section, sorted by offset; the rest of the file stays.

    Args:
        file: a complete, little-endian recording without such a section.
        header: its header.

    Raises:
        RecordingError: sections are missing, or are where no recorder puts them.
    """
    damage: list[str] = []
    sections = dict(feature_sections(file, header, damage))
    if damage:
        raise RecordingError(f"{damage[0]}; restore the whole recording to archive it")
    table = header.data.offset + header.data.size
    table_end = table + fmt.SECTION_BYTES * len(sections)
    kept_from = table_end + fmt.SECTION_BYTES
    places = {
        bit: fmt.Section(*struct.unpack_from("<QQ", file, table + position * fmt.SECTION_BYTES))
        for position, bit in enumerate(sections)
    }
    if header.attrs.offset + header.attrs.size > table_end and header.attrs.offset < kept_from:
        raise RecordingError("its event descriptions are where perf never puts them")
    end = fmt.aligned(max(len(file), kept_from), _ALIGNMENT)
    added, added_at = [], end
    for bit, one in (*sections.items(), (added_bit, memoryview(content))):
        is_moved = bit == added_bit or (one and places[bit].offset < kept_from)
        if is_moved:
            places[bit] = fmt.Section(end, len(one))
            padded = bytes(one).ljust(fmt.aligned(len(one), _ALIGNMENT), b"\0")
            added.append(padded)
            end += len(padded)
    features = header.features | 1 << added_bit
    return [
        (_FEATURES_OFFSET, features.to_bytes(fmt.FEATURE_BITS // 8, "little")),
        (table, b"".join(struct.pack("<QQ", *places[bit]) for bit in sorted(places))),
        (added_at, b"".join(added)),
    ]
