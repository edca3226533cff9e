"""The stream of a target's relay → a recording on this machine, and answers.

The target is untrusted: this module checks lengths and places before it keeps or writes anything.
"""

from __future__ import annotations

import os
import select
import threading
import time
import zlib
from typing import TYPE_CHECKING

from prospect.errors import CaptureError
from prospect.target.relay import FRAME, HEAD_BYTES, MOST_ANSWER_BYTES, OFFSET, PIECE_BYTES
from prospect.target.target_limits import GREETING_S, LARGEST_FILE_BYTES, MOST_GREETING_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNPACKED_BYTES = 1 << 20
_MOST_FRAME_BYTES = max(HEAD_BYTES, PIECE_BYTES, MOST_ANSWER_BYTES) + OFFSET.size


def greeting_lines(descriptor: int) -> Iterator[bytes]:
    """Yield the lines that a target prints to a pipe, within bounds of size and time.

    It reads single bytes, so that the pipe still has everything after the last yielded line.
    """
    line, deadline = bytearray(), 0.0
    for _ in range(MOST_GREETING_BYTES):
        # ssh may ask for a password before the first byte.
        left_s = max(deadline - time.monotonic(), 0.0) if deadline else None
        if not select.select([descriptor], [], [], left_s)[0]:
            return
        byte = os.read(descriptor, 1)
        deadline = deadline or time.monotonic() + GREETING_S
        line += byte
        if line and byte in (b"\n", b""):
            yield bytes(line)
            line.clear()
        if not byte:
            return


class FrameError(CaptureError):
    """A target violates the protocol of the relay."""


class Frames:
    """Splits the stream into frames."""

    def __init__(self) -> None:
        self._unpacker = zlib.decompressobj()
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the letter and the content of each complete frame.

        Raises:
            FrameError: the stream is damaged.
        """
        while data:
            try:
                self._rest += self._unpacker.decompress(data, _UNPACKED_BYTES)
            except zlib.error as error:
                raise FrameError(f"the target's answer is damaged: {error}") from None
            data = self._unpacker.unconsumed_tail
            yield from self._whole()

    def _whole(self) -> Iterator[tuple[bytes, bytes]]:
        while len(self._rest) >= FRAME.size:
            letter, size = FRAME.unpack_from(self._rest)
            if size > _MOST_FRAME_BYTES:
                raise FrameError("the target's answer is damaged: a frame is too long")
            end = FRAME.size + size
            if len(self._rest) < end:
                return
            content = bytes(self._rest[FRAME.size : end])
            del self._rest[:end]
            yield letter, content


class ReceivedFile:
    """A file that a target fills, up to a bound.

    Attributes:
        cut: why it is incomplete, "" if it is complete.
    """

    def __init__(self, descriptor: int, bound_bytes: int) -> None:
        self._descriptor = descriptor
        self._bound_bytes = bound_bytes
        self.cut = ""

    def write(self, content: bytes) -> None:
        """Write a frame's bytes at its place, unless the file is cut."""
        (offset,) = OFFSET.unpack_from(content)
        rest = memoryview(content)[OFFSET.size :]
        if self.cut:
            return
        if offset + len(rest) > self._bound_bytes:
            raise FrameError("protocol error: the target sent more than was requested")
        try:
            while rest:
                written = os.pwrite(self._descriptor, rest, offset)
                rest, offset = rest[written:], offset + written
        except OSError as error:
            self.cut = f"the recording is cut: {error.strerror}"

    def truncate(self, content: bytes) -> None:
        """Truncate the file to the size in a frame, but never extend it."""
        (size,) = OFFSET.unpack_from(content)
        if size <= os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, size)

    def grow(self, content: bytes) -> None:
        """Extend the file to the size in a frame, up to the bound."""
        (size,) = OFFSET.unpack_from(content)
        if size <= self._bound_bytes:
            os.ftruncate(self._descriptor, size)


class Fetched:
    """A file that the relay sends.

    Attributes:
        is_over: set when it is complete, or there is none.
        is_whole: whether it is complete.
    """

    def __init__(self, descriptor: int) -> None:
        self._file = ReceivedFile(descriptor, LARGEST_FILE_BYTES)
        self.is_over = threading.Event()
        self.is_whole = False

    def take_in(self, letter: bytes, content: bytes) -> bool:
        """Take a frame if it is one of the file; return whether it is."""
        if self.is_over.is_set() or letter not in (b"S", b"T", b"E", b"N"):
            return False
        if letter == b"S":
            self._file.write(content)
        elif letter == b"T":
            self._file.grow(content)
        else:
            self.is_whole = letter == b"E" and not self._file.cut
            self.is_over.set()
        return True

    def fail(self) -> None:
        """Give up the file."""
        self.is_over.set()
