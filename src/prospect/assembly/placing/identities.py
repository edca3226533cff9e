"""Mappings that were hit → which object each of them maps, and by what it is known.

Comes in: mappings, what the recording says of build ids. Goes out: `ObjectKey`s, with the build id
of what was mapped where the recording knows it, else with device and inode.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Protocol

import numpy as np

from prospect.assembly.extras import counts_of, mapping_of, texts_of
from prospect.columns.grouping import alike
from prospect.profile.model import KIND_ANON, KIND_ELF
from prospect.symbols.objects import COMPAT_VDSO, VDSO, ObjectKey, classify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from prospect.abi.recording import RecordingInfo
    from prospect.spaces.world import World

    File = tuple[int, int, int]

_COMPAT_END = np.uint64(1 << 32)
# One mapping has a record from each event: the recorder's, and that by which it reads build ids.
_SAME_MAPPING_NS = 100_000
_LATEST_NS = np.uint64(1 << 62)  # what a damaged recording may go beyond
_NO_FILE = (0, 0, 0)


class IsOther(Protocol):
    """Whether an inode and a build id are two files; see `RecordedImages.is_other`."""

    def __call__(self, key: ObjectKey, *, is_only: bool) -> bool:
        """Return it."""
        ...


def keys_of_mappings(
    hit_mappings: NDArray[np.int64], world: World, info: RecordingInfo, is_other: IsOther
) -> tuple[list[ObjectKey], NDArray[np.int64]]:
    """Return what hit mappings map, each object once, and i64[r] which of these each one maps.

    A build id is taken from the mapping's own record; else from what the recorder read of the file
    when it was mapped; else, if the recording knows one build id for the path, that one, unless it
    is known to be of another file. Memory with a build id is a program that was executed from a
    memfd, not what a JIT filled. The vdso of a 32-bit program is another image of the same name.
    """
    table = world.mappings
    is_low = table.start[hit_mappings] < _COMPAT_END
    name, build_id = table.name[hit_mappings], table.build_id[hit_mappings]
    time_ns = np.minimum(table.time_ns[hit_mappings], _LATEST_NS).astype(np.int64)
    # A machine maps the same few files thousands of times: each is looked at once.
    by_file = alike([column[hit_mappings] for column in (table.major, table.minor, table.inode)])
    read = _ReadFiles(info)
    interval = read.interval(_files(world, hit_mappings[by_file.row]), by_file.place, time_ns)
    groups = alike((name, is_low, build_id, by_file.place, interval))
    row = groups.row
    paths = [
        COMPAT_VDSO if low and world.names[row] == VDSO else world.names[row]
        for row, low in zip(name[row].tolist(), is_low[row].tolist(), strict=True)
    ]
    files = _files(world, hit_mappings[row])
    own = [
        world.build_ids[known] if known >= 0 else read.build_id(file, at_ns)
        for known, file, at_ns in zip(
            build_id[row].tolist(), files, time_ns[row].tolist(), strict=True
        )
    ]
    known = _ByPath(paths, own, world, info, is_other)
    keys: dict[ObjectKey, int] = {}
    place = []
    for path, its_own, one in zip(paths, own, files, strict=True):
        kind = classify(path)
        found = its_own or known.build_id(ObjectKey(path, b"", *one, kind))
        if found:
            key = ObjectKey(path, found, kind=KIND_ELF if kind == KIND_ANON else kind)
        else:
            key = ObjectKey(path, b"", *one, kind)
        place.append(keys.setdefault(key, len(keys)))
    return list(keys), np.array(place, np.int64)[groups.place]


def _files(world: World, rows: NDArray[np.int64]) -> list[File]:
    """Return (major, minor, inode) of mappings."""
    table = world.mappings
    columns = (table.major, table.minor, table.inode)
    return list(zip(*(column[rows].tolist() for column in columns), strict=True))


class _ByPath:
    """Build ids that the recording knows of paths, and not of single mappings."""

    def __init__(
        self,
        paths: list[bytes],
        own: list[bytes],
        world: World,
        info: RecordingInfo,
        is_other: IsOther,
    ) -> None:
        self._known: dict[bytes, set[bytes]] = {}
        self._world = world
        self._is_other = is_other
        self._answers: dict[ObjectKey, bytes] = {}
        self._files: Mapping[bytes, set[File]] | None = None
        for entry in info.build_ids:
            if entry.build_id.strip(b"\0"):
                self._known.setdefault(entry.name, set()).add(entry.build_id)
        for path, build_id in zip(paths, own, strict=True):
            if build_id:
                self._known.setdefault(path, set()).add(build_id)

    def build_id(self, by_file: ObjectKey) -> bytes:
        """Return the build id of a mapping without one, empty where it is not known."""
        known = self._known.get(by_file.path, set())
        if len(known) != 1:
            return b""
        if by_file not in self._answers:
            (likely,) = known
            key = by_file._replace(build_id=likely)
            is_other = self._is_other(key, is_only=len(self._files_of(by_file.path)) <= 1)
            self._answers[by_file] = b"" if is_other else likely
        return self._answers[by_file]

    def _files_of(self, path: bytes) -> set[File]:
        """Return which files all mappings of a path mean."""
        if self._files is None:
            table = self._world.mappings
            names = {row for row, name in enumerate(self._world.names) if name in self._known}
            rows = np.flatnonzero(np.isin(table.name, list(names)))
            of_path: dict[bytes, set[File]] = {}
            for name, file in zip(
                table.name[rows].tolist(), _files(self._world, rows), strict=True
            ):
                if file != _NO_FILE:
                    of_path.setdefault(self._world.names[name], set()).add(file)
            self._files = of_path
        return self._files.get(path, set())


class _ReadFiles:
    """What the recorder read of mapped files: the key ``mapped_files``, see docs/recording.md."""

    def __init__(self, info: RecordingInfo) -> None:
        self._versions: dict[File, list[tuple[int, int, bytes]]] = {}
        self._begin_ns = next(iter(counts_of(info.extras.get("interval_ns"))), 0)
        document = mapping_of(info.extras.get("mapped_files"))
        numbers = (counts_of(document.get(name)) for name in ("major", "minor", "inode"))
        times = (counts_of(document.get(name)) for name in ("since_ns", "until_ns"))
        build_ids = texts_of(document.get("build_id"))
        for *file, since_ns, until_ns, text in zip(*numbers, *times, build_ids, strict=False):
            build_id = _from_hex(text)
            if build_id:
                major, minor, inode = file
                versions = self._versions.setdefault((major, minor, inode), [])
                versions.append((since_ns, until_ns, build_id))

    def interval(
        self, files: list[File], file: NDArray[np.int32], time_ns: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Number the times between which files had one build id each, i64[r].

        Args:
            files: the files.
            file: i32[r] which of them each mapping maps.
            time_ns: i64[r] when it was made.
        """
        edges = [
            (number, min(edge_ns, int(_LATEST_NS)))
            for number, one in enumerate(files)
            for since_ns, until_ns, _ in self._versions.get(one, ())
            for edge_ns in (since_ns - _SAME_MAPPING_NS, until_ns + _SAME_MAPPING_NS + 1)
        ]
        if not edges:
            return np.zeros(len(file), np.int64)
        of_edge, edge_ns = np.array(edges, np.int64).T
        at_ns = np.where(time_ns == 0, self._begin_ns, time_ns)
        is_edge = np.append(np.ones(len(edges), np.int64), np.zeros(len(file), np.int64))
        # An edge stands before what is mapped at the same moment.
        order = np.lexsort(
            (1 - is_edge, np.append(edge_ns, at_ns), np.append(of_edge, file.astype(np.int64)))
        )
        passed = np.empty(len(order), np.int64)
        passed[order] = np.cumsum(is_edge[order])
        return passed[len(edges) :]

    def build_id(self, file: File, time_ns: int) -> bytes:
        """Return the build id that a file had when it was mapped, empty where it was not read."""
        at_ns = time_ns or self._begin_ns
        for since_ns, until_ns, build_id in self._versions.get(file, ()):
            if since_ns - _SAME_MAPPING_NS <= at_ns <= until_ns + _SAME_MAPPING_NS:
                return build_id
        return b""


def _from_hex(text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except (binascii.Error, ValueError):
        return b""
