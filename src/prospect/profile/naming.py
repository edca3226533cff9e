"""Sources of names, or reasons why there is none, each with its remedy; lists made on demand.

A report shows a few hundred of thousands of functions. A `LazyList` demangles only these names.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class NameSource(IntEnum):
    """The source of a function's name; values from NO_STRIPPED on are reasons why there is none."""

    SYMTAB = 0
    DEBUG_FILE = 1
    MINI_DEBUG = 2
    DYNSYM = 3
    PLT = 4
    BRACKET = 5
    KALLSYMS = 6
    BPF = 7
    VDSO = 8
    MAP_FILE = 9
    SYSTEM_MAP = 10
    DEBUG_SERVER = 11
    BOUNDS = 12
    JITDUMP = 13
    MAP_REUSED = 14
    PYTHON = 15
    GO_TABLE = 16
    JVM = 17
    RUNTIME = 18
    ENTRY_POINT = 19

    NO_STRIPPED = 32
    NO_FILE = 33
    NO_MATCH = 34
    NO_ELF = 35
    NO_PERMISSION = 36
    NO_ANONYMOUS = 37
    NO_MAPPING = 38
    NO_KERNEL_SYMBOLS = 39
    NO_COVER = 40
    NO_GUEST = 41
    NO_NAME_BOUNDS = 42
    NO_ANSWER = 43
    NO_BUDGET = 44
    NO_CALLERS = 45
    NO_TURN = 46

    @property
    def named(self) -> bool:
        """Whether hits of this source have a name."""
        return self < NameSource.NO_STRIPPED


LABELS: dict[NameSource, str] = {
    NameSource.SYMTAB: "full symbol table",
    NameSource.DEBUG_FILE: "separate debug file",
    NameSource.MINI_DEBUG: "mini debug info",
    NameSource.DEBUG_SERVER: "debug-file server",
    NameSource.DYNSYM: "dynamic symbol table",
    NameSource.PLT: "procedure linkage table",
    NameSource.BRACKET: "bracket of dynamic symbols",
    NameSource.BOUNDS: "bracket, cut at function bounds",
    NameSource.KALLSYMS: "running kernel's symbols",
    NameSource.BPF: "BPF program symbols",
    NameSource.VDSO: "vdso symbols",
    NameSource.MAP_FILE: "JIT map file",
    NameSource.MAP_REUSED: "JIT map file, address used more than once",
    NameSource.JITDUMP: "jitdump file",
    NameSource.SYSTEM_MAP: "System.map",
    NameSource.GO_TABLE: "Go's own function table",
    NameSource.ENTRY_POINT: "the program's entry point, which calls main",
    NameSource.JVM: "the JVM's own structures",
    NameSource.PYTHON: "Python's code objects; own time is bytecode and the interpreter's file",
    NameSource.RUNTIME: "a runtime's own functions; own time is code and the runtime's file",
    NameSource.NO_STRIPPED: "stripped, no symbols at all",
    NameSource.NO_FILE: "file gone",
    NameSource.NO_MATCH: "file changed since it was recorded",
    NameSource.NO_ELF: "not an ELF file",
    NameSource.NO_PERMISSION: "file not readable",
    NameSource.NO_ANSWER: "file system did not answer",
    NameSource.NO_ANONYMOUS: "anonymous memory",
    NameSource.NO_MAPPING: "no mapping at this address",
    NameSource.NO_KERNEL_SYMBOLS: "kernel addresses hidden or kernel unknown",
    NameSource.NO_COVER: "outside every symbol",
    NameSource.NO_GUEST: "guest or hypervisor",
    NameSource.NO_NAME_BOUNDS: "stripped, only function bounds",
    NameSource.NO_BUDGET: "file too big for this report's memory",
    NameSource.NO_CALLERS: "cut",
    NameSource.NO_TURN: "not read: daemon's limit",
}

_DEBUG_SYMBOLS = "install the object's debug symbols (-dbgsym), or set DEBUGINFOD_URLS"

# Each reason with its remedy, for one line of the first screen.
SHORT_REMEDIES: dict[NameSource, str] = {
    NameSource.NO_STRIPPED: "stripped: install debug symbols (-dbgsym)",
    NameSource.NO_NAME_BOUNDS: "stripped: install debug symbols (-dbgsym)",
    NameSource.NO_FILE: "file gone: --sysroot DIR or DEBUGINFOD_URLS",
    NameSource.NO_MATCH: "file replaced: --sysroot or DEBUGINFOD_URLS",
    NameSource.NO_ELF: "the mapped file is not a program",
    NameSource.NO_PERMISSION: "file not readable: report as root",
    NameSource.NO_ANSWER: "file system hangs: report again later",
    NameSource.NO_ANONYMOUS: "memory without a file: docs/jit.md",
    NameSource.NO_MAPPING: "mapping unknown: record from the start",
    NameSource.NO_KERNEL_SYMBOLS: "kernel addresses hidden: report as root",
    NameSource.NO_COVER: "code outside every symbol: no remedy",
    NameSource.NO_GUEST: "guest's code: record inside the guest",
    NameSource.NO_BUDGET: "file too big: raise PROSPECT_MEMORY over 1G",
    NameSource.NO_CALLERS: "callers cut: raise the limit of frames",
    NameSource.NO_TURN: "daemon at its limit: raise --cpu-limit",
}

REMEDIES: dict[NameSource, str] = {
    NameSource.BRACKET: f"{_DEBUG_SYMBOLS}, for exact names",
    NameSource.BOUNDS: f"{_DEBUG_SYMBOLS}, for exact names",
    NameSource.MAP_REUSED: "write a jitdump file instead: it has times (docs/jit.md)",
    NameSource.NO_STRIPPED: f"{_DEBUG_SYMBOLS}, or do not strip it",
    NameSource.NO_NAME_BOUNDS: f"{_DEBUG_SYMBOLS}, or do not strip it",
    NameSource.NO_FILE: "report where the file exists, add --sysroot DIR, or set DEBUGINFOD_URLS",
    NameSource.NO_MATCH: "restore the recorded version, add --sysroot DIR, or set DEBUGINFOD_URLS",
    NameSource.NO_ELF: "nothing: the mapped file is not a program",
    NameSource.NO_PERMISSION: "report as the file's owner or as root",
    NameSource.NO_ANSWER: "report once the file system that the file is on answers again",
    NameSource.NO_ANONYMOUS: "run the JIT with its perf map option (e.g. --perf-basic-prof)",
    NameSource.NO_MAPPING: "record system-wide from the process's start; check for lost records",
    NameSource.NO_KERNEL_SYMBOLS: "report as root, sysctl kernel.kptr_restrict=0, or a fitting -K",
    NameSource.NO_COVER: "nothing: the symbol table of that file does not cover this code",
    NameSource.NO_GUEST: "record inside the guest",
    NameSource.NO_BUDGET: "set PROSPECT_MEMORY to more than the default of 1G",
    NameSource.NO_CALLERS: "raise the limit that Stack quality names",
    NameSource.NO_TURN: "give the daemon a higher --cpu-limit or --memory-limit",
}


_Item = TypeVar("_Item")


class LazyList(Sequence[_Item]):
    """A list that makes an item when it is read, and all items at once when it is iterated."""

    def __init__(self, count: int, make: Callable[[Sequence[int]], list[_Item]]) -> None:
        """Make a list of `count` items.

        `make` returns the items of some rows; it is called once for each row at most.
        """
        self._items: list[_Item | None] = [None] * count
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, row: int) -> _Item: ...
    @overload
    def __getitem__(self, row: slice) -> list[_Item]: ...
    def __getitem__(self, row: int | slice) -> _Item | list[_Item]:
        if isinstance(row, slice):
            return self._all()[row]
        item = self._items[row]
        if item is None:
            (item,) = self._make([row % len(self._items)])
            self._items[row] = item
        return item

    def __iter__(self) -> Iterator[_Item]:
        return iter(self._all())

    def take(self, rows: Sequence[int]) -> list[_Item]:
        """Return the items of these rows, none negative; missing items are made in one call."""
        items = self._items
        if missing := [row for row in dict.fromkeys(rows) if items[row] is None]:
            for row, item in zip(missing, self._make(missing), strict=True):
                items[row] = item
        return [items[row] for row in rows]  # type: ignore[misc]  # none is missing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    __hash__ = None  # type: ignore[assignment]  # as that of a list

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> list[_Item]:
        self.take(range(len(self._items)))
        return self._items  # type: ignore[return-value]  # none is missing


def gather(items: Sequence[_Item], rows: Sequence[int]) -> list[_Item]:
    """Return the items of these rows of any list."""
    return items.take(rows) if isinstance(items, LazyList) else [items[row] for row in rows]


def joined(parts: Sequence[Sequence[_Item]]) -> Sequence[_Item]:
    """Return the concatenation of lists; items of a `LazyList` are still made on demand."""
    if not any(isinstance(part, LazyList) for part in parts):
        return list(itertools.chain.from_iterable(parts))
    start = [0, *itertools.accumulate(map(len, parts))]

    def make(rows: Sequence[int]) -> list[_Item]:
        of_part: dict[int, list[int]] = {}
        for row in rows:
            part = bisect_right(start, row) - 1
            of_part.setdefault(part, []).append(row - start[part])
        made = {
            start[part] + row: item
            for part, own in of_part.items()
            for row, item in zip(own, gather(parts[part], own), strict=True)
        }
        return [made[row] for row in rows]

    return LazyList(start[-1], make)
