"""The recorded objects of a profile's object rows, for code that reads their files again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import silent
from prospect.archived.kept_answers import Owner, owner_of
from prospect.archived.symbolizers import archived_frames, archived_source
from prospect.files.budget import CostlyError
from prospect.files.rights import EVERYBODY
from prospect.lines.finder import LineFinder
from prospect.lines.source_files import read_source
from prospect.lines.symcache import Frames, no_frames
from prospect.profile.model import KIND_ELF, KIND_UNKNOWN
from prospect.records import Record, field
from prospect.symbols.images.debug_files import has_debug_info
from prospect.symbols.objects import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.announcing import Announce
    from prospect.archived.kept_answers import Answers
    from prospect.archived.symbolizers import Collector
    from prospect.assembly.placing.placement import Placement
    from prospect.columns.array_types import I32, U64
    from prospect.profile.model import Profile
    from prospect.symbols.images.image_files import DebugImage, FoundImage
    from prospect.symbols.jit.jit_code import CodeFrames, JitCode
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.objects import Missing
    from prospect.symbols.runtime_code import RuntimeCode
    from prospect.symbols.symbolizer import Symbolizer
    from prospect.symbols.table import SymbolTable


class RecordedObjects(Record):
    """The recorded objects of a profile's object rows, and the finders of their files.

    Attributes:
        keys: by object row; parts of an object (kernel modules) have none.
        pids: processes that had it mapped, by object row.
        symbolizer: finds their files and names addresses in them.
        lines: finds source lines in them.
        answers: of the archive; None if the recording is none.
        collector: collects answers for an archive; None to collect none.
        announce: called with the progress.
        named_by: the users who named a source file, by its path.
    """

    keys: dict[int, ObjectKey]
    pids: dict[int, list[int]]
    options: SymbolOptions
    symbolizer: Symbolizer
    lines: LineFinder
    answers: Answers | None = None
    collector: Collector | None = None
    announce: Announce = silent
    named_by: dict[str, set[int]] = field(default_factory=dict)

    def image(self, row: int) -> FoundImage | Missing:
        """Find the file of an object row that has a key."""
        return self.symbolizer.images.find(self.keys[row], self.pids[row])

    def prepare_frames(self, images: Iterable[tuple[int, FoundImage]]) -> None:
        """Read the debug information of images of object rows, on all CPUs."""
        images = list(images)
        self.symbolizer.images.find_all(
            [
                (self.keys[row], self.pids[row])
                for row, _ in images
                if self.keys[row].kind == KIND_ELF
            ],
            lambda found: not has_debug_info(found.image),
        )
        self.lines.prepare(
            ((found, partial(self._debug_file, row, found)) for row, found in images), self.announce
        )

    def _debug_file(self, row: int, found: FoundImage) -> DebugImage | None:
        """Find the debug file of an image."""
        images = self.symbolizer.images
        debug = images.debug_file(self.keys[row], found)
        if debug is None and images.is_debug_file_costly(found):
            raise CostlyError
        return debug

    def frames(self, row: int, found: FoundImage, svma: U64) -> tuple[Frames, str]:
        """Find source lines of addresses in an object, and a note on missing ones."""
        if self.answers is not None:
            return archived_frames(self.answers, self.keys[row], svma)
        frames, note = self.frames_here(row, found, svma)
        self.keep_frames(row, svma, frames, note)
        return frames, note

    def jit_code(self, row: int) -> JitCode | None:
        """Return the code of an object row in a jitdump file, None if there is none."""
        key = self.keys.get(row)
        return self.options.jit_code.get(key.path) if key else None

    def jit_frames(self, row: int, address: U64) -> Frames:
        """Find source lines in JIT code, and inlined functions that its writer describes."""
        code = self.jit_code(row)
        if code is None:
            return no_frames(len(address))
        frames = _frames_of_code(code.frames_of(address))
        self.add_namer(frames, code.speaks_for)
        return frames

    def runtime_frames(self, row: int, address: U64) -> Frames:
        """Find lines in a source file of a runtime's functions, which the recording has."""
        key, code = self.keys.get(row), self.options.runtimes
        if key is None or code is None:
            return no_frames(len(address))
        frames = _frames_of_lines(code, code.table(key.path), address)
        self.add_namer(frames, EVERYBODY)
        return frames

    def frames_here(self, row: int, found: FoundImage, svma: U64) -> tuple[Frames, str]:
        """Find source lines in the files of this machine, and collect nothing."""
        frames, note = self.lines.frames(found, partial(self._debug_file, row, found), svma)
        self.add_namer(frames, self.lines.named_by(found))
        return frames, note

    def add_namer(self, frames: Frames, uid: int) -> None:
        """Remember the user who named the source files in frames."""
        for path in frames.files:
            self.named_by.setdefault(path, set()).add(uid)

    def keep_frames(self, row: int, address: U64, frames: Frames, note: str) -> None:
        """Collect the frames of addresses for an archive, if one is being made."""
        if self.collector is not None:
            self.collector.add_frames(self.keys[row], address, frames, note)

    def source(
        self, files: Sequence[str], wanted: Iterable[tuple[int, int]]
    ) -> dict[tuple[int, int], str]:
        """Find the text of source lines, by (row of `files`, line number)."""
        if self.answers is not None:
            return archived_source(self.answers, files, wanted)
        texts = read_source(files, wanted, self.named_by)
        if self.collector is not None:
            self.collector.add_source(files, texts)
        return texts

    def owner(self, profile: Profile, row: int) -> Owner:
        """Return the `Owner` of an object row's addresses in an archive."""
        if row in self.keys:
            return owner_of(self.keys[row], self.pids[row])
        path = profile.objects.path[row] if row >= 0 else ""
        kind = int(profile.objects.kind[row]) if row >= 0 else KIND_UNKNOWN
        return Owner(ObjectKey(path.encode("utf-8", "surrogateescape"), kind=kind))


def recorded_objects(
    placement: Placement, object_rows: I32, symbolizer: Symbolizer, options: SymbolOptions
) -> RecordedObjects:
    """Return the recorded objects of a profile.

    `object_rows` i32[k] has the profile's row of each of `placement.keys`, -1 for none.
    """
    placed = [(int(object_rows[at]), at) for at in np.flatnonzero(object_rows >= 0).tolist()]
    return RecordedObjects(
        keys={row: placement.keys[at] for row, at in placed},
        pids={row: placement.pids[at] for row, at in placed},
        options=options,
        symbolizer=symbolizer,
        lines=LineFinder(symbolizer.cache),
    )


def _frames_of_code(found: CodeFrames) -> Frames:
    files: dict[str, int] = {}
    frames = [frame for of_address in found.frames for frame in of_address]
    counts = [len(of_address) for of_address in found.frames]
    return Frames(
        start=np.append(0, np.cumsum(counts)).astype(np.int64),
        name_index=np.array([name for name, _, _ in frames], np.int32),
        file_index=np.array(
            [files.setdefault(file, len(files)) if file else -1 for _, file, _ in frames], np.int32
        ),
        line=np.array([line for _, _, line in frames], np.uint32),
        names=found.names,
        files=list(files),
    )


def _frames_of_lines(code: RuntimeCode, table: SymbolTable, address: U64) -> Frames:
    """Return a frame for each address whose line is known."""
    files: dict[str, int] = {}
    names: dict[bytes, int] = {}
    found = code.lines_of(address)
    symbol = table.lookup(address)
    is_known = np.array([line > 0 for _, line in found], np.bool_) & (symbol >= 0)
    rows = np.flatnonzero(is_known).tolist()
    symbols = symbol[is_known].tolist()
    return Frames(
        start=np.append(0, np.cumsum(is_known)).astype(np.int64),
        name_index=np.array(
            [names.setdefault(name, len(names)) for name in table.names(symbols)], np.int32
        ),
        file_index=np.array(
            [files.setdefault(found[one][0], len(files)) for one in rows], np.int32
        ),
        line=np.array([found[one][1] for one in rows], np.uint32),
        names=list(names),
        files=list(files),
    )
