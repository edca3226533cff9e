"""Writes perf.data: a header before the records, the features after them.

Source: ``perf_session__do_write_header()`` in ``tools/perf/util/header.c``, Linux 6.18.

A killed recorder writes no features. So this one also writes the features that it knows early,
between the event ids and the records. perf does not read that part; `early_facts` reads it if the
file was never finished. Each feature is its bit and its size (u64 each) and the content, padded to
8 bytes. Zeros follow, up to the last 16 bytes before the records, which are the magic, a version
and the size of the whole.

This module loads before the command's start, so it imports only cheap modules until then.
"""

from __future__ import annotations

import os
import struct
import time

from prospect.abi import constants as abi
from prospect.abi.runtime_frames import without_frames_event
from prospect.errors import RecordingError
from prospect.light import monotonic_ns
from prospect.perfdata import format as fmt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prospect.abi.attr import EventDescription
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.perfdata.file_header import FileHeader

_ENTRY_BYTES = fmt.ATTR_BYTES + fmt.SECTION_BYTES


class RecordingWriter:
    """A perf.data file being recorded into a regular file's descriptor.

    The code that drains the rings appends the records to the descriptor. Until `finish`, the
    header has 0 as the data's size, which readers take for "up to the end of the file": a killed
    recorder leaves a readable file. `describe` writes the facts known by then before the records.
    Only the section EVENT_DESC has the event of runtimes' frames; perf ignores their records' type.

    Args:
        fd: a regular file opened for writing, without O_APPEND, which is truncated. Its position
            then is where the records begin, a multiple of 8.
        events: the recorded events, with the ids known so far.
        early_bytes: space for `describe`, a multiple of 8.

    Raises:
        RecordingError: the file cannot be written.
    """

    def __init__(
        self, fd: int, events: Sequence[EventDescription], *, early_bytes: int = 0
    ) -> None:
        self._fd = fd
        self._clock = _read_clocks(events)
        events = without_frames_event(events)
        self._early_offset = fmt.FILE_HEADER_BYTES + _attrs_bytes(events)
        self.data_offset = self._early_offset + early_bytes
        attrs, ids = _encode_attrs(events, fmt.FILE_HEADER_BYTES)
        header = _encode_header(
            fmt.Section(fmt.FILE_HEADER_BYTES, len(attrs)), fmt.Section(self.data_offset, 0), 0
        )
        try:
            os.ftruncate(fd, 0)
            _write_at(fd, header + attrs + ids, 0)
            # The records have their place even if there are none.
            os.ftruncate(fd, self.data_offset)
            os.lseek(fd, self.data_offset, os.SEEK_SET)
        except OSError as error:
            raise _cannot_write(error) from error

    def describe(self, info: RecordingInfo, events: Sequence[EventDescription]) -> None:
        """Write early facts, for readers of a file that is never finished.

        Facts without space, on the disk or here, are left out: `finish` writes all.
        """
        from prospect.perfdata.feature_encoding import encode_features  # noqa: PLC0415 - after the start of COMMAND

        features = encode_features(info, events, self._clock)
        # The highest bit, the recorder's own facts, gets space first.
        room = self.data_offset - self._early_offset
        try:
            _write_at(self._fd, encode_early_facts(reversed(features), room), self._early_offset)
        except OSError:
            return

    def finish(self, info: RecordingInfo, events: Sequence[EventDescription]) -> None:
        """Write features, ids and the final header after the last record.

        Args:
            info: facts about the machine and the run, except its `events`.
            events: as for the constructor, perhaps more of them and more ids.

        Raises:
            RecordingError: the file cannot be written.
        """
        from prospect.perfdata.feature_encoding import encode_features  # noqa: PLC0415 - at the end only

        data_size = os.fstat(self._fd).st_size - self.data_offset
        try:
            features = encode_features(info, events, self._clock)
            events = without_frames_event(events)
            data_end = self.data_offset + data_size
            tail = _encode_feature_sections(features, data_end)
            attrs_offset = fmt.FILE_HEADER_BYTES
            if attrs_offset + _attrs_bytes(events) > self._early_offset:
                attrs_offset = fmt.aligned(data_end + len(tail))
            attrs, ids = _encode_attrs(events, attrs_offset)
            header = _encode_header(
                fmt.Section(attrs_offset, len(attrs)),
                fmt.Section(self.data_offset, data_size),
                sum(1 << bit for bit, _ in features),
            )
            # The header comes last: before that, the file is like that of a killed recorder.
            _write_at(self._fd, tail, data_end)
            _write_at(self._fd, attrs + ids, attrs_offset)
            _write_at(self._fd, header, 0)
        except OSError as error:
            self._cut_back(data_size)
            raise _cannot_write(error) from error

    def _cut_back(self, data_size: int) -> None:
        """Truncate the file to its records, so that it can be finished with fewer facts."""
        try:
            os.ftruncate(self._fd, self.data_offset + data_size)
        except OSError:
            return


def _attrs_bytes(events: Sequence[EventDescription]) -> int:
    return sum(_ENTRY_BYTES + 8 * len(event.ids) for event in events)


def _encode_attrs(events: Sequence[EventDescription], offset: int) -> tuple[bytes, bytes]:
    """Return the attrs section, which begins at `offset`, and the ids that follow it."""
    ids_offset = offset + _ENTRY_BYTES * len(events)
    attrs, ids = [], []
    for event in events:
        packed = struct.pack(f"<{len(event.ids)}Q", *event.ids)
        attrs.append(fmt.encode_attr(event.attr) + struct.pack("<QQ", ids_offset, len(packed)))
        ids.append(packed)
        ids_offset += len(packed)
    return b"".join(attrs), b"".join(ids)


def _encode_header(attrs: fmt.Section, data: fmt.Section, features: int) -> bytes:
    return struct.pack(
        "<" + fmt.FILE_HEADER_LAYOUT,
        fmt.MAGIC,
        fmt.FILE_HEADER_BYTES,
        _ENTRY_BYTES,
        *attrs,
        *data,
        0,
        0,
        *(features >> shift & 0xFFFF_FFFF_FFFF_FFFF for shift in (0, 64, 128, 192)),
    )


def _encode_feature_sections(features: list[tuple[int, bytes]], offset: int) -> bytes:
    """Return the table of sections, which begins at `offset`, and the sections."""
    table, contents = [], []
    at = offset + fmt.SECTION_BYTES * len(features)
    for _, content in features:
        padded = content.ljust(fmt.aligned(len(content)), b"\0")
        table.append(struct.pack("<QQ", at, len(content)))
        contents.append(padded)
        at += len(padded)
    return b"".join(table + contents)


def _read_clocks(events: Sequence[EventDescription]) -> fmt.ClockPair | None:
    clock_ids = {e.attr.clockid for e in events if e.attr.flags & abi.FLAG_USE_CLOCKID}
    if len(clock_ids) != 1:
        return None
    clock_id = clock_ids.pop()
    resolution_ns = max(1, round(time.clock_getres(clock_id) * 1e9))
    realtime_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    is_monotonic = clock_id == time.CLOCK_MONOTONIC
    clock_ns = monotonic_ns() if is_monotonic else time.clock_gettime_ns(clock_id)
    return fmt.ClockPair(clock_id, resolution_ns, realtime_ns, clock_ns)


def _write_at(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written


def _cannot_write(error: OSError) -> RecordingError:
    return RecordingError(f"the recording cannot be written: {error.strerror}")


_END = struct.Struct("<" + fmt.PROSPECT_LAYOUT)
_ENTRY = struct.Struct("<QQ")


def encode_early_facts(features: Iterable[tuple[int, bytes]], size: int) -> bytes:
    """Return `size` bytes with the features, except those without space.

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
    """Yield (feature bit, content) of the early facts of an unfinished file."""
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
