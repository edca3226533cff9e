"""Kernel addresses → functions of the kernel, of its modules, and of BPF programs.

Comes in: a kernel's listing and the PERF_RECORD_KSYMBOL records, which alone know programs that
were unloaded before the report. Goes out: names, each with the object that the function is part of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.profile.model import KIND_BPF, KIND_KERNEL, KIND_MODULE
from prospect.profile.naming import NameSource
from prospect.records import replace
from prospect.symbols.kernel.kallsyms import module_of
from prospect.symbols.objects import Missing
from prospect.symbols.overlap import latest_pieces
from prospect.symbols.resolution import Resolution, joined, named, nameless
from prospect.symbols.table import SymbolTable, build_symbol_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.events.columns import KernelSymbols
    from prospect.profile.builder import NamedAddresses
    from prospect.symbols.kernel.kernel import KernelNames

_BPF_MODULE = b"[bpf]"
_PASSING = (_BPF_MODULE, b"[__builtin__")
_LEAST_COVER = 0.5


def kernel_symbol_table(records: KernelSymbols | None, names: Sequence[bytes]) -> SymbolTable:
    """Make a table of what was loaded during the recording, by AVMA.

    A program that was loaded before is known by its unloading. Where several had the same address
    in turn, the last one names it.
    """
    address = records.address if records else np.zeros(0, np.uint64)
    length = records.length if records else np.zeros(0, np.uint64)
    top = np.uint64(2**64 - 1)
    start, end, row = latest_pieces(address, address + np.minimum(length, top - address))
    texts = [names[one] for one in records.name.take(row).tolist()] if records else []
    size = np.array([len(text) for text in texts], np.int64)
    return build_symbol_table(
        strings=b"".join(texts),
        start=start,
        end=end,
        limit=end,
        name_start=np.cumsum(size) - size,
        name_length=size,
        is_global=np.zeros(len(row), np.bool_),
        source=np.full(len(row), NameSource.BPF, np.uint8),
    )


def is_outdated(kernel: KernelNames, loaded: SymbolTable, address: NDArray[np.uint64]) -> bool:
    """Say whether a kept listing may be too old for these addresses u64[n].

    Modules are part of what it is kept under; BPF programs and trampolines come and go unseen.
    """
    if not kernel.is_kept:
        return False
    row = kernel.table.lookup(address[loaded.lookup(address) < 0] - np.uint64(kernel.shift))
    hit_rows = distinct(row).tolist()
    return any(one < 0 or module_of(kernel.table, one).startswith(_PASSING) for one in hit_rows)


def name_kernel(
    path: str, kernel: KernelNames | Missing, loaded: SymbolTable, address: NDArray[np.uint64]
) -> Resolution:
    """Name kernel addresses.

    Args:
        path: name of the kernel itself as an object.
        kernel: its listing, or why there is none.
        loaded: what `kernel_symbol_table` made of the recording.
        address: u64[n] AVMA.
    """
    row = loaded.lookup(address)
    is_loaded = row >= 0
    programs = named(
        loaded,
        row[is_loaded],
        address[is_loaded],
        NameSource.NO_COVER,
        lambda one: _program_path(loaded.name(one)),
    )
    own = _name_listed(path, kernel, address[~is_loaded])
    merged = joined(own, programs, is_loaded)
    return Resolution(
        named=merged,
        path=path,
        kind=KIND_KERNEL,
        note=kernel.note,
        part_kinds={part: _kind_of_part(part) for part in merged.object_path if part != path},
    )


def _name_listed(
    path: str, kernel: KernelNames | Missing, address: NDArray[np.uint64]
) -> NamedAddresses:
    if isinstance(kernel, Missing):
        return nameless(address, kernel.reason)
    table = kernel.table
    row = table.lookup(address - np.uint64(kernel.shift))
    # Hits that mostly miss the listing say that the kernel stood elsewhere than it says.
    if not kernel.is_placed and (row >= 0).sum() < _LEAST_COVER * len(row):
        return nameless(address, NameSource.NO_KERNEL_SYMBOLS)

    def part(one: int) -> str:
        module = module_of(table, one)
        if module == _BPF_MODULE:
            return _program_path(table.name(one))
        return module.decode(errors="surrogateescape") or path

    if not kernel.has_modules:
        in_module = [bool(module_of(table, one)) if one >= 0 else False for one in row.tolist()]
        row = np.where(in_module, np.int32(-1), row)
    absent = NameSource.NO_COVER if kernel.has_modules else NameSource.NO_KERNEL_SYMBOLS
    functions = named(table, row, address, absent, part)
    recorded = functions.function_address + np.uint64(kernel.shift)
    return replace(functions, function_address=recorded)


def _program_path(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def _kind_of_part(path: str) -> int:
    return KIND_MODULE if path.startswith("[") else KIND_BPF
