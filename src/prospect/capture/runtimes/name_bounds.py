"""Bounds on the bytes of names that a process may make Prospect keep, for every reader."""

from __future__ import annotations

from prospect.light import monotonic_ns
from prospect.records import NamedTuple


class Bound(NamedTuple):
    """At most so many bytes at once, and afterwards one byte per 2^shift ns."""

    most_bytes: int
    shift: int


# Two thousand functions of usual size, then 122 KB/s; the programs of a user 64 MB, then 488 KB/s.
OF_IMAGE = Bound(2 << 20, 13)
OF_USER = Bound(64 << 20, 11)
# All names of a CPU: its ring, which is drained many times a second, also holds samples.
OF_CPU = Bound(1 << 17, 9)
# Bytes of the headers and samples around a name, a file and lines.
NAME_COST = 512


class Room:
    """Room for bytes, which empties at a fixed rate."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._level, self._looked_ns = 0, monotonic_ns()

    def is_full(self) -> bool:
        """Return whether there is no room for more now."""
        now_ns = monotonic_ns()
        self._level = max(0, self._level - (now_ns - self._looked_ns >> self._bound.shift))
        self._looked_ns = now_ns
        return self._level >= self._bound.most_bytes

    def fill(self, size: int) -> None:
        """Count bytes."""
        self._level += size
