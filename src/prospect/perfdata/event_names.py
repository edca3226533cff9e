"""The name of an event from its attributes, for recordings that do not carry it.

Source: ``event_symbols_hw``, ``event_symbols_sw``, ``evsel__hw_cache`` and ``evsel__name()`` of
``tools/perf/util/evsel.c``, Linux 6.18: the names are those that perf prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.abi import constants as abi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prospect.abi.attr import EventAttr

_HARDWARE = (
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
)
_SOFTWARE = (
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
)
_CACHES = ("L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node")
_CACHE_OPERATIONS = (("load", "loads"), ("store", "stores"), ("prefetch", "prefetches"))
# With PERF_PMU_TYPE_SHIFT the upper half of a hardware event's config is the PMU's type.
_CONFIG_MASK = 0xFFFF_FFFF


def event_name(attr: EventAttr, name_of_type: Mapping[tuple[int, int], str] | None = None) -> str:
    """Return what perf calls the event, ``raw 0x…`` where it has no name of its own.

    A suffix says which modes are counted where some are excluded: ``cycles:u``.

    Args:
        attr: the event.
        name_of_type: the recording's own names, by type and config.
    """
    own = (name_of_type or {}).get((attr.type, attr.config))
    return (own or _base_name(attr)) + _modifier(attr.flags)


def _base_name(attr: EventAttr) -> str:
    config = attr.config & _CONFIG_MASK
    if attr.type == abi.PERF_TYPE_HARDWARE and config < len(_HARDWARE):
        return _HARDWARE[config]
    if attr.type == abi.PERF_TYPE_SOFTWARE and config < len(_SOFTWARE):
        return _SOFTWARE[config]
    if attr.type == abi.PERF_TYPE_HW_CACHE:
        return _cache_name(config)
    if attr.type == abi.PERF_TYPE_BREAKPOINT:
        return f"mem:{attr.config1:#x}"
    if attr.type == abi.PERF_TYPE_TRACEPOINT:
        return f"tracepoint {attr.config}"
    return f"raw {attr.config:#x}"


def _cache_name(config: int) -> str:
    cache, operation, result = config & 0xFF, config >> 8 & 0xFF, config >> 16 & 0xFF
    if cache >= len(_CACHES) or operation >= len(_CACHE_OPERATIONS) or result > 1:
        return f"raw {config:#x}"
    one, many = _CACHE_OPERATIONS[operation]
    return f"{_CACHES[cache]}-{one}-misses" if result else f"{_CACHES[cache]}-{many}"


def _modifier(flags: int) -> str:
    modes = (
        ("k", abi.FLAG_EXCLUDE_KERNEL),
        ("u", abi.FLAG_EXCLUDE_USER),
        ("h", abi.FLAG_EXCLUDE_HV),
    )
    counted = "".join(letter for letter, bit in modes if not flags & bit)
    return "" if len(counted) == len(modes) else ":" + counted
