"""The functions of a ``-pg`` program, each up to the next: what a gmon.out's addresses are in.

Comes in: an ELF image. Goes out: `ProgramFunctions`. Which symbols count, and which of several at
one address, is as in gprof, whose tables ours are compared with: sizes of symbols are not looked
at, so that code without a symbol is the function's before it.
Source: ``gprof/corefile.c`` core_sym_class(), ``gprof/symtab.c`` symtab_finalize(), binutils 2.40.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf.symbols import read_symbols
from prospect.errors import RecordingError
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage
    from prospect.elf.symbols import ElfSymbols

_SHF_EXECINSTR = 4
_STT_OBJECT, _STT_FUNC, _STT_SECTION, _STT_FILE, _STT_TLS, _STT_IFUNC = 1, 2, 3, 4, 6, 10
_NO_CODE = (_STT_SECTION, _STT_FILE, _STT_TLS, _STT_IFUNC)
_STB_LOCAL, _STB_WEAK, _STB_UNIQUE = 0, 2, 10
_LONGEST_NAME_BYTES = 1 << 13
# A `$` or a `.` marks what compilers and assemblers made up, but for numbered copies of functions.
_LOCAL_NAME = re.compile(rb"[^$.]+(?:(?:\.clone|\.constprop)?\.[0-9]+)*")
_MARKERS = (b"__gnu_compiled", b"___gnu_compiled")


class ProgramFunctions(Record):
    """Functions by address.

    Attributes:
        start: u64[f] rising.
        end: u64[f] first address behind: the next one's start, or the end of the section.
        name: list[bytes] as in the symbol table.
        is_global: bool[f].
        is_function: bool[f]; False for labels without a type. A call to one is a call to the
            function before it.
    """

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    name: list[bytes]
    is_global: NDArray[np.bool_]
    is_function: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.start)

    def lookup(self, address: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return i64[n] the function that each address is in, -1 for none."""
        row = np.searchsorted(self.start, address, side="right") - 1
        if not len(self):
            return row
        return np.where((row >= 0) & (address < self.end.take(row)), row, -1)

    def called(self, address: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return i64[n] the function that a call to each address calls, -1 for none."""
        row = self.lookup(address)
        before = np.maximum.accumulate(np.where(self.is_function, np.arange(len(self)), -1))
        return np.append(before, -1).take(row)


def program_functions(image: ElfImage) -> ProgramFunctions:
    """Collect the functions of an image.

    Raises:
        RecordingError: it has no symbols of code.
    """
    symbols = read_symbols(image, b".symtab") or read_symbols(image, b".dynsym")
    rows = _code_rows(image, symbols) if symbols else np.empty(0, np.int64)
    names = _names(symbols, rows) if symbols else []
    if symbols:
        kept = [
            place for place, row in enumerate(rows.tolist()) if _counts(symbols, row, names[place])
        ]
        rows, names = rows.take(kept).astype(np.int64), [names[place] for place in kept]
    if not symbols or not len(rows):
        raise RecordingError("the program has no symbols: use the one that was not stripped")
    order = np.argsort(symbols.value.take(rows), kind="stable").tolist()
    best: list[int] = []
    for place in order:
        if best and symbols.value[rows[place]] == symbols.value[rows[best[-1]]]:
            if _rank(symbols, int(rows[place]), names[place]) < _rank(
                symbols, int(rows[best[-1]]), names[best[-1]]
            ):
                best[-1] = place
        else:
            best.append(place)
    chosen = rows.take(best)
    start = symbols.value.take(chosen)
    section = image.sections.take(symbols.section.take(chosen[-1:]))[0]
    behind = min(int(section["addr"]) + int(section["size"]), 2**64 - 1)
    return ProgramFunctions(
        start=start,
        end=np.append(start[1:], np.uint64(max(behind, int(start[-1]) + 1))).astype(np.uint64),
        name=[names[place] for place in best],
        is_global=symbols.binding.take(chosen) != _STB_LOCAL,
        is_function=symbols.kind.take(chosen) == _STT_FUNC,
    )


def _code_rows(image: ElfImage, symbols: ElfSymbols) -> NDArray[np.int64]:
    is_code = (image.sections["flags"] & _SHF_EXECINSTR) != 0
    section = symbols.section
    in_code = (section > 0) & np.append(is_code, np.zeros(1, np.bool_)).take(section)
    is_one = in_code & ~np.isin(symbols.kind, _NO_CODE) & (symbols.binding != _STB_UNIQUE)
    is_one &= ~((symbols.binding == _STB_WEAK) & (symbols.kind == _STT_OBJECT))
    return np.flatnonzero(is_one & (symbols.value < np.uint64(2**64 - 1)))


def _names(symbols: ElfSymbols, rows: NDArray[np.int64]) -> list[bytes]:
    strings = symbols.strings
    return [
        bytes(strings[start : start + _LONGEST_NAME_BYTES]).partition(b"\0")[0]
        for start in symbols.name.take(rows).tolist()
    ]


def _counts(symbols: ElfSymbols, row: int, name: bytes) -> bool:
    """Return whether a symbol is shown: every global one, and local ones with a sound name."""
    if symbols.binding[row] != _STB_LOCAL:
        return bool(name)
    return _LOCAL_NAME.fullmatch(name) is not None and not name.startswith(_MARKERS)


def _rank(symbols: ElfSymbols, row: int, name: bytes) -> tuple[bool, bool, bool]:
    """Return what decides among symbols of one address; the least is shown."""
    return (
        symbols.kind[row] != _STT_FUNC,
        symbols.binding[row] == _STB_LOCAL,
        name.startswith(b"_"),
    )
