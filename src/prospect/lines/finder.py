"""An image and addresses in it → frames: functions, files and lines.

A note tells if they are missing or incomplete. The disk cache keeps lines from DWARF under the
image's build id. Several threads read the debug information of several images: the library releases
the interpreter's lock.

A Go image without DWARF has its own table, with the names and lines of Go's tracebacks. All
addresses are looked up in it together: first the innermost inlined call, then the call around it.
Source: ``runtime/symtab.go`` funcline1() and ``runtime/symtabinl.go`` (Go 1.27), which hold for all
tables from Go 1.16 on.
"""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize, silent
from prospect.elf.go_table import NO_DATA, read_go_table
from prospect.files.budget import CostlyError, of_others
from prospect.files.rights import EVERYBODY, is_trusted, weakest
from prospect.lines import debug_info
from prospect.lines.conversion import convert
from prospect.lines.debug_info import BoundedReader
from prospect.lines.dwarf import first_version, section
from prospect.lines.line_tables import LineTables
from prospect.lines.lines_limits import DEEPEST, LONGEST_TEXT_BYTES, MOST_READERS
from prospect.lines.scoped_names import ScopedNames, SearchBudget
from prospect.lines.split_lines import SplitLines
from prospect.lines.symcache import (
    VERSION,
    Frames,
    SymCache,
    distinct_texts,
    join_frames,
    lookup_each,
    no_frames,
    outermost_first,
    replace_frames,
    select_frames,
)
from prospect.records import NamedTuple
from prospect.symbols.images.debug_files import has_debug_info
from prospect.symbols.images.recorded_images import identity_of, key_of
from prospect.symbols.table_cache import LINES_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prospect.announcing import Announce
    from prospect.columns.array_types import I32, I64, U64, Bools
    from prospect.elf.go_table import GoTable
    from prospect.elf.image import ElfImage
    from prospect.symbols.images.image_files import DebugImage, FoundImage
    from prospect.symbols.table_cache import FileIdentity, SymbolCache


_PIECE = 4096
# Clang writes version 6 before it is a standard. Larger numbers mean damage.
_NEWER_VERSIONS = range(6, 10)


class _Holder(NamedTuple):
    """The files with the lines of an image.

    Attributes:
        debug: its separate debug file.
        key: of its symcache in the disk cache, "" if it is not kept.
        is_costly: whether other users' files left no memory for the debug file.
    """

    found: FoundImage
    debug: DebugImage | None
    key: str
    is_costly: bool

    @property
    def speaks_for(self) -> int:
        """The user whose rights its paths get."""
        return (self.debug or self.found).file.speaks_for

    @property
    def image(self) -> ElfImage:
        """The file that has the DWARF, if any."""
        return self.debug.image if self.debug else self.found.image


class _Source(NamedTuple):
    """The known lines of one image.

    Attributes:
        content: its symcache, None without one.
        load_address: SVMA of the symcache's base.
        names: finds the qualified names of functions without a linkage name.
        split: the units that are in other files, None without any.
        speaks_for: the user whose rights its own paths get.
        go_table: Go's own table, of an image without DWARF; None for others.
        tables: its line tables, for code that no function covers; None if it cannot be read.
    """

    content: bytes | memoryview | None
    load_address: int
    note: str
    names: ScopedNames
    split: SplitLines | None = None
    speaks_for: int = EVERYBODY
    go_table: GoTable | None = None
    tables: LineTables | None = None


class LineFinder:
    """Finds frames; reads each image's debug information once.

    Args:
        cache: the disk cache of line tables, if any.
    """

    def __init__(self, cache: SymbolCache | None) -> None:
        self.cache = cache
        self._sources: dict[FileIdentity, _Source] = {}
        self._name_budget = SearchBudget()
        self._reader = BoundedReader()

    def prepare(
        self,
        images: Iterable[tuple[FoundImage, Callable[[], DebugImage | None]]],
        announce: Announce = silent,
    ) -> None:
        """Read the debug information of the images for later calls of `frames`, all at once.

        Args:
            images: each with a function that finds its debug file.
            announce: called with the progress.
        """
        holders: dict[FileIdentity, _Holder] = {}
        contents: dict[FileIdentity, bytes | memoryview | None] = {}
        for found, find_debug_file in images:
            identity = identity_of(found)
            if identity not in self._sources and identity not in holders:
                holders[identity] = holder = self._holder(found, find_debug_file)
                contents[identity] = self._kept(holder)
        missing = [
            (identity, holder)
            for identity, holder in holders.items()
            if contents[identity] is None and _has_lines(holder.image)
        ]
        for (identity, holder), content in self._converted(missing, announce):
            contents[identity] = content
            self._keep(holder, content)
        by_size = sorted(holders.items(), key=lambda one: debug_info.unpacked_bytes(one[1].image))
        for identity, holder in by_size:
            self._sources[identity] = self._source(holder, contents[identity])

    def frames(
        self, found: FoundImage, find_debug_file: Callable[[], DebugImage | None], svma: U64
    ) -> tuple[Frames, str]:
        """Find the frames of addresses of one image.

        Args:
            found: the image.
            find_debug_file: returns its separate debug file; called if it has no DWARF itself.
            svma: u64[n], best distinct.

        Returns:
            The frames, and a sentence about missing lines, "" for none.
        """
        identity = identity_of(found)
        self.prepare([(found, find_debug_file)])
        source = self._sources[identity]
        frames = _look_up(source, svma)
        notes = [source.note] if source.note else []
        if source.split is not None:
            frames, more = _with_split(frames, source.split, svma, self._name_budget)
            notes += more
        if source.tables is not None:
            frames, more = _with_tables(frames, source.tables, svma)
            notes += [note for note in more if note not in notes]
        return frames, "; ".join(notes)

    def named_by(self, found: FoundImage) -> int:
        """Return the user whose rights the paths in an image's frames get, after `frames`."""
        source = self._sources[identity_of(found)]
        of_units = source.split.speakers if source.split else ()
        return weakest(found.file.speaks_here, source.speaks_for, *of_units)

    def _holder(
        self, found: FoundImage, find_debug_file: Callable[[], DebugImage | None]
    ) -> _Holder:
        debug, is_costly = None, False
        if not has_debug_info(found.image):
            try:
                debug = find_debug_file()
            except CostlyError:
                is_costly = True
        key = key_of(found, debug)
        return _Holder(found, debug, f"{key}+symcache{VERSION}" if key else "", is_costly)

    def _converted(
        self, missing: list[tuple[FileIdentity, _Holder]], announce: Announce
    ) -> Iterator[tuple[tuple[FileIdentity, _Holder], bytes | None]]:
        """Make symcaches on several CPUs, but those of other users' files in turn.

        Our largest file is first, so that it is not the last one on one CPU. Other users' smallest
        file is first, so that larger ones do not exhaust the bounds before it.
        """
        if not missing:
            return
        missing.sort(key=lambda one: len(one[1].image.data))
        ours = [one for one in reversed(missing) if is_trusted(one[1].speaks_for)]
        theirs = [one for one in missing if not is_trusted(one[1].speaks_for)]
        readers = min(len(os.sched_getaffinity(0)), MOST_READERS, max(len(ours), 1))
        with ThreadPoolExecutor(readers) as pool, ThreadPoolExecutor(1) as turns:
            made = pool.map(convert, [one.image.data for _, one in ours])
            in_turn = turns.map(
                self._reader.convert,
                [one.image.data for _, one in theirs],
                [one.speaks_for for _, one in theirs],
            )
            announce(f"reading the debug information of {pluralize(len(missing), 'file')}")
            contents = itertools.chain(made, in_turn)
            for done, (one, content) in enumerate(zip([*ours, *theirs], contents, strict=True), 1):
                announce(f"reading debug information, {done} of {len(missing)} files done")
                yield one, content

    def _kept(self, holder: _Holder) -> memoryview | None:
        """Read a symcache from the disk cache."""
        if self.cache is None or not holder.key or not _has_lines(holder.image):
            return None
        return self.cache.load_bytes(holder.key, LINES_SUFFIX)

    def _keep(self, holder: _Holder, content: bytes | None) -> None:
        if self.cache is not None and holder.key and content is not None:
            self.cache.store_bytes(holder.key, LINES_SUFFIX, content)

    def _source(self, holder: _Holder, content: bytes | memoryview | None) -> _Source:
        image = holder.image
        load_address = debug_info.load_address(image)
        names = ScopedNames(image, self._name_budget)
        if not has_debug_info(image):
            go_table = read_go_table(holder.found.image)
            if go_table is not None:
                speaker = holder.found.file.speaks_for
                return _Source(None, load_address, "", names, None, speaker, go_table)
            note = debug_info.NO_MEMORY if holder.is_costly else debug_info.NO_DEBUG_INFO
            return _Source(None, load_address, note, names)
        if not debug_info.is_readable(image):
            return _Source(None, load_address, debug_info.UNREADABLE, names)
        notes = []
        try:
            split = self._split(holder)
        except CostlyError:
            split = None
            notes.append(debug_info.NO_MEMORY)
        symcache = SymCache.parse(content) if content is not None else None
        tables = LineTables(image, holder.speaks_for, self._reader) if content is not None else None
        if content is None or (symcache is not None and not symcache.has_lines):
            content = None
            notes += [] if split or notes else _why_none(holder, tables)
        elif debug_info.is_shared(image):
            notes.append(debug_info.SHARED)
        note, speaker = "; ".join(notes), holder.speaks_for
        return _Source(content, load_address, note, names, split, speaker, tables=tables)

    def _split(self, holder: _Holder) -> SplitLines | None:
        """Read the split units, None if there is none.

        Raises:
            CostlyError: packed sections would take over half of the remaining memory, which the
                files of these units need too.
        """
        image, found = holder.image, holder.found
        if not debug_info.may_be_split(image):
            return None
        if debug_info.unpacked_bytes(image) > of_others.left_bytes / 2:
            raise CostlyError
        split = SplitLines(
            image,
            found.file,
            speaks_for=holder.speaks_for,
            cache=self.cache,
            key=key_of(found, holder.debug),
            reader=self._reader,
        )
        return split if split.has_units else None


def _has_lines(image: ElfImage) -> bool:
    return has_debug_info(image) and debug_info.is_readable(image)


def _look_up(source: _Source, svma: U64) -> Frames:
    if source.go_table is not None:
        return go_frames(source.go_table, svma)
    if source.content is None:
        return no_frames(len(svma))
    address = svma - np.uint64(source.load_address)
    symcache = SymCache.parse(source.content)
    if symcache is None:
        return lookup_each(source.content, address)
    return symcache.lookup(address, source.names.qualified)


def _with_split(
    frames: Frames, split: SplitLines, svma: U64, name_budget: SearchBudget
) -> tuple[Frames, list[str]]:
    """Replace frames by those of split units that could be read; return notes on the others.

    A skeleton may have lines and inlined functions itself (-fsplit-dwarf-inlining), but with only
    the last part of their names.
    """
    found, is_known, missing = split.frames(svma, name_budget)
    row = np.flatnonzero(is_known)
    notes = [debug_info.split_files_missing(lack, sorted(names)) for lack, names in missing.items()]
    return replace_frames(frames, row, select_frames(found, row)), notes


def _with_tables(frames: Frames, tables: LineTables, svma: U64) -> tuple[Frames, list[str]]:
    """Add lines from line tables if no frame has a file; return notes on unread tables."""
    try:
        frames, is_whole = tables.fill(frames, svma)
    except CostlyError:
        return frames, [debug_info.NO_MEMORY]
    return frames, [] if is_whole else [debug_info.unreadable(tables.speaks_for)]


def _why_none(holder: _Holder, tables: LineTables | None) -> list[str]:
    """Return why no function has lines; nothing if line tables have them."""
    try:
        if tables is not None and tables.has_units:
            return []
        version = first_version(section(holder.image, b".debug_info"))
    except CostlyError:
        return [debug_info.NO_MEMORY]
    if version in _NEWER_VERSIONS:
        return [debug_info.TOO_NEW.format(version=version)]
    return [debug_info.unreadable(holder.speaks_for)]


def go_frames(table: GoTable, svma: U64) -> Frames:
    """Find the frames of addresses, u64[n], best distinct."""
    pieces = []
    # Adjacent addresses are in the same functions, whose values are then unpacked once.
    order = np.argsort(svma, kind="stable")
    for begin in range(0, len(svma), _PIECE):
        row = order[begin : begin + _PIECE]
        pieces.append((row, _piece(table, svma.take(row))))
    return join_frames(len(svma), pieces)


def _piece(table: GoTable, svma: U64) -> Frames:
    # Of each depth: rows of the addresses, offsets of names and files, and lines.
    rounds: list[tuple[I64, ...]] = []
    function = table.row_of(svma)
    row = np.flatnonzero(function >= 0)
    function = function.take(row)
    distance = (svma.take(row) - table.start.take(function)).astype(np.int64)
    calls, lines, files = (
        table.values.unpacked(column(function))
        for column in (table.inlined_calls, table.line_numbers, table.file_numbers)
    )
    while len(row) and len(rounds) < DEEPEST:
        call = calls.at(table.inlined_calls(function), distance)
        inlined, parent = np.full(len(row), NO_DATA), np.full(len(row), NO_DATA)
        rows = np.flatnonzero(call >= 0)
        inlined[rows], parent[rows] = table.tree_fields(
            table.tree(function.take(rows)), call.take(rows)
        )
        name = np.where(inlined >= 0, inlined, table.name.take(function))
        line = lines.at(table.line_numbers(function), distance)
        number = files.at(table.file_numbers(function), distance)
        file = _file_names(table, table.unit(function) + number, number >= 0)
        line = np.where((line > 0) & (line < 1 << 31), line, 0)
        rounds.append((row, name, file, line))
        goes_on = np.flatnonzero((inlined >= 0) & (parent >= 0))
        row, function = row.take(goes_on), function.take(goes_on)
        distance = parent.take(goes_on)
    return _joined(table, len(svma), rounds) if rounds else no_frames(len(svma))


def _file_names(table: GoTable, at: I64, is_known: Bools) -> I64:
    """Return offsets of file names at places in `units`, i64[k]; -1 if there is none."""
    is_known = is_known & (at < len(table.units))
    if not is_known.any():
        return np.full(len(at), -1)
    file = table.units.take(at, mode="clip").astype(np.int64)
    return np.where(is_known & (file < len(table.files)), file, -1)


def _joined(table: GoTable, addresses: int, rounds: list[tuple[I64, ...]]) -> Frames:
    """Join the rounds, the outermost frame of each address first."""
    order, start = outermost_first([one[0] for one in rounds], addresses)
    name, file, line = (
        np.concatenate([one[column] for one in reversed(rounds)]).take(order)
        for column in (1, 2, 3)
    )
    names, name_index = _texts(table.names, name)
    files, file_index = _texts(table.files, file)
    paths = [path.decode("utf-8", "surrogateescape") for path in files]
    return Frames(start, name_index, file_index, line.astype(np.uint32), names, paths)


def _texts(text: memoryview, offset: I64) -> tuple[list[bytes], I32]:
    """Return the distinct texts at offsets, and i32[k] the row of each, -1 for none."""
    distinct, index = np.unique(offset, return_inverse=True)
    texts = [
        bytes(text[at : at + LONGEST_TEXT_BYTES]).partition(b"\0")[0] if at >= 0 else b""
        for at in distinct.tolist()
    ]
    return distinct_texts(texts, index)
