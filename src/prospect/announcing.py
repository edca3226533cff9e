"""Progress messages of a stage.

A stage calls an `Announce`, at most a few times a second, with what it is doing and how far it is:
``naming 14 of 62 objects: /usr/lib/libz.so.1``. That is once for an object or for about 10,000
samples, never for each sample. Names in messages are untrusted: the receiver makes them safe for a
terminal.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Announce = Callable[[str], None]

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def silent(_news: str) -> None:
    """Announce nothing."""


def bytes_of(done: int, whole: int) -> str:
    """Return the progress, as ``1.2 of 3.3 GB``; without the end if that is 0 for unknown."""
    scale, unit = next((one for one in _UNITS if max(done, whole) >= one[0]), (1.0, "bytes"))
    if whole < done:
        return f"{done / scale:.1f} {unit}"
    return f"{done / scale:.1f} of {whole / scale:.1f} {unit}"


def pluralize(number: int, noun: str) -> str:
    """Return ``1 function`` or ``2 functions``."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{plural}"
