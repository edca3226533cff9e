"""The running kernel: whether it is the recorded one, and its own listing of its symbols.

Making the listing that /proc/kallsyms shows costs the kernel more than us, so it is kept between
runs under what it depends on: build id, boot, and the modules with their addresses.
"""

from __future__ import annotations

import os
from _blake2 import blake2b  # as in `symbols.cache`
from typing import TYPE_CHECKING

from prospect.elf.image import find_build_id
from prospect.files.named_files import read_system_file
from prospect.records import NamedTuple
from prospect.symbols.images.image_files import same_build_id
from prospect.symbols.kernel.kernel_listings import parse_kallsyms

if TYPE_CHECKING:
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.table import SymbolTable
    from prospect.symbols.table_cache import SymbolCache


class KernelPlaces(NamedTuple):
    """Where a kernel is described; others are for tests."""

    kallsyms: str = "/proc/kallsyms"
    notes: str = "/sys/kernel/notes"
    modules: str = "/proc/modules"
    boot_id: str = "/proc/sys/kernel/random/boot_id"
    root: str = ""


RUNNING_MACHINE = KernelPlaces()


class RunningKernel(NamedTuple):
    """The running kernel's facts about itself.

    Attributes:
        is_recorded: whether it is the kernel of the recording.
        build_id: empty if it hides it.
        table: its symbols; None if it hides them, or is not the recorded one.
        is_kept: whether the table is from the cache: what was loaded since is not in it.
    """

    is_recorded: bool
    build_id: bytes
    table: SymbolTable | None = None
    is_kept: bool = False


def is_running_kernel(options: SymbolOptions, places: KernelPlaces = RUNNING_MACHINE) -> bool:
    """Say whether the recorded kernel is the running one: by build id, else by release and host."""
    build_id = _build_id(places)
    if options.kernel_build_id and build_id:
        return same_build_id(options.kernel_build_id, build_id)
    uname = os.uname()
    is_here = options.hostname in {"", uname.nodename}
    return is_here and options.kernel_release == uname.release


def read_running_kernel(
    options: SymbolOptions, places: KernelPlaces, cache: SymbolCache | None
) -> RunningKernel:
    """Ask the running kernel for its symbols, if it is the recorded one.

    Args:
        options: facts of the recording.
        places: where it describes itself.
        cache: where a listing may be kept; None to take it from the kernel and keep nothing.
    """
    build_id = _build_id(places)
    if not is_running_kernel(options, places):
        return RunningKernel(is_recorded=False, build_id=build_id)
    key = _listing_key(build_id, places) if cache and build_id else ""
    kept = cache.load(key) if cache and key else None
    if kept is not None:
        return RunningKernel(is_recorded=True, build_id=build_id, table=kept, is_kept=True)
    table = parse_kallsyms(read_system_file(places.kallsyms))
    if not len(table):
        return RunningKernel(is_recorded=True, build_id=build_id)
    if cache and key:
        cache.store(key, table)
    return RunningKernel(is_recorded=True, build_id=build_id, table=table)


def loaded_modules(places: KernelPlaces = RUNNING_MACHINE) -> frozenset[tuple[bytes, bytes]]:
    """Return the kernel's modules, each by name and address.

    The rest of /proc/modules, how often each is in use, changes all the time.
    Source: ``kernel/module/procfs.c`` (Linux 6.18), m_show().
    """
    lines = (line.split() for line in read_system_file(places.modules).splitlines())
    return frozenset((words[0], words[5]) for words in lines if len(words) > 5)


def _listing_key(build_id: bytes, places: KernelPlaces) -> str:
    modules = (b" ".join(module) for module in sorted(loaded_modules(places)))
    state = b"\n".join((read_system_file(places.boot_id), *modules))
    return f"kallsyms-{build_id.hex()}-{blake2b(state).hexdigest()}"


def _build_id(places: KernelPlaces) -> bytes:
    return find_build_id([memoryview(read_system_file(places.notes))]) or b""
