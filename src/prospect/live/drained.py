"""What was drained of the kernel's rings, until somebody decodes it.

Comes in: records, drain after drain. Goes out: with each `take` those since the last one, but for
what a gate leaves out. It knows the standard library alone, as `source` does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Gate(Protocol):
        """What leaves out what no look could follow.

        Attributes:
            limits: a sentence for each thing that was left out.
            condensed_bytes: how much is to wait until `condensed` is asked.
        """

        limits: list[str]
        condensed_bytes: int

        def open(self) -> None:
            """Begin to count anew: there was a look."""
            ...

        def passed(self, data: bytes) -> bytes:
            """Return whole records without what is too much."""
            ...

        def condensed(self, data: bytes, until_ns: int) -> bytes:
            """Return all records since the last look without what no look will ask about.

            Args:
                data: whole records that have passed.
                until_ns: of what was before that, all records are there.
            """
            ...

        def is_full(self, size_bytes: int) -> bool:
            """Return whether so many bytes are as much as one look should take in."""
            ...


# A record has its time before it is in the ring: an interrupt, or the host, may come between.
_IN_FLIGHT_NS = 10**7


class Drained:
    """A sink that hands on what it takes to whoever decodes it next.

    Attributes:
        size_bytes: how much was drained since the last `take`.
        gate: leaves out what no look could follow, or will ask about.
        begun_ns: when the drain began that is under way, in CLOCK_MONOTONIC.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._pieces: list[bytes] = []
        self._condensed_at = gate.condensed_bytes
        self.size_bytes = 0
        self.begun_ns = 0

    @property
    def is_full(self) -> bool:
        """Whether no more is to be drained before somebody asks."""
        return self.gate.is_full(self.size_bytes)

    def append(self, buffers: Sequence[memoryview | bytes]) -> None:
        """Take records of the kernel."""
        self.put(self.gate.passed(b"".join(buffers)))
        if self.size_bytes > self._condensed_at:
            self._condense()
            # What is left stays. Were it looked through each time, it would cost its square.
            self._condensed_at = max(2 * self.size_bytes, self.gate.condensed_bytes)

    def put(self, records: bytes) -> None:
        """Take records of our own, all of them."""
        self._pieces.append(records)
        self.size_bytes += len(records)

    def take(self) -> bytes:
        """Return what was drained since the last call."""
        if self._condensed_at < sys.maxsize:
            self._condense()
        taken = b"".join(self._pieces)
        self._pieces, self.size_bytes = [], 0
        self._condensed_at = self.gate.condensed_bytes
        self.gate.open()
        return taken

    def _condense(self) -> None:
        condensed = self.gate.condensed(b"".join(self._pieces), self.begun_ns - _IN_FLIGHT_NS)
        self._pieces, self.size_bytes = [condensed], len(condensed)
