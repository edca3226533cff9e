"""The files behind the objects of a recording, for those who need more of them than their names.

Comes in: an `ObjectKey` and processes that had it mapped. Goes out: its image and debug file, each
found once, by the rules of `image_files`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.profile.naming import NameSource
from prospect.symbols.cache import FileIdentity
from prospect.symbols.image_files import find_debug_image, find_image, same_build_id
from prospect.symbols.live_process import live_process
from prospect.symbols.objects import Missing
from prospect.symbols.served_mounts import ServedMounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.symbols.image_files import DebugImage, FoundImage
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
            self._found[key] = find_image(key, alive, until, self._served)
        return self._found[key]

    def is_other(self, key: ObjectKey) -> bool:
        """Tell whether a path means another file here than that of an inode and a build id.

        Args:
            key: an inode from one process, and the build id that another one has at the path; the
                same file, but for containers in which the path means something else.
        """
        if not self._is_here:
            return False
        until = self._options.recorded_until
        # Not remembered: a process that has the file mapped may know better where it is.
        found = find_image(key._replace(build_id=b""), (), until, self._served)
        if isinstance(found, Missing):
            return found.reason == NameSource.NO_MATCH
        return not same_build_id(key.build_id, found.image.build_id)

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
