"""A symcache and addresses → the functions, files and lines at each, through inlined functions.

A symcache has the format of Sentry's symbolic, version 9. All addresses are looked up together,
about thirty times as fast as one by one with the library's own call, which serves for other
versions. Every index is checked: a damaged cache entry gives wrong lines at worst.
Source: ``src/v9/raw.rs`` and ``src/v9/lookup.rs`` of the crate symbolic-symcache 13.9.

The frames of several images become the `LineTable` of a profile, in the order of its rows and with
distinct functions and files.
"""

from __future__ import annotations

import posixpath
import struct
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.lines.dwarf import DwarfError, leb128
from prospect.lines.lines_limits import DEEPEST, LONGEST_TEXT_BYTES
from prospect.profile.optional_tables import LineTable
from prospect.records import Record, replace
from prospect.symbols.demangling.demangle import demangle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.columns.array_types import I32, I64, U32, U64, Bools, Ints


VERSION = 9
MAGIC = b"SYMC"
NONE = 0xFFFFFFFF

# Magic, version, 32 bytes of debug id, architecture. Then the numbers of files, functions,
# source locations and ranges, and the bytes of text. The rest is reserved.
_HEADER = struct.Struct("<4sI32sI5I16x")
_FILE_FIELDS = 6
_FUNCTION_FIELDS = 4
_LOCATION_FIELDS = 4
_CXX = 2  # symbolic-common's Language::Cpp
_COLD = b".cold"
_MANGLED = b"_Z"

_Text = TypeVar("_Text", bytes, str)


class Frames(Record, eq=False):
    """The frames at addresses; those of address i from `start[i]` to `start[i + 1]`.

    Attributes:
        start: i64[n + 1].
        name_index: i32[k] into `names`, -1 if unknown; the outermost function first.
        file_index: i32[k] into `files`, -1 if unknown.
        line: u32[k], 0 if unknown.
        names: linkage names; distinct.
        files: the compiler's paths, made absolute; distinct.
    """

    start: I64
    name_index: I32
    file_index: I32
    line: U32
    names: list[bytes]
    files: list[str]


def no_frames(addresses: int) -> Frames:
    """Return the frames of unknown addresses."""
    none = np.zeros(0, np.int32)
    start = np.zeros(addresses + 1, np.int64)
    return Frames(start, none, none, none.astype(np.uint32), [], [])


def join_frames(addresses: int, pieces: Sequence[tuple[Ints, Frames]]) -> Frames:
    """Join the frames of some addresses at a time; equal names and files become one.

    Args:
        addresses: the number of all addresses; those of no piece have no frames.
        pieces: i[n] distinct rows of addresses, and their frames.
    """
    count = np.zeros(addresses + 1, np.int64)
    for row, frames in pieces:
        count[row + 1] = np.diff(frames.start)
    start = np.cumsum(count)
    total = int(start[-1])
    name_index, file_index = np.full(total, -1, np.int32), np.full(total, -1, np.int32)
    line = np.zeros(total, np.uint32)
    names: dict[bytes, int] = {}
    files: dict[str, int] = {}
    for row, frames in pieces:
        shift = np.repeat(start.take(row) - frames.start[:-1], np.diff(frames.start))
        place = np.arange(len(frames.line)) + shift
        name_index[place] = _renumbered(frames.name_index, frames.names, names)
        file_index[place] = _renumbered(frames.file_index, frames.files, files)
        line[place] = frames.line
    return Frames(start, name_index, file_index, line, list(names), list(files))


def select_frames(frames: Frames, row: Ints) -> Frames:
    """Return the frames of some addresses, i[n] rows, in this order."""
    count = np.diff(frames.start).take(row)
    start = np.zeros(len(row) + 1, np.int64)
    np.cumsum(count, out=start[1:])
    at = np.arange(start[-1]) + np.repeat(frames.start.take(row) - start[:-1], count)
    return replace(
        frames,
        start=start,
        name_index=frames.name_index.take(at),
        file_index=frames.file_index.take(at),
        line=frames.line.take(at),
    )


def has_file(frames: Frames) -> Bools:
    """Return bool[n] which addresses have a frame with a file."""
    known = np.zeros(len(frames.start) - 1, np.bool_)
    address_of = np.repeat(np.arange(len(known)), np.diff(frames.start))
    known[address_of[frames.file_index >= 0]] = True
    return known


def replace_frames(frames: Frames, row: Ints, new: Frames) -> Frames:
    """Replace the frames of some addresses, i[k] distinct rows."""
    addresses = len(frames.start) - 1
    is_kept = np.ones(addresses, np.bool_)
    is_kept[row] = False
    kept = np.flatnonzero(is_kept)
    return join_frames(addresses, [(kept, select_frames(frames, kept)), (row, new)])


def _renumbered(index: I32, texts: list[_Text], rows: dict[_Text, int]) -> I32:
    """Turn an index of `texts` into one of all texts, whose numbers are in `rows`."""
    new = np.array([*(rows.setdefault(text, len(rows)) for text in texts), -1], np.int32)
    return new.take(index)


class SymCache(Record, eq=False):
    """The tables of a symcache; use `SymCache.parse`.

    Attributes:
        files: u32[f, 6] offsets of compilation directory, directory and name.
        functions: u32[g, 4] offset of the name, an unused one, first address, language.
        locations: u32[m, 4] file, line, function, and the location that this one is inlined into.
        ranges: u32[r] first address of each of the last r locations, ascending.
        text: strings, each after its length in LEB128.
    """

    files: U32
    functions: U32
    locations: U32
    ranges: U32
    text: memoryview

    @classmethod
    def parse(cls, content: bytes | memoryview) -> SymCache | None:
        """Read the tables; None for another version, or if the bytes are cut."""
        content = memoryview(content)
        if len(content) < _HEADER.size:
            return None
        magic, version, _, _, files, functions, locations, ranges, text_bytes = _HEADER.unpack_from(
            content
        )
        if magic != MAGIC or version != VERSION or ranges > locations:
            return None
        tables = []
        position = _HEADER.size
        for rows, fields in (
            (files, _FILE_FIELDS),
            (functions, _FUNCTION_FIELDS),
            (locations, _LOCATION_FIELDS),
            (ranges, 1),
        ):
            size = 4 * rows * fields
            if position + size > len(content):
                return None
            area = content[position : position + size]
            tables.append(np.frombuffer(area, "<u4").reshape(rows, fields))
            position += -(-size // 8) * 8
        if position + text_bytes > len(content):
            return None
        text = content[position : position + text_bytes]
        return cls(tables[0], tables[1], tables[2], tables[3][:, 0], text)

    @property
    def has_lines(self) -> bool:
        """Whether it has files: without DWARF a symcache has symbols only."""
        return len(self.files) > 0

    def lookup(
        self, address: U64, qualified: Callable[[set[bytes]], dict[bytes, bytes]] | None = None
    ) -> Frames:
        """Find the frames of addresses that count from the image's load address.

        Args:
            address: u64[n].
            qualified: returns names with namespaces and classes, for inlined C++ functions without
                a linkage name; other names stay as they are.
        """
        chain, start = self._chains(self._location_of(address))
        rows, row_of = np.unique(chain, return_inverse=True)
        chosen = self.locations.take(rows, axis=0)
        names, name_index = self._names(chosen, qualified)
        files, file_index = self._files(chosen[:, 0])
        line = np.where(chosen[:, 1] == NONE, np.uint32(0), chosen[:, 1])
        return Frames(
            start=start,
            name_index=name_index.take(row_of),
            file_index=file_index.take(row_of),
            line=line.take(row_of),
            names=names,
            files=files,
        )

    def _location_of(self, address: U64) -> I64:
        """Return the innermost location of each address, -1 if there is none."""
        if not len(self.ranges):
            return np.full(len(address), -1, np.int64)
        known = address < NONE
        low = np.where(known, address, np.uint64(0)).astype(np.uint32)
        row = np.searchsorted(self.ranges, low, side="right") - 1
        location = row + (len(self.locations) - len(self.ranges))
        is_end = (self.locations.take(np.maximum(location, 0), axis=0) == NONE).all(axis=1)
        return np.where(known & (row >= 0) & ~is_end, location, -1)

    def _chains(self, innermost: I64) -> tuple[I64, I64]:
        """Follow each location to the outermost one that it is inlined into, all at once.

        Returns:
            The locations of all addresses, the outermost first, and the first row of each address.
        """
        row = np.flatnonzero(innermost >= 0)
        location = innermost.take(row)
        rows: list[I64] = []
        locations: list[I64] = []
        while len(row) and len(rows) < DEEPEST:
            rows.append(row)
            locations.append(location)
            outer = self.locations[location, 3].astype(np.int64)
            goes_on = outer < len(self.locations)
            row, location = row[goes_on], outer[goes_on]
        order, start = outermost_first(rows, len(innermost))
        chain = np.concatenate([*reversed(locations), np.zeros(0, np.int64)])
        return chain.take(order), start

    def _names(
        self, chosen: U32, qualified: Callable[[set[bytes]], dict[bytes, bytes]] | None
    ) -> tuple[list[bytes], I32]:
        function = chosen[:, 2]
        known = function < len(self.functions)
        offsets = np.full(len(function), NONE, np.uint32)
        offsets[known] = self.functions[function[known], 0]
        # The outermost function has the name of its symbol, and so its linkage name.
        is_bare = known & (chosen[:, 3] != NONE)
        is_bare[known] &= self.functions[function[known], 3] == _CXX
        keys, index = np.unique(offsets.astype(np.int64) * 2 + is_bare, return_inverse=True)
        # If its unlikely part is first, a function has that part's symbol.
        texts = [self._string(key // 2).removesuffix(_COLD) for key in keys.tolist()]
        if qualified:
            bare = {
                text
                for text, key in zip(texts, keys.tolist(), strict=True)
                if key % 2 and text and not text.startswith(_MANGLED)
            }
            scoped = qualified(bare) if bare else {}
            texts = [
                scoped.get(text, text) if key % 2 else text
                for text, key in zip(texts, keys.tolist(), strict=True)
            ]
        return distinct_texts(texts, index)

    def _files(self, file: U32) -> tuple[list[str], I32]:
        distinct, index = np.unique(file, return_inverse=True)
        paths = [self._path(row) for row in distinct.tolist()]
        kept, file_index = distinct_texts(paths, index)
        return [path.decode("utf-8", "surrogateescape") for path in kept], file_index

    def _path(self, file: int) -> bytes:
        if file >= len(self.files):
            return b""
        parts = (self._string(offset) for offset in self.files[file, :3].tolist())
        path = posixpath.join(*parts)
        return posixpath.normpath(path) if path else b""

    def _string(self, offset: int) -> bytes:
        try:
            size, begin = leb128(self.text[: offset + 4], offset)
        except DwarfError:
            return b""
        return bytes(self.text[begin : begin + min(size, LONGEST_TEXT_BYTES)])


def outermost_first(rounds: Sequence[I64], addresses: int) -> tuple[I64, I64]:
    """Sort frames that were found a depth at a time, from the innermost on.

    Args:
        rounds: rows of the addresses with a frame at each depth.

    Returns:
        The order, i64[k], of the frames of all rounds, the last round first; and i64[n + 1] where
        the frames of each address begin in it.
    """
    row = np.concatenate([*reversed(rounds), np.zeros(0, np.int64)])
    start = np.zeros(addresses + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=addresses), out=start[1:])
    return np.argsort(row, kind="stable"), start


def distinct_texts(texts: list[bytes], index: I64) -> tuple[list[bytes], I32]:
    """Drop empty and equal texts; also return the new index, -1 for empty ones."""
    rows: dict[bytes, int] = {}
    row_of = np.array(
        [rows.setdefault(text, len(rows)) if text else -1 for text in texts], np.int32
    )
    return list(rows), row_of.take(index) if len(texts) else np.zeros(0, np.int32)


def lookup_each(content: bytes | memoryview, address: U64) -> Frames:
    """Find frames by the library's own call, for other versions of the format."""
    from symbolic.exceptions import SymbolicError  # noqa: PLC0415 - rarely needed
    from symbolic.symcache import SymCache as LibrarySymCache  # noqa: PLC0415 - rarely needed

    names: dict[bytes, int] = {}
    files: dict[str, int] = {}
    rows: list[tuple[int, int, int]] = []
    start = [0]
    try:
        symcache = LibrarySymCache.from_bytes(bytes(content))
    except SymbolicError:
        return no_frames(len(address))
    for one in address.tolist():
        for found in reversed(symcache.lookup(one)):
            name, path = found.symbol.encode(), found.full_path
            rows.append(
                (
                    names.setdefault(name, len(names)) if name else -1,
                    files.setdefault(posixpath.normpath(path), len(files)) if path else -1,
                    found.line,
                )
            )
        start.append(len(rows))
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Frames(
        start=np.array(start, np.int64),
        name_index=columns[:, 0].astype(np.int32),
        file_index=columns[:, 1].astype(np.int32),
        line=columns[:, 2].astype(np.uint32),
        names=list(names),
        files=list(files),
    )


def line_table_of(
    rows: int,
    pieces: Sequence[tuple[I64, Frames]],
    notes: dict[int, str],
    built_ns: dict[int, int] | None = None,
    named_by: dict[str, set[int]] | None = None,
) -> LineTable:
    """Return the table of frames, as `join_frames`; for the dictionaries see `LineTable`."""
    joined = join_frames(rows, pieces)
    return LineTable(
        joined.start,
        joined.name_index,
        joined.file_index,
        joined.line,
        demangle(joined.names),
        joined.files,
        notes,
        built_ns or {},
        [name.decode("utf-8", "surrogateescape") for name in joined.names],
        named_by or {},
    )
