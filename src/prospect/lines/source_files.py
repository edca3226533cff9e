"""The compiler's paths of source files → the files here, and lines of their text.

The paths come from untrusted debug information; a person may give directories of sources. Only
regular files of a plausible size are opened. The caller reports if a file changed after its image
was built.
"""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING

from prospect.files.rights import EVERYBODY, is_trusted
from prospect.files.untrusted_open import OpenFile, open_named
from prospect.lines.lines_limits import LARGEST_SOURCE_BYTES
from prospect.profile.optional_tables import SourceFile
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet


_EVERYONE_READS = 0o004
_LONGEST_LINE = 400


class SourcePlaces(Record):
    """Where to look for sources.

    Attributes:
        search_dirs: directories to look below, in this order, before the compiler's path.
        base_dirs: prefixes to remove from the compiler's paths for `search_dirs`; the longest one
            that matches counts.
        as_recorded: whether to look at the compiler's path too.
    """

    search_dirs: tuple[str, ...] = ()
    base_dirs: tuple[str, ...] = ()
    as_recorded: bool = True


def find_source(
    path: str, places: SourcePlaces, named_by: AbstractSet[int] = frozenset()
) -> SourceFile | None:
    """Find and read a source file; None if there is none.

    Args:
        path: the compiler's.
        places: where to look; files below their directories are read with our rights.
        named_by: the users who named the path; see `open_source`.
    """
    for candidate, chosen in _candidates(path, places):
        file = open_source(chosen or candidate, {os.geteuid()} if chosen else named_by)
        if file:
            text = bytes(file.data).decode("utf-8", "surrogateescape")
            lines = text.removesuffix("\n").split("\n") if text else []
            return SourceFile(
                path=candidate,
                lines=[line.removesuffix("\r") for line in lines],
                modified_ns=file.modified_ns,
                device=file.device,
                inode=file.inode,
                is_public=_is_public(file),
            )
    return None


def _candidates(path: str, places: SourcePlaces) -> Iterator[tuple[str, str]]:
    """Yield paths, and their places in a directory that a person has chosen, "" for none."""
    below = path.lstrip("/")
    bases = (posixpath.normpath(base).rstrip("/") for base in places.base_dirs)
    matching = [base for base in bases if f"{path}/".startswith(f"{base}/")]
    if matching:
        below = path[len(max(matching, key=len)) :].lstrip("/")
    # The compiler's path must not lead out of a directory.
    if below and ".." not in below.split("/"):
        for directory in places.search_dirs:
            yield (
                posixpath.join(directory, below),
                posixpath.join(os.path.realpath(directory), below),
            )
    if path.startswith("/") and places.as_recorded:
        yield path, ""


def _is_public(file: OpenFile) -> bool:
    """Return whether everybody may read a file, which nobody has replaced meanwhile."""
    try:
        status = os.stat(file.path)  # noqa: PTH116 - bytes
    except OSError:
        return False
    is_same = (status.st_dev, status.st_ino) == (file.device, file.inode)
    return is_same and bool(status.st_mode & _EVERYONE_READS)


def read_source(
    files: Sequence[str],
    wanted: Iterable[tuple[int, int]],
    named_by: Mapping[str, AbstractSet[int]],
) -> dict[tuple[int, int], str]:
    """Read lines of source.

    Args:
        files: paths; relative ones, whose directory is unknown, are not opened.
        wanted: (row of `files`, line number from 1).
        named_by: the users who named each path, one of whose rights are used.

    Returns:
        The text of each wanted line that could be read, cut if it is too long.
    """
    lines_of: dict[int, set[int]] = {}
    for file, line in wanted:
        if file >= 0 and line > 0:
            lines_of.setdefault(file, set()).add(line)
    texts = {}
    for file, numbers in lines_of.items():
        opened = open_source(files[file], named_by.get(files[file], frozenset()))
        content = bytes(opened.data).split(b"\n") if opened else []
        for number in numbers:
            if number <= len(content):
                text = content[number - 1].decode("utf-8", "surrogateescape").rstrip()
                texts[file, number] = text.expandtabs(8)[:_LONGEST_LINE]
    return texts


def open_source(path: str, named_by: AbstractSet[int]) -> OpenFile | None:
    """Open a source file at the compiler's path, with the rights of a user who named it.

    Args:
        path: a relative one is not opened.
        named_by: the users who named it; everybody if empty.
    """
    for uid in sorted(named_by or {EVERYBODY}, key=lambda one: not is_trusted(one)):
        file = open_named(os.fsencode(path), uid, largest_bytes=LARGEST_SOURCE_BYTES)
        if isinstance(file, OpenFile) and len(file.data) <= LARGEST_SOURCE_BYTES:
            return file
    return None
