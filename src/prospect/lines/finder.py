"""An image and addresses in it → frames: functions, files and lines.

Comes in: an image, its debug file, and distinct SVMAs. Goes out: `Frames`, and a note where they
are missing or not whole. What was read of DWARF once is kept on disk under the image's build id.
Debug information of several images is read on several processors: the library that does so works
outside of the interpreter's lock.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import counted, silent
from prospect.files.rights import EVERYBODY, is_trusted
from prospect.lines import debug_info
from prospect.lines.bounded import BoundedReader
from prospect.lines.conversion import convert
from prospect.lines.scoped_names import ScopedNames, SearchBudget
from prospect.lines.split_lines import SplitLines
from prospect.lines.symcache import (
    VERSION,
    Frames,
    SymCache,
    join_frames,
    lookup_each,
    no_frames,
    select_frames,
)
from prospect.records import NamedTuple
from prospect.symbols.cache import FileIdentity, SymbolCache, cache_key
from prospect.symbols.images.debug_files import has_debug_info
from prospect.symbols.images.recorded_images import identity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from prospect.announcing import Announce
    from prospect.elf.image import ElfImage
    from prospect.symbols.images.image_files import DebugImage, FoundImage


# Each reader needs several times the memory of what it reads.
_MOST_READERS = 4


class _Holder(NamedTuple):
    """An image, its separate debug file, and what its symcache is called in the cache on disk."""

    found: FoundImage
    debug: DebugImage | None
    key: str

    @property
    def speaks_for(self) -> int:
        """The user whose word its paths are."""
        return self.debug.speaks_for if self.debug else self.found.file.speaks_for

    @property
    def image(self) -> ElfImage:
        """What has the DWARF, if any has."""
        return self.debug.image if self.debug else self.found.image


class _Source(NamedTuple):
    """What is known of one image's lines.

    Attributes:
        content: its symcache, None without one.
        load_address: SVMA that the symcache counts from.
        note: what is missing.
        names: finds the qualified names of functions without a linkage name.
        split: the units that are in other files, None without any.
        speaks_for: the user whose word its own paths are.
    """

    content: bytes | memoryview | None
    load_address: int
    note: str
    names: ScopedNames
    split: SplitLines | None = None
    speaks_for: int = EVERYBODY


class LineFinder:
    """Finds frames; each image's debug information is read once.

    Args:
        cache: where line tables are kept between runs, None for nowhere.
    """

    def __init__(self, cache: SymbolCache | None) -> None:
        self.cache = cache
        self._sources: dict[FileIdentity, _Source] = {}
        self._name_budget = SearchBudget()
        self._reader = BoundedReader()

    def prepare(
        self,
        images: Iterable[tuple[FoundImage, Callable[[], DebugImage | None]]],
        announce: Announce = silent,
    ) -> None:
        """Read the debug information of images that `frames` will be asked about, all at once.

        Args:
            images: each with what finds its debug file.
            announce: told how far it is.
        """
        holders: dict[FileIdentity, _Holder] = {}
        contents: dict[FileIdentity, bytes | memoryview | None] = {}
        for found, find_debug_file in images:
            identity = identity_of(found)
            if identity not in self._sources and identity not in holders:
                holders[identity] = holder = self._holder(found, find_debug_file)
                contents[identity] = self._kept(holder)
        missing = [
            (identity, holder)
            for identity, holder in holders.items()
            if contents[identity] is None and _has_lines(holder.image)
        ]
        # The largest first, so that none is left to one processor at the end.
        missing.sort(key=lambda one: -len(one[1].image.data))
        if missing:
            readers = min(len(os.sched_getaffinity(0)), _MOST_READERS, len(missing))
            with ThreadPoolExecutor(readers) as pool:
                made = pool.map(self._converted, [holder for _, holder in missing])
                announce(f"reading the debug information of {counted(len(missing), 'file')}")
                for done, ((identity, holder), content) in enumerate(
                    zip(missing, made, strict=True), 1
                ):
                    announce(f"reading debug information, {done} of {len(missing)} files done")
                    contents[identity] = content
                    self._keep(holder, content)
        for identity, holder in holders.items():
            self._sources[identity] = self._source(holder, contents[identity])

    def frames(
        self,
        found: FoundImage,
        find_debug_file: Callable[[], DebugImage | None],
        svma: NDArray[np.uint64],
    ) -> tuple[Frames, str]:
        """Find the frames of addresses of one image.

        Args:
            found: the image.
            find_debug_file: gives its separate debug file; called if it has no DWARF itself.
            svma: u64[n], best distinct.

        Returns:
            The frames, and a sentence about what is missing; "" where nothing is.
        """
        identity = identity_of(found)
        self.prepare([(found, find_debug_file)])
        source = self._sources[identity]
        frames = _look_up(source, svma)
        if source.split is None:
            return frames, source.note
        return _with_split(frames, source.split, svma, source.note, self._name_budget)

    def named_by(self, found: FoundImage) -> int:
        """Return the user whose word the paths in an image's frames are, once they were found."""
        source = self._sources[identity_of(found)]
        strangers = {
            uid
            for uid in (source.split.speakers if source.split else {source.speaks_for})
            if not is_trusted(uid)
        }
        if len(strangers) > 1:
            return EVERYBODY
        return strangers.pop() if strangers else source.speaks_for

    def _holder(
        self, found: FoundImage, find_debug_file: Callable[[], DebugImage | None]
    ) -> _Holder:
        debug = None if has_debug_info(found.image) else find_debug_file()
        key = cache_key(identity_of(found), found.image, debug.image if debug else None)
        return _Holder(found, debug, f"{key}+symcache{VERSION}" if key else "")

    def _converted(self, holder: _Holder) -> bytes | None:
        """Make a symcache: in a child where the file is of someone else than root or us."""
        data = holder.image.data
        return convert(data) if is_trusted(holder.speaks_for) else self._reader.convert(data)

    def _kept(self, holder: _Holder) -> memoryview | None:
        """Take a symcache from the cache on disk."""
        if self.cache is None or not holder.key or not _has_lines(holder.image):
            return None
        return self.cache.load_lines(holder.key)

    def _keep(self, holder: _Holder, content: bytes | None) -> None:
        if self.cache is not None and holder.key and content is not None:
            self.cache.store_lines(holder.key, content)

    def _source(self, holder: _Holder, content: bytes | memoryview | None) -> _Source:
        image, found = holder.image, holder.found
        load_address = debug_info.load_address(image)
        names = ScopedNames(image, self._name_budget)
        if not has_debug_info(image):
            return _Source(None, load_address, debug_info.NO_DEBUG_INFO, names)
        if not debug_info.is_readable(image):
            return _Source(None, load_address, debug_info.UNREADABLE, names)
        debug_image = holder.debug.image if holder.debug else None
        split = SplitLines(
            image,
            found.file,
            speaks_for=holder.speaks_for,
            cache=self.cache,
            key=cache_key(identity_of(found), found.image, debug_image),
            reader=self._reader,
        )
        split_or_none = split if debug_info.may_be_split(image) and split.has_units else None
        symcache = SymCache.parse(content) if content is not None else None
        if content is None or (symcache is not None and not symcache.has_lines):
            note = "" if split_or_none else _why_none(holder)
            return _Source(None, load_address, note, names, split_or_none, holder.speaks_for)
        note = debug_info.SHARED if debug_info.is_shared(image) else ""
        return _Source(content, load_address, note, names, split_or_none, holder.speaks_for)


def _has_lines(image: ElfImage) -> bool:
    return has_debug_info(image) and debug_info.is_readable(image)


def _look_up(source: _Source, svma: NDArray[np.uint64]) -> Frames:
    if source.content is None:
        return no_frames(len(svma))
    address = svma - np.uint64(source.load_address)
    symcache = SymCache.parse(source.content)
    if symcache is None:
        return lookup_each(source.content, address)
    return symcache.lookup(address, source.names.qualified)


def _with_split(
    frames: Frames,
    split: SplitLines,
    svma: NDArray[np.uint64],
    note: str,
    name_budget: SearchBudget,
) -> tuple[Frames, str]:
    """Put frames from split units where the image itself knows no line."""
    has_file = np.zeros(len(svma), np.bool_)
    frame_of = np.repeat(np.arange(len(svma)), np.diff(frames.start))
    has_file[frame_of[frames.file_index >= 0]] = True
    bare = np.flatnonzero(~has_file)
    found, is_known, missing = split.frames(svma.take(bare), name_budget)
    answered = np.zeros(len(svma), np.bool_)
    answered[bare] = is_known
    kept, added = np.flatnonzero(~answered), np.flatnonzero(is_known)
    whole = join_frames(
        len(svma),
        [
            (kept, select_frames(frames, kept)),
            (bare.take(added), select_frames(found, added)),
        ],
    )
    notes = [note] if note else []
    if missing:
        notes.append(debug_info.split_files_missing(sorted(missing)))
    return whole, "; ".join(notes)


def _why_none(holder: _Holder) -> str:
    return debug_info.UNREADABLE if is_trusted(holder.speaks_for) else debug_info.COSTLY
