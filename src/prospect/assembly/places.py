"""Distinct hits + address spaces → which object each hit is in, and where in that object.

Comes in: `spaces.attribution.Attribution` and `World`. Goes out: `Placement`, in which objects are
identified as `symbols` wants them and addresses are file offsets for images, AVMA for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.remapped_text import find_remapped_text
from prospect.profile.model import (
    KIND_ANON,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_UNKNOWN,
    KIND_VDSO,
)
from prospect.symbols.objects import COMPAT_VDSO, VDSO, VSYSCALL, ObjectKey, classify

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prospect.abi.recording import RecordingInfo
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.world import World

KERNEL_KEY = ObjectKey(b"[kernel.kallsyms]", kind=KIND_KERNEL)
NOWHERE_KEY = ObjectKey(b"[unknown]", kind=KIND_UNKNOWN)
GUEST_KEY = ObjectKey(b"[guest]", kind=KIND_UNKNOWN)
HYPERVISOR_KEY = ObjectKey(b"[hypervisor]", kind=KIND_UNKNOWN)
VSYSCALL_KEY = ObjectKey(VSYSCALL, kind=KIND_VDSO)
_FIXED_KEYS = (NOWHERE_KEY, KERNEL_KEY, GUEST_KEY, HYPERVISOR_KEY, VSYSCALL_KEY)
# Row of `_FIXED_KEYS` by PERF_RECORD_MISC_CPUMODE, of which there are eight.
_ROW_OF_MODE = np.zeros(8, np.int32)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_KERNEL] = _FIXED_KEYS.index(KERNEL_KEY)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_HYPERVISOR] = _FIXED_KEYS.index(HYPERVISOR_KEY)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_GUEST_KERNEL] = _FIXED_KEYS.index(GUEST_KEY)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_GUEST_USER] = _FIXED_KEYS.index(GUEST_KEY)
_LOW_48_BITS = np.uint64((1 << 48) - 1)
# Enough to find one that still runs.
_MOST_PIDS = 8
_COMPAT_END = np.uint64(1 << 32)
# arch/x86/include/uapi/asm/vsyscall.h: one page, at the same address in every process.
_VSYSCALL_PAGE = np.uint64(0xFFFFFFFFFF600000 >> 12)


@dataclass(frozen=True)
class Placement:
    """Where each distinct hit is.

    Attributes:
        keys: the objects that were hit.
        pids: per object, processes that had it mapped (some, not all), newest first.
        object_index: i32[h] row of `keys`.
        address: u64[h] file offset for images (KIND_ELF, KIND_VDSO), as in `symbols.jit_code` for
            KIND_JIT, AVMA for the others.
        mapping_index: i64[h] row of the world's mappings, -1 where none.
    """

    keys: list[ObjectKey]
    pids: list[list[int]]
    object_index: NDArray[np.int32]
    address: NDArray[np.uint64]
    mapping_index: NDArray[np.int64]

    @property
    def is_nowhere(self) -> NDArray[np.bool_]:
        """bool[h]: which addresses are in no object."""
        nowhere: NDArray[np.bool_] = self.object_index == _FIXED_KEYS.index(NOWHERE_KEY)
        return nowhere

    def first(self, rows: int) -> Placement:
        """Return the placement of the first `rows` addresses only, of the same objects."""
        return Placement(
            self.keys,
            self.pids,
            self.object_index[:rows],
            self.address[:rows],
            self.mapping_index[:rows],
        )

    def sorted_places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the hits' order by object and address, and where each object's hits begin."""
        order = _order_by_place(self.object_index, self.address)
        objects = self.object_index.take(order)
        return order, np.flatnonzero(np.diff(objects, prepend=np.int32(-1)))


def _order_by_place(
    object_index: NDArray[np.int32], address: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Return the order by object, then address; by one packed key where both fit in it."""
    low = address & _LOW_48_BITS
    if (
        len(object_index)
        and object_index.max() >> 16 == 0
        and (_sign_extended(low) == address).all()
    ):
        return np.argsort(object_index.astype(np.uint64) << np.uint64(48) | low)
    return np.lexsort((address, object_index))


def _sign_extended(low: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the canonical addresses that 48 bits stand for, as 4-level paging has them."""
    shift = np.int64(16)
    return (low.view(np.int64) << shift >> shift).view(np.uint64)


@dataclass(frozen=True)
class Addresses:
    """Addresses in processes, to be placed; columns as those of `Attribution`."""

    process_row: NDArray[np.int32]
    space: NDArray[np.int32]
    epoch: NDArray[np.int32]
    mode: NDArray[np.uint8]
    address: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.address)


def place(
    hits: Attribution | Addresses,
    world: World,
    info: RecordingInfo,
    is_other: Callable[[ObjectKey], bool] = lambda _: False,
) -> Placement:
    """Find the object and the address in it for every distinct hit.

    Args:
        hits: where they are.
        world: what stood where.
        info: what the recording says of itself.
        is_other: tells of a file with an inode that it does not have the build id which the
            recording knows for its path; see `RecordedImages.is_other`.
    """
    is_user = hits.mode == abi.PERF_RECORD_MISC_USER
    rows = np.flatnonzero(is_user)
    located = world.address_spaces.locate(
        hits.space.take(rows), hits.epoch.take(rows), hits.address.take(rows)
    )
    object_index = _ROW_OF_MODE.take(hits.mode)
    is_vsyscall = is_user & (hits.address >> np.uint64(12) == _VSYSCALL_PAGE)
    object_index[is_vsyscall] = _FIXED_KEYS.index(VSYSCALL_KEY)
    is_mapped = located >= 0
    rows, located = rows[is_mapped], located[is_mapped]
    objects = _objects_of_mappings(located, hits.process_row[rows], world, info, is_other)
    object_index[rows] = objects.object_of_mapping[located] + np.int32(len(_FIXED_KEYS))
    address = hits.address.copy()
    # Modulo 2**64, like the kernel's own arithmetic on page offsets.
    address[rows] += objects.shift_of_mapping[located]
    mapping = np.full(len(hits), -1, np.int64)
    mapping[rows] = located
    return Placement(
        keys=[*_FIXED_KEYS, *objects.keys],
        pids=[[]] * len(_FIXED_KEYS) + objects.pids,
        object_index=object_index,
        address=address,
        mapping_index=mapping,
    )


@dataclass(frozen=True)
class _MappedObjects:
    """The objects of the mappings that were hit.

    `object_of_mapping` i32[m] and `shift_of_mapping` u64[m], which turns an AVMA into an address of
    the object, count for hit mappings only.
    """

    keys: list[ObjectKey]
    pids: list[list[int]]
    object_of_mapping: NDArray[np.int32]
    shift_of_mapping: NDArray[np.uint64]


def _objects_of_mappings(
    mapping: NDArray[np.int64],
    process_row: NDArray[np.int32],
    world: World,
    info: RecordingInfo,
    is_other: Callable[[ObjectKey], bool],
) -> _MappedObjects:
    """Identify the object behind each located hit.

    Mappings of one file are one object. Anonymous code belongs to the process that mapped it: two
    JITs use the same addresses for different functions. A copy of an executable's code is the
    executable.
    """
    table = world.mappings
    hit_by = np.full(len(table), -1, np.int32)
    hit_by[mapping] = process_row
    hit_mappings = np.flatnonzero(hit_by >= 0)
    copied = find_remapped_text(hit_mappings.tolist(), world)
    stands_for = np.arange(len(table))
    stands_for[list(copied)] = list(copied.values())
    keys = _keys_of(stands_for.take(hit_mappings), world, info, is_other)
    pid = world.processes.pid
    owners = pid[table.process_row[hit_mappings]].tolist()
    users = pid[hit_by[hit_mappings]].tolist()
    rows: dict[tuple[ObjectKey, int], int] = {}
    pids: list[list[int]] = []
    object_of_mapping = np.full(len(table), -1, np.int32)
    is_image = np.zeros(len(table), np.bool_)
    for row, key, owner, user in zip(hit_mappings.tolist(), keys, owners, users, strict=True):
        own = (key, owner) if key.kind in (KIND_ANON, KIND_JIT) else (key, 0)
        index = rows.setdefault(own, len(rows))
        if index == len(pids):
            pids.append([])
        pids[index] += (owner, user)
        object_of_mapping[row] = index
        is_image[row] = key.kind in (KIND_ELF, KIND_VDSO, KIND_JIT)
    shift = table.pgoff - table.start
    return _MappedObjects(
        keys=[key for key, _ in rows],
        pids=[list(dict.fromkeys(reversed(each)))[:_MOST_PIDS] for each in pids],
        object_of_mapping=object_of_mapping,
        shift_of_mapping=np.where(is_image, shift.take(stands_for), np.uint64(0)),
    )


def _keys_of(
    hit_mappings: NDArray[np.int64],
    world: World,
    info: RecordingInfo,
    is_other: Callable[[ObjectKey], bool],
) -> list[ObjectKey]:
    """Return what each hit mapping maps.

    A live record carries the build id, the snapshot of /proc carries the inode: where the
    recording knows one build id for a path, both mean that image, unless the path is known to mean
    another file in another root. Memory with a build id is a
    program that was executed from a memfd, not what a JIT filled. The vdso of a 32-bit program is
    another image of the same name.
    """
    table = world.mappings
    build_ids: dict[bytes, set[bytes]] = {}
    for entry in info.build_ids:
        if entry.build_id.strip(b"\0"):
            build_ids.setdefault(entry.name, set()).add(entry.build_id)
    is_low = (table.start[hit_mappings] < _COMPAT_END).tolist()
    paths = [
        COMPAT_VDSO if low and world.names[row] == VDSO else world.names[row]
        for row, low in zip(table.name[hit_mappings].tolist(), is_low, strict=True)
    ]
    recorded = [
        world.build_ids[row] if row >= 0 else b"" for row in table.build_id[hit_mappings].tolist()
    ]
    for path, build_id in zip(paths, recorded, strict=True):
        if build_id:
            build_ids.setdefault(path, set()).add(build_id)
    files = zip(
        table.major[hit_mappings].tolist(),
        table.minor[hit_mappings].tolist(),
        table.inode[hit_mappings].tolist(),
        strict=True,
    )
    keys = []
    others: dict[ObjectKey, bool] = {}
    for path, own, file in zip(paths, recorded, files, strict=True):
        build_id, known = own, build_ids.get(path, set())
        kind = classify(path)
        by_file = ObjectKey(path, b"", *file, kind)
        if not build_id and len(known) == 1:
            (likely,) = known
            if by_file not in others:
                others[by_file] = is_other(by_file._replace(build_id=likely))
            build_id = b"" if others[by_file] else likely
        if build_id:
            kind = KIND_ELF if kind == KIND_ANON else kind
            keys.append(ObjectKey(path, build_id, kind=kind))
        else:
            keys.append(by_file)
    return keys
