"""What the reader of JVMs tells the recorder: pieces of their files, appended to a file in memory.

The file has messages one after the other: process, its number, kind, size, content. A message
counts once all of it is there. Its memory is given back once it was read.

Source: madvise(2), MADV_REMOVE.
"""

from __future__ import annotations

import marshal
import mmap
import os
import struct

from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_HEAD = struct.Struct("=IIII")
KIND_FILE, KIND_STATE, KIND_END = 0, 1, 2
# Memory of less than this is not given back.
_PIECE_BYTES = 1 << 16


class Message(NamedTuple):
    """A piece of the file of a process, or what has become of the reading.

    `number` tells programs apart that the same process executes, one after the other.
    """

    pid: int
    number: int
    kind: int
    content: bytes


class Teller:
    """Appends messages."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def tell(self, pid: int, number: int, content: bytes) -> None:
        """Append a piece of the file of a process."""
        self._append(pid, number, KIND_FILE, content)

    def end(self, pid: int, number: int) -> None:
        """Say that a process has ended: there are no further pieces of its file."""
        self._append(pid, number, KIND_END, b"")

    def state(self, value: dict[str, Any]) -> None:
        """Say what has become of the reading; the last word counts."""
        self._append(0, 0, KIND_STATE, marshal.dumps(value))

    def _append(self, pid: int, number: int, kind: int, content: bytes) -> None:
        message = _HEAD.pack(pid, number, kind, len(content)) + content
        at = 0
        while at < len(message):
            at += os.write(self._fd, message[at:])


class Listener:
    """Gives messages, each once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._at = self._given_back = 0

    def messages(self) -> Iterator[Message]:
        """Give the messages since the last time."""
        size = os.fstat(self._fd).st_size
        while self._at + _HEAD.size <= size:
            pid, number, kind, length = _HEAD.unpack(os.pread(self._fd, _HEAD.size, self._at))
            if self._at + _HEAD.size + length > size:
                break
            content = os.pread(self._fd, length, self._at + _HEAD.size)
            if len(content) < length:
                break
            self._at += _HEAD.size + length
            yield Message(pid, number, kind, content)
        self._give_back()

    def _give_back(self) -> None:
        begin, size = self._given_back, (self._at - self._given_back) // _PIECE_BYTES * _PIECE_BYTES
        if size:
            with mmap.mmap(self._fd, size, offset=begin) as read:
                read.madvise(mmap.MADV_REMOVE)
            self._given_back += size
