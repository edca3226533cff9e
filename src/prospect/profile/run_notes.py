"""Sentences on the limits of a run: one for many of a kind, with the sum or with several files.

Recordings, archives, sessions and stores keep only sentences, so the count or the file is read
from the sentence. Reports show notes on files that are in their rows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

# As `capture.runtimes.runtime_reader`, `assembly.tables` and `daemon.ceiling` write them.
_COUNTED = re.compile(
    r"((?:(?:Python|Ruby|PHP| and )+ functions|Functions of runtimes|Limits of the daemon):"
    r" [A-Za-z ,]{1,200}: )(\d{1,15})(\D.*)?",
    re.DOTALL,
)
# Kept once, whatever follows.
_ONCE = re.compile(
    r"(?:(?:CPython|Ruby|V8) \d+\.\d+|PHP) \(process "
    r"|(?:Python|Ruby|PHP| and )+ functions were read from memory "
)
_MOST_NAMED = 3
_REPLACED = " was replaced since it ran, so its functions have no names."
_SEVERAL_REPLACED = "{} were replaced since they ran, so their functions have no names: {}."


def counted_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Return each note once, and one with the sum for all of a kind that have a count.

    The rest of that note is from the one with the largest count.
    """
    found: dict[str, tuple[int, int, str]] = {}
    for note in notes:
        match = _COUNTED.fullmatch(note)
        if match is None:
            once = _ONCE.match(note)
            found.setdefault(once.group() if once else note, (0, 0, note))
            continue
        kind, count, rest = match[1], int(match[2]), match[3] or ""
        total, most, kept = found.get(kind, (0, -1, ""))
        found[kind] = total + count, max(most, count), rest if count > most else kept
    return tuple(
        f"{key}{total}{rest}" if total else rest for key, (total, _, rest) in found.items()
    )


def left_out_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Return those of `counted_notes` that say what was left out."""
    return tuple(note for note in counted_notes(notes) if _COUNTED.match(note) or _ONCE.match(note))


def replaced_note(path: str) -> str:
    """Return the note that a file is not the one that ran, and its consequence."""
    return f"{path}{_REPLACED}"


def file_notes(notes: Iterable[str], shown: Container[str] | None = None) -> list[str]:
    """Return notes with one for all replaced files, which comes last.

    `shown` are the paths of files in rows; None for all files.
    """
    others: list[str] = []
    replaced: dict[str, None] = {}
    for note in notes:
        path = note.removesuffix(_REPLACED)
        if path == note:
            others.append(note)
        elif shown is None or path in shown:
            replaced[path] = None
    if len(replaced) == 1:
        return [*others, *map(replaced_note, replaced)]
    if replaced:
        text = _SEVERAL_REPLACED.format(f"{len(replaced)} files", some(list(replaced)))
        return [*others, text]
    return others


def grouped(reasons: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each reason, with the files that it is about."""
    by_reason: dict[str, dict[str, None]] = {}
    for path, reason in reasons:
        by_reason.setdefault(reason, {})[path] = None
    return [
        f"{next(iter(paths))}: {reason}."
        if len(paths) == 1
        else f"{len(paths)} files: {reason}: {some(list(paths))}."
        for reason, paths in by_reason.items()
    ]


def some(names: list[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    if more <= 0:
        return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
    return f"{', '.join(names[:_MOST_NAMED])} and {more} more"
