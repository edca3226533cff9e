"""Kernel addresses → functions of the kernel, of its modules, and of BPF programs.

`load_kernel` chooses the listing that names the recorded kernel (that of -K or -L, else the running
kernel's if it is the recorded one, else one in a file), and finds how far address-space
randomisation has moved the kernel since the listing was made. `name_kernel` names addresses by it
and by the PERF_RECORD_KSYMBOL records. Only these have the programs that were unloaded before the
report. Each name comes with the object that contains the function.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.profile.model import KIND_BPF, KIND_KERNEL, KIND_MODULE
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple, replace
from prospect.symbols.images.image_files import same_build_id
from prospect.symbols.kernel.kernel_listings import (
    RUNNING_MACHINE,
    address_of,
    kept_listings,
    module_of,
    read_running_kernel,
    read_system_map,
    read_vmlinux,
)
from prospect.symbols.objects import Missing
from prospect.symbols.resolution import Resolution, joined, named, nameless
from prospect.symbols.table import SymbolTable, build_symbol_table, latest_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import U64
    from prospect.events.record_columns import KernelSymbols
    from prospect.profile.builder import NamedAddresses
    from prospect.symbols.kernel.kernel_listings import KernelPlaces, RunningKernel
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.table import SymbolTable
    from prospect.symbols.table_cache import SymbolCache

HIDDEN_NOTE = (
    "The kernel hides its addresses from this user, so its functions have no names: report as root,"
    " or set kernel.kptr_restrict=0 and kernel.perf_event_paranoid=1."
)
_SAMPLED_SYMBOLS = 512
_LEAST_AGREEMENT = 0.9
_BPF_MODULE = b"[bpf]"
_PASSING = (_BPF_MODULE, b"[__builtin__")
_LEAST_COVER = 0.5


class KernelNames(NamedTuple):
    """A listing for the recorded kernel.

    Attributes:
        table: by the addresses of the listing.
        shift: recorded address minus address in the listing, modulo 2**64.
        has_modules: whether modules have their recorded addresses in it.
        is_placed: whether the recorded kernel's address is known; else `shift` is a guess.
        note: for the reader of a report.
        is_kept: whether the listing is from the cache, which may lack newer symbols.
    """

    table: SymbolTable
    shift: int
    has_modules: bool
    is_placed: bool
    note: str = ""
    is_kept: bool = False


def load_kernel(
    options: SymbolOptions, places: KernelPlaces = RUNNING_MACHINE, cache: SymbolCache | None = None
) -> KernelNames | Missing:
    """Find the listing that names the recorded kernel.

    A listing that a person gives (-K, -L) is used or refused, never replaced by another. `cache`
    is for the running kernel's listing.
    """
    running = read_running_kernel(options, places, cache)
    if options.system_map or options.kernel_image:
        return _given(options, running)
    if running.table is not None:
        names: KernelNames | Missing
        names = KernelNames(running.table, 0, has_modules=True, is_placed=True)
        if options.kernel_text:
            names = _place(running.table, options)
        return names._replace(is_kept=running.is_kept) if isinstance(names, KernelNames) else names
    build_id = _expected_build_id(options, running)
    where = places.root, options.target, options.debug_dir
    for listing in kept_listings(build_id, options.kernel_release, *where):
        names = _place(listing, options)
        if isinstance(names, KernelNames):
            return names
    if running.is_recorded:
        return Missing(NameSource.NO_KERNEL_SYMBOLS, HIDDEN_NOTE)
    return Missing(
        NameSource.NO_KERNEL_SYMBOLS,
        f"The recorded kernel {options.kernel_release or '(release unknown)'} is not the running "
        "one, and no listing of it was found: report on that machine, or give its System.map "
        "with -K.",
    )


def _expected_build_id(options: SymbolOptions, running: RunningKernel) -> bytes:
    return options.kernel_build_id or (running.build_id if running.is_recorded else b"")


def _place(table: SymbolTable, options: SymbolOptions, text: int = 0) -> KernelNames | Missing:
    """Find the distance of the recorded kernel from the addresses of a listing.

    Args:
        options: with the recorded address of `kernel_text_symbol`, if there is one.
        text: address to use if there is none.
    """
    recorded = options.kernel_text or text
    if not recorded:
        return KernelNames(table, 0, has_modules=False, is_placed=False)
    symbol = options.kernel_text_symbol.encode()
    listed = recorded if _is_named(table, recorded, symbol) else address_of(table, symbol)
    if listed is None:
        why = f"it has no symbol {options.kernel_text_symbol}"
        return Missing(NameSource.NO_KERNEL_SYMBOLS, why)
    shift = (recorded - listed) % 2**64
    # At another boot each module has a distance of its own.
    has_modules = shift == 0 and table.source[0] == NameSource.KALLSYMS
    return KernelNames(table, shift, has_modules=has_modules, is_placed=True)


def _is_named(table: SymbolTable, address: int, name: bytes) -> bool:
    row = int(table.lookup(np.array([address], np.uint64))[0])
    return name in _names_of(table, row) and int(table.start[row]) == address


def _names_of(table: SymbolTable, row: int) -> set[bytes]:
    """Return all names of a row, none for row -1."""
    return {table.name(row), *table.alias_names(row)} if row >= 0 else set()


def _given(options: SymbolOptions, running: RunningKernel) -> KernelNames | Missing:
    """Use the first fitting listing that a person gave; else return why all are refused."""
    choices = []
    if options.system_map:
        choices.append(replace(options, kernel_image=None))
    if options.kernel_image:
        choices.append(replace(options, system_map=None))
    refused: list[str] = []
    for choice in choices:
        names = _given_one(choice, running)
        if isinstance(names, KernelNames):
            return names._replace(note=" ".join(filter(None, [*refused, names.note])))
        refused.append(names.note)
    why = f"{' '.join(refused)} The kernel's functions have no names."
    return Missing(NameSource.NO_KERNEL_SYMBOLS, why)


def _given_one(options: SymbolOptions, running: RunningKernel) -> KernelNames | Missing:
    """Use the only listing in the options, or return why it is refused."""
    path = os.fsencode(options.system_map or options.kernel_image or "")
    shown = path.decode(errors="surrogateescape")
    option = "-K" if options.system_map else "-L"
    table, build_id = read_system_map(path) if options.system_map else read_vmlinux(path)
    objection = _objection(table, build_id, options, running)
    if not objection:
        text = address_of(running.table, b"_text") if running.table is not None else None
        names = _place(table, options, text or 0)
        if isinstance(names, KernelNames):
            return names._replace(note=_doubt(shown, build_id, running))
        objection = names.note
    why = f"{shown}, given with {option}, is refused: {objection}."
    return Missing(NameSource.NO_KERNEL_SYMBOLS, why)


def _objection(
    table: SymbolTable, build_id: bytes, options: SymbolOptions, running: RunningKernel
) -> str:
    """Return why a given listing is not the recorded kernel's, "" if it may be."""
    expected = _expected_build_id(options, running)
    if not len(table):
        kind = "a System.map" if options.system_map else "an uncompressed kernel image (vmlinux)"
        return f"it cannot be read as {kind} with symbols"
    if expected and build_id:
        same = same_build_id(expected, build_id)
        return "" if same else "its build id is not that of the recorded kernel"
    if running.table is not None and not _agree(table, running.table):
        return "its symbols are not where the running kernel has them"
    return ""


def _doubt(shown: str, build_id: bytes, running: RunningKernel) -> str:
    """Return why a given listing could not be compared, "" if it was."""
    if running.table is not None or build_id:
        return ""
    why = "hides its addresses" if running.is_recorded else "is not the running one"
    return f"{shown} could not be compared with the recorded kernel, which {why}."


def _agree(given: SymbolTable, running: SymbolTable) -> bool:
    """Compare names at equal distances from ``_text`` in two listings."""
    texts = address_of(given, b"_text"), address_of(running, b"_text")
    end = address_of(given, b"_etext")
    if texts[0] is None or texts[1] is None or end is None:
        return False
    first, last = np.searchsorted(given.start, np.array([texts[0], end], np.uint64)).tolist()
    rows = distinct(np.linspace(first, last - 1, _SAMPLED_SYMBOLS).astype(np.int64))
    shift = np.uint64((texts[1] - texts[0]) % 2**64)
    there = running.lookup(given.start.take(rows) + shift)
    agreeing = sum(
        not _names_of(running, other).isdisjoint(_names_of(given, row))
        for row, other in zip(rows.tolist(), there.tolist(), strict=True)
    )
    return agreeing >= _LEAST_AGREEMENT * len(rows)


def kernel_symbol_table(records: KernelSymbols | None, names: Sequence[bytes]) -> SymbolTable:
    """Make a table of the symbols that were loaded or unloaded during the recording, by AVMA.

    If several had the same address in turn, the last one names it.
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


def is_outdated(kernel: KernelNames, loaded: SymbolTable, address: U64) -> bool:
    """Return whether a kept listing may be too old for these addresses u64[n].

    Modules are part of its key in the cache; BPF programs and trampolines are not.
    """
    if not kernel.is_kept:
        return False
    row = kernel.table.lookup(address[loaded.lookup(address) < 0] - np.uint64(kernel.shift))
    hit_rows = distinct(row).tolist()
    return any(one < 0 or module_of(kernel.table, one).startswith(_PASSING) for one in hit_rows)


def name_kernel(
    path: str, kernel: KernelNames | Missing, loaded: SymbolTable, address: U64
) -> Resolution:
    """Name kernel addresses.

    Args:
        path: name of the kernel as an object.
        kernel: its listing, or why there is none.
        loaded: from `kernel_symbol_table`.
        address: u64[n] AVMA.
    """
    row = loaded.lookup(address)
    is_loaded = row >= 0
    programs = named(
        loaded,
        row[is_loaded],
        address[is_loaded],
        NameSource.NO_COVER,
        lambda one: loaded.name(one).decode(errors="surrogateescape"),
    )
    own = _name_listed(path, kernel, address[~is_loaded])
    merged = joined(own, programs, is_loaded)
    kinds = {
        part: KIND_MODULE if part.startswith("[") else KIND_BPF
        for part in merged.object_path
        if part != path
    }
    return Resolution(merged, path, KIND_KERNEL, note=kernel.note, part_kinds=kinds)


def _name_listed(path: str, kernel: KernelNames | Missing, address: U64) -> NamedAddresses:
    if isinstance(kernel, Missing):
        return nameless(address, kernel.reason)
    table = kernel.table
    row = table.lookup(address - np.uint64(kernel.shift))
    # If most hits miss the listing, the kernel had other addresses.
    if not kernel.is_placed and (row >= 0).sum() < _LEAST_COVER * len(row):
        return nameless(address, NameSource.NO_KERNEL_SYMBOLS)

    def part(one: int) -> str:
        module = module_of(table, one)
        name = table.name(one) if module == _BPF_MODULE else module
        return name.decode(errors="surrogateescape") or path

    if not kernel.has_modules:
        in_module = [bool(module_of(table, one)) if one >= 0 else False for one in row.tolist()]
        row = np.where(in_module, np.int32(-1), row)
    absent = NameSource.NO_COVER if kernel.has_modules else NameSource.NO_KERNEL_SYMBOLS
    functions = named(table, row, address, absent, part)
    recorded = functions.function_address + np.uint64(kernel.shift)
    return replace(functions, function_address=recorded)
