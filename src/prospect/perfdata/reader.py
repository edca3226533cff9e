"""Opens a perf.data recording: a file, or a stream on standard input (``-``).

A `Recording` has RecordBlocks, RecordingInfo and sentences on damage.
Source: ``perf_session__read_header()`` in ``tools/perf/util/header.c`` and
``__perf_session__process_pipe_events()`` in ``tools/perf/util/session.c``, Linux 6.18.
"""

from __future__ import annotations

import itertools
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
    from collections.abc import Callable, Iterable, Iterator

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
    """The records of a plain file, which the decoder alone reads.

    Args:
        block: all records.
        walked: makes a stream of the records from an offset in the block on.
    """

    def __init__(self, block: RecordBlock, walked: Callable[[int], RecordStream]) -> None:
        self._block = block
        self._walked = walked
        self._rest: RecordStream | None = None

    @property
    def unread_bytes(self) -> int:
        return self._rest.unread_bytes if self._rest else 0

    def blocks(self) -> Iterator[RecordBlock]:
        if len(self._block.data):
            # If this object kept that block, which refers to it, the file's lease would last until
            # the garbage collector runs, and writers of the file would wait for that.
            yield self._block._replace(resume=self._resume)

    def _resume(self, at: int) -> Iterator[RecordBlock]:
        self._rest = self._walked(at)
        yield from self._rest.blocks()


class Recording(Closing):
    """A recording that is open for reading, once.

    Attributes:
        named_by: the user with whose rights file names in it are read; set by the opener.
        damage: sentences on missing or broken parts; complete once `blocks` is exhausted.
        size_bytes: of all `blocks`, 0 if unknown before they are read: of pipes and packed files.
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
        """The recording's facts about itself.

        The events are known from the start. A stream has build ids and other facts among its
        records; they are complete once `blocks` is exhausted.
        """
        return self._metadata.info(self._recorded_at, self.named_by)

    @property
    def unread_bytes(self) -> int:
        """Bytes of records that are in no block; complete once `blocks` is exhausted."""
        return sum(records.unread_bytes for records in self._records)

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the records in the recording's order, one file after another.

        A plain file is one block: the chain of its records is not checked. All other recordings
        have blocks of whole records.

        Raises:
            RecordingError: the stream cannot be read.
        """
        for records in self._records:
            yield from records.blocks()

    def append(self, file: memoryview, header: FileHeader, path: str) -> None:
        """Add a file of records only, of the same recording as `header`."""
        block = RecordBlock(file, path, 0, may_end_cut=True, release=releaser(file, 0))
        records, size_bytes = _records_of(block, header, self._metadata, self.damage)
        self._records.append(records)
        self.size_bytes = self.size_bytes + size_bytes if size_bytes else 0

    def close(self) -> None:
        """Release the file; blocks in use keep its bytes."""
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
            raise RecordingError("not a file name")  # noqa: TRY301 - gets its name below
        # O_NONBLOCK: opening another user's FIFO must not block.
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
    # The process that passed it to us may use it too.
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
    """Open a directory that ``perf record --threads`` or ``--kcore`` made.

    The file ``data`` is a recording. With --threads it has the first records; ``data.0`` and so on
    have those of one thread each, without a header.

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
    # Each user who may write to one of them can write records.
    recording.named_by = speakers.pop() if len(speakers) == 1 else EVERYBODY
    return recording


def _take_file(fd: int, *, may_map: bool) -> tuple[memoryview, os.stat_result]:
    """Return a file's bytes and status."""
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
        from prospect.perfdata.writer import early_facts  # noqa: PLC0415 - for unfinished files only

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
    """Return the records of a file's data, and their bytes, 0 if unknown."""
    data = block.data

    def walked(at: int) -> RecordStream:
        """Return the stream of records from an offset in the data on."""
        from prospect.perfdata.stream import RecordStream, StreamPlace  # noqa: PLC0415 - rarely needed

        place = StreamPlace(block.origin, block.file_offset + at, block.may_end_cut)
        return RecordStream(_slices(data[at:]), metadata, damage, place)

    if header.order != "<" or _must_be_walked(header, data):
        return walked(0), 0
    if block.may_end_cut:
        block = block._replace(data=data[: len(data) // 8 * 8])
    return _OneBlock(block, walked), len(block.data)


def _must_be_walked(header: FileHeader, data: memoryview) -> bool:
    """Return whether the data may have records of partial words, or payloads between records."""
    if header.has(fmt.HEADER_COMPRESSED) or header.has(fmt.HEADER_AUXTRACE):
        return True
    # The first simpleperf had no own features; its first record has the kernel's symbols.
    type_ = int.from_bytes(data[:4], "little")
    return type_ in fmt.SIMPLEPERF_RECORD_TYPES or any(
        header.has(feature) for feature in fmt.SIMPLEPERF_FEATURES
    )


def _is_finished(header: FileHeader) -> bool:
    """Return whether the recorder finished the file.

    At the end, it writes the data's size, which is 0 before ("up to the end of the file"). perf
    sets the bits of the features from the start, Prospect at the end.
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
    from prospect.perfdata.stream import RecordStream, StreamPlace  # noqa: PLC0415 - few are streams

    damage: list[str] = []
    metadata = Metadata(path, order, damage)
    records: list[Iterable[bytes | memoryview]] = [[first[fmt.PIPE_HEADER_BYTES :]], pieces]
    place = StreamPlace(path, fmt.PIPE_HEADER_BYTES, may_end_cut=True)
    stream = RecordStream(itertools.chain.from_iterable(records), metadata, damage, place)
    stream.read_head()
    if not metadata.events:
        raise RecordingError("the stream is damaged: it describes no event")
    return Recording(metadata, stream, damage, recorded_at)


def _slices(data: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(data), _PIECE_BYTES):
        yield data[at : at + _PIECE_BYTES]


def _read_pieces(fd: int) -> Iterator[bytes]:
    # The first piece has the whole header, even if the writer writes it in parts.
    head = b""
    try:
        while len(head) < fmt.PIPE_HEADER_BYTES and (data := os.read(fd, _PIECE_BYTES)):
            head += data
        yield head
        while data := os.read(fd, _PIECE_BYTES):
            yield data
    except OSError as error:
        raise RecordingError(f"the stream cannot be read: {error.strerror}") from error
