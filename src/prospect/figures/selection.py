"""Profiles with some of the samples, or with fewer hits for all of them.

A profile with some of its samples has only the rows that these refer to, in the same order.

A profile without addresses has one hit for each function. A recording of millions of samples has
hundreds of thousands of addresses and some thousands of functions, and every table of a flat report
passes over the hits again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from prospect.columns.buffers import gather, looked_up
from prospect.columns.grouping import equal_rows, packed_keys, rows_in_groups
from prospect.columns.sorting import distinct
from prospect.profile.complete import ProfileByFunction
from prospect.profile.optional_tables import LineTable
from prospect.records import NamedTuple, asdict, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import I32, Bools, Ints
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import HitTable, Profile, SampleTable, StackTable, WaitTable


_Fact = TypeVar("_Fact")
_AnyProfile = TypeVar("_AnyProfile", bound="Profile")
_HitsOrWaits = TypeVar("_HitsOrWaits", "HitTable", "WaitTable")

_MOST_KEYS = 1 << 63


class _Kept(NamedTuple):
    """Rows to keep, and the new numbers of all rows: -1 for the others, and a last -1 for none."""

    rows: NDArray[np.intp]
    number: I32


def only_used(
    profile: Profile, is_wanted: Bools | None = None, processes: I32 | None = None
) -> Profile:
    """Return the profile of some samples, and of its waits.

    It keeps the processes that have hits or waits, and their ancestors. It omits mappings, lines,
    code, exact counts, and the times of threads.

    Args:
        profile: with samples; with their periods if some are left out.
        is_wanted: bool[n] of its samples; None for all.
        processes: i32 rows of other processes to keep, -1 for none.
    """
    samples, hits = profile.samples, profile.hits
    if is_wanted is not None:
        samples = gather(samples, np.flatnonzero(is_wanted))
        hits = _recounted(hits, samples)
    hit = _kept(hits.count > 0)
    waits = profile.waits
    owners = [hits.process_index[hit.rows]]
    if waits is not None:
        owners.append(waits.process_index)
    if processes is not None:
        owners.append(processes)
    process = _kept(_with_parents(profile, np.concatenate(owners)))
    stacks, stack = None, _kept(np.zeros(0, np.bool_))
    if profile.stacks is not None and samples.stack_index is not None:
        used = samples.stack_index
        if waits is not None and waits.stack_index is not None:
            used = np.append(used, waits.stack_index)
        stacks, stack = _used_stacks(profile.stacks, used)
    if waits is not None:
        has_stacks = stacks is not None and waits.stack_index is not None
        waits = replace(waits, stack_index=stack.number[waits.stack_index] if has_stacks else None)
    rest = _of_hits(replace(profile, hits=hits, lines=None, waits=waits), hit, process, stacks)
    return replace(
        rest,
        samples=replace(
            samples,
            hit_index=hit.number[samples.hit_index],
            stack_index=None if stacks is None else stack.number[samples.stack_index],
        ),
    )


def only_exported(samples: StackSamples) -> StackSamples:
    """Return the same samples of a profile that holds only rows that they refer to.

    Files for other tools must not name other rows: processes, threads, objects, functions, entry
    reasons and source files of other samples are omitted, and with them mappings, code, losses by
    CPU and exact counts.
    """
    profile = replace(samples.profile, waits=None)
    hit = _kept(_used(len(profile.hits), samples.hit_index))
    stacks, stack = _used_stacks(samples.stacks, samples.stack_index)
    process = _kept(_used(len(profile.processes), profile.hits.process_index[hit.rows]))
    rest = _of_hits(profile, hit, process, stacks)
    return replace(
        samples,
        # The samples themselves are separate columns.
        profile=replace(
            rest,
            hits=replace(rest.hits, stack_index=None),
            samples=gather(profile.samples, np.empty(0, np.intp)),
        ),
        stacks=rest.stacks or stacks,
        hit_index=hit.number[samples.hit_index],
        stack_index=stack.number[samples.stack_index],
        stack_of_hit=None,
    )


def _of_hits(
    profile: _AnyProfile, hit: _Kept, process: _Kept, stacks: StackTable | None
) -> _AnyProfile:
    """Return a profile of some of the hits; its samples are still those of all.

    The locations of `stacks` are numbered as in `profile`.
    """
    hits, waits = gather(profile.hits, hit.rows), profile.waits
    tables = [table for table in (hits, waits) if table is not None]
    location = _kept(
        _used(
            len(profile.locations),
            *(table.location_index for table in tables),
            *(() if stacks is None else (stacks.location_index,)),
        )
    )
    function_index = profile.locations.function_index[location.rows]
    function = _kept(_used(len(profile.functions), function_index))
    object_index = profile.functions.object_index[function.rows]
    of_object = _kept(_used(len(profile.objects), object_index))
    comm = _kept(_used(len(profile.comms), *(table.comm_index for table in tables)))
    no_entry_reason = np.zeros(1, np.int32)
    entry_reason = _kept(
        _used(
            len(profile.entry_reasons),
            *(table.entry_reason_index for table in tables),
            no_entry_reason,
        )
    )

    def renumbered(table: _HitsOrWaits) -> _HitsOrWaits:
        return replace(
            table,
            process_index=process.number[table.process_index],
            comm_index=comm.number[table.comm_index],
            location_index=location.number[table.location_index],
            entry_reason_index=entry_reason.number[table.entry_reason_index],
        )

    left = gather(profile.processes, process.rows)
    return replace(
        profile,
        comms=[profile.comms[row] for row in comm.rows.tolist()],
        processes=replace(left, parent_index=process.number[left.parent_index]),
        objects=gather(profile.objects, of_object.rows),
        functions=replace(
            gather(profile.functions, function.rows), object_index=of_object.number[object_index]
        ),
        locations=replace(
            gather(profile.locations, location.rows), function_index=function.number[function_index]
        ),
        entry_reasons=gather(profile.entry_reasons, entry_reason.rows),
        mappings=gather(profile.mappings, np.empty(0, np.intp)),
        hits=renumbered(hits),
        waits=waits and renumbered(waits),
        stacks=stacks and replace(stacks, location_index=location.number[stacks.location_index]),
        stack_copies=None,
        lines=profile.lines and _lines_of(profile.lines, location, of_object),
        code=None,
        syscalls=None,
        call_counts=None,
        threads=None,
        wall=None,
        turns=None,
        unhit_mappings=None,
        sample_data=(),
        part_of=profile.part_of and profile.part_of.renumbered(hit.number[:-1]),
    )


def _lines_of(lines: LineTable, location: _Kept, of_object: _Kept) -> LineTable:
    """Return the lines of some locations, with their names and files."""
    # A completed profile may have a location more than its table of lines.
    sizes = np.append(np.diff(lines.frame_start), 0)
    row = np.minimum(location.rows, len(lines))
    size = sizes[row]
    start = np.append(0, np.cumsum(size))
    rows = np.repeat(lines.frame_start[row] - start[:-1], size) + np.arange(int(start[-1]))
    name = _kept(_used(len(lines.names), lines.name_index[rows]))
    file = _kept(_used(len(lines.files), lines.file_index[rows]))
    numbers = of_object.number.tolist()

    def by_object(facts: dict[int, _Fact]) -> dict[int, _Fact]:
        return {numbers[row]: fact for row, fact in facts.items() if numbers[row] >= 0}

    return LineTable(
        frame_start=start,
        name_index=name.number[lines.name_index[rows]],
        file_index=file.number[lines.file_index[rows]],
        line=lines.line[rows],
        names=[lines.names[row] for row in name.rows.tolist()],
        files=[lines.files[row] for row in file.rows.tolist()],
        symbols=[lines.symbols[row] for row in name.rows.tolist()] if lines.symbols else [],
        notes=by_object(lines.notes),
        built_ns=by_object(lines.built_ns),
    )


def _kept(is_kept: Bools) -> _Kept:
    number = np.full(len(is_kept) + 1, -1, np.int32)
    rows = np.flatnonzero(is_kept)
    number[rows] = np.arange(len(rows), dtype=np.int32)
    return _Kept(rows, number)


def _used(rows: int, *indexes: Ints) -> Bools:
    """Mark the rows that one of the index columns refers to."""
    marked = np.zeros(rows + 1, np.bool_)
    for index in indexes:
        marked[index] = True
    return marked[:-1]


def _with_parents(profile: Profile, process_index: I32) -> Bools:
    marked = _used(len(profile.processes), process_index)
    parent = profile.processes.parent_index
    new = parent[marked]
    while len(new):
        new = distinct(new[new >= 0])
        new = new[~marked[new]]
        marked[new] = True
        new = parent[new]
    return marked


def _used_stacks(stacks: StackTable, stack_index: Ints) -> tuple[StackTable, _Kept]:
    """Return the frames of some stacks; locations are as they were."""
    marked = _used(len(stacks), stack_index)
    # Callers are before what they call, and one less deep.
    for depth in range(int(stacks.depth.max(initial=0)), 0, -1):
        marked[stacks.caller_index[marked & (stacks.depth == depth)]] = True
    kept = _kept(marked)
    found = gather(stacks, kept.rows)
    return replace(found, caller_index=kept.number[found.caller_index]), kept


def _recounted(hits: HitTable, samples: SampleTable) -> HitTable:
    """Return the hits with the counts and periods of these samples."""
    count = np.bincount(samples.hit_index, minlength=len(hits)).astype(np.int64)
    period = np.zeros(len(hits), np.int64)
    if samples.period is not None:
        np.add.at(period, samples.hit_index, samples.period.astype(np.int64))
    return replace(hits, count=count, period=period)


def by_function(profile: CompleteProfile) -> ProfileByFunction:
    """Return the profile with its hits added up by process, function, mode, entry reason and event.

    Returns:
        A profile with the same samples and fewer hits; the same one if nothing is to be added.
    """
    hits, samples = profile.hits, profile.samples
    if not len(hits):
        return profile
    function = profile.locations.function_index.take(hits.location_index)
    keys: list[NDArray[Any]] = [
        hits.event,
        hits.process_index,
        hits.mode,
        function,
        hits.entry_reason_index,
    ]
    if hits.host_hour is not None:
        keys.append(hits.host_hour + 1)
    packed, sizes = packed_keys(keys)
    if math.prod(sizes) > _MOST_KEYS:
        return profile
    order, starts = equal_rows(packed)
    row_of_hit = rows_in_groups(order, starts)
    added_up = {
        "hits": replace(
            gather(hits, order.take(starts)),
            count=np.add.reduceat(hits.count.take(order), starts),
            period=np.add.reduceat(hits.period.take(order), starts),
            stack_index=None,
            label_index=None,
        ),
        "samples": replace(samples, hit_index=looked_up(row_of_hit, samples.hit_index)),
        "part_of": profile.part_of and profile.part_of.renumbered(row_of_hit),
    }
    return ProfileByFunction(**{**asdict(profile), **added_up})
