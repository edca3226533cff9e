"""Make the profile of a part of a store, as the pipeline makes one of a recording.

It has hits and their stacks, the losses and the measured time. It has no samples, clocks, mappings
or times of threads.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.announcing import pluralize
from prospect.dimensions import BY_NAME
from prospect.errors import StoreError
from prospect.profile.builder import no_clocks, no_samples
from prospect.profile.model import (
    BIRTH_PREEXISTING,
    ENTRY_REASON_NONE,
    EntryReasonTable,
    HitClasses,
    HitTable,
    LossTable,
    MappingTable,
    ProcessTable,
    Profile,
)
from prospect.profile.run_info import RunInfo, counted_notes
from prospect.records import NamedTuple, replace
from prospect.store.choosing import CLASS, busy_by_event, chosen_rows
from prospect.store.engine import EngineError
from prospect.store.file_schema import KIND_KERNEL_THREAD, KIND_RECORDER
from prospect.store.hosts import asked
from prospect.store.measured import Measured, measured
from prospect.store.names import Names, read_names
from prospect.store.segment_reading import choose
from prospect.store.segments import COVERAGE, FUNCTIONS, KINDS, SAMPLES, SUMS
from prospect.store.tables import local_engine, make_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I32
    from prospect.store.directory import StoreDirectory
    from prospect.store.segment_reading import Part
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker


_STILL_RUNNING = 2**64 - 1
_US = 1e-6


class Apart(NamedTuple):
    """The keys that hits of a part keep, beyond what a report always shows.

    Attributes:
        stacks: the call stack, if there are any.
        addresses: the address within a function, as far as the store has it.
        classes: dimensions of `--columns`.
    """

    stacks: bool = False
    addresses: bool = False
    classes: tuple[str, ...] = ()


def read_part(
    store: StoreDirectory,
    chosen: Specification,
    apart: Apart = Apart(),  # noqa: B008 - never changed
    make_engine: EngineMaker = local_engine,
) -> Profile:
    """Read a part of a store.

    Raises:
        StoreError: nothing matches, or nothing can be read.
    """

    def read(store: StoreDirectory) -> Profile:
        return _read_part(store, chosen, apart, make_engine)

    return asked(store, read)


def _read_part(
    store: StoreDirectory, chosen: Specification, apart: Apart, make_engine: EngineMaker
) -> Profile:
    kinds = KINDS if apart.stacks else (SAMPLES, FUNCTIONS, COVERAGE)
    engine = make_engine(store)
    try:
        # Days do not have these keys.
        is_separate = any(BY_NAME[name].separate for name in apart.classes)
        fine = apart.addresses or bool(chosen.numbers) or is_separate
        part = choose(store, engine.planner, chosen, fine=fine)
        hours = part.is_share_of_hosts or "hour" in apart.classes
        part = part._replace(sums=() if hours else (SUMS,))
        make_tables(store, engine, part, kinds)
        rows = chosen_rows(store, engine, part, stacks=apart.stacks, apart=apart.classes)
        names = read_names(engine, rows, stacks=apart.stacks)
        accounting = measured(engine, part)
        run = replace(_run(store, part, accounting), busy=busy_by_event(engine, part, rows))
        profile = _profile(part, run, rows, names, accounting)
        return with_classes(profile, part, rows, apart.classes)
    except EngineError as error:
        raise StoreError(f"{store.path}: cannot be read: {error}") from None
    finally:
        engine.close()


def _profile(
    part: Part, run: RunInfo, rows: dict[str, NDArray[Any]], names: Names, accounting: Measured
) -> Profile:
    processes, process_index = _processes(rows)
    comm_index, comms = _numbered(rows["comm"])
    entry_reasons, entry_reason_index = _entry_reasons(rows)
    none, times = np.empty(0, np.int32), np.empty(0, np.uint64)
    counts = np.empty(0, np.int64)
    return Profile(
        run=run,
        comms=comms,
        processes=processes,
        objects=names.objects,
        functions=names.functions,
        locations=names.locations,
        mappings=MappingTable(none, none, times, times, times, counts, np.empty(0, np.int8)),
        hits=HitTable(
            process_index=process_index,
            comm_index=comm_index,
            location_index=names.location_of_row,
            mode=rows["mode"].astype(np.uint8),
            event=rows["event"].astype(np.uint16),
            entry_reason_index=entry_reason_index,
            count=rows["n"].astype(np.int64),
            period=rows["w"].astype(np.int64),
            stack_index=names.stack_of_row,
            host_hour=_host_hours(part, rows) if part.is_share_of_hosts else None,
        ),
        losses=LossTable(accounting.cpu, accounting.lost, accounting.throttled),
        entry_reasons=entry_reasons,
        samples=no_samples(),
        clocks=no_clocks(),
        stacks=names.stacks,
    )


def _run(store: StoreDirectory, part: Part, accounting: Measured) -> RunInfo:
    head, words = part.heads[-1], part.chosen.words
    limits = counted_notes(limit for one in part.heads for limit in one.run["limits"])
    own = [
        accounting.span,
        "A store keeps sums by window: no times within one, no mappings, no late samples.",
        *accounting.remarks,
        *part.remarks,
    ]
    known = {**head.run, "limits": (*own, *limits)}
    if accounting.hosts > 1:
        known |= {"hostname": pluralize(accounting.hosts, "host"), "cpus": accounting.cpus}
    return RunInfo(
        **known,
        origin=shlex.join((store.path, *words)),
        store_part=("--store", store.path, *words),
        command=(),
        started_at=accounting.begin_us * _US,
        wall_seconds=accounting.measured_us * _US,
        system_wide=True,
        events=head.events,
        begin_ns=0,
        end_ns=accounting.measured_us * 1000,
        host_share=min(one.host_share for one in part.heads),
        due_ticks=accounting.due,
        seen_ticks=accounting.seen,
        middle_at=accounting.middle_us * _US,
    )


def _host_hours(part: Part, rows: dict[str, NDArray[Any]]) -> I32:
    """Return the number of each row's host and hour, i32; -1 if the host represents only itself."""
    heads = zip(part.hosts, part.heads, strict=True)
    of_others = {host for host, head in heads if head.host_share < 1}
    number: dict[tuple[str, int], int] = {}
    keys = zip(rows["host"].tolist(), rows["hour"].tolist(), strict=True)
    found = [number.setdefault(key, len(number)) if key[0] in of_others else -1 for key in keys]
    return np.array(found, np.int32)


def _numbered(texts: NDArray[Any]) -> tuple[I32, list[str]]:
    """Return the index of each text, and the distinct texts."""
    number: dict[str, int] = {}
    rows = [number.setdefault(text, len(number)) for text in texts.tolist()]
    return np.array(rows, np.int32), list(number)


def _processes(rows: dict[str, NDArray[Any]]) -> tuple[ProcessTable, I32]:
    number: dict[tuple[Any, ...], int] = {}
    columns = (rows[name].tolist() for name in ("process", "kind", "pid", "start", "service"))
    index = [number.setdefault(key, len(number)) for key in zip(*columns, strict=True)]
    keys = list(number)
    count = len(keys)
    kind = np.array([key[1] for key in keys], np.uint8)
    start = np.array([max(key[3], 0) for key in keys], np.uint64) * np.uint64(1000)
    unknown, no = np.full(count, -1, np.int32), np.zeros(count, np.bool_)
    table = ProcessTable(
        name=[key[0] for key in keys],
        pid=np.array([key[2] for key in keys], np.int32),
        parent_pid=unknown,
        group_pid=unknown,
        session_pid=unknown,
        parent_index=unknown,
        birth=np.full(count, BIRTH_PREEXISTING, np.uint8),
        start_ns=start,
        end_ns=np.full(count, _STILL_RUNNING, np.uint64),
        is_kernel_thread=kind == KIND_KERNEL_THREAD,
        is_recorder=kind == KIND_RECORDER,
        is_command=no,
        is_descendant=no,
        control_group=services if any(services := [key[4] for key in keys]) else None,
        service=services if any(services) else None,
    )
    return table, np.array(index, np.int32)


def _entry_reasons(rows: dict[str, NDArray[Any]]) -> tuple[EntryReasonTable, I32]:
    number: dict[tuple[int, str], int] = {(ENTRY_REASON_NONE, ""): 0}
    keys = zip(rows["cause_kind"].tolist(), rows["cause"].tolist(), strict=True)
    index = [number.setdefault(key, len(number)) for key in keys]
    kinds = np.array([kind for kind, _ in number], np.uint8)
    return EntryReasonTable(kinds, [name for _, name in number]), np.array(index, np.int32)


def with_classes(
    profile: Profile, part: Part, rows: dict[str, NDArray[Any]], dimensions: Sequence[str]
) -> Profile:
    """Return the profile of rows with classes of hits, by the columns of classes.

    `rows` are as `chosen_rows` returns them; the profile has a row of hits for each.
    """
    dimensions = [one for one in dimensions if f"{CLASS}_{one}" in rows]
    if not dimensions:
        return profile
    number: dict[tuple[str, ...], int] = {}
    names = zip(*(_names(part, rows, one) for one in dimensions), strict=True)
    index = [number.setdefault(name, len(number)) for name in names]
    return replace(
        profile,
        hits=replace(profile.hits, class_index=np.array(index, np.int32)),
        classes=HitClasses(tuple(dimensions), list(number)),
    )


def _names(part: Part, rows: dict[str, NDArray[Any]], dimension: str) -> list[str]:
    """Return the name of each row in a dimension."""
    values = rows[f"{CLASS}_{dimension}"].tolist()
    comm: dict[object, str] = {}
    if dimension == "thread":
        # The name that the thread has in its row with the most samples.
        order = np.argsort(rows["n"], kind="stable").tolist()
        comms = rows["comm"].tolist()
        comm = {values[row]: comms[row] for row in order}
    if dimension == "session":
        return [part.segments[value].session for value in values]
    name_of = BY_NAME[dimension].class_name
    names = {value: name_of(value, comm.get(value, "")) for value in set(values)}
    return [names[value] for value in values]
