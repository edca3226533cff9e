"""The answers that an archive keeps.

An archive does not have the sources of names. For each question of a report or an annotation, it
has the answer of the machine where it was made. So a report on another machine is the same, however
a name was found, and opens no file.
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

    from prospect.columns.array_types import I32, U32, U64
    from prospect.profile.run_info import ProcessNote
    from prospect.symbols.objects import Missing, ObjectKey
    from prospect.symbols.resolution import Resolution


class Owner(NamedTuple):
    """The owner of addresses: an object and, for memory without a file, the processes."""

    key: ObjectKey
    pids: tuple[int, ...] = ()


class Asked(NamedTuple):
    """Addresses that were named together, u64[n], and their names."""

    address: U64
    answer: Resolution


class Code(NamedTuple):
    """The bytes of a function and the machine's EM_*; without bytes, the reason."""

    content: bytes
    machine: int
    reason: str = ""


class Image(NamedTuple):
    """An ELF file: its size, and the kept pieces, each with its offset."""

    size: int
    pieces: tuple[tuple[int, bytes], ...]


class ObjectLines(Record, eq=False):
    """Source lines of one object, by ranges of addresses.

    Attributes:
        start: u64[r] first address of each range, rising; it ends where the next one begins.
        node: i32[r] innermost frame there, a row of `FrameTree`; -1 for none.
        note: on missing lines, empty if there are none.
    """

    start: U64
    node: I32
    note: str


class FrameTree(Record, eq=False):
    """Frames of all objects: each distinct function, file, line and frame that inlines it.

    Attributes:
        parent: i32[k] the frame that inlines this one, a lower row; -1 for none.
        name, file: i32[k] rows of `texts`, -1 if unknown.
        line: u32[k].
        texts: linkage names, and paths.
    """

    parent: I32
    name: I32
    file: I32
    line: U32
    texts: Sequence[str]

    def frames(self, leaf: I32) -> Frames:
        """Return the frames of addresses, by i32[n] the innermost frame at each, -1 for none."""
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
    """All answers of an archive.

    Attributes:
        origin: path of the recording.
        recorded_at: when it was finished, seconds since 1970.
        limits: sentences of the report about missing samples and names.
        process_notes: the same about single processes.
        names: questions about each owner, in order.
        images: files by object, or why they are missing.
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
    """Return the owner of an object's addresses; only memory without a file has processes."""
    return Owner(key, tuple(pids) if key.kind in {KIND_ANON, KIND_JIT} else ())


def _used(index: I32) -> tuple[list[int], I32]:
    """Return the rows that occur, and each row's place among them; -1 stays."""
    rows, place = np.unique(index, return_inverse=True)
    missing = int(len(rows) > 0 and rows[0] < 0)
    return rows[missing:].tolist(), (place - missing).astype(np.int32)
