"""Turn the profile of a window into the columns of a store.

The numbers of functions and stacks are the first eight bytes of a BLAKE2b hash of what they are, so
they are the same in every window and on every machine, and windows add up without a table. The
accounting has the expected and the recorded samples of a window: without it, a window without
samples and a time without measurement would look the same.
"""

from __future__ import annotations

from _blake2 import blake2b  # hashlib has the same, and loads OpenSSL: 6 ms
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.grouping import exact_sums
from prospect.dimensions import CPU, PROCESS, SEPARATIONS, THREAD
from prospect.estimate.accounting.sample_accounting import sample_accounting
from prospect.estimate.clocks.grid import as_window, tick_grid
from prospect.profile.complete import complete
from prospect.records import NamedTuple, Record
from prospect.store.file_schema import (
    KIND_KERNEL_THREAD,
    KIND_ORDINARY,
    KIND_RECORDER,
    WHOLE_WINDOW,
    Head,
    head_of,
)
from prospect.store.segments import COVERAGE, FUNCTIONS, SAMPLES, STACKS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, U8, U64
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile
    from prospect.store.engine import Columns


_US = 1000  # nanoseconds
_FIRST = (1).to_bytes(8, "little")


class Span(NamedTuple):
    """When a window was, in microseconds since 1970."""

    begin_us: int
    end_us: int


class Window(Record):
    """A window as a store keeps it; `tables` has columns by kind of file."""

    span: Span
    head: Head
    tables: Mapping[str, Columns]


def window_of(
    profile: Profile,
    span: Span,
    *,
    separate: Collection[str] = (),
    services: Mapping[int, str] | None = None,
    window_us: int = 60 * 10**6,
) -> Window:
    """Return the window of a profile with samples.

    Args:
        separate: the keys to keep separate, of `SEPARATIONS`.
        services: the service of each process, by row.
        window_us: the intended length of a window.
    """
    whole = complete(profile)
    functions = _function_numbers(whole)
    stacks = _stack_numbers(whole, functions)
    samples = _sample_columns(whole, functions, stacks, separate, services or {})
    samples["t"] = np.full(len(samples["n"]), span.begin_us, np.int64)
    tables = {
        SAMPLES: samples,
        FUNCTIONS: _function_columns(whole, functions),
        STACKS: _stack_columns(whole, functions, stacks),
        COVERAGE: coverage_columns(whole, span.begin_us, span.end_us),
    }
    kept = tuple(word for word in SEPARATIONS if word in separate)
    return Window(span, head_of(whole.run, kept, window_us), tables)


def _number(*words: object) -> int:
    """Return a hash of words; never 0, which means none."""
    text = "\0".join(map(str, words)).encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") or 1


def _numbers(values: Sequence[int]) -> U64:
    return np.array(values, np.uint64)


def _function_numbers(profile: CompleteProfile) -> U64:
    """Return u64[f]; nameless functions of an object share a number for each reason."""
    objects, functions = profile.objects, profile.functions
    keys = list(zip(objects.path, objects.kind.tolist(), objects.build_id, strict=True))
    return _numbers(
        [
            _number(*keys[owner], address if name else "", name, source)
            for owner, address, name, source in zip(
                functions.object_index.tolist(),
                functions.address.tolist(),
                functions.linkage_name,
                functions.source.tolist(),
                strict=True,
            )
        ]
    )


def _stack_numbers(profile: CompleteProfile, functions: U64) -> U64:
    """Return u64[s]; each is a hash of the frame's place and its caller's number."""
    stacks = profile.stacks
    if stacks is None:
        return np.empty(0, np.uint64)
    function = functions.take(profile.locations.function_index)
    place = np.stack((function, profile.locations.address), axis=1).astype("<u8")
    places = [row.tobytes() for row in place]
    found: list[bytes] = []
    none = bytes(8)
    for caller, at, mode in zip(
        stacks.caller_index.tolist(),
        stacks.location_index.tolist(),
        stacks.mode.tolist(),
        strict=True,
    ):
        outside = found[caller] if caller >= 0 else none
        found.append(stack_number(outside, places[at], mode))
    numbers: U64 = np.frombuffer(b"".join(found), "<u8").astype(np.uint64)
    return numbers


def stack_number(caller: bytes, place: bytes, mode: int) -> bytes:
    """Return the number of a frame, never eight zeros, which mean none.

    Args:
        caller: the number of the caller's frame, eight zeros for none.
        place: the function's number and the address, eight bytes each, little-endian.
        mode: the CPU mode.
    """
    number = blake2b(caller + place + bytes((mode,)), digest_size=8).digest()
    return number if any(number) else _FIRST


def _sample_columns(
    profile: CompleteProfile,
    functions: U64,
    stacks: U64,
    separate: Collection[str],
    services: Mapping[int, str],
) -> dict[str, Any]:
    samples, hits, processes = profile.samples, profile.hits, profile.processes
    hit = samples.hit_index
    group_of_process, of_group = _process_groups(profile, separate, services)
    location = hits.location_index.take(hit)
    # Many hits differ only by a process that is not separate.
    keys: list[NDArray[Any]] = [
        group_of_process.take(hits.process_index).take(hit),
        hits.comm_index.take(hit),
        hits.event.take(hit),
        hits.mode.take(hit),
        hits.entry_reason_index.take(hit),
        location,
    ]
    has_stacks = samples.stack_index is not None and len(stacks) > 0
    if samples.stack_index is not None and has_stacks:
        keys.append(samples.stack_index)
    if CPU in separate:
        keys.append(samples.cpu.astype(np.int64))
    if THREAD in separate and samples.tid is not None:
        keys.append(samples.tid)
    row, first = _row_numbers(keys)
    count = np.bincount(row, minlength=len(first)).astype(np.int64)
    if samples.period is not None:
        period = exact_sums(row, samples.period.astype(np.int64), len(first))
    else:
        each = hits.period // np.maximum(hits.count, 1)
        period = exact_sums(row, each.take(hit), len(first))
    of_hit, group = hit.take(first), of_group.take(keys[0].take(first))
    comm, entry_reason = hits.comm_index.take(of_hit), hits.entry_reason_index.take(of_hit)
    none = np.full(len(first), -1, np.int32)
    stack = np.zeros(len(first), np.uint64)
    if samples.stack_index is not None and has_stacks:
        index = samples.stack_index.take(first)
        stack = np.where(index >= 0, stacks.take(np.maximum(index, 0)), np.uint64(0))
    is_apart = PROCESS in separate or THREAD in separate
    pid = processes.pid.take(group)
    has_tid = THREAD in separate and samples.tid is not None
    start_us = (processes.start_ns // _US).astype(np.int64)
    return {
        "service": [services.get(one, "") for one in group.tolist()],
        "process": [processes.name[one] for one in group.tolist()],
        "comm": [profile.comms[one] if one >= 0 else "" for one in comm.tolist()],
        "kind": _process_kinds(profile).take(group),
        "event": hits.event.take(of_hit),
        "mode": hits.mode.take(of_hit),
        "cause_kind": profile.entry_reasons.kind.take(entry_reason),
        "cause": [profile.entry_reasons.name[one] for one in entry_reason.tolist()],
        "function": functions.take(
            profile.locations.function_index.take(hits.location_index.take(of_hit))
        ),
        "address": profile.locations.address.take(hits.location_index.take(of_hit)),
        "stack": stack,
        "pid": pid if is_apart else np.where(pid == 0, 0, -1).astype(np.int32),
        "start": start_us.take(group) if is_apart else none.astype(np.int64),
        "tid": samples.tid.take(first) if has_tid and samples.tid is not None else none,
        "cpu": samples.cpu.take(first).astype(np.int16) if CPU in separate else none.astype("i2"),
        "n": count,
        "q": count * count,
        "w": period,
    }


def _row_numbers(keys: Sequence[NDArray[Any]]) -> tuple[I64, I64]:
    """Number rows by their keys: i64[n] the number of each, i64[g] the first row of each."""
    number = np.zeros(len(keys[0]), np.int64)
    first = np.empty(0, np.int64)
    for key in keys:
        values = key.astype(np.int64)
        least = int(values.min(initial=0))
        size = int(values.max(initial=0)) - least + 1
        _, first, number = np.unique(
            number * size + (values - least), return_index=True, return_inverse=True
        )
    return number, first


def _process_kinds(profile: CompleteProfile) -> U8:
    processes = profile.processes
    kind = np.where(processes.is_kernel_thread, KIND_KERNEL_THREAD, KIND_ORDINARY)
    return np.where(processes.is_recorder, KIND_RECORDER, kind).astype(np.uint8)


def _process_groups(
    profile: CompleteProfile, separate: Collection[str], services: Mapping[int, str]
) -> tuple[I64, I64]:
    """Return i64[p] the group of each process in the store, and i64[g] a process of each group."""
    processes = profile.processes
    is_apart = PROCESS in separate or THREAD in separate
    kinds = _process_kinds(profile).tolist()
    number: dict[object, int] = {}
    group, one_of = [], []
    for row, (name, pid, start) in enumerate(
        zip(processes.name, processes.pid.tolist(), processes.start_ns.tolist(), strict=True)
    ):
        apart = (pid, start) if is_apart else pid == 0
        key = (services.get(row, ""), name, kinds[row], apart)
        if key not in number:
            number[key] = len(number)
            one_of.append(row)
        group.append(number[key])
    return np.array(group, np.int64), np.array(one_of, np.int64)


def _function_columns(profile: CompleteProfile, numbers: U64) -> dict[str, Any]:
    functions, objects = profile.functions, profile.objects
    owner = functions.object_index
    of_object = _numbers(
        [
            _number(path, kind, build_id)
            for path, kind, build_id in zip(
                objects.path, objects.kind.tolist(), objects.build_id, strict=True
            )
        ]
    )
    return {
        "function": numbers,
        "name": functions.name,
        "raw_name": functions.linkage_name,
        "aliases": ["\n".join(names) for names in functions.aliases],
        "address": functions.address,
        "size": functions.size_bytes,
        "is_global": functions.is_global,
        "source": functions.source,
        "object": of_object.take(owner),
        "path": [objects.path[one] for one in owner.tolist()],
        "object_kind": objects.kind.take(owner),
        "build_id": [objects.build_id[one] for one in owner.tolist()],
        "object_source": objects.source.take(owner),
        "note": [objects.note[one] for one in owner.tolist()],
    }


def _stack_columns(profile: CompleteProfile, functions: U64, numbers: U64) -> dict[str, Any]:
    stacks, locations = profile.stacks, profile.locations
    none = np.empty(0, np.int32)
    caller = none if stacks is None else stacks.caller_index
    at = none if stacks is None else stacks.location_index
    outside = np.append(numbers, np.uint64(0)).take(caller)
    return {
        "stack": numbers,
        "caller": outside,
        "function": functions.take(locations.function_index.take(at)),
        "address": locations.address.take(at),
        "mode": np.empty(0, np.uint8) if stacks is None else stacks.mode,
        "depth": none if stacks is None else stacks.depth,
    }


def coverage_columns(profile: CompleteProfile, begin_us: int, end_us: int) -> dict[str, Any]:
    """Return the accounting of a window, of each CPU with clocks and of the whole window.

    The window's begin and end are in microseconds since 1970.
    """
    grid = tick_grid(profile)
    if grid is not None:
        # Clocks run on from window to window: whole periods would lose half a tick a clock.
        grid = as_window(grid, profile.run.begin_ns)
    accounting = sample_accounting(profile, grid)
    event = int(profile.clocks.event[0]) if len(profile.clocks) else 0
    cpus: list[int] = []
    steal_us: list[int] = []
    counts = np.zeros((6, 0), np.int64)
    unclocked, other_losses = len(profile.samples), int(profile.losses.lost.sum())
    if accounting is not None:
        cpus = accounting.cpu.tolist()
        counts = np.stack(accounting.by_cpu)
        steal_us = np.rint(np.nan_to_num(accounting.accounted_steal_s) * 1e6).astype(int).tolist()
        unclocked = accounting.unclocked
        # Records of no clock count too, such as Python's frames in a full ring.
        other_losses = max(
            other_losses - int(accounting.by_cpu.lost.sum()), accounting.other_losses
        )
    whole = np.array([[0], [unclocked], [other_losses], [0], [0], [0]], np.int64)
    expected, recorded, lost, throttled, idle, missing = np.hstack((counts, whole))
    rows = len(cpus) + 1
    return {
        "t": np.full(rows, begin_us, np.int64),
        "until": np.full(rows, end_us, np.int64),
        "cpu": np.array([*cpus, WHOLE_WINDOW], np.int16),
        "event": np.full(rows, event, np.uint16),
        "expected": expected,
        "recorded": recorded,
        "lost": lost,
        "throttled": throttled,
        "idle": idle,
        "missing": missing,
        "steal_us": np.array([*steal_us, 0], np.int64),
    }


def lost_samples(accounting: Columns) -> int:
    """Return the number of samples that a window lost, or of records if it has no clocks.

    `accounting` is as `coverage_columns` returns it.
    """
    is_clock = np.asarray(accounting["cpu"]) != WHOLE_WINDOW
    lost = np.asarray(accounting["lost"])
    return int((lost[is_clock] if is_clock.any() else lost).sum())
