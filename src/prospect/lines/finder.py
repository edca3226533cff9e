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
from prospect.lines.symcache import VERSION, Frames, SymCache, lookup_each, no_frames
from prospect.profile.naming import NameSource
from prospect.symbols.cache import FileIdentity, SymbolCache, cache_key
from prospect.symbols.recorded_images import identity_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prospect.symbols.image_files import DebugImage, FoundImage


class _Source(NamedTuple):
    """What is known of one image's lines; `content` is its symcache, None without one."""

    content: bytes | memoryview | None
    load_address: int
    note: str


class LineFinder:
    """Finds frames; each image's debug information is read once."""

    def __init__(self, cache: SymbolCache | None) -> None:
        self._cache = cache
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
        if source.content is None:
            return no_frames(len(svma)), source.note
        address = svma - np.uint64(source.load_address)
        symcache = SymCache.parse(source.content)
        if symcache is None:
            return lookup_each(source.content, address), source.note
        return symcache.lookup(address), source.note

    def _read(self, found: FoundImage, find_debug_file: Callable[[], DebugImage | None]) -> _Source:
        debug = None if debug_info.has_debug_info(found.image) else find_debug_file()
        holder = debug.image if debug else found.image
        load_address = debug_info.load_address(holder)
        if not debug_info.has_debug_info(holder):
            return _Source(None, load_address, debug_info.NO_DEBUG_INFO)
        if not debug_info.is_readable(holder):
            return _Source(None, load_address, debug_info.UNREADABLE)
        content = self._content(found, debug)
        if content is None:
            return _Source(None, load_address, debug_info.UNREADABLE)
        symcache = SymCache.parse(content)
        if symcache is not None and not symcache.has_lines:
            return _Source(None, load_address, debug_info.SPLIT)
        note = debug_info.SHARED if debug_info.is_shared(holder) else ""
        return _Source(content, load_address, note)

    def _content(self, found: FoundImage, debug: DebugImage | None) -> bytes | memoryview | None:
        """Take a symcache from the cache on disk, else make it and keep it there."""
        debug_image = debug.image if debug else None
        key = cache_key(identity_of(found), found.image, debug_image) if self._cache else None
        if self._cache is None or key is None:
            return _converted(found, debug)
        key = f"{key}+symcache{VERSION}"
        content = self._cache.load_lines(key)
        if content is not None:
            return content
        made = _converted(found, debug)
        if made is not None:
            self._cache.store_lines(key, made)
        return made


def _converted(found: FoundImage, debug: DebugImage | None) -> bytes | None:
    """Make a symcache: in a child where the file is of someone else than root or us."""
    is_ours = found.file.owner in (0, os.geteuid())
    if debug is None:
        return convert(found.image.data) if is_ours else convert_in_child(found.image.data)
    is_ours &= debug.source != NameSource.DEBUG_SERVER
    return convert(debug.image.data) if is_ours else convert_in_child(debug.image.data)
