"""Source files and line numbers → the text of those lines.

Comes in: paths from debug information, which anyone may have written. Goes out: text, as far as a
regular file of that name is there and is no larger than source files are. A file that was changed
after its image was built shows other text than was compiled; that is for the caller to say.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.files.door import OpenFile
from prospect.files.opening import open_named
from prospect.files.rights import EVERYBODY, is_trusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

LARGEST_BYTES = 16 << 20
_LONGEST_LINE = 400


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
        file = open_named(os.fsencode(path), uid, largest_bytes=LARGEST_BYTES)
        if isinstance(file, OpenFile) and len(file.data) <= LARGEST_BYTES:
            return file
    return None
