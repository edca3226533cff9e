"""Kernel code that was loaded meanwhile, carried from one part of a session to the next.

Comes in: the records of each part, in turn. Goes out: those of a part, and in front of them, at
time 0, those of BPF programs and trampolines that were loaded in earlier parts and still are. The
kernel's listing, which is read once, has only those that were there before the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.table_rows import appended
from prospect.events.columns import KernelSymbols
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from prospect.events.columns import Events

# Records of unloading may be lost; no machine has so many.
_MOST_PROGRAMS = 1 << 14


class _Program(NamedTuple):
    """What its record says; see `KernelSymbols`."""

    length: int
    kind: int
    name: bytes


class LoadedPrograms:
    """What was loaded since the session began and still is, by address, the oldest first."""

    def __init__(self) -> None:
        self._programs: dict[int, _Program] = {}

    def __len__(self) -> int:
        """Return how many are known."""
        return len(self._programs)

    def carried(self, events: Events) -> Events:
        """Return a part's records with what was loaded before it in front."""
        if not self._programs:
            return events
        size = len(self._programs)
        known = self._programs.values()
        before = KernelSymbols(
            order=np.zeros(size, np.int64),
            time_ns=np.zeros(size, np.uint64),
            address=np.fromiter(self._programs, np.uint64, size),
            length=np.fromiter((one.length for one in known), np.uint64, size),
            kind=np.fromiter((one.kind for one in known), np.uint8, size),
            unregister=np.zeros(size, np.bool_),
            name=np.arange(len(events.names), len(events.names) + size, dtype=np.int32),
        )
        own = events.kernel_symbols
        return replace(
            events,
            kernel_symbols=appended(before, own, np.arange(len(own.order))),
            names=[*events.names, *(one.name for one in known)],
        )

    def take_in(self, events: Events) -> None:
        """Follow what was loaded and unloaded in a part.

        Args:
            events: the part's own, without what `carried` put in front.
        """
        table = events.kernel_symbols
        columns = (table.address, table.length, table.kind, table.unregister, table.name)
        for address, length, kind, is_gone, name in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            self._programs.pop(address, None)
            if not is_gone and name >= 0:
                self._programs[address] = _Program(length, kind, events.names[name])
            if len(self._programs) > _MOST_PROGRAMS:
                del self._programs[next(iter(self._programs))]
