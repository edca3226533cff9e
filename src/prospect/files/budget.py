"""The memory that all untrusted files together may cost one report.

`ReadBudget` chooses which of several files to read, by an estimate of the memory that each takes:
the smallest first, so that a big file of one user never keeps the names of other users' code out of
the report. `HeldMemory` counts files and sections that are read or unpacked, such as debug files
and source text, until nothing refers to them. Time follows memory: the parsers of these files are
linear.
"""

from __future__ import annotations

import os
import re
import weakref
from _thread import RLock, _local  # `threading` would take as long as several rooms
from typing import TYPE_CHECKING, Generic, TypeVar

from prospect.errors import UsageError
from prospect.records import NamedTuple

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Hashable, Iterable

VARIABLE = "PROSPECT_MEMORY"
DEFAULT_BYTES = 1 << 30
_SHORT_STAY = 0.25  # of the memory for untrusted files, kept free of what stays in it
_SIZE = r"([0-9]{1,12})([KMGT]?)"
_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}

_Name = TypeVar("_Name", bound="Hashable")
_Name_co = TypeVar("_Name_co", bound="Hashable", covariant=True)
_Found = TypeVar("_Found")


def size_in_bytes(text: str) -> int:
    """Read a size such as 500M; K, M, G and T are powers of 1024.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(_SIZE, text.strip().upper())
    if not found:
        raise ValueError(text)
    return int(found[1]) << _POWERS[found[2]]


def setting_for(size: int) -> str:
    """Return the setting of the variable for a size, rounded up.

    >>> setting_for(1_500_000_000)
    'PROSPECT_MEMORY=2G'
    """
    unit, power = ("G", 30) if size > 1 << 30 else ("M", 20)
    return f"{VARIABLE}={-(-size >> power)}{unit}"


class Cost(NamedTuple, Generic[_Name_co]):
    """The cost of reading one file.

    Attributes:
        peak_bytes: memory while it is read.
        kept_bytes: memory that its names take from then on.
    """

    peak_bytes: int
    kept_bytes: int
    name: _Name_co


class ReadBudget:
    """The rest of the budget of one report."""

    def __init__(self, most_bytes: int = DEFAULT_BYTES) -> None:
        self.most_bytes = self.left_bytes = most_bytes

    @classmethod
    def of_environment(cls) -> ReadBudget:
        """Return the budget that PROSPECT_MEMORY sets, else the default.

        Raises:
            UsageError: the variable holds no size.
        """
        text = os.environ.get(VARIABLE, "")
        try:
            return cls(size_in_bytes(text)) if text else cls()
        except ValueError:
            raise UsageError(f"{VARIABLE}={text}: give a size such as 500M or 4G") from None

    def admit(self, costs: Iterable[Cost[_Name]]) -> dict[_Name, str]:
        """Spend on the cheapest files first.

        Returns:
            The files for which too little is left, each with the reason and the setting that helps.
        """
        left_out = {}
        wanted_bytes = self.most_bytes - self.left_bytes
        for cost in sorted(costs, key=lambda one: one.peak_bytes):
            setting = setting_for(wanted_bytes + cost.peak_bytes)
            wanted_bytes += cost.kept_bytes
            if cost.peak_bytes > self.left_bytes:
                left_out[cost.name] = (
                    f"reading it takes about {cost.peak_bytes / 1e6:,.0f} MB, more than is left of"
                    f" the {self.most_bytes / 1e6:,.0f} MB that files of names may take;"
                    f" with {setting} it is read"
                )
            else:
                self.left_bytes -= cost.kept_bytes
        return left_out


class CostlyError(Exception):
    """Too little is left of the budget."""


class HeldMemory:
    """Memory that untrusted files take at this moment, in all of this process."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._weighed = _local()
        self.bytes = 0

    @property
    def left_bytes(self) -> int:
        """How much more may be held.

        Raises:
            UsageError: the variable holds no size.
        """
        return ReadBudget.of_environment().most_bytes - self.bytes

    @property
    def left_to_stay_bytes(self) -> int:
        """How much more may be held until a report ends; files held for a short time need the rest.

        Raises:
            UsageError: the variable holds no size.
        """
        return self.left_bytes - int(ReadBudget.of_environment().most_bytes * _SHORT_STAY)

    def weigh(self, find: Callable[[], _Found]) -> tuple[_Found, int]:
        """Call `find` with every file refused as too costly, to learn what it would hold.

        Returns:
            The result, and the size of the biggest file that it would hold, 0 for none.
        """
        self._weighed.biggest = 0
        try:
            return find(), self._weighed.biggest
        finally:
            del self._weighed.biggest

    def hold(self, memory: mmap.mmap, size: int) -> bool:
        """Count memory until nothing refers to it; return False if it is too much.

        Args:
            size: the bytes of it that are, or will be, touched.

        Raises:
            UsageError: the variable holds no size.
        """
        biggest = getattr(self._weighed, "biggest", None)
        if biggest is not None:
            self._weighed.biggest = max(biggest, size, 1)
            return False
        with self._lock:
            if size > self.left_bytes:
                return False
            self.bytes += size
        weakref.finalize(memory, self._let_go, size)
        return True

    def _let_go(self, size: int) -> None:
        # The garbage collector may call this while this thread holds the lock: an RLock.
        with self._lock:
            self.bytes -= size


of_others = HeldMemory()
"""Memory of files whose owner is neither root nor we, and of sections unpacked from any file."""
