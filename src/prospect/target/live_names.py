"""Names of what a target runs while a session goes on: files are fetched as they are first hit.

Comes in: the profile of a part, and its mappings. Goes out: files in Prospect's cache under their
build ids, in the target's own directory of it, and which mapped file has which. The kernel there is
not asked for build ids with mappings (see `capture.machine.mapped_files`): a file is asked for by
path, process and number.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import KIND_ELF
from prospect.symbols.cache_directory import new_file, part_name, put_in_place
from prospect.symbols.images.debug_files import (
    DOWNLOAD_SUFFIXES,
    EXECUTABLE,
    MOST_BYTES,
    kept_for,
    kept_name,
)
from prospect.target.names import NOT_HERE, build_id_in, keep, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from prospect.events.columns import Mmaps
    from prospect.profile.model import Profile
    from prospect.symbols.cache_directory import CacheDirectory

    FetchFile = Callable[[Mapping[str, object], int], bool]
    File = tuple[int, int, int]

# Of one look, which waits for them.
_MOST_FILES = 64
_EVER = (1 << 62) - 1


class LiveNames:
    """Fetches names for one session.

    Attributes:
        read: which mapped file has which build id, as ``mapped_files`` of docs/recording.md.
    """

    def __init__(self, fetch: FetchFile, target: str) -> None:
        """Begin.

        Args:
            fetch: writes a file of the target to a descriptor, False where there is none.
            target: the files serve its recordings only.
        """
        self._fetch = fetch
        self._kept = kept_for(target)
        self._asked: set[str | File] = set()
        self.read: dict[str, list[Any]] = {
            name: [] for name in ("major", "minor", "inode", "since_ns", "until_ns", "build_id")
        }

    def fetch(self, profile: Profile, mmaps: Mmaps, names: Sequence[bytes]) -> bool:
        """Fetch what a part lacks names of and was not asked for yet; return whether any was.

        Args:
            profile: of the part.
            mmaps: its mappings.
            names: that these refer to.
        """
        if self._kept is None:
            return False
        asked = len(self._asked)
        for path, build_id, is_kernel in missing(profile):
            if build_id not in self._asked and len(self._asked) < asked + _MOST_FILES:
                self._asked.add(build_id)
                id_ = bytes.fromhex(build_id)
                keep(self._kept, path, id_, self._fetch_path, is_kernel=is_kernel)
        paths = _unknown(profile)
        if paths:
            for file, path, pid in _mapped(paths, mmaps, names):
                if file not in self._asked and len(self._asked) < asked + _MOST_FILES:
                    self._asked.add(file)
                    self._keep_mapped(self._kept, file, path, pid)
        if len(self._asked) == asked:
            return False
        self._kept.evict(DOWNLOAD_SUFFIXES, MOST_BYTES)
        return True

    def _fetch_path(self, path: str, descriptor: int) -> bool:
        return self._fetch({"file": path}, descriptor)

    def _keep_mapped(self, kept: CacheDirectory, file: File, path: str, pid: int) -> None:
        """Put the file of a mapping into the cache, and note which build id it has."""
        wanted: dict[str, object] = {"file": path, "inode": file[2]}
        if pid > 0:
            wanted["pid"] = pid
        arriving = part_name()
        with suppress(OSError):
            kept.make()
            with kept.opened() as directory:
                with new_file(directory, arriving) as descriptor:
                    if not self._fetch(wanted, descriptor):
                        raise FileNotFoundError(path)
                    build_id = build_id_in(descriptor)
                    if not build_id:
                        raise FileNotFoundError(path)
                with suppress(FileExistsError):
                    name = kept_name(build_id, EXECUTABLE)
                    put_in_place(directory, arriving, name, may_replace=False)
            row = (*file, 0, _EVER, build_id.hex())
            for column, value in zip(self.read.values(), row, strict=True):
                column.append(value)


def _unknown(profile: Profile) -> set[bytes]:
    """Return the paths of objects without names of which no build id is known."""
    objects = profile.objects
    rows = zip(objects.path, objects.build_id, objects.kind, objects.source, strict=True)
    return {
        os.fsencode(path)
        for path, build_id, kind, source in rows
        if kind == KIND_ELF and not build_id and source in NOT_HERE and path.startswith("/")
    }


def _mapped(
    paths: set[bytes], mmaps: Mmaps, names: Sequence[bytes]
) -> dict[tuple[File, str, int], None]:
    """Return which files are mapped under these paths, with a process for each."""
    wanted = [row for row, name in enumerate(names) if name in paths]
    rows = np.flatnonzero(np.isin(mmaps.name, wanted))
    columns = (mmaps.major, mmaps.minor, mmaps.inode, mmaps.name, mmaps.pid)
    found: dict[File, tuple[str, int]] = {}
    for major, minor, inode, name, pid in zip(
        *(column[rows].tolist() for column in columns), strict=True
    ):
        if inode:  # the last process is likeliest to be there still
            found[major, minor, inode] = (os.fsdecode(names[name]), pid)
    return {(file, path, pid): None for file, (path, pid) in found.items()}
