"""Addresses of an image whose debug information was split off → their frames.

Comes in: the image that has the skeletons, and addresses that its own debug information says
nothing of. Goes out: `Frames`, and which files were not found. Only units that were hit are read,
each once; what was made of a unit is kept on disk under its id.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.elf.image import ElfImage
from prospect.files.budget import CostlyError
from prospect.files.rights import is_trusted
from prospect.lines.conversion import convert
from prospect.lines.debug_info import Lack, load_address
from prospect.lines.scoped_names import ScopedNames
from prospect.lines.split_conversion import whole_unit
from prospect.lines.split_files import SplitFiles
from prospect.lines.split_units import read_skeletons, unit_of_addresses
from prospect.lines.symcache import VERSION, Frames, SymCache, join_frames, lookup_each

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.files.door import OpenFile
    from prospect.lines.bounded import BoundedReader
    from prospect.lines.scoped_names import SearchBudget
    from prospect.symbols.cache import SymbolCache

# Version of what is made of a unit and kept: another one is made anew.
_MADE_WHOLE = 2


class SplitLines:
    """The split units of one image.

    Attributes:
        speakers: the users whose word the paths in the frames are.

    Args:
        holder: the image, or its debug file: what has the skeletons.
        file: where the image was opened.
        speaks_for: the user whose word the holder is.
        cache: where what was read is kept, under `key`; None for nowhere.
        key: names the image there; None where nothing identifies it.
        reader: reads what strangers may have written.

    Raises:
        CostlyError: there is no memory for what the image has packed.
    """

    def __init__(  # noqa: PLR0913 - a keyword for each
        self,
        holder: ElfImage,
        file: OpenFile,
        *,
        speaks_for: int,
        cache: SymbolCache | None,
        key: str | None,
        reader: BoundedReader,
    ) -> None:
        self._load_address = load_address(holder)
        self._skeletons = read_skeletons(holder)
        self._files = SplitFiles(file, speaks_for)
        self.speakers = {speaks_for}
        self._cache = cache if key else None
        self._key = key
        self._reader = reader
        self._contents: dict[int, bytes | memoryview | Lack] = {}

    @property
    def has_units(self) -> bool:
        """Whether anything was split off."""
        return bool(self._skeletons.units)

    def frames(
        self, svma: NDArray[np.uint64], name_budget: SearchBudget
    ) -> tuple[Frames, NDArray[np.bool_], dict[Lack, set[bytes]]]:
        """Find the frames of addresses.

        Args:
            svma: u64[n].
            name_budget: what the search for qualified names may still read.

        Returns:
            Frames; bool[n] which addresses are in a unit that could be read; and the names of the
            files that were not read, by why.
        """
        try:
            return self._frames(svma, name_budget)
        finally:
            self._files.let_go()

    def _frames(
        self, svma: NDArray[np.uint64], name_budget: SearchBudget
    ) -> tuple[Frames, NDArray[np.bool_], dict[Lack, set[bytes]]]:
        unit_of = unit_of_addresses(self._skeletons.units, svma)
        pieces = []
        is_known = np.zeros(len(svma), np.bool_)
        missing: dict[Lack, set[bytes]] = {}
        for unit in distinct(unit_of[unit_of >= 0]).tolist():
            rows = np.flatnonzero(unit_of == unit)
            content = self._content(unit)
            if isinstance(content, Lack):
                missing.setdefault(content, set()).add(self._skeletons.units[unit].dwo_name)
                continue
            is_known[rows] = True
            address = svma.take(rows) - np.uint64(self._load_address)
            symcache = SymCache.parse(content)
            if symcache:
                found = symcache.lookup(
                    address, functools.partial(self._qualified, unit, name_budget)
                )
            else:
                found = lookup_each(content, address)
            pieces.append((rows, found))
        return join_frames(len(svma), pieces), is_known, missing

    def _content(self, unit: int) -> bytes | memoryview | Lack:
        if unit not in self._contents:
            try:
                self._contents[unit] = self._read(unit)
            except CostlyError:
                self._contents[unit] = Lack.MEMORY
        return self._contents[unit]

    def _qualified(self, row: int, budget: SearchBudget, names: set[bytes]) -> dict[bytes, bytes]:
        """Find the qualified names of functions of a unit; few units have any without."""
        unit = self._skeletons.units[row]
        try:
            rest = self._files.find(unit)
        except CostlyError:
            return {}
        whole = whole_unit(self._skeletons, unit, rest, self._load_address) if rest else None
        if whole is None:
            return {}
        image = ElfImage.parse(memoryview(whole))
        return ScopedNames(image, budget, are_indexed=True).qualified(names)

    def _read(self, row: int) -> bytes | memoryview | Lack:
        """Take a unit's symcache from the cache on disk, else make it and keep it there.

        Raises:
            CostlyError: there is no memory for its file.
        """
        unit = self._skeletons.units[row]
        rest = self._files.find(unit)
        if rest is None:
            return Lack.FILE
        self.speakers.add(rest.speaks_for)
        of_unit = f"dwo{_MADE_WHOLE}-{unit.dwo_id:x}-{rest.size:x}-{rest.owner}"
        key = f"{self._key}+{of_unit}+symcache{VERSION}"
        kept = self._cache.load_lines(key) if self._cache else None
        if kept is not None:
            return kept
        whole = whole_unit(self._skeletons, unit, rest, self._load_address)
        if whole is None:
            return Lack.FILE
        strangers = [uid for uid in self.speakers if not is_trusted(uid)]
        made = self._reader.convert(whole, min(strangers)) if strangers else convert(whole)
        if made is None:
            return Lack.TIME if strangers else Lack.FILE
        if self._cache:
            self._cache.store_lines(key, made)
        return made
