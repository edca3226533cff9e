"""The kernel's symbol listing as a table: /proc/kallsyms, a copy of it, or a System.map.

Comes in: lines ``ADDRESS TYPE NAME`` with, for modules and BPF programs, a tab and ``[MODULE]``.
Goes out: a `SymbolTable` of addresses as they stand there. Defined by ``kernel/kallsyms.c:s_show``
(Linux 6.12) and nm(1); which lines count, where a symbol ends and which of several names at an
address is shown are as in ``tools/perf/util/symbol.c`` (``symbol_type__filter``,
``symbols__fixup_end``, ``symbols__fixup_duplicate``), so that both tools agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.text_columns import hexadecimal, line_bounds, padded
from prospect.profile.naming import NameSource
from prospect.symbols.table import SymbolTable, build_symbol_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PAGE_BYTES = 4096
_ADDRESS_DIGITS = 16
_NAME_COLUMN = _ADDRESS_DIGITS + 3
# Code, weak code, and data: code without a type of its own is listed among data.
_COUNTED_TYPES = np.zeros(256, np.bool_)
_COUNTED_TYPES[list(b"tTwWdDbB")] = True
_TAB = ord("\t")
_END_OF_MODULE = ord("]")


def parse_kallsyms(text: bytes, source: NameSource = NameSource.KALLSYMS) -> SymbolTable:
    """Parse a listing; lines that are none are skipped.

    Args:
        text: the whole listing, of a kernel with 64-bit addresses.
        source: what to call the names' source.

    Returns:
        The table, with `module_of`, the module of each row. Empty where the kernel hides
        its addresses: it then lists them all as zero.
    """
    text = padded(text)
    octets = np.frombuffer(text, np.uint8)
    start, end = line_bounds(text)
    long_enough = np.flatnonzero(end - start > _NAME_COLUMN)
    start, end = start.take(long_enough), end.take(long_enough)
    kept = np.flatnonzero(
        _COUNTED_TYPES.take(octets.take(start + _ADDRESS_DIGITS + 1))
        & (octets.take(start + _ADDRESS_DIGITS) == ord(" "))
        & (octets.take(start + _NAME_COLUMN - 1) == ord(" "))
        & (octets.take(start + _NAME_COLUMN) != ord("$"))
    )
    start, end = start.take(kept), end.take(kept)
    address, is_number = hexadecimal(text, start, start + _ADDRESS_DIGITS)
    kept = np.flatnonzero(is_number & (address != 0))
    # In order of address, equal ones as listed: what follows compares neighbours.
    kept = kept.take(np.argsort(address.take(kept), kind="stable"))
    address, start, end = address.take(kept), start.take(kept), end.take(kept)
    name_start = start + _NAME_COLUMN
    name_end = _ends_of_names(octets, name_start, end)
    letter = octets.take(start + _ADDRESS_DIGITS + 1)
    return build_symbol_table(
        strings=text,
        start=address,
        end=address,
        limit=_limits(text, address, name_end, end),
        name_start=name_start,
        name_length=name_end - name_start,
        is_global=(letter & 0x20) == 0,
        source=np.full(len(address), source, np.uint8),
        # Among names of one address perf keeps the one that is listed last.
        rank=np.negative,
    )


def module_of(table: SymbolTable, row: int) -> bytes:
    """Return ``[module]`` for a row of a module or of a BPF program, empty for the kernel's own."""
    if table.name_length is None:
        return b""
    after = int(table.name_start[row] + table.name_length[row])
    module = bytes(table.strings[after : after + 80]).partition(b"\n")[0]
    return module[1:] if module.startswith(b"\t[") and module.endswith(b"]") else b""


def _ends_of_names(
    octets: NDArray[np.uint8], name_start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return where names end: at the tab before the module, else at the end of the line."""
    in_module = np.flatnonzero(octets.take(end - 1) == _END_OF_MODULE)
    name_end = end.copy()
    if len(in_module):
        tabs = np.append(np.flatnonzero(octets == _TAB), len(octets))
        tab = tabs.take(np.searchsorted(tabs, name_start.take(in_module)))
        name_end[in_module] = np.minimum(tab, end.take(in_module))
    return name_end


def _limits(
    text: bytes,
    address: NDArray[np.uint64],
    name_end: NDArray[np.int64],
    end: NDArray[np.int64],
) -> NDArray[np.uint64]:
    """Return where each symbol ends at the latest.

    Symbols have no sizes here: each reaches to the next one, but the last of the kernel, and the
    last of a module, only to the end of the page after its own.
    """
    # Modules are compared by length and end of their names; equal ones only widen a gap.
    words = np.ndarray((len(text) - 7,), np.dtype("<u8"), text, strides=(1,))
    length = end - name_end
    beyond = (64 - 8 * np.clip(length, 1, 8)).astype(np.uint64)
    module = np.where(length > 0, words[end - 8] >> beyond, np.uint64(0))
    is_last = np.ones(len(address), np.bool_)
    is_last[:-1] = (length[1:] != length[:-1]) | (module[1:] != module[:-1])
    page = np.uint64(_PAGE_BYTES - 1)
    top = np.uint64(2**64 - 1)
    page_after = np.minimum(address, top - np.uint64(2 * _PAGE_BYTES)) + np.uint64(_PAGE_BYTES)
    return np.where(is_last, (page_after + page) & ~page, top)
