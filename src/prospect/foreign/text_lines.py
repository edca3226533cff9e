"""Text files of stacks, line by line: what folded stacks and perf script's text have in common.

The stacks of a file are kept as columns of machine words: a file takes a small multiple of its
size, whatever is in it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError
from prospect.foreign.foreign_limits import DEEPEST_STACK, LONGEST_LINE_BYTES
from prospect.foreign.stack_profile import check_frames

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_CHUNK_BYTES = 1 << 20


class Numbers(dict[bytes, int]):
    """Words numbered in the order in which they are first asked for."""

    def __missing__(self, word: bytes) -> int:
        number = self[word] = len(self)
        return number

    def texts(self) -> list[str]:
        """Return the words; bytes that are no UTF-8 are kept as `os.fsdecode` does."""
        return [word.decode("utf-8", "surrogateescape") for word in self]


class StackColumns:
    """Stacks of frames by number, concatenated."""

    def __init__(self) -> None:
        self._frames = array("i")
        self._length = array("i")

    def __len__(self) -> int:
        return len(self._length)

    def add(self, frames: Sequence[int]) -> None:
        """Append a stack, the outermost frame first.

        Raises:
            RecordingError: it is deeper than any program's, or there are too many.
        """
        if len(frames) > DEEPEST_STACK:
            raise RecordingError(f"a stack has more than {DEEPEST_STACK} frames")
        self._frames.extend(frames)
        self._length.append(len(frames))
        check_frames(len(self._frames))

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return i64[n + 1] where each stack begins, and i64[m] the frames."""
        length = np.array(self._length, np.int64)
        return np.append(0, np.cumsum(length)), np.array(self._frames, np.int64)


class OddLines:
    """Lines that say nothing that is understood: how many, and which was the first."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = 0
        self._first = 0

    def add(self, number: int) -> None:
        """Count a line."""
        self._count += 1
        self._first = self._first or number

    def limits(self, understood: int) -> tuple[str, ...]:
        """Return what the report's header says of them.

        Args:
            understood: how many lines or samples were.

        Raises:
            RecordingError: the file is mostly something else.
        """
        if self._count > understood or not understood:
            raise RecordingError(f"line {max(self._first, 1)} is no {self._what}")
        if not self._count:
            return ()
        what = f"{self._count} lines are" if self._count > 1 else "1 line is"
        return (f"{what} no {self._what} and left out; the first is line {self._first}.",)


def text_lines(data: memoryview) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its number from 1, without its end.

    Raises:
        RecordingError: a line is longer than any that means something.
    """
    begin, number, rest = 0, 0, b""
    while begin < len(data):
        chunk = rest + bytes(data[begin : begin + _CHUNK_BYTES])
        begin += _CHUNK_BYTES
        lines = chunk.split(b"\n")
        rest = lines.pop()
        for number, line in enumerate(lines, start=number + 1):  # noqa: B020 - goes on counting
            yield number, line.removesuffix(b"\r")
        if len(rest) > LONGEST_LINE_BYTES:
            raise RecordingError(f"line {number + 1} has more than {LONGEST_LINE_BYTES >> 20} MiB")
    if rest:
        yield number + 1, rest
