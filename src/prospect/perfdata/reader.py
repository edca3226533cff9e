"""Open a perf.data recording: a file, or a stream on standard input (``-``).

A `Recording` has RecordBlocks, RecordingInfo and what is damaged.
Source: ``perf_session__read_header()`` in ``tools/perf/util/header.c`` and
``__perf_session__process_pipe_events()`` in ``tools/perf/util/session.c``, Linux 6.18.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from prospect.abi.recorded_facts import RecordBlock
from prospect.errors import RecordingError
from prospect.files.held_files import hold_contents, releaser
from prospect.files.rights import EVERYBODY, speaks_for
from prospect.light import Closing, Descriptor
from prospect.perfdata import format as fmt
from prospect.perfdata.file_header import (
    feature_sections,
    is_pipe_form,
    read_byte_order,
    read_events,
    read_file_header,
)
from prospect.perfdata.metadata import Metadata
from prospect.perfdata.perfdata_limits import MOST_FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.perfdata.file_header import FileHeader
    from prospect.perfdata.stream import RecordStream

_PIECE_BYTES = 1 << 20
STDIN = "-"
_STDIN_FD = 0
_CUT = (
    "the recorder was stopped before it finished the file: the data on the machine "
    "are missing, and the last records may be"
)
_CUT_LATE = (
    "the recorder was killed before it finished the file: the samples since it last wrote (-M) are"
    " missing, and so are COMMAND's exit status, the number of lost samples and the kernel's"
    " accounting; times are of the samples written"
)


class _OneBlock:
    """The records of a plain file, which only what decodes them looks at.

    Args:
        block: all records.
        walked: makes a stream of the records from a place in the block on.
    """

    def __init__(
        self, block: RecordBlock, walked: Callable[[int], RecordStream] | None = None
    ) -> None:
        self._block = block
        self._walked = walked
        self._rest: RecordStream | None = None

    @property
    def unread_bytes(self) -> int:
        return self._rest.unread_bytes if self._rest else 0

    def blocks(self) -> Iterator[RecordBlock]:
        if len(self._block.data):
            # Not kept: the block would hold this object, and the file's lease, until the garbage
            # collector runs, and writers of the file would wait for that.
            yield self._block._replace(resume=self._resume) if self._walked else self._block

    def _resume(self, at: int) -> Iterator[RecordBlock]:
        if self._walked is not None:
            self._rest = self._walked(at)
            yield from self._rest.blocks()


class Recording(Closing):
    """A recording that is open for reading, once.

    Attributes:
        named_by: whose word the file names in it are; set by who opened its file.
        damage: sentences on what is missing or broken; complete once `blocks` is exhausted.
        size_bytes: of all `blocks`, 0 if known only once they are read: of pipes, of packed files.
    """

    def __init__(
        self,
        metadata: Metadata,
        records: RecordStream | _OneBlock,
        damage: list[str],
        recorded_at: float,
        size_bytes: int = 0,
    ) -> None:
        self.named_by = 0
        self.damage = damage
        self.size_bytes = size_bytes
        self._metadata = metadata
        self._records = [records]
        self._recorded_at = recorded_at

    @property
    def info(self) -> RecordingInfo:
        """The facts that the recording has of itself.

        The events are known from the start. A stream gives build ids and other facts among its
        records: they are complete once `blocks` is exhausted.
        """
        return self._metadata.info(self._recorded_at, self.named_by)

    @property
    def unread_bytes(self) -> int:
        """Bytes of records that are there and in no block; complete once `blocks` is exhausted."""
        return sum(records.unread_bytes for records in self._records)

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the records in the recording's order, and one file after another.

        A plain file is one block over the whole file: the chain of its records is not checked.
        Everything else arrives in blocks of whole records.

        Raises:
            RecordingError: the stream cannot be read.
        """
        for records in self._records:
            yield from records.blocks()

    def append(self, file: memoryview, header: FileHeader, path: str) -> None:
        """Add a file that has nothing but records, of the same recording as `header`."""
        block = RecordBlock(file, path, 0, may_end_cut=True, release=releaser(file, 0))
        records, size_bytes = _records_of(block, header, self._metadata, self.damage)
        self._records.append(records)
        self.size_bytes = self.size_bytes + size_bytes if size_bytes else 0

    def close(self) -> None:
        """Let go of the file; blocks that are still held keep its bytes."""
        self._records.clear()


def open_recording(path: str) -> Recording:
    """Open a recording in any of the forms that perf writes.

    Args:
        path: a regular file, a directory that ``perf record --threads`` made, or ``-`` for standard
            input (a pipe or a file).

    Raises:
        RecordingError: there is no such file, or it is no recording, or its head is damaged.
    """
    name = "<stdin>" if path == STDIN else path
    try:
        if path == STDIN:
            return _open_stdin(name)
        if "\0" in path:
            raise RecordingError("not a file name")  # noqa: TRY301 - named below like the others
        # O_NONBLOCK: opening somebody's FIFO must not hang.
        with Descriptor(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as fd:
            is_directory = stat.S_ISDIR(os.fstat(fd).st_mode)
            return _open_directory(fd, path) if is_directory else _open_file(fd, name)
    except OSError as error:
        raise RecordingError(f"{name}: {error.strerror}") from error
    except RecordingError as error:
        raise RecordingError(f"{name}: {error}") from error


def _open_stdin(name: str) -> Recording:
    if not stat.S_ISREG(os.fstat(_STDIN_FD).st_mode):
        return _open_stream(_read_pieces(_STDIN_FD), name)
    # The process that gave it to us may go on using it.
    return _open_file(_STDIN_FD, name, may_map=False)


def _open_file(fd: int, path: str, *, may_map: bool = True) -> Recording:
    file, status = _take_file(fd, may_map=may_map)
    order = read_byte_order(bytes(file[:8]))
    if is_pipe_form(bytes(file[:16]), order):
        recording = _open_stream(_slices(file), path, status.st_mtime)
    else:
        header = read_file_header(file, order)
        recording = _open_sections(file, header, path, status.st_mtime)
    recording.named_by = speaks_for(status)
    return recording


def _open_directory(directory: int, path: str) -> Recording:
    """Open what ``perf record --threads`` or ``--kcore`` made.

    The file ``data`` is a recording. With --threads it has what was known before; ``data.0`` and so
    on are the records of one thread each, without a header.

    Source: ``tools/perf/Documentation/perf.data-directory-format.txt``, Linux 6.18.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        data = os.open("data", flags, dir_fd=directory)
    except FileNotFoundError:
        raise RecordingError("a directory, not a recording") from None
    speakers = {speaks_for(os.fstat(directory))}
    try:
        file, status = _take_file(data, may_map=True)
    finally:
        os.close(data)
    speakers.add(speaks_for(status))
    header = read_file_header(file, read_byte_order(bytes(file[:8])))
    recording = _open_sections(file, header, f"{path}/data", status.st_mtime)
    for number in range(MOST_FILES):
        name = f"data.{number}"
        try:
            descriptor = os.open(name, flags, dir_fd=directory)
        except FileNotFoundError:
            break
        with Descriptor(descriptor):
            status = os.fstat(descriptor)
            speakers.add(speaks_for(status))
            if status.st_size or not stat.S_ISREG(status.st_mode):
                recording.append(_take_file(descriptor, may_map=True)[0], header, f"{path}/{name}")
    # Any user who may write to one of them can write records.
    recording.named_by = speakers.pop() if len(speakers) == 1 else EVERYBODY
    return recording


def _take_file(fd: int, *, may_map: bool) -> tuple[memoryview, os.stat_result]:
    """Return the file's bytes, and whose it is and when it was written."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise RecordingError("not a regular file; a pipe is read as standard input: report - <PIPE")
    if not status.st_size:
        raise RecordingError("the file is empty")
    try:
        return hold_contents(fd, may_map=may_map), status
    except MemoryError:
        raise RecordingError(
            "the file is bigger than this machine's memory, and others can change it while it is"
            " read; copy it to a file system of this machine, for you alone to write"
        ) from None


def _open_sections(
    file: memoryview, header: FileHeader, path: str, recorded_at: float
) -> Recording:
    damage: list[str] = []
    metadata = Metadata(path, header.order, damage)
    metadata.add_events(read_events(file, header, damage))
    is_finished = _is_finished(header)
    if is_finished:
        find = feature_sections(file, header, damage)
    else:
        from prospect.perfdata.writer import early_facts  # noqa: PLC0415 - not of a whole file

        find = early_facts(file, header)
    for bit, content in find:
        metadata.add_feature(bit, content)
    data = _data_section(file, header, damage, is_described=bool(metadata.info().extras))
    block = RecordBlock(
        data,
        path,
        header.data.offset,
        may_end_cut=not is_finished or len(data) < header.data.size,
        release=releaser(file, header.data.offset),
    )
    records, size_bytes = _records_of(block, header, metadata, damage)
    return Recording(metadata, records, damage, recorded_at, size_bytes)


def _records_of(
    block: RecordBlock, header: FileHeader, metadata: Metadata, damage: list[str]
) -> tuple[RecordStream | _OneBlock, int]:
    """Return the records of a file's data, and how many bytes they have; 0 if that is not known."""
    data = block.data

    def walked(at: int) -> RecordStream:
        """Return the records from a place in the data on, to be followed one by one."""
        from prospect.perfdata.stream import RecordStream, StreamPlace  # noqa: PLC0415 - few are

        place = StreamPlace(block.origin, block.file_offset + at, block.may_end_cut)
        return RecordStream(_slices(data[at:]), metadata, damage, place)

    if header.order != "<" or _must_be_walked(header, data):
        return walked(0), 0
    if block.may_end_cut:
        block = block._replace(data=data[: len(data) // 8 * 8])
    return _OneBlock(block, walked), len(block.data)


def _must_be_walked(header: FileHeader, data: memoryview) -> bool:
    """Whether the data may hold records that are not whole words, or payloads between records."""
    if header.has(fmt.HEADER_COMPRESSED) or header.has(fmt.HEADER_AUXTRACE):
        return True
    # The first simpleperf had no own features; its records begin with the kernel's symbols.
    type_ = int.from_bytes(data[:4], "little")
    return type_ in fmt.SIMPLEPERF_RECORD_TYPES or any(
        header.has(feature) for feature in fmt.SIMPLEPERF_FEATURES
    )


def _is_finished(header: FileHeader) -> bool:
    """Whether the recorder came to its end.

    The data's size is filled in at the end: until then 0 reads "up to the end of the file". perf
    says from the start which features it will write; ours only then.
    """
    return header.data.size > 0 or header.has(fmt.HEADER_PROSPECT)


def _data_section(
    file: memoryview, header: FileHeader, damage: list[str], *, is_described: bool
) -> memoryview:
    offset, size = header.data
    if not _is_finished(header):
        damage.append(_CUT_LATE if is_described else _CUT)
        return file[offset:]
    data = file[offset : offset + size]
    if len(data) < size:
        damage.append(f"the file is cut: {len(data)} of {size} bytes of records are there")
    return data


def _open_stream(
    pieces: Iterator[bytes] | Iterator[memoryview], path: str, recorded_at: float = 0.0
) -> Recording:
    first = bytes(next(pieces, b""))
    if not first:
        raise RecordingError("the stream is empty")
    order = read_byte_order(first)
    if not is_pipe_form(first, order):
        raise RecordingError("a perf.data file cannot be read from a pipe; give its path")
    # A file of whole little-endian records, the usual case, is read as it is, without these.
    from prospect.perfdata.stream import RecordStream, StreamPlace  # noqa: PLC0415 - few are streams

    damage: list[str] = []
    metadata = Metadata(path, order, damage)
    rest = _with_first(first[fmt.PIPE_HEADER_BYTES :], pieces)
    place = StreamPlace(path, fmt.PIPE_HEADER_BYTES, may_end_cut=True)
    stream = RecordStream(rest, metadata, damage, place)
    stream.read_head()
    if not metadata.events:
        raise RecordingError("the stream is damaged: it describes no event")
    return Recording(metadata, stream, damage, recorded_at)


def _with_first(
    first: bytes, others: Iterator[bytes] | Iterator[memoryview]
) -> Iterator[bytes | memoryview]:
    yield first
    yield from others


def _slices(data: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(data), _PIECE_BYTES):
        yield data[at : at + _PIECE_BYTES]


def _read_pieces(fd: int) -> Iterator[bytes]:
    # The first piece holds the whole header, however slowly the writer writes.
    head = b""
    try:
        while len(head) < fmt.PIPE_HEADER_BYTES and (data := os.read(fd, _PIECE_BYTES)):
            head += data
        yield head
        while data := os.read(fd, _PIECE_BYTES):
            yield data
    except OSError as error:
        raise RecordingError(f"the stream cannot be read: {error.strerror}") from error
