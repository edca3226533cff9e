"""(object, address) → function, or the reason why there is none.

Files, /proc and caches are read here, and only for objects with hits.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf.image import NO_ADDRESS
from prospect.files.budget import Cost
from prospect.profile.model import (
    CUT_OBJECT,
    KIND_ANON,
    KIND_BPF,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_MODULE,
    KIND_VDSO,
    SOURCE_KINDS,
)
from prospect.profile.naming import NameSource
from prospect.profile.run_info import replaced_note
from prospect.records import replace
from prospect.symbols.images.image_files import (
    OTHERS_TAKE_ALL,
    image_costs,
    read_compat_vdso,
    read_own_vdso,
    same_build_id,
    vsyscall_table,
)
from prospect.symbols.images.recorded_images import RecordedImages, identity_of, key_of
from prospect.symbols.jit.map_files import MapTables
from prospect.symbols.kernel.kernel_listings import RUNNING_MACHINE, is_running_kernel
from prospect.symbols.kernel.kernel_names import (
    KernelNames,
    is_outdated,
    kernel_symbol_table,
    load_kernel,
    name_kernel,
)
from prospect.symbols.live_process import live_processes
from prospect.symbols.objects import VDSO, VSYSCALL, HitObject, Missing
from prospect.symbols.resolution import Resolution, named, nameless
from prospect.symbols.servers.missing_files import fetch_missing
from prospect.symbols.table_cache import FileIdentity, SymbolCache, cache_key, kept_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prospect.columns.array_types import U64, Bools
    from prospect.elf.image import ElfImage
    from prospect.profile.run_info import ProcessNote
    from prospect.symbols.images.image_files import DebugImage, FoundImage
    from prospect.symbols.jit.jit_code import JitCode
    from prospect.symbols.kernel.kernel_listings import KernelPlaces
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.objects import ObjectKey
    from prospect.symbols.table import SymbolTable

KERNEL_KINDS = frozenset({KIND_KERNEL, KIND_MODULE, KIND_BPF})
_PYTHON_PREFIX = "py::"
_OWN_VDSO = FileIdentity(device=0, inode=0, modified_ns=0, owner=-1)
_GUEST_PREFIXES = (b"[guest", b"[hypervisor")


class Symbolizer:
    """Names the addresses of a recording.

    Attributes:
        notes: sentences for the report about refused and missing files.
        process_notes: the same about single processes, in the order in which they were found.
        images: finds the files.
    """

    def __init__(self, options: SymbolOptions, places: KernelPlaces = RUNNING_MACHINE) -> None:
        self._options = options
        self._places = places
        self._tables: dict[FileIdentity, tuple[ElfImage, SymbolTable]] = {}
        self._kernel: KernelNames | Missing | None = None
        self._unfetched: dict[ObjectKey, str] = {}
        self._weighed_maps: set[int] = set()
        # The reasons why images are too big to be read.
        self._refused_images: dict[FileIdentity, str] = {}
        self.notes: list[str] = []
        self.process_notes: dict[ProcessNote, None] = {}
        self.images = RecordedImages(options)

    def fetch(self, objects: Iterable[HitObject], announce: Callable[[str], None] | None) -> None:
        """Ask debug-file servers for files that this machine lacks; call it before `resolve`.

        Files that are here already are weighed first: see `files.budget`.

        Args:
            objects: the files of those with the most hits are requested first.
            announce: called several times a second with the progress; None to say nothing.
        """
        objects = list(objects)
        self._weigh(objects)
        causes, notes = fetch_missing(
            objects, self._load_image, self._debug_image, self._options, announce
        )
        for note in notes:
            self._note(note)
        self._unfetched = causes
        for key in causes:
            found = self.images.forget(key)
            if found:
                self._tables.pop(identity_of(found), None)
        self._weigh(one for one in objects if causes.get(one.key) == "")

    def _weigh(self, objects: Iterable[HitObject]) -> None:
        """Choose the files to read, of all objects the smallest first."""
        images: dict[FileIdentity, Cost[FileIdentity]] = {}
        mappers: dict[int, None] = {}
        objects = list(objects)
        self.images.find_all(
            ((one.key, one.pids) for one in objects if one.key.kind == KIND_ELF), _lacks_symbols
        )
        for key, pids, _ in objects:
            if key.kind == KIND_ELF:
                found = self.images.find(key, pids)
                if not isinstance(found, Missing):
                    identity = identity_of(found)
                    images[identity] = Cost(*self._image_costs(key, found), identity)
            elif key.kind in {KIND_ANON, KIND_JIT} and key.path not in self._options.jit_code:
                mappers.update(dict.fromkeys(pids))
        new = mappers.keys() - self._weighed_maps
        maps = self._maps.costs(sorted(new)) if new else {}
        self._weighed_maps |= new
        costs: list[Cost[int | FileIdentity]] = [*maps.values(), *images.values()]
        left_out = self._options.budget.admit(costs)
        if maps:
            self._maps.refuse({pid: left_out[pid] for pid in maps if pid in left_out})
        self._refused_images.update({one: left_out[one] for one in images if one in left_out})

    def _image_costs(self, key: ObjectKey, found: FoundImage) -> tuple[int, int]:
        """Return the memory for the symbols of an image and its debug file, as `image_costs`."""
        debug = self.images.debug_file(key, found) if _lacks_symbols(found) else None
        costs = [image_costs(image) for image in (found.image, debug and debug.image) if image]
        return sum(peak for peak, _ in costs), sum(kept for _, kept in costs)

    def admit(self, key: ObjectKey, use: str, peak_bytes: int, kept_bytes: int) -> bool:
        """Pay for another use of an object's file; if too little is left, note it and return False.

        `use` is a word for the note.
        """
        left_out = self._options.budget.admit([Cost(peak_bytes, kept_bytes, key)])
        for note in left_out.values():
            self._note(f"{_shown(key.path)} was not used for {use}: {note}.")
        return not left_out

    def resolve(self, key: ObjectKey, pids: Sequence[int], address: U64) -> Resolution:
        """Name the addresses of one object.

        Args:
            pids: processes that mapped the object, some or all; for anonymous memory its process
                and the ancestors of this one.
            address: u64[n], best distinct: offsets in the file for KIND_ELF and KIND_VDSO, as in
                `JitCode` for KIND_JIT, AVMA for the others.

        Returns:
            A resolution of all n addresses in their order; as SVMA if an image was found.
        """
        by_kind = {
            **dict.fromkeys(KERNEL_KINDS, self._resolve_kernel),
            **dict.fromkeys((KIND_ANON, KIND_JIT), self._resolve_jit),
            KIND_ELF: self._resolve_image,
            KIND_VDSO: self._resolve_vdso,
            **dict.fromkeys(SOURCE_KINDS, self._resolve_runtime),
        }
        return by_kind.get(key.kind, self._resolve_unmapped)(key, pids, address)

    def jit_code(self, key: ObjectKey) -> JitCode | None:
        """Return the code that a JIT described for an object, None if there is none."""
        return self._options.jit_code.get(key.path)

    def are_trampolines(self, key: ObjectKey, pids: Sequence[int], address: U64) -> Bools:
        """Return bool[n] which addresses of JIT code are in CPython's trampolines, by their names.

        The arguments are those of `resolve`.
        """
        self._weigh([HitObject(key, pids, 0)])
        found = self.resolve(key, pids, address).named
        is_python = [name.startswith(_PYTHON_PREFIX) for name in found.name]
        return np.array([*is_python, False], np.bool_).take(found.function)

    def _resolve_kernel(
        self,
        key: ObjectKey,
        pids: Sequence[int],  # noqa: ARG002 - as all of `resolve`
        address: U64,
    ) -> Resolution:
        names = self._kernel
        if names is None:
            names = load_kernel(self._options, self._places, self._kernel_cache)
        if isinstance(names, KernelNames) and is_outdated(names, self._loaded, address):
            names = load_kernel(self._options, self._places, None)
        self._kernel = names
        self._note(names.note)
        found = name_kernel(_shown(key.path), names, self._loaded, address)
        return replace(found, kind=key.kind)

    def _resolve_image(self, key: ObjectKey, pids: Sequence[int], offset: U64) -> Resolution:
        path = _shown(key.path)
        loaded = self._load_image(key, pids)
        unfetched = self._unfetched.get(key, "")
        if not isinstance(loaded, Missing):
            found = _of_image(loaded, key, path, offset)
            return found if loaded[1].is_full else replace(found, note=unfetched)
        if loaded.reason == NameSource.NO_MATCH:
            self._note(replaced_note(path, _shown(loaded.sysroot)))
        note = "; ".join(filter(None, (loaded.note, unfetched)))
        return Resolution(nameless(offset, loaded.reason), path, key.kind, key.build_id.hex(), note)

    def _load_image(
        self, key: ObjectKey, pids: Sequence[int]
    ) -> tuple[ElfImage, SymbolTable] | Missing:
        found = self.images.find(key, pids)
        if isinstance(found, Missing):
            return found
        identity = identity_of(found)
        # A file has many names: links, other roots, and any number of spellings in a recording.
        if identity in self._refused_images:
            note = self._refused_images[identity]
            self._note(f"{_shown(key.path)} was not used: {note}.")
            return Missing(NameSource.NO_BUDGET, note)
        if identity not in self._tables:
            debug = self.images.debug_file(key, found) if _lacks_symbols(found) else None
            if self.images.is_debug_file_costly(found):
                self._note(f"The debug file of {_shown(key.path)} was not used: {OTHERS_TAKE_ALL}.")
            self._tables[identity] = found.image, self._table(found, debug)
        return self._tables[identity]

    def _debug_image(self, key: ObjectKey, pids: Sequence[int]) -> ElfImage | None:
        found = self.images.find(key, pids)
        debug = None if isinstance(found, Missing) else self.images.debug_file(key, found)
        return debug.image if debug else None

    def _table(self, found: FoundImage, debug: DebugImage | None) -> SymbolTable:
        """Return a table from the cache, else read it and store it there."""
        debug_image = debug.image if debug else None
        source = debug.source if debug else NameSource.DEBUG_FILE
        key = key_of(found, debug)
        if key is not None and source != NameSource.DEBUG_FILE:
            key = f"{key}@{source.name}"
        return kept_table(self.cache, key, lambda: _read(found.image, debug_image, source))

    def vdso(self, key: ObjectKey, pids: Sequence[int]) -> ElfImage | Missing:
        """Return the image of a mapping of KIND_VDSO, or why there is none."""
        if key.path == VDSO:
            image = read_own_vdso()
        else:
            is_here = self._options.is_of_this_machine
            image = read_compat_vdso(
                live_processes(pids if is_here else (), self._options.recorded_until)
            )
        if image is None:
            note = "no process with a vdso of that kind still runs to read the names from"
            return Missing(NameSource.NO_FILE, note)
        if key.build_id:
            is_same = same_build_id(key.build_id, image.build_id)
        else:
            is_same = is_running_kernel(self._options, self._places)
        if not is_same:
            note = "the vdso is that of another kernel than the running one"
            return Missing(NameSource.NO_MATCH, note)
        return image

    def _resolve_vdso(self, key: ObjectKey, pids: Sequence[int], offset: U64) -> Resolution:
        path = _shown(key.path)
        if key.path == VSYSCALL:
            table = vsyscall_table()
            names = named(table, table.lookup(offset), offset, NameSource.NO_COVER, path)
            return Resolution(names, path, KIND_VDSO)
        image = self.vdso(key, pids)
        if isinstance(image, Missing):
            return Resolution(nameless(offset, image.reason), path, key.kind, note=image.note)
        # The vdso of 32-bit programs is read from a process, which may have changed it.
        is_own = key.path == VDSO and image.build_id
        own_key = cache_key((_OWN_VDSO, image)) if is_own else None
        table = kept_table(self.cache, own_key, lambda: _read(image))
        source = np.full(len(table), NameSource.VDSO, np.uint8)
        return _of_image((image, replace(table, source=source)), key, path, offset)

    def _resolve_jit(self, key: ObjectKey, pids: Sequence[int], address: U64) -> Resolution:
        """Name code of a JIT by the jitdump file that describes it, else by map files."""
        code = self.jit_code(key)
        if code is None:
            return self._resolve_anonymous(key, pids, address)
        row = code.table.lookup(address)
        names = named(code.table, row, address, NameSource.NO_COVER, code.shown)
        return Resolution(names, code.shown, KIND_JIT)

    def _resolve_anonymous(self, key: ObjectKey, pids: Sequence[int], address: U64) -> Resolution:
        path = _shown(key.path)
        notes = []
        for pid in pids:
            found = self._maps.table(pid, key.life)
            if isinstance(found, Missing):
                notes += [(pid, found.note)] if found.note else []
                continue
            file_path, table = found
            row = table.lookup(address)
            if (row >= 0).any():
                path = _shown(file_path)  # unlike "//anon", it has the process's pid
                names = named(table, row, address, NameSource.NO_ANONYMOUS, path)
                return Resolution(names, path, KIND_JIT)
        self.process_notes.update(dict.fromkeys(notes))
        note = notes[0][1] if notes else ""
        return Resolution(nameless(address, NameSource.NO_ANONYMOUS), path, key.kind, note=note)

    def _resolve_runtime(self, key: ObjectKey, pids: Sequence[int], address: U64) -> Resolution:
        if self._options.runtimes is None:
            return self._resolve_unmapped(key, pids, address)
        return self._options.runtimes.resolve(key.path, key.kind, address)

    def _resolve_unmapped(
        self,
        key: ObjectKey,
        pids: Sequence[int],  # noqa: ARG002 - as all of `resolve`
        address: U64,
    ) -> Resolution:
        path = _shown(key.path)
        reason = NameSource.NO_MAPPING
        if key.path.startswith(_GUEST_PREFIXES):
            reason = NameSource.NO_GUEST
        elif path == CUT_OBJECT:
            reason = NameSource.NO_CALLERS
        return Resolution(nameless(address, reason), path, key.kind)

    def _note(self, sentence: str) -> None:
        if sentence and sentence not in self.notes:
            self.notes.append(sentence)

    @cached_property
    def _maps(self) -> MapTables:
        return MapTables(self._options)

    @cached_property
    def cache(self) -> SymbolCache | None:
        """The cache of tables between runs, None if it is off."""
        return SymbolCache.of_user() if self._options.use_cache else None

    @property
    def _kernel_cache(self) -> SymbolCache | None:
        """The cache for the running kernel's listing."""
        return self.cache

    @cached_property
    def _loaded(self) -> SymbolTable:
        return kernel_symbol_table(self._options.kernel_symbols, self._options.names)


def _read(
    image: ElfImage, debug_image: ElfImage | None = None, source: NameSource = NameSource.DEBUG_FILE
) -> SymbolTable:
    from prospect.symbols.images.image_symbols import read_symbol_table  # noqa: PLC0415 - the cache has most tables

    return read_symbol_table(image, debug_image, source)


def _lacks_symbols(found: FoundImage) -> bool:
    return found.image.find_section(b".symtab") < 0


def _of_image(
    loaded: tuple[ElfImage, SymbolTable], key: ObjectKey, path: str, offset: U64
) -> Resolution:
    image, table = loaded
    svma = image.svma_of_offset(offset)
    is_mapped = svma != NO_ADDRESS
    row = np.where(is_mapped, table.lookup(svma), np.int32(-1))
    reason = NameSource.NO_COVER if table.is_full else NameSource.NO_STRIPPED
    build_id = (image.build_id or key.build_id).hex()
    names = named(table, row, np.where(is_mapped, svma, offset), reason, path)
    return Resolution(names, path, key.kind, build_id)


def _shown(path: bytes) -> str:
    return path.decode(errors="surrogateescape")
