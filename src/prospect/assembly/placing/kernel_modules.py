"""MMAP records of kernel modules → the module that a kernel address is in.

Comes in: `World.kernel_mappings`. Goes out: a key for each module. The records say where modules
stood on the recorded machine, of which this one may have no listing.
Source: ``perf_event__synthesize_modules_maps_cb()`` in ``tools/perf/util/synthetic-events.c``,
``__kmod_path__parse()`` in ``tools/perf/util/dso.c``, Linux 6.18: a record bears the path of the
module's file, or its name in brackets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.profile.model import KIND_MODULE
from prospect.records import NamedTuple
from prospect.symbols.objects import ObjectKey
from prospect.symbols.overlap import latest_pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.spaces.world import World

_NO_MODULES = (b"[kernel.", b"[guest.")


class KernelModules(NamedTuple):
    """Where modules stood.

    Attributes:
        keys: of the modules.
        start, end: u64[p] disjoint pieces of the address space, ascending.
        module: i64[p] row of `keys`.
    """

    keys: list[ObjectKey]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    module: NDArray[np.int64]

    def find(self, address: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of the module of each address u64[n], -1 for none."""
        piece = np.searchsorted(self.start, address, side="right") - 1
        ends = np.append(self.end, np.uint64(0))
        modules = np.append(self.module, -1)
        return np.where(address < ends.take(piece), modules.take(piece), -1)


def find_kernel_modules(world: World) -> KernelModules:
    """Return the modules of a recording; where one replaced another, the later one counts."""
    table = world.kernel_mappings
    names = [_module_name(world.names[row]) for row in table.name.tolist()]
    is_host = table.mode != abi.PERF_RECORD_MISC_GUEST_KERNEL
    rows = np.flatnonzero(is_host & np.array([bool(name) for name in names], np.bool_))
    number: dict[bytes, int] = {}
    module = [number.setdefault(names[row], len(number)) for row in rows.tolist()]
    start, end, piece = latest_pieces(table.start.take(rows), table.end.take(rows))
    keys = [ObjectKey(b"[" + name + b"]", kind=KIND_MODULE) for name in number]
    return KernelModules(keys, start, end, np.array(module, np.int64).take(piece))


def _module_name(path: bytes) -> bytes:
    """Return a module's name as kallsyms has it, b"" for what is none."""
    if path.startswith(b"["):
        name = b"" if path.startswith(_NO_MODULES) else path[1:].partition(b"]")[0]
    else:
        name, dot, _ = path.rpartition(b"/")[2].partition(b".ko")
        name = name if dot else b""
    return name.replace(b"-", b"_")
