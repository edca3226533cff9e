"""Names that stay in memory between the parts of a live session.

Each address of an image is looked up once, and each file opened once. A missing file is searched
again if other processes have it mapped: a container's files disappear with its last process. Of
images only the symbols are kept, as a program that writes to the file of a mapped image has to
wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import KIND_ELF, KIND_VDSO
from prospect.profile.naming import NameSource
from prospect.records import Record, field, replace
from prospect.symbols.images.recorded_images import RecordedImages
from prospect.symbols.kernel.kernel_listings import RUNNING_MACHINE, loaded_modules
from prospect.symbols.objects import Missing
from prospect.symbols.resolution import at_rows, concatenated, without_unused
from prospect.symbols.symbolizer import Symbolizer
from prospect.symbols.symbols_limits import MOST_IMAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, U64
    from prospect.elf.image import ElfImage
    from prospect.symbols.kernel.kernel_listings import KernelPlaces
    from prospect.symbols.kernel.kernel_names import KernelNames
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.objects import HitObject, ObjectKey
    from prospect.symbols.resolution import Resolution
    from prospect.symbols.table import SymbolTable


def _is_never_late() -> bool:
    return False


class _Known(Record):
    """Resolved addresses of an object: `asked` u64[n] ascending, and i64[n] `row` of `answer`."""

    asked: U64
    row: I64
    answer: Resolution


class KeptNames(Record, frozen=False):
    """The names that were needed so far.

    Attributes:
        kernel: listing of the running kernel; None if it is to be read.
        modules: name and address of the modules in it.
        images: the symbols of images, or why there are none.
        asked: by image without symbols, the processes that could not show the file: others may.
        others: results of `RecordedImages.is_other`.
        known: names of addresses in images.
        addresses: number of addresses in `known`.
        symbols: number of symbols in `images`.
        most_addresses: number to keep from one part to the next; a busy system has some ten
            thousand, of 300 bytes each.
        most_symbols: the same of symbols, of 100 bytes each.
        most_new: number of files whose symbols a part may be the first to read, 0 for any.
        put_off: number of files that had to wait for a later part.
        is_late: whether there is no time to read another file.
    """

    most_addresses: int
    most_symbols: int
    most_new: int = 0

    kernel: KernelNames | Missing | None = None
    modules: frozenset[tuple[bytes, bytes]] = frozenset()
    images: dict[ObjectKey, tuple[ElfImage, SymbolTable] | Missing] = field(default_factory=dict)
    asked: dict[ObjectKey, frozenset[int]] = field(default_factory=dict)
    others: dict[ObjectKey, bool] = field(default_factory=dict)
    known: dict[ObjectKey, _Known] = field(default_factory=dict)
    addresses: int = 0
    symbols: int = 0
    put_off: int = 0
    is_late: Callable[[], bool] = _is_never_late

    def use(self, key: ObjectKey) -> None:
        """Note the use of an object: `make_room` forgets the others first."""
        if key in self.images:
            self.images[key] = self.images.pop(key)
        if key in self.known:
            self.known[key] = self.known.pop(key)

    def make_room(self) -> None:
        """Forget the least recently used names until the limits hold."""
        while self.known and self.addresses > self.most_addresses:
            self.addresses -= len(self.known.pop(next(iter(self.known))).asked)
        while self.images and (self.symbols > self.most_symbols or len(self.images) > MOST_IMAGES):
            self.forget_image(next(iter(self.images)))
        if len(self.others) > MOST_IMAGES:
            self.others.clear()

    def forget_image(self, key: ObjectKey) -> None:
        """Forget the symbols of an image, but not the names of its addresses."""
        loaded = self.images.pop(key, None)
        self.asked.pop(key, None)
        if loaded and not isinstance(loaded, Missing):
            self.symbols -= len(loaded[1])

    def forget_missing(self) -> None:
        """Forget what is missing, so that it is searched again."""
        for key in [key for key, one in self.images.items() if isinstance(one, Missing)]:
            del self.images[key]
        self.asked.clear()
        if isinstance(self.kernel, Missing):
            self.kernel = None


class CachingSymbolizer(Symbolizer):
    """Names addresses, and keeps the names for the symbolizer of the next part."""

    def __init__(
        self, kept: KeptNames, options: SymbolOptions, places: KernelPlaces = RUNNING_MACHINE
    ) -> None:
        super().__init__(options, places)
        self._kept = kept
        self._kernel = kept.kernel
        self._missing: set[ObjectKey] = set()
        self._put_off: set[ObjectKey] = set()
        self.images = CachingImages(kept, options)

    def resolve(self, key: ObjectKey, pids: Sequence[int], address: U64) -> Resolution:
        """Name addresses as `Symbolizer` does."""
        if key.kind not in {KIND_ELF, KIND_VDSO}:
            return super().resolve(key, pids, address)
        self._kept.use(key)
        known = self._kept.known.get(key)
        place = np.zeros(0, np.intp)
        is_new = np.ones(len(address), np.bool_)
        if known is not None:
            place = _places(known.asked, address)
            is_new = known.asked.take(place) != address
        if is_new.any():
            new = address[is_new]
            known = _with_answer(known, new, super().resolve(key, pids, new))
            if key not in self._missing:
                self._kept.known[key] = known
                self._kept.addresses += len(new)
            place = _places(known.asked, address)
        if known is None:  # there are no addresses
            return super().resolve(key, pids, address)
        names = at_rows(known.answer.named, known.row.take(place))
        return replace(known.answer, named=without_unused(names))

    def _resolve_kernel(self, key: ObjectKey, pids: Sequence[int], address: U64) -> Resolution:
        if self._kernel is None:
            self._kept.modules = loaded_modules(self._places)
        found = super()._resolve_kernel(key, pids, address)
        if (found.named.function < 0).any():
            before, self._kept.modules = self._kept.modules, loaded_modules(self._places)
            if not self._kept.modules <= before:
                self._kernel = None
                found = super()._resolve_kernel(key, pids, address)
        self._kept.kernel = self._kernel
        return found

    def _weigh(self, objects: Iterable[HitObject]) -> None:
        """Choose the files to read as `Symbolizer` does, without those whose symbols are kept."""
        new = [one for one in objects if not self._is_kept(one.key, one.pids)]
        if self._kept.most_new:
            files = [one for one in new if one.key.kind == KIND_ELF]
            files.sort(key=lambda one: one.hits, reverse=True)
            self._put_off |= {one.key for one in files[self._kept.most_new :]}
            self._kept.put_off += len(files[self._kept.most_new :])
        super()._weigh(one for one in new if one.key not in self._put_off)

    def _is_kept(self, key: ObjectKey, pids: Sequence[int]) -> bool:
        kept = self._kept
        return key in kept.images and kept.asked.get(key, frozenset(pids)).issuperset(pids)

    def _load_image(
        self, key: ObjectKey, pids: Sequence[int]
    ) -> tuple[ElfImage, SymbolTable] | Missing:
        kept = self._kept
        is_kept = self._is_kept(key, pids)
        if not is_kept and key not in self._put_off and kept.is_late():
            self._put_off.add(key)
            kept.put_off += 1
        if key in self._put_off:
            self._missing.add(key)
            return Missing(NameSource.NO_TURN, "")
        if is_kept:
            loaded = kept.images[key]
        else:
            loaded = super()._load_image(key, pids)
            kept.forget_image(key)
            if isinstance(loaded, Missing):
                kept.asked[key] = frozenset(pids)
            else:
                loaded = _without_file(*loaded)
                kept.symbols += len(loaded[1])
            kept.images[key] = loaded
        if isinstance(loaded, Missing):
            self._missing.add(key)
        return loaded

    def vdso(self, key: ObjectKey, pids: Sequence[int]) -> ElfImage | Missing:
        """Return the image of a mapping of KIND_VDSO as `Symbolizer` does."""
        image = super().vdso(key, pids)
        if isinstance(image, Missing):
            self._missing.add(key)
        return image

    @property
    def _kernel_cache(self) -> None:
        """None: an old listing would soon lack symbols, and be read again."""
        return


class CachingImages(RecordedImages):
    """Finds images, and keeps the results of `is_other`."""

    def __init__(self, kept: KeptNames, options: SymbolOptions) -> None:
        super().__init__(options)
        self._kept = kept

    def is_other(self, key: ObjectKey, *, is_only: bool) -> bool:
        """Return whether an inode and a build id are of different files."""
        known = self._kept.others.get(key)
        if known is None:
            known = self._kept.others[key] = super().is_other(key, is_only=is_only)
        return known


def _without_file(image: ElfImage, table: SymbolTable) -> tuple[ElfImage, SymbolTable]:
    """Return an image and its symbols without any of its memory, so that its file is closed."""
    strings = table.strings
    if isinstance(strings, memoryview) and strings.obj is image.data.obj:
        table = replace(table, strings=bytes(strings))
    return image.without_contents(), table


def _places(asked: U64, address: U64) -> NDArray[np.intp]:
    """Return the place of each address, or where to insert it: the last place at most."""
    return np.minimum(np.searchsorted(asked, address), len(asked) - 1)


def _with_answer(known: _Known | None, new: U64, answer: Resolution) -> _Known:
    if known is not None:
        names = concatenated([known.answer.named, answer.named])
        by_row = np.empty(len(known.asked), np.uint64)
        by_row[known.row] = known.asked
        new = np.concatenate((by_row, new))
        # The names are demangled now: lazy lists would be nested one level deeper with each part.
        names = replace(names, name=list(names.name), aliases=list(names.aliases))
        answer = replace(answer, named=names)
    order = np.argsort(new, kind="stable")
    return _Known(new.take(order), order, answer)
