"""Replacements for parts of the standard library that load too slowly before COMMAND's start.

`Closing` and `Descriptor` are for `contextlib.closing`, which takes 2 ms to import. `signal` is the
interpreter's own functions and numbers, of which the module of that name makes enums: 4 ms and a
dozen modules. `monotonic_ns` is for `time.monotonic_ns` if the result is compared with the kernel's
time stamps: in a time namespace the two differ (time_namespaces(7)).
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import TracebackType
    from typing import Self
else:
    import _signal as signal

__all__ = ["Closing", "Descriptor", "monotonic_ns", "monotonic_offset_ns", "signal"]

_OFFSETS_BYTES = 4096


class Closing:
    """An object whose method `close` the end of a `with` calls."""

    def __enter__(self) -> Self:
        """Return the object."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Release everything that it holds."""
        raise NotImplementedError


class Descriptor:
    """A file descriptor that the end of a `with` closes."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> int:
        """Return the descriptor."""
        return self._fd

    def __exit__(self, *_: object) -> None:
        """Close it."""
        os.close(self._fd)


_shift_ns: list[int] = []


def bits_set(number: int) -> int:
    """Return the number of set bits, as int.bit_count(), which Python 3.9 on targets lacks."""
    return f"{number:b}".count("1")


def monotonic_ns() -> int:
    """Return the kernel's own CLOCK_MONOTONIC, the clock of samples and records."""
    return time.monotonic_ns() - _monotonic_shift_ns()


def _monotonic_shift_ns() -> int:
    """Return how far this process's CLOCK_MONOTONIC is ahead of the kernel's own."""
    if not _shift_ns:
        try:
            with open("/proc/self/timens_offsets", "rb") as file:  # noqa: PTH123 - pathlib takes 5 ms
                _shift_ns.append(monotonic_offset_ns(file.read(_OFFSETS_BYTES)))
        except OSError:  # a kernel without time namespaces
            _shift_ns.append(0)
    return _shift_ns[0]


def monotonic_offset_ns(offsets: bytes) -> int:
    """Return the offset of CLOCK_MONOTONIC in a process's timens_offsets; 0 if there is none."""
    for line in offsets.splitlines():
        name, *numbers = line.split()
        if name == b"monotonic" and len(numbers) == 2:
            seconds, nanoseconds = map(int, numbers)
            return seconds * 1_000_000_000 + nanoseconds
    return 0
