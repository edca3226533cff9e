"""AMD's instruction-based sampling of operations: the event source ``ibs_op``.

The raw data of a sample of ``ibs_op//`` are u32 capabilities, then the registers IBS_OP_CTL, RIP,
DATA, DATA2, DATA3, DC_LINADDR, DC_PHYSADDR, each u64.

Source: AMD, Processor Programming Reference for Family 19h Model 01h (55898), MSRC001_1033 to
MSRC001_1039, and for Model 11h (55901): DataSrc has five bits if bit 11 of the capabilities is set;
``arch/x86/include/asm/amd-ibs.h`` and ``arch/x86/events/amd/ibs.c``, Linux 6.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.assembly.raw.raw_records import RawRecords
    from prospect.columns.array_types import F64, U32, U64, Bools


_REGISTERS = 4  # after the capabilities
_OP_CTL, _OP_DATA, _OP_DATA2, _OP_DATA3 = (_REGISTERS + 8 * row for row in (0, 2, 3, 4))
_NEEDED_BYTES = _OP_DATA3 + 8
_CAPS_ZEN4 = 11
# IBS_OP_CTL, IBS_OP_DATA, IBS_OP_DATA2, IBS_OP_DATA3: bits
_VALID = 18
_TAKEN, _MISPREDICTED, _BRANCH_RETIRED = 35, 36, 37
_REMOTE = 4
_LOAD, _STORE, _L1_TLB_MISS, _DC_MISS, _NO_MAB, _L2_MISS, _PREFETCH = 0, 1, 2, 7, 16, 20, 21
_SOURCES = {2: "local cache", 3: "DRAM", 4: "remote cache", 7: "I/O"}
_SOURCES_ZEN4 = {
    1: "L3 or caches of the same complex",
    2: "cache of another complex, same node",
    3: "DRAM",
    5: "cache of another complex, other node",
    6: "long-latency DIMM",
    7: "I/O",
    8: "extension memory",
    12: "memory of another type of CPU",
}


def decode(raw: RawRecords) -> dict[str, NDArray[Any]]:
    """Return the columns of some samples; NaN and "" if a sample has no such value."""
    control, data = raw.u64(_OP_CTL), raw.u64(_OP_DATA)
    data2, data3 = raw.u64(_OP_DATA2), raw.u64(_OP_DATA3)
    is_valid = (raw.size >= _NEEDED_BYTES) & _is_set(control, _VALID)
    is_load = is_valid & _is_set(data3, _LOAD)
    is_miss = is_load & _is_set(data3, _DC_MISS)
    # Models before 10h of family 19h report a wrong L2Miss and DataSrc if no miss buffer was
    # allocated, and for software prefetches (erratum 1293).
    is_sure = is_miss & ~_is_set(data3, _NO_MAB) & ~_is_set(data3, _PREFETCH)
    is_branch = is_valid & _is_set(data, _BRANCH_RETIRED)
    return {
        "tag to retire, cycles": _where(is_valid, _bits(data, 16, 16)),
        "completion to retire, cycles": _where(is_valid, _bits(data, 0, 16)),
        "load miss latency, cycles": _where(is_miss, _bits(data3, 32, 16)),
        "TLB refill latency, cycles": _where(
            is_load & _is_set(data3, _L1_TLB_MISS), _bits(data3, 48, 16)
        ),
        "operation": _text(
            is_valid,
            np.where(
                is_load & _is_set(data3, _STORE),
                "load and store",
                np.where(is_load, "load", np.where(_is_set(data3, _STORE), "store", "other")),
            ),
        ),
        "load": _text(
            is_load & (is_sure | ~is_miss),
            np.where(is_miss, np.where(_is_set(data3, _L2_MISS), "L2 miss", "L2 hit"), "L1 hit"),
        ),
        "data source of misses": _text(is_sure, _sources(raw.u32(0), data2)),
        "branch": _text(
            is_branch,
            np.where(
                _is_set(data, _MISPREDICTED),
                "mispredicted",
                np.where(_is_set(data, _TAKEN), "taken", "not taken"),
            ),
        ),
    }


def _sources(capabilities: U32, data2: U64) -> NDArray[np.str_]:
    low, high = _bits(data2, 0, 3), _bits(data2, 6, 2)
    is_zen4 = (capabilities >> np.uint32(_CAPS_ZEN4) & np.uint32(1)) != 0
    found = np.where(
        is_zen4, _named(_SOURCES_ZEN4, low | high << np.uint64(3)), _named(_SOURCES, low)
    )
    is_remote_memory = _is_set(data2, _REMOTE) & (found == "DRAM")
    return np.where(is_remote_memory, "DRAM of another node", found)


def _named(names: dict[int, str], number: U64) -> NDArray[np.str_]:
    known = np.array([names.get(value, "") for value in range(32)])
    return known.take(number.astype(np.int64))


def _bits(register: U64, first: int, count: int) -> U64:
    return register >> np.uint64(first) & np.uint64((1 << count) - 1)


def _is_set(register: U64, bit: int) -> Bools:
    return np.asarray(_bits(register, bit, 1) != 0, np.bool_)


def _where(has_value: Bools, value: U64) -> F64:
    return np.where(has_value, value.astype(np.float64), np.nan)


def _text(has_value: Bools, text: NDArray[np.str_]) -> NDArray[np.str_]:
    return np.where(has_value, text, "")
