"""Distinct hits + address spaces → which object each hit is in, and where in that object.

Comes in: `spaces.attribution.Attribution` and `World`. Goes out: `Placement`, in which objects are
identified as `symbols` wants them and addresses are file offsets for images, AVMA for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.profile.model import (
    KIND_ANON,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_UNKNOWN,
    KIND_VDSO,
)
from prospect.symbols.objects import VSYSCALL, ObjectKey, classify

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.abi.recording import RecordingInfo
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.world import World

KERNEL_KEY = ObjectKey(b"[kernel.kallsyms]", kind=KIND_KERNEL)
NOWHERE_KEY = ObjectKey(b"[unknown]", kind=KIND_UNKNOWN)
GUEST_KEY = ObjectKey(b"[guest]", kind=KIND_UNKNOWN)
VSYSCALL_KEY = ObjectKey(VSYSCALL, kind=KIND_VDSO)
# arch/x86/include/uapi/asm/vsyscall.h: one page, at the same address in every process.
_VSYSCALL_PAGE = np.uint64(0xFFFFFFFFFF600000 >> 12)


@dataclass(frozen=True)
class Placement:
    """Where each distinct hit is.

    Attributes:
        keys: the objects that were hit.
        pids: per object, processes that had it mapped (some, not all), newest first.
        object_index: i32[h] row of `keys`.
        address: u64[h] file offset for images (KIND_ELF, KIND_VDSO), AVMA for the others.
        mapping_index: i64[h] row of the world's mappings, -1 where none.
    """

    keys: list[ObjectKey]
    pids: list[list[int]]
    object_index: NDArray[np.int32]
    address: NDArray[np.uint64]
    mapping_index: NDArray[np.int64]

    def sorted_places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the hits' order by object and address, and where each object's hits begin."""
        order = np.lexsort((self.address, self.object_index))
        objects = self.object_index.take(order)
        return order, np.flatnonzero(np.diff(objects, prepend=np.int32(-1)))


def place(hits: Attribution, world: World, info: RecordingInfo) -> Placement:
    """Find the object and the address in it for every distinct hit."""
    is_user = hits.mode == abi.PERF_RECORD_MISC_USER
    mapping = np.full(len(hits.address), -1, np.int64)
    rows = np.flatnonzero(is_user)
    mapping[rows] = world.address_spaces.locate(
        hits.space.take(rows), hits.epoch.take(rows), hits.address.take(rows)
    )
    fixed = [KERNEL_KEY, NOWHERE_KEY, GUEST_KEY, VSYSCALL_KEY]
    object_index = np.where(
        hits.mode == abi.PERF_RECORD_MISC_KERNEL, np.int32(0), np.where(is_user, 1, 2)
    ).astype(np.int32)
    object_index[is_user & (hits.address >> np.uint64(12) == _VSYSCALL_PAGE)] = 3
    address = hits.address.copy()
    mapped = np.flatnonzero(mapping >= 0)
    keys, pids, object_of, is_image = _objects_of_mappings(
        mapping.take(mapped), hits.process_row.take(mapped), world, info, len(fixed)
    )
    object_index[mapped] = object_of
    images = mapped[is_image]
    own = mapping.take(images)
    address[images] += world.mappings.pgoff.take(own) - world.mappings.start.take(own)
    return Placement(
        keys=fixed + keys,
        pids=[[]] * len(fixed) + pids,
        object_index=object_index,
        address=address,
        mapping_index=mapping,
    )


def _objects_of_mappings(
    mapping: NDArray[np.int64],
    process_row: NDArray[np.int32],
    world: World,
    info: RecordingInfo,
    first_row: int,
) -> tuple[list[ObjectKey], list[list[int]], NDArray[np.int32], NDArray[np.bool_]]:
    """Identify the object behind each located hit.

    Mappings of one file are one object. Anonymous code belongs to its process alone: two JITs use
    the same addresses for different functions.
    """
    hit_mappings, mapping_rank = np.unique(mapping, return_inverse=True)
    identity = _identities(hit_mappings, world, info)
    pair = mapping_rank.astype(np.int64) * len(world.processes) + process_row
    pairs, pair_of_hit = np.unique(pair, return_inverse=True)
    mapping_of_pair = hit_mappings.take(pairs // len(world.processes))
    process_of_pair = pairs % len(world.processes)
    pid_of_pair = world.processes.pid.take(process_of_pair).tolist()
    rows: dict[tuple[ObjectKey, int], int] = {}
    pids: list[list[int]] = []
    object_of_pair = np.empty(len(pairs), np.int32)
    image_of_pair = np.empty(len(pairs), np.bool_)
    for number, (row, pid) in enumerate(zip(mapping_of_pair.tolist(), pid_of_pair, strict=True)):
        key = identity[row]
        own = (key, pid) if key.kind in (KIND_ANON, KIND_JIT) else (key, 0)
        index = rows.setdefault(own, len(rows))
        if index == len(pids):
            pids.append([])
        pids[index].append(pid)
        object_of_pair[number] = first_row + index
        image_of_pair[number] = key.kind in (KIND_ELF, KIND_VDSO)
    keys = [key for key, _ in rows]
    newest = [list(dict.fromkeys(reversed(each)))[:8] for each in pids]
    return keys, newest, object_of_pair[pair_of_hit], image_of_pair[pair_of_hit]


def _identities(
    hit_mappings: NDArray[np.int64], world: World, info: RecordingInfo
) -> dict[int, ObjectKey]:
    """Return what each hit mapping maps.

    A live record carries the build id, the snapshot of /proc carries the inode: where the
    recording knows one build id for a path, both mean that image.
    """
    table = world.mappings
    build_ids: dict[bytes, set[bytes]] = {}
    for entry in info.build_ids:
        build_ids.setdefault(entry.name, set()).add(entry.build_id)
    recorded = table.build_id.take(hit_mappings)
    for row, build_id_row in zip(hit_mappings.tolist(), recorded.tolist(), strict=True):
        if build_id_row >= 0:
            path = world.names[table.name[row]]
            build_ids.setdefault(path, set()).add(world.build_ids[build_id_row])
    identity = {}
    for row, build_id_row in zip(hit_mappings.tolist(), recorded.tolist(), strict=True):
        path = world.names[table.name[row]]
        known = build_ids.get(path, ())
        if build_id_row >= 0 or len(known) == 1:
            build_id = world.build_ids[build_id_row] if build_id_row >= 0 else next(iter(known))
            identity[row] = ObjectKey(path, build_id, kind=classify(path))
        else:
            identity[row] = ObjectKey(
                path=path,
                major=int(table.major[row]),
                minor=int(table.minor[row]),
                inode=int(table.inode[row]),
                kind=classify(path),
            )
    return identity
