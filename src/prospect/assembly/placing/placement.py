"""Distinct hits + address spaces → which object each hit is in, and where in that object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.placing.mapped_objects import (
    find_kernel_modules,
    objects_of_mappings,
)
from prospect.assembly.stacks.chain_frames import CPUMODE_CUT
from prospect.profile.model import (
    CUT_OBJECT,
    KIND_KERNEL,
    KIND_UNKNOWN,
    KIND_VDSO,
)
from prospect.records import Record
from prospect.symbols.objects import RUNTIME_BASE, VSYSCALL, ObjectKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.assembly.placing.mapped_objects import IsOther
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.process_history import ProcessHistory
    from prospect.symbols.runtime_code import RuntimeCode

KERNEL_KEY = ObjectKey(b"[kernel.kallsyms]", kind=KIND_KERNEL)
NOWHERE_KEY = ObjectKey(b"[unknown]", kind=KIND_UNKNOWN)
GUEST_KEY = ObjectKey(b"[guest]", kind=KIND_UNKNOWN)
HYPERVISOR_KEY = ObjectKey(b"[hypervisor]", kind=KIND_UNKNOWN)
VSYSCALL_KEY = ObjectKey(VSYSCALL, kind=KIND_VDSO)
CUT_KEY = ObjectKey(CUT_OBJECT.encode(), kind=KIND_UNKNOWN)
_FIXED_KEYS = (NOWHERE_KEY, KERNEL_KEY, GUEST_KEY, HYPERVISOR_KEY, VSYSCALL_KEY, CUT_KEY)
# Row of `_FIXED_KEYS` by PERF_RECORD_MISC_CPUMODE, of which there are eight.
_ROW_OF_MODE = np.zeros(8, np.int32)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_KERNEL] = _FIXED_KEYS.index(KERNEL_KEY)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_HYPERVISOR] = _FIXED_KEYS.index(HYPERVISOR_KEY)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_GUEST_KERNEL] = _FIXED_KEYS.index(GUEST_KEY)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_GUEST_USER] = _FIXED_KEYS.index(GUEST_KEY)
_ROW_OF_MODE[CPUMODE_CUT] = _FIXED_KEYS.index(CUT_KEY)
_LOW_48_BITS = np.uint64((1 << 48) - 1)
# arch/x86/include/uapi/asm/vsyscall.h: one page, at the same address in every process.
_VSYSCALL_PAGE = np.uint64(0xFFFFFFFFFF600000 >> 12)


class Placement(Record):
    """Where each distinct hit is.

    Attributes:
        keys: the objects that were hit.
        pids: per object, processes that had it mapped (some, not all), newest first.
        object_index: i32[h] row of `keys`.
        address: u64[h] file offset for images (KIND_ELF, KIND_VDSO), as in
            `symbols.jit.jit_code` for KIND_JIT, AVMA for the others.
        mapping_index: i64[h] row of the history's mappings, -1 if none.
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
    """Return the canonical addresses of 48 bits, as with 4-level paging."""
    shift = np.int64(16)
    return (low.view(np.int64) << shift >> shift).view(np.uint64)


class Addresses(Record):
    """Addresses in processes, to be placed; columns as those of `Attribution`."""

    process_row: NDArray[np.int32]
    space: NDArray[np.int32]
    epoch: NDArray[np.int32]
    mode: NDArray[np.uint8]
    address: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.address)


def with_addresses(hits: Attribution, others: Sequence[Addresses]) -> Attribution | Addresses:
    """Return the addresses of the hits, followed by those of other tables."""
    if not others:
        return hits
    return Addresses(
        *(
            np.concatenate([getattr(table, name) for table in (hits, *others)])
            for name in ("process_row", "space", "epoch", "mode", "address")
        )
    )


def place(
    hits: Attribution | Addresses,
    history: ProcessHistory,
    info: RecordingInfo,
    is_other: IsOther = lambda key, *, is_only: False,  # noqa: ARG005 - of no file
    runtimes: RuntimeCode | None = None,
) -> Placement:
    """Find the object and the address in it for every distinct hit.

    Args:
        hits: where they are.
        history: what was where.
        info: what the recording says of itself.
        is_other: see `RecordedImages.is_other`.
        runtimes: what is at addresses of runtimes' functions, None without.
    """
    is_user = hits.mode == abi.PERF_RECORD_MISC_USER
    fixed, object_index = _places_by_mode(hits, history)
    is_vsyscall = is_user & (hits.address >> np.uint64(12) == _VSYSCALL_PAGE)
    object_index[is_vsyscall] = _FIXED_KEYS.index(VSYSCALL_KEY)
    runs = history.address_spaces.locate_runs(
        np.where(is_user, hits.space, np.int32(-1)), hits.epoch, hits.address
    )
    is_mapped = runs.mapping >= 0
    located = runs.mapping[is_mapped]
    last = (runs.start + runs.length - 1)[is_mapped]
    objects = objects_of_mappings(located, hits.process_row.take(last), history, info, is_other)
    # Runs in no mapping keep their object and address.
    in_object = np.full(len(runs.mapping), -1, np.int32)
    in_object[is_mapped] = objects.object_of_mapping.take(located) + np.int32(len(fixed))
    in_object = in_object.repeat(runs.length)
    np.copyto(object_index, in_object, where=in_object >= 0)
    shift = np.zeros(len(runs.mapping), np.uint64)
    shift[is_mapped] = objects.shift_of_mapping.take(located)
    # Modulo 2**64, like the kernel's own arithmetic on page offsets.
    address = shift.repeat(runs.length)
    address += hits.address
    mapping = runs.mapping.repeat(runs.length)
    keys = [*fixed, *objects.keys]
    pids: list[list[int]] = [[]] * len(fixed) + objects.pids
    if runtimes is not None:
        row = _place_runtimes(runtimes, is_user, address, object_index, len(keys))
        keys += row
        pids += [[]] * len(row)
    return Placement(
        keys=keys,
        pids=pids,
        object_index=object_index,
        address=address,
        mapping_index=mapping,
    )


def _place_runtimes(
    code: RuntimeCode,
    is_user: NDArray[np.bool_],
    address: NDArray[np.uint64],
    object_index: NDArray[np.int32],
    first_object: int,
) -> list[ObjectKey]:
    """Put what is in functions of runtimes there, in both columns; return the objects of these."""
    is_theirs = is_user & code.covers(address)
    inside = address[is_theirs] - RUNTIME_BASE
    address[is_theirs] = inside
    object_index[is_theirs] = code.object_of.take(code.row_of(inside)) + first_object
    return [ObjectKey(path, kind=kind) for path, kind in code.objects]


def _places_by_mode(
    hits: Attribution | Addresses, history: ProcessHistory
) -> tuple[list[ObjectKey], NDArray[np.int32]]:
    """Return the objects that no process maps, and i32[h] which of them each hit is in."""
    object_index = _ROW_OF_MODE.take(hits.mode)
    modules = find_kernel_modules(history)
    of_kernel = np.flatnonzero(hits.mode == abi.PERF_RECORD_MISC_KERNEL)
    module = modules.find(hits.address.take(of_kernel))
    is_module = module >= 0
    object_index[of_kernel[is_module]] = len(_FIXED_KEYS) + module[is_module]
    return [*_FIXED_KEYS, *modules.keys], object_index
