"""Paths of source files as the compiler had them → the files here, and lines of their text.

The paths are from debug information, which anyone may have written; a person may say where sources
are. A FIFO or a device is not opened, nor a file larger than source files are. A file that was
changed after its image was built shows other text than was compiled; that is for the caller to say.
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
    """Where sources lie.

    Attributes:
        search_dirs: directories to look below, in this order; then a file is looked for where the
            compiler had it.
        base_dirs: beginnings of the compiler's paths that are taken off for `search_dirs`; of
            those that fit, the longest.
        as_recorded: whether a file is looked for where the compiler had it.
    """

    search_dirs: tuple[str, ...] = ()
    base_dirs: tuple[str, ...] = ()
    as_recorded: bool = True


def find_source(
    path: str, places: SourcePlaces, named_by: AbstractSet[int] = frozenset()
) -> SourceFile | None:
    """Find and read a source file; None if it is not there, or is none.

    Args:
        path: as the compiler had it.
        places: where sources lie; what is below a directory of theirs is read with our rights.
        named_by: the users whose word the path is; see `open_source`.
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
    """Give paths, and where they are in a directory that a person has chosen; "" for nowhere."""
    below = path.lstrip("/")
    fitting = [base for base in map(_bare, places.base_dirs) if f"{path}/".startswith(f"{base}/")]
    if fitting:
        below = path[len(max(fitting, key=len)) :].lstrip("/")
    # Below a directory means below it, whatever the compiler's path says.
    if below and ".." not in below.split("/"):
        for directory in places.search_dirs:
            yield (
                posixpath.join(directory, below),
                posixpath.join(os.path.realpath(directory), below),
            )
    if path.startswith("/") and places.as_recorded:
        yield path, ""


def _bare(directory: str) -> str:
    return posixpath.normpath(directory).rstrip("/")


def _is_public(file: OpenFile) -> bool:
    """Say whether everybody may read a file; no for one that was swapped meanwhile."""
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
        files: paths; relative ones, whose directory nobody knows, are not opened.
        wanted: (row of `files`, line number from 1).
        named_by: by path, the users whose word it is; each file is read with the rights of one.

    Returns:
        The text of each wanted line that could be read, cut where it is too long.
    """
    lines_of: dict[int, set[int]] = {}
    for file, line in wanted:
        if file >= 0 and line > 0:
            lines_of.setdefault(file, set()).add(line)
    texts = {}
    for file, numbers in lines_of.items():
        content = _read_lines(files[file], named_by.get(files[file], frozenset()))
        for number in numbers:
            if number <= len(content):
                text = content[number - 1].decode("utf-8", "surrogateescape").rstrip()
                texts[file, number] = text.expandtabs(8)[:_LONGEST_LINE]
    return texts


def _read_lines(path: str, users: AbstractSet[int]) -> list[bytes]:
    file = open_source(path, users)
    return bytes(file.data).split(b"\n") if file else []


def open_source(path: str, named_by: AbstractSet[int]) -> OpenFile | None:
    """Open a source file where the compiler had it, with the rights of one of its namers.

    Args:
        path: a relative one is not opened.
        named_by: the users whose word it is; nobody's word is anybody's.
    """
    for uid in sorted(named_by or {EVERYBODY}, key=lambda one: not is_trusted(one)):
        file = open_named(os.fsencode(path), uid, largest_bytes=LARGEST_SOURCE_BYTES)
        if isinstance(file, OpenFile) and len(file.data) <= LARGEST_SOURCE_BYTES:
            return file
    return None
