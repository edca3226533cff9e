"""The latest records of a live session, in files without a name, ready to be saved.

A saved recording has the last half to whole of the spool's size. There are two files: when the
newer one is half of all, it replaces the older one.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from prospect.capture.sink import RecordSink
from prospect.errors import RecordingError
from prospect.files.outputs import RecordingFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.live.source import Mark

_PIECE_BYTES = 1 << 24


class _Part:
    """One file: records of the state before, and after them those that were drained."""

    def __init__(self, start: Mark, records: bytes) -> None:
        self.start = start
        self._file = RecordingFile("")
        self.sink = RecordSink(self._file.descriptor)
        self.descriptor = self._file.descriptor
        try:
            if records:
                self.sink.append([records])
        except OSError as error:
            self.close()
            raise RecordingError(f"cannot keep the recording: {error.strerror}") from error
        self.drained_from = self.sink.bytes_written

    def close(self) -> None:
        self._file.close()


class Spool:
    """Keeps what was drained last.

    Attributes:
        refusal: why it keeps nothing more, "" while it does.
    """

    def __init__(self, start: Mark, most_bytes: int) -> None:
        """Begin with an empty file.

        Raises:
            RecordingError: there is no place for one.
        """
        self._half_bytes = most_bytes // 2
        self._parts = [_Part(start, b"")]
        self.refusal = ""

    @property
    def start(self) -> Mark:
        """The state before the first record that is kept."""
        return self._parts[0].start

    @property
    def is_full(self) -> bool:
        """Whether it is time for `turn`."""
        return not self.refusal and self._parts[-1].sink.bytes_written >= self._half_bytes

    def append(self, buffers: Sequence[memoryview | bytes]) -> None:
        """Keep whole records, unless the disk was full before."""
        if self.refusal or not buffers:
            return
        try:
            self._parts[-1].sink.append(buffers)
        except OSError as error:
            self.refusal = f"records cannot be kept any more: {error.strerror}"

    def turn(self, start: Mark, records: bytes) -> None:
        """Go on in a new file, and let the older of two go; without a place for it, keep no more.

        Args:
            start: the state now.
            records: the processes and mappings among it.
        """
        try:
            part = _Part(start, records)
        except RecordingError as error:
            self.refusal = f"records cannot be kept any more: {error}"
            return
        self._go_on(part)

    def _go_on(self, part: _Part) -> None:
        while len(self._parts) > 1:
            self._parts.pop(0).close()
        self._parts.append(part)

    def restart(self, start: Mark, records: bytes) -> None:
        """Forget all that was kept; arguments as of `turn`.

        Raises:
            RecordingError: there is no place for another file.
        """
        part = _Part(start, records)
        self.refusal = ""
        self._go_on(part)
        self._parts.pop(0).close()

    def extents(self) -> list[tuple[int, int, int]]:
        """Return what is kept: descriptors to be closed, each with begin and end."""
        return [
            (
                os.dup(part.descriptor),
                part.drained_from if turn else 0,
                part.sink.bytes_written,
            )
            for turn, part in enumerate(self._parts)
        ]

    def close(self) -> None:
        """Let all files go."""
        for part in self._parts:
            part.close()


class NoSpool:
    """Keeps nothing, for a session that nobody is going to save."""

    refusal = ""
    is_full = False

    def __init__(self, start: Mark) -> None:
        self.start = start

    def append(self, buffers: Sequence[memoryview | bytes]) -> None:
        """Let them go."""

    def turn(self, start: Mark, records: bytes) -> None:
        """Do nothing."""

    def restart(self, start: Mark, records: bytes) -> None:
        """Begin again."""
        del records
        self.start = start

    def extents(self) -> list[tuple[int, int, int]]:
        """Return that there is nothing."""
        return []

    def close(self) -> None:
        """Do nothing."""


def copy_extents(extents: Sequence[tuple[int, int, int]], output_fd: int) -> int:
    """Write what `Spool.extents` names to a file, and close its descriptors; return the bytes.

    Raises:
        OSError: the file cannot grow.
    """
    try:
        for descriptor, begin, end in extents:
            at = begin
            while at < end:
                piece = os.pread(descriptor, min(end - at, _PIECE_BYTES), at)
                if not piece:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                at += len(piece)
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(output_fd, rest) :]
    finally:
        for descriptor, _, _ in extents:
            os.close(descriptor)
    return sum(end - begin for _, begin, end in extents)
