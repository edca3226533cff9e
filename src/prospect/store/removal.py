"""Segments and what writers left behind → gone, but for names that other segments refer to.

A window brings the names of functions and stacks that earlier windows of its hour had not: one that
goes leaves its names to the others, and the last one of an hour takes all of them along.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.store.directory import DEPTHS, PART_SUFFIX
from prospect.store.segments import KINDS, MINUTE, NAME_KINDS, SUFFIX, segment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.store.directory import StoreDirectory
    from prospect.store.segments import Segment


def remove(store: StoreDirectory, segment: Segment, *, with_names: bool = False) -> None:
    """Remove a segment's files, that which makes it whole first.

    Args:
        store: that it is of.
        segment: to remove.
        with_names: whether its names go in any case: a full disk needs their room.

    Raises:
        OSError: a file cannot be removed.
    """
    directory = segment.directory
    is_last = segment.tier != MINUTE or not _has_others(store, segment)
    stays = () if is_last or with_names else NAME_KINDS
    gone = [segment.path(kind) for kind in reversed(KINDS) if kind not in stays]
    if segment.tier == MINUTE and is_last:
        gone += left_names(store, [directory])
    for path in gone:
        with suppress(FileNotFoundError):
            os.unlink(path, dir_fd=store.descriptor)
    while directory:
        try:
            os.rmdir(directory, dir_fd=store.descriptor)
        except OSError:
            return  # not empty
        directory = os.path.dirname(directory)


def left_names(
    store: StoreDirectory, directories: Iterable[str], kinds: Sequence[str] = NAME_KINDS
) -> list[str]:
    """Return the files of names in directories, of segments that are there or were removed."""
    endings = tuple(f".{kind}{SUFFIX}" for kind in kinds)
    found = (name for directory in directories for name in store.names(directory, 0))
    return [name for name in found if name.endswith(endings)]


def clean(store: StoreDirectory) -> int:
    """Remove what a writer that was killed has left unfinished; return how many files.

    Only its writer may ask for this.
    """
    segments = store.segments()
    whole = {(one.directory, one.stem) for one in segments}
    kept = set(left_names(store, {one.directory for one in segments if one.tier == MINUTE}))
    removed = 0
    for tier, depth in DEPTHS.items():
        for name in list(store.names(tier, depth)):
            directory, _, file = name.rpartition("/")
            stem = file.removesuffix(SUFFIX).rpartition(".")[0]
            is_whole = (directory, stem) in whole or name in kept
            if file.endswith(PART_SUFFIX) or not is_whole:
                with suppress(OSError):
                    os.unlink(name, dir_fd=store.descriptor)
                    removed += 1
    return removed


def _has_others(store: StoreDirectory, segment: Segment) -> bool:
    """Whether other segments lie in the directory of one."""
    names = (name.rpartition("/")[2] for name in store.names(segment.directory, 0))
    found = {segment_of(segment.tier, name) for name in names} - {None}
    return bool(found - {segment._replace(place="", digests=())})
