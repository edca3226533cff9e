"""Events that every kernel knows by name: software, hardware and cache events.

Comes in: a name. Goes out: the type and config of struct perf_event_attr.

Source: enum perf_sw_ids, perf_hw_id, perf_hw_cache_id, perf_hw_cache_op_id and
perf_hw_cache_op_result_id in ``include/uapi/linux/perf_event.h``, Linux 6.18. The names are those
that `perf list` shows, so that a recording is called the same by both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SOFTWARE = "software"
HARDWARE = "hardware"
CACHE = "cache"


class NamedEvent(NamedTuple):
    """An event of the tables: its names, the usual one first, and what it counts."""

    kind: str
    names: tuple[str, ...]
    type: int
    config: int
    description: str


_SOFTWARE = (
    (0, ("cpu-clock",), "time that a CPU's clock ran, in ns"),
    (1, ("task-clock",), "time that tasks ran, in ns"),
    (2, ("page-faults", "faults"), "page faults"),
    (3, ("context-switches", "cs"), "switches from one task to another"),
    (4, ("cpu-migrations", "migrations"), "moves of a task to another CPU"),
    (5, ("minor-faults",), "page faults that read nothing from a disk"),
    (6, ("major-faults",), "page faults that waited for a disk"),
    (7, ("alignment-faults",), "unaligned accesses that the kernel completed"),
    (8, ("emulation-faults",), "instructions that the kernel emulated"),
    (9, ("dummy",), "nothing: carries records of mappings and tasks"),
    (10, ("bpf-output",), "records that BPF programs write"),
    (11, ("cgroup-switches",), "switches to a task of another control group"),
)
_HARDWARE = (
    (0, ("cycles", "cpu-cycles"), "cycles that a CPU worked"),
    (1, ("instructions",), "instructions retired"),
    (2, ("cache-references",), "accesses of the last cache, as a rule"),
    (3, ("cache-misses",), "misses of the last cache, as a rule"),
    (4, ("branches", "branch-instructions"), "branches retired"),
    (5, ("branch-misses",), "branches that were predicted wrongly"),
    (6, ("bus-cycles",), "cycles of the bus"),
    (
        7,
        ("stalled-cycles-frontend", "idle-cycles-frontend"),
        "cycles without an instruction to issue",
    ),
    (8, ("stalled-cycles-backend", "idle-cycles-backend"), "cycles without room to issue one"),
    (9, ("ref-cycles",), "cycles at a rate that does not change with the frequency"),
)
_LOAD, _STORE, _PREFETCH = 0, 1, 2
# Which accesses a cache has at all.
_CACHES = (
    ("L1-dcache", "the first data cache", (_LOAD, _STORE, _PREFETCH)),
    ("L1-icache", "the first instruction cache", (_LOAD, _PREFETCH)),
    ("LLC", "the last cache", (_LOAD, _STORE, _PREFETCH)),
    ("dTLB", "the data TLB", (_LOAD, _STORE, _PREFETCH)),
    ("iTLB", "the instruction TLB", (_LOAD,)),
    ("branch", "the branch predictor", (_LOAD,)),
    ("node", "the memory of the node", (_LOAD, _STORE, _PREFETCH)),
)
_ACCESSES = (("load", "loads"), ("store", "stores"), ("prefetch", "prefetches"))
_ACCESS_SHIFT = 8
_MISS = 1 << 16


def named_events() -> Iterator[NamedEvent]:
    """Yield every event of the tables; whether this machine has it is known once it is opened."""
    for config, names, description in _SOFTWARE:
        yield NamedEvent(SOFTWARE, names, abi.PERF_TYPE_SOFTWARE, config, description)
    for config, names, description in _HARDWARE:
        yield NamedEvent(HARDWARE, names, abi.PERF_TYPE_HARDWARE, config, description)
    for cache, (name, place, accesses) in enumerate(_CACHES):
        for access in accesses:
            one, many = _ACCESSES[access]
            config = cache | access << _ACCESS_SHIFT
            yield _cache_event(f"{name}-{many}", config, f"{many}, {place}")
            misses = f"{many} that miss, {place}"
            yield _cache_event(f"{name}-{one}-misses", config | _MISS, misses)


def find_named(name: str) -> NamedEvent | None:
    """Return the event of this name, None where the tables have none."""
    return next((event for event in named_events() if name in event.names), None)


def _cache_event(name: str, config: int, description: str) -> NamedEvent:
    return NamedEvent(CACHE, (name,), abi.PERF_TYPE_HW_CACHE, config, description)
