"""Source files and line numbers → the text of those lines.

Comes in: paths from debug information, which anyone may have written. Goes out: text, as far as a
regular file of that name is there and is no larger than source files are. A file that was changed
after its image was built shows other text than was compiled; that is for the caller to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.symbols.opening import OpenFile, open_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LARGEST_BYTES = 16 << 20
_LONGEST_LINE = 400


def read_source(
    files: Sequence[str], wanted: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """Read lines of source.

    Args:
        files: paths; relative ones, whose directory nobody knows, are not opened.
        wanted: (row of `files`, line number from 1).

    Returns:
        The text of each wanted line that could be read, cut where it is too long.
    """
    lines_of: dict[int, set[int]] = {}
    for file, line in wanted:
        if file >= 0 and line > 0:
            lines_of.setdefault(file, set()).add(line)
    texts = {}
    for file, numbers in lines_of.items():
        content = _read_lines(files[file])
        for number in numbers:
            if number <= len(content):
                text = content[number - 1].decode("utf-8", "surrogateescape").rstrip()
                texts[file, number] = text.expandtabs(8)[:_LONGEST_LINE]
    return texts


def _read_lines(path: str) -> list[bytes]:
    if not path.startswith("/"):
        return []
    file = open_file(path.encode("utf-8", "surrogateescape"), largest_bytes=_LARGEST_BYTES)
    if not isinstance(file, OpenFile) or len(file.data) > _LARGEST_BYTES:
        return []
    return bytes(file.data).split(b"\n")
