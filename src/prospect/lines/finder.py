"""An image and addresses in it → frames: functions, files and lines.

Comes in: an image, its debug file, and distinct SVMAs. Goes out: `Frames`, and a note where they
are missing or not whole. What was read of DWARF once is kept on disk under the image's build id.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prospect.lines import debug_info
from prospect.lines.conversion import convert, convert_in_child
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
from prospect.profile.naming import NameSource
from prospect.symbols.cache import FileIdentity, SymbolCache, cache_key
from prospect.symbols.debug_files import has_debug_info
from prospect.symbols.recorded_images import identity_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prospect.symbols.image_files import DebugImage, FoundImage


class _Source(NamedTuple):
    """What is known of one image's lines.

    Attributes:
        content: its symcache, None without one.
        load_address: SVMA that the symcache counts from.
        note: what is missing.
        split: the units that are in other files, None without any.
    """

    content: bytes | memoryview | None
    load_address: int
    note: str
    split: SplitLines | None = None


class LineFinder:
    """Finds frames; each image's debug information is read once.

    Args:
        cache: where line tables are kept between runs, None for nowhere.
    """

    def __init__(self, cache: SymbolCache | None) -> None:
        self.cache = cache
        self._sources: dict[FileIdentity, _Source] = {}

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
        if identity not in self._sources:
            self._sources[identity] = self._read(found, find_debug_file)
        source = self._sources[identity]
        frames = _look_up(source, svma)
        if source.split is None:
            return frames, source.note
        return _with_split(frames, source.split, svma, source.note)

    def _read(self, found: FoundImage, find_debug_file: Callable[[], DebugImage | None]) -> _Source:
        debug = None if has_debug_info(found.image) else find_debug_file()
        holder = debug.image if debug else found.image
        load_address = debug_info.load_address(holder)
        if not has_debug_info(holder):
            return _Source(None, load_address, debug_info.NO_DEBUG_INFO)
        if not debug_info.is_readable(holder):
            return _Source(None, load_address, debug_info.UNREADABLE)
        split = SplitLines(
            holder,
            found.file.path,
            cache=self.cache,
            key=cache_key(identity_of(found), found.image, debug.image if debug else None),
            is_trusted=_is_trusted(found, debug),
        )
        split_or_none = split if debug_info.may_be_split(holder) and split.has_units else None
        content = self._content(found, debug)
        symcache = SymCache.parse(content) if content is not None else None
        if content is None or (symcache is not None and not symcache.has_lines):
            note = "" if split_or_none else debug_info.UNREADABLE
            return _Source(None, load_address, note, split_or_none)
        note = debug_info.SHARED if debug_info.is_shared(holder) else ""
        return _Source(content, load_address, note, split_or_none)

    def _content(self, found: FoundImage, debug: DebugImage | None) -> bytes | memoryview | None:
        """Take a symcache from the cache on disk, else make it and keep it there."""
        debug_image = debug.image if debug else None
        key = cache_key(identity_of(found), found.image, debug_image) if self.cache else None
        if self.cache is None or key is None:
            return _converted(found, debug)
        key = f"{key}+symcache{VERSION}"
        content = self.cache.load_lines(key)
        if content is not None:
            return content
        made = _converted(found, debug)
        if made is not None:
            self.cache.store_lines(key, made)
        return made


def _look_up(source: _Source, svma: NDArray[np.uint64]) -> Frames:
    if source.content is None:
        return no_frames(len(svma))
    address = svma - np.uint64(source.load_address)
    symcache = SymCache.parse(source.content)
    return symcache.lookup(address) if symcache else lookup_each(source.content, address)


def _with_split(
    frames: Frames, split: SplitLines, svma: NDArray[np.uint64], note: str
) -> tuple[Frames, str]:
    """Put frames from split units where the image itself knows no line."""
    has_file = np.zeros(len(svma), np.bool_)
    frame_of = np.repeat(np.arange(len(svma)), np.diff(frames.start))
    has_file[frame_of[frames.file_index >= 0]] = True
    bare = np.flatnonzero(~has_file)
    found, is_known, missing = split.frames(svma.take(bare))
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


def _converted(found: FoundImage, debug: DebugImage | None) -> bytes | None:
    """Make a symcache: in a child where the file is of someone else than root or us."""
    data = debug.image.data if debug else found.image.data
    return convert(data) if _is_trusted(found, debug) else convert_in_child(data)


def _is_trusted(found: FoundImage, debug: DebugImage | None) -> bool:
    is_ours = found.file.owner in (0, os.geteuid())
    return is_ours and (debug is None or debug.source != NameSource.DEBUG_SERVER)
