"""The files behind the objects of a recording, for those who need more of them than their names.

Comes in: an `ObjectKey` and processes that had it mapped. Goes out: its image and debug file, each
found once, by the rules of `image_files`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.files.served_mounts import ServedMounts
from prospect.profile.naming import NameSource
from prospect.symbols.cache import FileIdentity
from prospect.symbols.images.image_files import find_debug_image, find_image, same_build_id
from prospect.symbols.live_process import live_process
from prospect.symbols.objects import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.symbols.images.image_files import DebugImage, FoundImage
    from prospect.symbols.live_process import LiveProcess
    from prospect.symbols.objects import ObjectKey
    from prospect.symbols.options import SymbolOptions


class RecordedImages:
    """Finds the images of a recording and remembers them."""

    def __init__(self, options: SymbolOptions) -> None:
        self._options = options
        self._found: dict[ObjectKey, FoundImage | Missing] = {}
        self._is_here = options.hostname in {"", os.uname().nodename}
        self._served = ServedMounts()
        self._debug: dict[FileIdentity, DebugImage | None] = {}

    def find(self, key: ObjectKey, pids: Sequence[int]) -> FoundImage | Missing:
        """Find the file that was mapped, or say why there is none."""
        if key not in self._found:
            until = self._options.recorded_until
            processes = (live_process(pid, until) for pid in (pids if self._is_here else ()))
            alive = [one for one in processes if one]
            self._found[key] = self._find(key, alive)
        return self._found[key]

    def is_other(self, key: ObjectKey, *, is_only: bool) -> bool:
        """Tell whether a path's inode and build id in a recording are those of two files.

        They are where the path means another file in a container, and where the file was replaced
        while it was recorded: perf reads the build ids of its table from the paths, at the end.

        Args:
            key: an inode from a mapping, and the build id that the recording has for its path.
            is_only: whether all mappings of the path have this inode. If so, and if what is there
                now was put there after the recording, the build id is of the file that was there.
        """
        if not self._is_here:
            return False
        # Not remembered: a process that has the file mapped may know better where it is.
        found = self._find(key._replace(build_id=b""))
        if isinstance(found, Missing):
            is_replaced = found.reason == NameSource.NO_MATCH
            return is_replaced and not (is_only and self._is_later_copy(key))
        return not same_build_id(key.build_id, found.image.build_id)

    def _is_later_copy(self, key: ObjectKey) -> bool:
        """Tell whether the file at a path has the build id, and came there after the recording."""
        found = self._find(key)
        if isinstance(found, Missing):
            return False
        until = self._options.recorded_until
        return not until or found.file.changed_ns > until * 1e9

    def _find(self, key: ObjectKey, alive: Sequence[LiveProcess] = ()) -> FoundImage | Missing:
        options = self._options
        return find_image(key, alive, options.recorded_until, self._served, options.named_by)

    def debug_file(self, key: ObjectKey, found: FoundImage) -> DebugImage | None:
        """Find the separate debug file of an image and its source, None if there is none."""
        identity = identity_of(found)
        if identity not in self._debug:
            self._debug[identity] = find_debug_image(found, key.path.rpartition(b"/")[0])
        return self._debug[identity]

    def forget(self, key: ObjectKey) -> FoundImage | None:
        """Look again for an object's files, as some were fetched; return what was its image."""
        found = self._found.pop(key, None)
        if found is None or isinstance(found, Missing):
            return None
        self._debug.pop(identity_of(found), None)
        return found


def identity_of(found: FoundImage) -> FileIdentity:
    """Return which file an image was read from."""
    file = found.file
    return FileIdentity(file.device, file.inode, file.modified_ns, file.owner)
