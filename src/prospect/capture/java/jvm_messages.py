"""Messages of the reader of JVMs to the recorder: pieces of their files, in a file in memory.

A message has the process, its number, kind, size and content. The number distinguishes programs
that the same process executes, one after another. A message counts once it is complete. Its memory
is freed once it was read.

Source: madvise(2), MADV_REMOVE.
"""

from __future__ import annotations

import marshal
import mmap
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_HEAD = struct.Struct("=IIII")
KIND_FILE, KIND_STATE, KIND_END = 0, 1, 2
# The least memory that is freed.
_PIECE_BYTES = 1 << 16


class MessageWriter:
    """Appends messages."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def add(self, pid: int, number: int, content: bytes) -> None:
        """Append a piece of the file of a process."""
        self._append(pid, number, KIND_FILE, content)

    def end(self, pid: int, number: int) -> None:
        """Append the end of a process: its file has no further pieces."""
        self._append(pid, number, KIND_END, b"")

    def state(self, value: dict[str, Any]) -> None:
        """Append the reader's state; the last one counts."""
        self._append(0, 0, KIND_STATE, marshal.dumps(value))

    def _append(self, pid: int, number: int, kind: int, content: bytes) -> None:
        message = _HEAD.pack(pid, number, kind, len(content)) + content
        at = 0
        while at < len(message):
            at += os.write(self._fd, message[at:])


class MessageReader:
    """Reads messages, each once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._at = self._freed = 0

    def messages(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Give process, number, kind and content of the messages since the last time."""
        size = os.fstat(self._fd).st_size
        while self._at + _HEAD.size <= size:
            pid, number, kind, length = _HEAD.unpack(os.pread(self._fd, _HEAD.size, self._at))
            if self._at + _HEAD.size + length > size:
                break
            content = os.pread(self._fd, length, self._at + _HEAD.size)
            if len(content) < length:
                break
            self._at += _HEAD.size + length
            yield pid, number, kind, content
        if size := (self._at - self._freed) // _PIECE_BYTES * _PIECE_BYTES:
            with mmap.mmap(self._fd, size, offset=self._freed) as read:
                read.madvise(mmap.MADV_REMOVE)
            self._freed += size
