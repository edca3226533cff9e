"""Which listing names the recorded kernel, and where in it an address of the recording is.

Comes in: what the recording says of its kernel, and the choices -K and -L. Goes out: a
`SymbolTable`, and how far address-space randomisation moved the kernel since the listing was made.
The running kernel's own listing is best; it serves only if the recorded kernel is the running one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple, replace
from prospect.symbols.images.image_files import same_build_id
from prospect.symbols.kernel.kernel_listings import (
    address_of,
    kept_listings,
    read_system_map,
    read_vmlinux,
)
from prospect.symbols.kernel.running_kernel import RUNNING_MACHINE, read_running_kernel
from prospect.symbols.objects import Missing

if TYPE_CHECKING:
    from prospect.symbols.cache import SymbolCache
    from prospect.symbols.kernel.running_kernel import KernelPlaces, RunningKernel
    from prospect.symbols.options import SymbolOptions
    from prospect.symbols.table import SymbolTable

HIDDEN_NOTE = (
    "The kernel hides its addresses from this user, so its routines have no names: report as root, "
    "or set kernel.kptr_restrict=0 and kernel.perf_event_paranoid=1."
)
_SAMPLED_SYMBOLS = 512
_LEAST_AGREEMENT = 0.9


class KernelNames(NamedTuple):
    """A listing for the recorded kernel.

    Attributes:
        table: by the addresses of the listing.
        shift: recorded address minus address in the listing, modulo 2**64.
        has_modules: whether modules are listed where they stood.
        is_placed: whether it is known where the recorded kernel stood; else `shift` is a guess.
        note: what a reader should know of it.
        is_kept: whether the listing is from the cache: what was loaded since is not in it.
    """

    table: SymbolTable
    shift: int
    has_modules: bool
    is_placed: bool
    note: str = ""
    is_kept: bool = False


def load_kernel(
    options: SymbolOptions,
    places: KernelPlaces = RUNNING_MACHINE,
    cache: SymbolCache | None = None,
) -> KernelNames | Missing:
    """Find the listing that names the recorded kernel.

    A listing that a person gives (-K, -L) is used or refused, never replaced by another.

    Args:
        options: facts of the recording and choices.
        places: where to look.
        cache: where the running kernel's listing may be kept; None to take it from the kernel.
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
    for listing in kept_listings(build_id, options.kernel_release, places.root, options.target):
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
    """Find out how far the recorded kernel stood from where a listing has it.

    Args:
        table: the listing.
        options: has the recorded address of `kernel_text_symbol`, if the recording has one.
        text: address to take where it has none.
    """
    recorded = options.kernel_text or text
    if not recorded:
        return KernelNames(table, 0, has_modules=False, is_placed=False)
    symbol = options.kernel_text_symbol.encode()
    listed = recorded if _is_named(table, recorded, symbol) else address_of(table, symbol)
    if listed is None:
        return Missing(
            NameSource.NO_KERNEL_SYMBOLS, f"it has no symbol {options.kernel_text_symbol}"
        )
    shift = (recorded - listed) % 2**64
    # After another boot the modules stand elsewhere, each by a distance of its own.
    has_modules = shift == 0 and table.source[0] == NameSource.KALLSYMS
    return KernelNames(table, shift, has_modules=has_modules, is_placed=True)


def _is_named(table: SymbolTable, address: int, name: bytes) -> bool:
    row = int(table.lookup(np.array([address], np.uint64))[0])
    names = {table.name(row), *table.alias_names(row)} if row >= 0 else set()
    return name in names and int(table.start[row]) == address


def _given(options: SymbolOptions, running: RunningKernel) -> KernelNames | Missing:
    """Use a listing that a person gave: of two the first that fits; or say why it is refused."""
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
    why = f"{' '.join(refused)} The kernel's routines have no names."
    return Missing(NameSource.NO_KERNEL_SYMBOLS, why)


def _given_one(options: SymbolOptions, running: RunningKernel) -> KernelNames | Missing:
    """Use the one listing that is left in the options, or say why it is refused."""
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
    return Missing(
        NameSource.NO_KERNEL_SYMBOLS,
        f"{shown}, given with {option}, is refused: {objection}.",
    )


def _objection(
    table: SymbolTable, build_id: bytes, options: SymbolOptions, running: RunningKernel
) -> str:
    """Say why a given listing is not the recorded kernel's, empty if nothing speaks against it."""
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
    """Say why a given listing could not be compared, empty if it was."""
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
    agreeing = 0
    for row, other in zip(rows.tolist(), there.tolist(), strict=True):
        names = {running.name(other), *running.alias_names(other)} if other >= 0 else set()
        agreeing += not names.isdisjoint({given.name(row), *given.alias_names(row)})
    return agreeing >= _LEAST_AGREEMENT * len(rows)
