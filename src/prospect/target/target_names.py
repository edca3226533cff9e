"""Fetches symbol tables and call-frame information of a target's programs by build id.

This marks a new recording as the target's, and fetches files into the target's own part of
Prospect's cache, where later reports on its recordings find them by build id. Only the sections for
names and call stacks arrive; the rest of each file is a hole. A file from a target must have the
requested build id, replaces nothing, and grants no user's rights.

During a session, files are fetched when they first have a hit (`LiveNames`). Mappings have no build
ids then (see `capture.machine.mapped_files`): a request has the file's path, process and inode.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.abi.recorded_facts import BuildId
from prospect.analysis.profile_request import Callbacks, ProfileRequest
from prospect.analysis.reading import read_profile
from prospect.elf.image import ElfImage
from prospect.errors import ElfError, ProspectError, RecordingError
from prospect.files.untrusted_open import OpenFile, open_file
from prospect.perfdata import format as fmt
from prospect.perfdata.archive_section import section_patches
from prospect.perfdata.feature_encoding import build_id_record
from prospect.perfdata.file_header import is_pipe_form, read_byte_order, read_file_header
from prospect.profile.model import KIND_ELF
from prospect.profile.naming import NameSource
from prospect.symbols.cache_directory import new_file, part_name, put_in_place
from prospect.symbols.images.debug_files import (
    DOWNLOAD_SUFFIXES,
    EXECUTABLE,
    KERNEL_LISTING,
    kept_for,
    kept_name,
)
from prospect.symbols.images.image_files import same_build_id
from prospect.symbols.symbols_limits import LARGEST_DOWNLOAD_BYTES
from prospect.target.target_limits import MOST_FILES, MOST_LIVE_FILES, MOST_ROUNDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from prospect.events.record_columns import Mmaps
    from prospect.profile.model import Profile
    from prospect.symbols.cache_directory import CacheDirectory

    Fetch = Callable[[str, int], bool]
    FetchFile = Callable[[Mapping[str, object], int], bool]
    File = tuple[int, int, int]

_LISTING = "/proc/kallsyms"
NOT_HERE = frozenset({NameSource.NO_FILE, NameSource.NO_MATCH, NameSource.NO_PERMISSION})


def mark_target(descriptor: int, target: str) -> bool:
    """Write the target, ``USER@HOST``, into a complete recording, open for reading and writing.

    Return False if the recording is damaged.
    """
    again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
    try:
        file = memoryview(mmap.mmap(again, 0, prot=mmap.PROT_READ))
        patches = _marking(file, os.fsencode(target))
        # The header is last: a full disk leaves the recording as it was.
        return all(
            os.pwrite(again, piece, place) == len(piece) for place, piece in reversed(patches)
        )
    except (OSError, ValueError, RecordingError):
        return False
    finally:
        os.close(again)


def _marking(file: memoryview, target: bytes) -> list[tuple[int, bytes]]:
    """Return (place, bytes) to write to mark a recording."""
    if is_pipe_form(bytes(file[: fmt.PIPE_HEADER_BYTES]), read_byte_order(bytes(file[:8]))):
        mark = BuildId(fmt.TARGET_MARK + target, b"", cpumode=abi.PERF_RECORD_MISC_KERNEL)
        return [(len(file), build_id_record(mark, fmt.PERF_RECORD_HEADER_BUILD_ID))]
    header = read_file_header(file, "<")
    table = header.data.offset + header.data.size
    is_whole = header.features and fmt.FILE_HEADER_BYTES <= table <= len(file)
    if not is_whole or header.has(fmt.HEADER_PROSPECT_TARGET):
        raise RecordingError("it cannot be marked")
    return section_patches(file, header, fmt.HEADER_PROSPECT_TARGET, target)


def fetch_names(descriptor: int, target: str, fetch: Fetch) -> None:
    """Mark a recording as a target's, and fetch the files with names of its addresses.

    Args:
        descriptor: the recording, complete.
        fetch: writes a file of the target to a descriptor; returns False if there is none.
    """
    kept = kept_for(target)
    if not mark_target(descriptor, target) or kept is None:
        return
    asked: set[str] = set()
    for _ in range(MOST_ROUNDS):
        try:
            profile = read_profile(
                f"/proc/self/fd/{descriptor}",
                wanted=ProfileRequest(stacks=True, hints=False, path=False),
                sinks=Callbacks(on_unread=lambda _: None),
            )
        except ProspectError:
            return  # the report says why
        wanted = [one for one in missing(profile) if one[1] not in asked][:MOST_FILES]
        if not wanted:
            return
        for path, build_id, is_kernel in wanted:
            asked.add(build_id)
            keep(kept, path, bytes.fromhex(build_id), fetch, is_kernel=is_kernel)
    kept.evict(DOWNLOAD_SUFFIXES, LARGEST_DOWNLOAD_BYTES)


def missing(profile: Profile) -> list[tuple[str, str, bool]]:
    """Return (path, build id, whether it is the kernel) of objects that are not here."""
    objects = profile.objects
    rows = zip(objects.path, objects.build_id, objects.kind, objects.source, strict=True)
    found = [
        (path, build_id, False)
        for path, build_id, kind, source in rows
        if kind == KIND_ELF and build_id and source in NOT_HERE
    ]
    if profile.run.kernel_build_id and NameSource.NO_KERNEL_SYMBOLS in objects.source.tolist():
        found.append((_LISTING, profile.run.kernel_build_id, True))
    return found


def keep(
    kept: CacheDirectory, path: str, build_id: bytes, fetch: Fetch, *, is_kernel: bool
) -> None:
    """Put a file into the target's part of the cache, if it has the build id and is new."""
    name = kept_name(build_id, KERNEL_LISTING if is_kernel else EXECUTABLE)
    try:
        kept.make()
        with kept.opened() as directory, new_file(directory, name, may_replace=False) as descriptor:
            if not fetch(path, descriptor):
                raise FileNotFoundError(path)
            if not is_kernel and not same_build_id(build_id, build_id_in(descriptor)):
                raise FileNotFoundError(path)
    except OSError:
        return


def build_id_in(descriptor: int) -> bytes:
    """Return the build id of a file from a target; empty if it has none, or is no ELF file."""
    file = open_file(b"/proc/self/fd/%d" % descriptor)
    try:
        return (ElfImage.parse(file.data).build_id or b"") if isinstance(file, OpenFile) else b""
    except ElfError:
        return b""


_EVER = (1 << 62) - 1


class LiveNames:
    """Fetches names for one session.

    Attributes:
        read: the build ids of mapped files, as ``mapped_files`` of docs/recording.md.
    """

    def __init__(self, fetch: FetchFile, target: str) -> None:
        """Begin.

        Args:
            fetch: writes a file of the target to a descriptor; returns False if there is none.
            target: the files are for its recordings only.
        """
        self._fetch = fetch
        self._kept = kept_for(target)
        self._asked: set[str | File] = set()
        self.read: dict[str, list[Any]] = {
            name: [] for name in ("major", "minor", "inode", "since_ns", "until_ns", "build_id")
        }

    def fetch(self, profile: Profile, mmaps: Mmaps, names: Sequence[bytes]) -> bool:
        """Fetch files without names in a part, each once; return whether there were any."""
        if self._kept is None:
            return False
        asked = len(self._asked)
        for path, build_id, is_kernel in missing(profile):
            if build_id not in self._asked and len(self._asked) < asked + MOST_LIVE_FILES:
                self._asked.add(build_id)
                id_ = bytes.fromhex(build_id)
                keep(self._kept, path, id_, self._fetch_path, is_kernel=is_kernel)
        paths = _unknown(profile)
        if paths:
            for file, path, pid in _mapped(paths, mmaps, names):
                if file not in self._asked and len(self._asked) < asked + MOST_LIVE_FILES:
                    self._asked.add(file)
                    self._keep_mapped(self._kept, file, path, pid)
        if len(self._asked) == asked:
            return False
        self._kept.evict(DOWNLOAD_SUFFIXES, LARGEST_DOWNLOAD_BYTES)
        return True

    def _fetch_path(self, path: str, descriptor: int) -> bool:
        return self._fetch({"file": path}, descriptor)

    def _keep_mapped(self, kept: CacheDirectory, file: File, path: str, pid: int) -> None:
        """Put the file of a mapping into the cache, and note its build id."""
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
    """Return the paths of objects without names and without a known build id."""
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
    """Return (file, path, pid) of the files that are mapped at these paths."""
    wanted = [row for row, name in enumerate(names) if name in paths]
    rows = np.flatnonzero(np.isin(mmaps.name, wanted))
    columns = (mmaps.major, mmaps.minor, mmaps.inode, mmaps.name, mmaps.pid)
    found: dict[File, tuple[str, int]] = {}
    for major, minor, inode, name, pid in zip(
        *(column[rows].tolist() for column in columns), strict=True
    ):
        if inode:  # the last process is the likeliest to exist still
            found[major, minor, inode] = (os.fsdecode(names[name]), pid)
    return {(file, path, pid): None for file, (path, pid) in found.items()}
