"""The answers that an archive keeps: what was asked of this machine, and what it said.

An archive does not hold the sources of names but what they gave: for each question of a report or
an annotation the answer of the machine where it was made. So a report elsewhere is the same, by
whatever way a name was found here, and no file is opened to make it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.archived.archived_limits import DEEPEST
from prospect.lines.symcache import Frames
from prospect.profile.model import KIND_ANON, KIND_JIT
from prospect.records import NamedTuple, Record, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.profile.run_info import ProcessNote
    from prospect.symbols.objects import Missing, ObjectKey
    from prospect.symbols.resolution import Resolution


class Owner(NamedTuple):
    """The owner of addresses: an object and, for memory without a file, the processes."""

    key: ObjectKey
    pids: tuple[int, ...] = ()


class Asked(NamedTuple):
    """Addresses that were named together, u64[n], and their names."""

    address: NDArray[np.uint64]
    answer: Resolution


class Code(NamedTuple):
    """The bytes of a function and the machine's EM_*; without bytes, the reason."""

    content: bytes
    machine: int
    reason: str = ""


class Image(NamedTuple):
    """An ELF file: its size, and the pieces of it that are kept, by their offset."""

    size: int
    pieces: tuple[tuple[int, bytes], ...]


class ObjectLines(Record, eq=False):
    """Source lines of one object, by stretches of addresses.

    Attributes:
        start: u64[r] first address of each stretch, rising; it reaches to the next one's.
        node: i32[r] innermost frame there, a row of `FrameTree`; -1 for none.
        note: what is missing, empty if nothing is.
    """

    start: NDArray[np.uint64]
    node: NDArray[np.int32]
    note: str


class FrameTree(Record, eq=False):
    """Frames of all objects: each distinct function, file and line with what it is inlined into.

    Attributes:
        parent: i32[k] the frame that this one is inlined into, a lower row; -1 for none.
        name, file: i32[k] into `texts`, -1 if unknown.
        line: u32[k].
        texts: names as the linker knows them, and paths.
    """

    parent: NDArray[np.int32]
    name: NDArray[np.int32]
    file: NDArray[np.int32]
    line: NDArray[np.uint32]
    texts: Sequence[str]

    def frames(self, leaf: NDArray[np.int32]) -> Frames:
        """Return the frames of addresses.

        Args:
            leaf: i32[n] the innermost frame at each, -1 for none.
        """
        levels = [leaf]
        while len(levels) < DEEPEST and (levels[-1] >= 0).any():
            inner = levels[-1]
            levels.append(np.where(inner >= 0, np.append(self.parent, np.int32(-1))[inner], -1))
        by_level = np.stack(levels[::-1], axis=1)
        held = by_level >= 0
        node = by_level[held]
        name_row, name_index = _used(self.name.take(node))
        file_row, file_index = _used(self.file.take(node))
        return Frames(
            start=np.append(0, np.cumsum(held.sum(axis=1))).astype(np.int64),
            name_index=name_index,
            file_index=file_index,
            line=self.line.take(node),
            names=[self.texts[row].encode("utf-8", "surrogateescape") for row in name_row],
            files=[self.texts[row] for row in file_row],
        )


class Answers(Record, eq=False):
    """All that an archive keeps.

    Attributes:
        origin: what the recording was called.
        recorded_at: when it was finished, seconds since 1970.
        limits: sentences of the report about what could not be seen or named.
        process_notes: the same of single processes.
        names: what was asked of each owner, in order.
        images: files by object, or why they are not there.
        tree: the frames of `lines`.
        code: by owner and first address.
        source: text of source lines, by path and number.
        jit_dumps: jitdump files by process id.
    """

    origin: str = ""
    recorded_at: float = 0.0
    limits: tuple[str, ...] = ()
    process_notes: tuple[ProcessNote, ...] = ()
    names: dict[Owner, list[Asked]] = field(default_factory=dict)
    images: dict[ObjectKey, Image | Missing] = field(default_factory=dict)
    lines: dict[ObjectKey, ObjectLines] = field(default_factory=dict)
    tree: FrameTree | None = None
    code: dict[tuple[Owner, int], Code] = field(default_factory=dict)
    source: dict[tuple[str, int], str] = field(default_factory=dict)
    jit_dumps: dict[int, bytes | memoryview] = field(default_factory=dict)


def owner_of(key: ObjectKey, pids: Sequence[int]) -> Owner:
    """Return whose addresses an object's are: only memory without a file has an owner."""
    return Owner(key, tuple(pids) if key.kind in {KIND_ANON, KIND_JIT} else ())


def _used(index: NDArray[np.int32]) -> tuple[list[int], NDArray[np.int32]]:
    """Number the texts that are used from 0 on; -1 stays."""
    rows, place = np.unique(index, return_inverse=True)
    missing = int(len(rows) > 0 and rows[0] < 0)
    return rows[missing:].tolist(), (place - missing).astype(np.int32)
