"""Find the file that was mapped, and its separate debug file.

A path proves nothing: the file may have been replaced since, or be another file in a container. So
the search returns an image that is known to be the recorded one, or the reason why there is none.
Places of debug files are defined by the GDB manual, "Debugging Information in Separate Files", and
perf-buildid-cache(1). The file that several debug files share (.gnu_debugaltlink, made by dwz(1))
is not searched: it has DWARF, but no symbols.

The kernel maps the vdso and the vsyscall page into every process without a file. The vdso is an ELF
image. All processes of a class have the same under one kernel, so it is read from this process, and
that of 32-bit programs from one of them. The vsyscall page is kernel code at a fixed address, with
one name (``arch/x86/entry/vsyscall/vsyscall_emu_64.S``, Linux 6.12).
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf.image import ElfImage
from prospect.errors import ElfError
from prospect.files.budget import VARIABLE
from prospect.files.rights import EVERYBODY, ROOT_USER, is_trusted, weakest
from prospect.files.system_files import ServedMounts, read_system_file
from prospect.files.untrusted_open import (
    OWN_ROOT,
    OpenFile,
    open_file,
    open_link,
    open_named,
    open_received,
)
from prospect.light import Descriptor
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple
from prospect.symbols.images.debug_files import (
    DEBUG_INFO,
    EXECUTABLE,
    downloaded_paths,
    target_paths,
)
from prospect.symbols.live_process import mapped_file_links
from prospect.symbols.objects import DELETED, Missing
from prospect.symbols.symbols_limits import LARGEST_VDSO_BYTES
from prospect.symbols.table import SymbolTable, build_symbol_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prospect.elf.image import DebugLink
    from prospect.symbols.live_process import LiveProcess
    from prospect.symbols.objects import ObjectKey


# kernel/events/core.c:perf_event_mmap_event()
_TOO_LONG = b"//toolong"
DEBUG_ROOT = b"/usr/lib/debug"
# PERF_RECORD_MMAP2 has room for 20 bytes of build id; perf pads shorter ones with zeros.
_RECORDED_BUILD_ID_BYTES = 20
OTHERS_TAKE_ALL = (
    f"files of other users take all the memory that they may; {VARIABLE}=4G allows more"
)
_SERVED = (
    "the file is on a FUSE file system of another user, whose program could block"
    " the reader; report as that user"
)
_OF_A_STRANGER = (
    "the file cannot be read by the owner of the recording, whose rights are used to look for it"
)
_SENTENCES = {
    NameSource.NO_PERMISSION: "the file cannot be read by this user",
    NameSource.NO_ANSWER: "its file system did not answer in time",
    NameSource.NO_BUDGET: OTHERS_TAKE_ALL,
    NameSource.NO_ELF: "it is not an ELF file that can be read",
}
# Failures, the most helpful first.
_TELLING_ORDER = (
    NameSource.NO_MATCH,
    NameSource.NO_ANSWER,
    NameSource.NO_BUDGET,
    NameSource.NO_PERMISSION,
    NameSource.NO_ELF,
    NameSource.NO_FILE,
)


class FoundImage(NamedTuple):
    """A file and its headers."""

    file: OpenFile
    image: ElfImage


class DebugImage(NamedTuple):
    """A separate debug file; `source` is the origin of its names in reports."""

    file: OpenFile
    image: ElfImage
    source: NameSource


def find_image(  # noqa: PLR0913 - a keyword for each
    key: ObjectKey,
    processes: Sequence[LiveProcess],
    recorded_until: float,
    served: ServedMounts | None = None,
    named_by: int = ROOT_USER,
    *,
    target: str = "",
    sysroot: bytes = b"",
    debug_dir: bytes = b"",
) -> FoundImage | Missing:
    """Find the file that was mapped.

    Args:
        processes: processes that had it mapped and still run.
        recorded_until: seconds since the epoch, 0 for unknown; a file changed later is another.
        served: the mount tables known so far; file systems that other users serve are not touched.
        named_by: the user who vouches for the path: the owner of the recording.
        target: of the recording, "" for none; the files that it sent are searched.
        sysroot: directory to search first, b"" for none.
        debug_dir: see `SymbolOptions`.

    Returns:
        The first candidate that is the recorded file by build id, else by inode. If the recording
        has no build id, the file below `sysroot` counts as the recorded one.
    """
    failures: set[NameSource] = set()
    is_other_below = False
    places = _Places(key, processes, served or ServedMounts(), named_by, target, sysroot, debug_dir)
    for candidate in _candidates(places):
        found = candidate if isinstance(candidate, NameSource) else _parse(candidate)
        if isinstance(found, FoundImage):
            is_below = bool(sysroot) and found.file.root == sysroot
            if (is_below and not key.build_id) or _is_recorded(found, key, recorded_until):
                return found
            is_other_below |= is_below
            found = NameSource.NO_MATCH
        failures.add(found)
    if is_other_below:
        shown = sysroot.decode("utf-8", "surrogateescape")
        note = f"the file below {shown} has another build id than the recorded one"
        return Missing(NameSource.NO_MATCH, note, sysroot)
    reason = next((reason for reason in _TELLING_ORDER if reason in failures), NameSource.NO_FILE)
    note = ""
    if reason == NameSource.NO_PERMISSION:
        note = _SERVED if places.are_served else "" if is_trusted(named_by) else _OF_A_STRANGER
    return Missing(reason, note or _sentence(reason, key))


def find_debug_image(
    found: FoundImage, directory: bytes, debug_dir: bytes = b""
) -> DebugImage | None:
    """Find the separate debug file of an image on this machine.

    Args:
        directory: the image's directory in its own root, for .gnu_debuglink.
        debug_dir: see `SymbolOptions`.

    Returns:
        A debug file with the image's build id, or with the checksum in the image's link. Files of
        servers come last.
    """
    build_id, link = found.image.build_id, found.image.debug_link
    if build_id:
        for debug in debug_files(build_id, debug_dir, found.file):
            if debug.image.build_id == build_id:
                return _debug_image(debug, found, NameSource.DEBUG_FILE)
    if link:
        for debug in _linked_files(link, directory, found.file, debug_dir):
            if _is_linked(debug, link, found):
                return _debug_image(debug, found, NameSource.DEBUG_FILE)
    if build_id:
        for debug in downloaded_debug_files(build_id):
            if debug.image.build_id == build_id:
                return _debug_image(debug, found, NameSource.DEBUG_SERVER)
    return None


def _debug_image(debug: FoundImage, found: FoundImage, source: NameSource) -> DebugImage:
    # The image chose which debug file is read, by its build id or its link.
    speaks_for = weakest(debug.file.speaks_for, found.file.speaks_for)
    return DebugImage(debug.file._replace(speaks_for=speaks_for), debug.image, source)


def open_image(path: bytes) -> FoundImage | None:
    """Open an ELF file that a person names, or Prospect itself; None for any other file."""
    return next(_parsed([open_file(path)]), None)


def received_images(paths: Iterable[bytes]) -> Iterator[FoundImage]:
    """Open the ELF files among kept copies of files from elsewhere."""
    return _parsed(map(open_received, paths))


def _parsed(files: Iterable[OpenFile | NameSource]) -> Iterator[FoundImage]:
    """Yield the ELF files among files."""
    for file in files:
        found = file if isinstance(file, NameSource) else _parse(file)
        if isinstance(found, FoundImage):
            yield found


def _open_there(path: bytes, file: OpenFile) -> OpenFile | NameSource:
    """Open a file that an image names, in the root of the image."""
    is_received = file.owner == EVERYBODY
    return open_named(path, file.speaks_for, root=file.root, is_received=is_received)


def _build_id_path(root: bytes, build_id: bytes, suffix: bytes = b".debug") -> bytes:
    digits = build_id.hex().encode()
    return root + b"/.build-id/%b/%b%b" % (digits[:2], digits[2:], suffix)


def debug_files(
    build_id: bytes, debug_dir: bytes = b"", image_file: OpenFile | None = None
) -> Iterator[FoundImage]:
    """Open the debug files at the places of a build id; the caller checks that they have it.

    The place in `debug_dir` comes first, then that in the image's root if this is not ours, then
    that of packages, and last perf's copy.
    """
    path = _build_id_path(DEBUG_ROOT, build_id)
    if debug_dir:
        yield from _parsed([open_file(_build_id_path(debug_dir, build_id))])
    if image_file and image_file.root != OWN_ROOT:
        yield from _parsed([_open_there(path, image_file)])
    yield from _parsed([open_file(path)])
    yield from received_images(cached_copies(build_id, b"debug"))


def downloaded_debug_files(build_id: bytes) -> Iterator[FoundImage]:
    """Open the files that debug-file servers sent as the debug file of a build id."""
    return received_images(downloaded_paths(build_id, DEBUG_INFO))


def cached_copies(build_id: bytes, name: bytes) -> Iterator[bytes]:
    """Yield the path of perf's copy of an object, whose file has the given name there."""
    home = os.path.expanduser(b"~")  # noqa: PTH111 - paths are bytes here
    if home.startswith(b"/"):
        yield _build_id_path(home + b"/.debug", build_id, b"/" + name)


def image_costs(image: ElfImage) -> tuple[int, int]:
    """Estimate the memory for an image's symbols, in bytes: while they are read, and after that."""

    def size(*names: bytes) -> int:
        return sum(len(image.section_data(image.find_section(name))) for name in names)

    # A function has 8 bytes in Go's table, a third of a symbol.
    of_go = 3 * size(b".gopclntab", b".data.rel.ro.gopclntab")
    tables = max(size(b".symtab", b".strtab"), size(b".dynsym", b".dynstr") + of_go)
    return 8 * tables + 4 * size(b".eh_frame", b".sframe"), 3 * tables


def same_build_id(recorded: bytes, actual: bytes | None) -> bool:
    """Compare a recorded build id, perhaps cut or padded to 20 bytes, with that of an image."""
    size = _RECORDED_BUILD_ID_BYTES
    return recorded[:size].rstrip(b"\0") == (actual or b"")[:size].rstrip(b"\0")


def whole_build_id(recorded: bytes) -> bytes:
    """Return a recorded build id without the zeros that pad one of 8 or 16 bytes."""
    for size in (0, 8, 16):
        if len(recorded) == _RECORDED_BUILD_ID_BYTES and not any(recorded[size:]):
            return recorded[:size]
    return recorded


class _Places(NamedTuple):
    """The places where a file is searched; the fields are arguments of `find_image`."""

    key: ObjectKey
    processes: Sequence[LiveProcess]
    served: ServedMounts
    named_by: int
    target: str
    sysroot: bytes
    debug_dir: bytes

    @property
    def path(self) -> bytes:
        """The path without the kernel's mark of a deleted file."""
        return self.key.path.removesuffix(DELETED)

    @property
    def are_served(self) -> bool:
        """Whether any of the places is on a file system that another user's program serves."""
        return self.served.hold(self.path) or len(self.askable) < len(self.processes)

    @property
    def askable(self) -> list[LiveProcess]:
        """The processes in whose mounts no other user's program can block opening the file."""
        return [
            one
            for one in self.processes
            if not self.served.hold(self.path, one.pid if one.has_other_root else None)
        ]


def _candidates(places: _Places) -> Iterator[OpenFile | NameSource]:
    """Open the files that may be the recorded one, likeliest first."""
    key, path = places.key, places.path
    if not path.startswith(b"/"):
        return
    if places.sysroot and not places.served.hold(places.sysroot + path):
        yield open_named(path, places.named_by, root=places.sysroot, is_received=True)
    if places.are_served:
        yield NameSource.NO_PERMISSION
    processes, is_served = places.askable, places.served.hold(path)
    # A deleted file still exists in the process that has it mapped.
    if path != key.path:
        if not is_served:
            # A file may have such a name: build id or inode decide.
            yield open_named(key.path, places.named_by)
        yield from _still_mapped(places)
    for process in processes:
        if process.has_other_root:
            there = open_named(path, places.named_by, root=process.root)
            yield there if is_served else _as_here(there, places)
    if not is_served:
        yield open_named(path, places.named_by)
    if path == key.path:
        yield from _still_mapped(places)
    yield from _kept_files(places)


def _kept_files(places: _Places) -> Iterator[OpenFile | NameSource]:
    """Open the copies that are kept by build id."""
    build_id = whole_build_id(places.key.build_id)
    if not build_id:
        return
    if places.debug_dir:
        yield open_file(_build_id_path(places.debug_dir, build_id, b""))
    for paths in (
        target_paths(places.target, build_id, EXECUTABLE),
        cached_copies(build_id, b"elf"),
        downloaded_paths(build_id, EXECUTABLE),
    ):
        yield from map(open_received, paths)


def _as_here(there: OpenFile | NameSource, places: _Places) -> OpenFile | NameSource:
    """Return a file of another root as opened in our own root, if it is the same file there."""
    if isinstance(there, NameSource):
        return there
    here = open_named(places.path, places.named_by)
    if isinstance(here, NameSource) or (here.device, here.inode) != (there.device, there.inode):
        return there
    return here


def _still_mapped(places: _Places) -> Iterator[OpenFile | NameSource]:
    # Such a link opens without the right to read the file: a program may be executable only.
    for process in places.askable if is_trusted(places.named_by) else ():
        for link in mapped_file_links(process, places.key.path):
            yield open_link(link)


def _parse(file: OpenFile) -> FoundImage | NameSource:
    try:
        return FoundImage(file, ElfImage.parse(file.data))
    except ElfError:
        return NameSource.NO_ELF


def _is_recorded(found: FoundImage, key: ObjectKey, recorded_until: float) -> bool:
    if key.build_id:
        return same_build_id(key.build_id, found.image.build_id)
    # Devices are not compared: overlayfs and btrfs report another one in stat(2) than in maps.
    if key.inode and key.inode != found.file.inode:
        return False
    # File systems reuse the inodes of removed files.
    return not recorded_until or found.file.modified_ns <= recorded_until * 1e9


def _linked_files(
    link: DebugLink, directory: bytes, file: OpenFile, debug_dir: bytes
) -> Iterator[FoundImage]:
    """Open the file that an image's debug link names: next to the image, in its root, and here.

    In a directory of debug files that a person chose, the file may also be at the top.
    """
    next_to = directory + b"/" + link.name
    for path in (next_to, b"/" + link.name) if debug_dir else ():
        chosen = open_named(path, file.speaks_for, root=debug_dir, is_received=True)
        yield from _parsed([chosen])
    paths = next_to, directory + b"/.debug/" + link.name, DEBUG_ROOT + next_to
    if file.root != OWN_ROOT:
        yield from _parsed(_open_there(path, file) for path in paths)
    yield from _parsed(open_named(path, file.speaks_for) for path in paths)


def _is_linked(debug: FoundImage, link: DebugLink, found: FoundImage) -> bool:
    if debug.file.inode == found.file.inode and debug.file.device == found.file.device:
        return False
    if debug.image.build_id and found.image.build_id:
        return debug.image.build_id == found.image.build_id
    return zlib.crc32(debug.file.data) == link.crc32


def _sentence(reason: NameSource, key: ObjectKey) -> str:
    if reason == NameSource.NO_MATCH:
        known_by = "build id" if key.build_id else "inode or time of change"
        return f"the file there now is not the recorded one, by its {known_by}"
    if key.path == _TOO_LONG:
        return "its path is longer than the 4096 bytes that the kernel reports"
    return _SENTENCES.get(reason, "the file is gone, and no process that still runs has it mapped")


_VSYSCALL_START = 0xFFFFFFFFFF600000
_PAGE_BYTES = 4096


def read_own_vdso() -> ElfImage | None:
    """Read the vdso of this process; None if it has none."""
    return _read_vdso("self")


def read_compat_vdso(processes: Iterable[LiveProcess]) -> ElfImage | None:
    """Read the vdso of 32-bit programs from one that still runs; None if none does."""
    for process in processes:
        image = _read_vdso(str(process.pid))
        if image is not None and not image.is_64:
            return image
    return None


def _read_vdso(who: str) -> ElfImage | None:
    for line in read_system_file(f"/proc/{who}/maps").splitlines():
        if not line.endswith(b" [vdso]"):
            continue
        start, end = (int(bound, 16) for bound in line.split(None, 1)[0].split(b"-"))
        if end - start > LARGEST_VDSO_BYTES:
            return None
        try:
            with Descriptor(os.open(f"/proc/{who}/mem", os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
                return ElfImage.parse(os.pread(descriptor, end - start, start))
        except (OSError, ElfError):
            return None
    return None


def vsyscall_table() -> SymbolTable:
    """Return the one symbol of the vsyscall page, by its address and by its offset in the page."""
    start = np.array([0, _VSYSCALL_START], np.uint64)
    end = start + np.uint64(_PAGE_BYTES)
    return build_symbol_table(
        strings=b"__vsyscall_page\0",
        start=start,
        end=end,
        limit=end,
        name_start=np.zeros(2, np.int64),
        is_global=np.ones(2, np.bool_),
        source=np.full(2, NameSource.VDSO, np.uint8),
    )
