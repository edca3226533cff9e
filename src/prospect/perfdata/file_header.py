"""The head of a perf.data file: byte order, sections, events, the table of features.

Nothing is read beyond the file's size.
Source: ``perf_file_header__read()`` and ``perf_session__read_header()`` in
``tools/perf/util/header.c``, Linux 6.18.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.errors import RecordingError
from prospect.perfdata import format as fmt
from prospect.perfdata.format import FieldReader
from prospect.perfdata.metadata import feature_name
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# Until Linux 2.6.32 the header ended before the feature bits.
_HEADER_BYTES_WITHOUT_FEATURES = 72
_SCHEDSTATS = {fmt.PERF_RECORD_SCHEDSTAT_CPU, fmt.PERF_RECORD_SCHEDSTAT_DOMAIN}


class FileHeader(NamedTuple):
    """The header of a regular file, whose sections may be beyond the file's end.

    `features` has a bit for each feature section. `attr_entry_bytes` is the size of an attr and the
    section of its ids.
    """

    order: str
    attr_entry_bytes: int
    attrs: fmt.Section
    data: fmt.Section
    features: int

    def has(self, feature: int) -> bool:
        """Whether a feature's bit is set."""
        return bool(self.features >> feature & 1)


def read_byte_order(head: bytes) -> str:
    """Return ``"<"`` or ``">"`` from a recording's first 8 bytes.

    Raises:
        RecordingError: this is not a recording, or one of perf's first format.
    """
    magic = head[:8]
    if magic == fmt.MAGIC:
        return "<"
    if magic == fmt.MAGIC_SWAPPED:
        return ">"
    if magic == fmt.MAGIC_VERSION_1:
        raise RecordingError("has the format of perf before Linux 3.6; record again")
    raise RecordingError("not a perf.data recording")


def is_pipe_form(head: bytes, order: str) -> bool:
    """Return whether a header is that of a stream, of 16 bytes, not of a file.

    Raises:
        RecordingError: the header is cut.
    """
    if len(head) < fmt.PIPE_HEADER_BYTES:
        raise RecordingError("ends within its header")
    return bool(struct.unpack_from(order + "Q", head, 8)[0] == fmt.PIPE_HEADER_BYTES)


def read_file_header(file: memoryview, order: str) -> FileHeader:
    """Read the header of a regular file.

    Raises:
        RecordingError: the header is cut or of no known size.
    """
    try:
        fields = FieldReader(file, order)
        _, size, entry_bytes, *sections = fields.unpack("9Q")
        features = 0
        if size != _HEADER_BYTES_WITHOUT_FEATURES:
            features = _feature_bits(bytes(fields.take(fmt.FEATURE_BITS // 8)), order)
    except RecordingError as error:
        raise RecordingError("ends within its header") from error
    if size not in {fmt.FILE_HEADER_BYTES, _HEADER_BYTES_WITHOUT_FEATURES}:
        raise RecordingError(f"the header is damaged: a header of {size} bytes is unknown")
    if entry_bytes < abi.PERF_ATTR_SIZE_VER0 + fmt.SECTION_BYTES:
        raise RecordingError(f"the header is damaged: event attributes of {entry_bytes} bytes")
    return FileHeader(
        order, entry_bytes, fmt.Section(*sections[:2]), fmt.Section(*sections[2:4]), features
    )


def read_events(file: memoryview, header: FileHeader, damage: list[str]) -> list[EventDescription]:
    """Read the events with their ids, without names; `damage` gets a sentence for missing parts.

    Raises:
        RecordingError: there is no event, or only counts.
    """
    if header.has(fmt.HEADER_STAT):
        raise RecordingError(fmt.ONLY_COUNTS)
    attrs = _within(file, header.attrs)
    count = len(attrs) // header.attr_entry_bytes
    if count == 0:
        if _begins_with_schedstats(file, header):
            raise RecordingError(fmt.ONLY_SCHEDSTATS)
        raise RecordingError("the header is damaged: it describes no event")
    if len(attrs) < header.attrs.size:
        damage.append(f"{count} of the recording's event descriptions are whole")
    ids_left = len(file) // 8
    events: list[EventDescription] = []
    for at in range(0, count * header.attr_entry_bytes, header.attr_entry_bytes):
        entry = attrs[at : at + header.attr_entry_bytes]
        attr_bytes = header.attr_entry_bytes - fmt.SECTION_BYTES
        attr = EventAttr.unpack(bytes(entry[:attr_bytes]), header.order)
        section = fmt.Section(*struct.unpack(header.order + "QQ", entry[attr_bytes:]))
        content = _within(file, section)
        ids_count = min(len(content) // 8, ids_left)
        if ids_count < section.size // 8:
            damage.append(f"ids of event {len(events)} are beyond the end of the file")
        # Events share no ids: otherwise a hostile file could make them many times its size.
        ids_left -= ids_count
        ids = FieldReader(content, header.order).u64s(ids_count)
        events.append(EventDescription(attr, ids))
    return events


def _begins_with_schedstats(file: memoryview, header: FileHeader) -> bool:
    head = _within(file, fmt.Section(header.data.offset, 4))
    return len(head) == 4 and struct.unpack(header.order + "I", head)[0] in _SCHEDSTATS


def feature_sections(
    file: memoryview, header: FileHeader, damage: list[str]
) -> Iterator[tuple[int, memoryview]]:
    """Yield (feature bit, content) for each whole feature section.

    The table of sections follows the data. `damage` gets a sentence for a section beyond the end of
    the file.
    """
    table = header.data.offset + header.data.size
    bits = [bit for bit in range(fmt.FEATURE_BITS) if header.has(bit)]
    for position, bit in enumerate(bits):
        at = table + position * fmt.SECTION_BYTES
        entry = _within(file, fmt.Section(at, fmt.SECTION_BYTES))
        if len(entry) < fmt.SECTION_BYTES:
            damage.append(
                f"{len(bits) - position} of {len(bits)} feature sections are missing: "
                "the file ends before them"
            )
            return
        section = fmt.Section(*struct.unpack(header.order + "QQ", entry))
        content = _within(file, section)
        if len(content) < section.size:
            damage.append(f"the {feature_name(bit)} section is beyond the end of the file")
            continue
        yield bit, content


def _within(file: memoryview, section: fmt.Section) -> memoryview:
    """Return the part of a section that the file has."""
    return file[section.offset : section.offset + section.size]


def _feature_bits(stored: bytes, order: str) -> int:
    words: tuple[int, ...] = struct.unpack(order + "4Q", stored)
    bits = sum(word << 64 * position for position, word in enumerate(words))
    if order == ">" and not bits >> fmt.HEADER_HOSTNAME & 1:
        # The bitmap is an array of C longs, so 32-bit writers order its halves differently. Every
        # perf since Linux 3.0 sets HOSTNAME, which distinguishes the two.
        halves: tuple[int, ...] = struct.unpack(order + "8I", stored)
        narrow = sum(half << 32 * position for position, half in enumerate(halves))
        if narrow >> fmt.HEADER_HOSTNAME & 1:
            return narrow
    return bits
