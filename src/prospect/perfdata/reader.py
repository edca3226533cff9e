"""Open a perf.data recording: a file, or a stream on standard input.

Comes in: a path or ``-``. Goes out: RecordBlocks, RecordingInfo and what is damaged.
Source: ``perf_session__read_header()`` in ``tools/perf/util/header.c`` and
``__perf_session__process_pipe_events()`` in ``tools/perf/util/session.c``, Linux 6.18.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Self

from prospect.abi.block import RecordBlock
from prospect.errors import RecordingError
from prospect.held_files import hold_contents
from prospect.perfdata import format as fmt
from prospect.perfdata.header import (
    feature_sections,
    is_pipe_form,
    read_byte_order,
    read_events,
    read_file_header,
)
from prospect.perfdata.metadata import Metadata
from prospect.perfdata.stream import RecordStream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.abi.recording import RecordingInfo
    from prospect.perfdata.header import FileHeader

_PIECE_BYTES = 1 << 20
STDIN = "-"
_STDIN_FD = 0


class Recording:
    """A recording that is open for reading, once.

    Attributes:
        damage: sentences on what is missing or broken; complete once `blocks` is exhausted.
        size_bytes: of all `blocks`, 0 where only reading them tells: of pipes, of what is packed.
    """

    def __init__(
        self,
        metadata: Metadata,
        blocks: Iterator[RecordBlock],
        damage: list[str],
        recorded_at: float,
        size_bytes: int = 0,
    ) -> None:
        self.damage = damage
        self.size_bytes = size_bytes
        self._metadata = metadata
        self._blocks = blocks
        self._recorded_at = recorded_at

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def info(self) -> RecordingInfo:
        """What the recording says of itself.

        The events are known from the start. A stream gives build ids and other facts among its
        records: they are complete once `blocks` is exhausted.
        """
        return self._metadata.info(self._recorded_at)

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the records in the recording's order.

        A plain file is one block over the whole file: the chain of its records is not checked.
        Everything else arrives in blocks of whole records.

        Raises:
            RecordingError: the stream cannot be read.
        """
        yield from self._blocks

    def close(self) -> None:
        """Let go of the file; blocks that are still held keep its bytes."""
        self._blocks = iter(())


def open_recording(path: str) -> Recording:
    """Open a recording in any of the forms that perf writes.

    Args:
        path: a regular file, or ``-`` for standard input (a pipe or a file).

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
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _open_file(fd, name)
        finally:
            os.close(fd)
    except OSError as error:
        raise RecordingError(f"{name}: {error.strerror}") from error
    except RecordingError as error:
        raise RecordingError(f"{name}: {error}") from error


def _open_stdin(name: str) -> Recording:
    if not stat.S_ISREG(os.fstat(_STDIN_FD).st_mode):
        return _open_stream(_read_pieces(_STDIN_FD), name)
    # Whoever gave it to us may go on using it.
    return _open_file(_STDIN_FD, name, may_map=False)


def _open_file(fd: int, path: str, *, may_map: bool = True) -> Recording:
    file, recorded_at = _take_file(fd, may_map=may_map)
    order = read_byte_order(bytes(file[:8]))
    if is_pipe_form(bytes(file[:16]), order):
        return _open_stream(_slices(file), path, recorded_at)
    return _open_sections(file, read_file_header(file, order), path, recorded_at)


def _take_file(fd: int, *, may_map: bool) -> tuple[memoryview, float]:
    """Return the file's bytes and when it was written."""
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        raise RecordingError("a directory (perf record --threads) is not read; record a file")
    if not stat.S_ISREG(status.st_mode):
        raise RecordingError("not a regular file; a pipe is read as standard input: report - <PIPE")
    if not status.st_size:
        raise RecordingError("the file is empty")
    try:
        return hold_contents(fd, may_map=may_map), status.st_mtime
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
    if header.data.size:
        for bit, content in feature_sections(file, header, damage):
            metadata.add_feature(bit, content)
    data = _data_section(file, header, damage)
    walked = header.has(fmt.HEADER_COMPRESSED) or header.has(fmt.HEADER_AUXTRACE)
    if walked or header.order != "<":
        stream = RecordStream(
            _slices(data), metadata, damage, origin=path, offset=header.data.offset
        )
        return Recording(metadata, stream.blocks(), damage, recorded_at)
    words = data[: len(data) // 8 * 8]
    blocks = iter((RecordBlock(words, path, header.data.offset),) if words else ())
    return Recording(metadata, blocks, damage, recorded_at, len(words))


def _data_section(file: memoryview, header: FileHeader, damage: list[str]) -> memoryview:
    offset, size = header.data
    if size == 0:
        # The size is filled in at the end: until then it reads "up to the end of the file".
        damage.append(
            "the recorder was stopped before it finished the file: what is known of the machine "
            "is missing, and the last records may be"
        )
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
    damage: list[str] = []
    metadata = Metadata(path, order, damage)
    stream = RecordStream(
        _with_first(first[fmt.PIPE_HEADER_BYTES :], pieces),
        metadata,
        damage,
        origin=path,
        offset=fmt.PIPE_HEADER_BYTES,
    )
    stream.read_head()
    if not metadata.events:
        raise RecordingError("the stream is damaged: it describes no event")
    return Recording(metadata, stream.blocks(), damage, recorded_at)


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
