"""The files of the objects of a recording, images and debug files, each found once.

`image_files` has the rules. Files of other users take memory as long as they are remembered, so
`find_all` weighs them first.
"""

from __future__ import annotations

import mmap
from bisect import insort
from typing import TYPE_CHECKING

from prospect.elf.image import ElfImage
from prospect.errors import ElfError
from prospect.files.budget import of_others
from prospect.files.rights import EVERYBODY, is_trusted
from prospect.files.system_files import ServedMounts
from prospect.files.untrusted_open import OpenFile
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple
from prospect.symbols.images.image_files import (
    OTHERS_TAKE_ALL,
    FoundImage,
    find_debug_image,
    find_image,
    same_build_id,
)
from prospect.symbols.live_process import live_processes
from prospect.symbols.objects import DELETED, Missing
from prospect.symbols.table_cache import FileIdentity, cache_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prospect.abi.recorded_facts import KeptImage
    from prospect.symbols.images.image_files import DebugImage
    from prospect.symbols.live_process import LiveProcess
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.objects import ObjectKey

_DAMAGED = "the recording's copy of it cannot be read"


class _Step(NamedTuple):
    """A file to find: an object's image, or the debug file of an image.

    Attributes:
        held_bytes: size of the biggest candidate, if it counts as memory of other users.
        number: unique, so that no two steps are equal.
        image: the image of the debug file, None if the image itself is to be found.
    """

    held_bytes: int
    number: int
    key: ObjectKey
    pids: Sequence[int]
    image: FoundImage | None


class RecordedImages:
    """Finds the images of a recording and remembers them."""

    def __init__(self, options: SymbolOptions) -> None:
        self._options = options
        self._found: dict[ObjectKey, FoundImage | Missing] = {}
        self._is_here = options.is_of_this_machine
        self._served = ServedMounts()
        self._debug: dict[FileIdentity, DebugImage | None] = {}
        self._costly_debug: set[FileIdentity] = set()
        self._copies: dict[int, FoundImage] = {}

    def find_all(
        self,
        objects: Iterable[tuple[ObjectKey, Sequence[int]]],
        needs_debug_file: Callable[[FoundImage], bool],
        share: float = 1.0,
    ) -> None:
        """Find the files of objects; of those of other users the smallest first.

        So a big file leaves enough memory for the small ones, whatever the order of the objects.

        Args:
            objects: each with processes that had it mapped.
            needs_debug_file: whether the debug file of an image is wanted too.
            share: part of the remaining memory that a single file of another user may take.
        """
        steps = sorted(
            _Step(self._weigh(key, pids), number, key, pids, None)
            for number, (key, pids) in enumerate(objects)
        )
        number = len(steps)
        while steps:
            step = steps.pop(0)
            is_costly = step.held_bytes > share * of_others.left_to_stay_bytes
            if step.image is not None:
                self._find_debug_file(step.key, step.image, step.held_bytes, is_costly=is_costly)
            elif is_costly:
                self._found[step.key] = Missing(NameSource.NO_BUDGET, OTHERS_TAKE_ALL)
            else:
                found = self.find(step.key, step.pids)
                if not isinstance(found, Missing) and needs_debug_file(found):
                    held_bytes = self._weigh_debug_file(step.key, found)
                    insort(steps, _Step(held_bytes, number, step.key, step.pids, found))
                    number += 1

    def _weigh(self, key: ObjectKey, pids: Sequence[int]) -> int:
        """Return the bytes that an object's image takes of other users' memory, 0 if found."""
        if key not in self._found:
            found, held_bytes = of_others.weigh(lambda: self._look(key, pids))
            if held_bytes:
                return held_bytes
            self._found[key] = found
        return 0

    def _weigh_debug_file(self, key: ObjectKey, image: FoundImage) -> int:
        """Return the same for its debug file."""
        identity = identity_of(image)
        if identity not in self._debug:
            found, held_bytes = of_others.weigh(lambda: self._debug_file_of(key, image))
            if held_bytes:
                return held_bytes
            self._debug[identity] = found
        return 0

    def let_go(self) -> None:
        """Forget the files of other users; `find` finds them again."""
        self._found = {
            key: found
            for key, found in self._found.items()
            if (
                found.reason != NameSource.NO_BUDGET
                if isinstance(found, Missing)
                else is_trusted(found.file.owner)
            )
        }
        self._debug = {
            identity: debug
            for identity, debug in self._debug.items()
            if debug and is_trusted(debug.file.speaks_for)
        }
        self._costly_debug.clear()
        self._copies.clear()

    def find(self, key: ObjectKey, pids: Sequence[int]) -> FoundImage | Missing:
        """Find the file that was mapped, or the reason why there is none."""
        if key not in self._found:
            self._found[key] = self._look(key, pids)
        return self._found[key]

    def _look(self, key: ObjectKey, pids: Sequence[int]) -> FoundImage | Missing:
        processes = live_processes(pids if self._is_here else (), self._options.recorded_until)
        found = self._find(key, list(processes), self._options.sysroot)
        return self._copy_of(key) or found if isinstance(found, Missing) else found

    def _copy_of(self, key: ObjectKey) -> FoundImage | Missing | None:
        """Return the recording's copy of the file, None if it has none."""
        file = key.major, key.minor, key.inode
        # A file that was rewritten has several; without build ids the last one counts. A file
        # system that is mounted later may have the device and inodes of an unmounted one.
        path = key.path.removesuffix(DELETED)
        images = reversed(list(enumerate(self._options.images)))
        for number, image in sorted(images, key=lambda one: one[1].path != path):
            is_same = (
                same_build_id(key.build_id, image.build_id)
                if key.build_id
                else image.file == file and not image.build_id
            )
            if not is_same:
                continue
            if number not in self._copies:
                held_bytes = sum(length for _, length in image.pieces)
                found = restored(image.path, number, image.size, _pieces(image), held_bytes)
                if isinstance(found, NameSource):
                    is_damaged = found == NameSource.NO_ELF
                    return Missing(found, _DAMAGED if is_damaged else OTHERS_TAKE_ALL)
                own_file = found.file._replace(modified_ns=image.modified_ns)
                self._copies[number] = found._replace(file=own_file)
            return self._copies[number]
        return None

    def is_other(self, key: ObjectKey, *, is_only: bool) -> bool:
        """Return whether a path's inode and build id in a recording are of different files.

        They are if the path is another file in a container, or if the file was replaced during the
        recording: perf reads the build ids of its table from the paths at the end.

        Args:
            key: an inode from a mapping, and the build id that the recording has for its path.
            is_only: whether all mappings of the path have this inode. If so, and if the present
                file is newer than the recording, the build id is that of the mapped file.
        """
        if not self._is_here:
            return False
        # Not remembered: through a process that has the file mapped it may be found elsewhere.
        found = self._find(key._replace(build_id=b""))
        if isinstance(found, Missing):
            is_replaced = found.reason == NameSource.NO_MATCH
            return is_replaced and not (is_only and self._is_later_copy(key))
        return not same_build_id(key.build_id, found.image.build_id)

    def _is_later_copy(self, key: ObjectKey) -> bool:
        """Return whether the file at a path has the build id but is newer than the recording."""
        found = self._find(key)
        if isinstance(found, Missing):
            return False
        until = self._options.recorded_until
        return not until or found.file.changed_ns > until * 1e9

    def _find(
        self, key: ObjectKey, alive: Sequence[LiveProcess] = (), sysroot: bytes = b""
    ) -> FoundImage | Missing:
        options = self._options
        return find_image(
            *(key, alive, options.recorded_until, self._served, options.named_by),
            target=options.target,
            sysroot=sysroot,
            debug_dir=options.debug_dir,
        )

    def debug_file(self, key: ObjectKey, found: FoundImage) -> DebugImage | None:
        """Find the separate debug file of an image, None if there is none."""
        identity = identity_of(found)
        if identity not in self._debug:
            # Weighed, to tell a missing file from one that is too costly.
            self._find_debug_file(key, found, self._weigh_debug_file(key, found))
        return self._debug[identity]

    def is_debug_file_costly(self, found: FoundImage) -> bool:
        """Return whether other users' files left no memory for the debug file of an image."""
        return identity_of(found) in self._costly_debug

    def _find_debug_file(
        self, key: ObjectKey, image: FoundImage, held_bytes: int, *, is_costly: bool = False
    ) -> None:
        """Find a weighed debug file, and remember it."""
        identity = identity_of(image)
        if identity in self._debug:
            return
        self._debug[identity] = found = None if is_costly else self._debug_file_of(key, image)
        if found is None and held_bytes > (0 if is_costly else of_others.left_bytes):
            self._costly_debug.add(identity)

    def _debug_file_of(self, key: ObjectKey, image: FoundImage) -> DebugImage | None:
        directory = key.path.rpartition(b"/")[0]
        return find_debug_image(image, directory, self._options.debug_dir)

    def forget(self, key: ObjectKey) -> FoundImage | None:
        """Forget an object's files, as some were fetched; return the image that it had."""
        found = self._found.pop(key, None)
        if found is None or isinstance(found, Missing):
            return None
        self._debug.pop(identity_of(found), None)
        return found


def _pieces(image: KeptImage) -> Iterator[tuple[int, bytes | memoryview]]:
    """Yield the pieces of a file, each with its offset; raise ValueError if they are damaged."""
    content = memoryview(image.content())
    at = 0
    for offset, length in image.pieces:
        yield offset, content[at : at + length]
        at += length


def identity_of(found: FoundImage | DebugImage) -> FileIdentity:
    """Return the identity of the file that an image was read from."""
    file = found.file
    return FileIdentity(file.device, file.inode, file.modified_ns, file.owner)


def key_of(found: FoundImage, debug: DebugImage | None) -> str | None:
    """Return the `cache_key` of an image and its debug file."""
    return cache_key(*((identity_of(one), one.image) for one in (found, debug) if one))


# mmap(2); Python 3.11 has no name for it.
_MAP_NORESERVE = 0x4000
_NO_DEVICE = -1
_FAILURES = (OSError, ValueError, IndexError, OverflowError, ElfError)


def restored(
    path: bytes,
    number: int,
    size: int,
    pieces: Iterable[tuple[int, bytes | memoryview]],
    held_bytes: int | None = None,
) -> FoundImage | NameSource:
    """Return the file of pieces in an archive or recording, with holes between them.

    It may come from anyone, so it grants no user's rights. NO_ELF or NO_BUDGET if it cannot be
    read.

    Args:
        number: of this file among all of the archive or recording.
        pieces: each with its offset in the file.
        held_bytes: memory to count as that of other users' files; None to count nothing.
    """
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        area = mmap.mmap(-1, size, flags=flags)
        if held_bytes is not None and not of_others.hold(area, held_bytes):
            return NameSource.NO_BUDGET
        for offset, piece in pieces:
            area[offset : offset + len(piece)] = piece
        data = memoryview(area).toreadonly()
        file = OpenFile(path, data, _NO_DEVICE, number, 0, EVERYBODY, EVERYBODY, 0)
        return FoundImage(file, ElfImage.parse(data))
    except _FAILURES:
        return NameSource.NO_ELF
