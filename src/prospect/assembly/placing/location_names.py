"""Placed addresses → locations with names: each address is named once.

The kind of the recording determines the `Symbolizer`: that of this machine, of an archive, or one
that keeps names.
"""

from __future__ import annotations

import functools
import itertools
import os
from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.assembly_limits import LATEST_S
from prospect.assembly.extras import counts_of, interval_ns, mapping_of, number_of, recorded_until
from prospect.assembly.placing.placement import KERNEL_KEY
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import HitObject
from prospect.symbols.symbolizer import Symbolizer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.announcing import Announce
    from prospect.archived.kept_answers import Answers
    from prospect.archived.symbolizers import Collector
    from prospect.assembly.placing.jit import JitRecords
    from prospect.assembly.placing.placement import Placement
    from prospect.columns.array_types import I32, I64
    from prospect.events.record_columns import Events
    from prospect.profile.builder import TableBuilder
    from prospect.spaces.process_history import ProcessHistory
    from prospect.spaces.replay import ProcessRows
    from prospect.symbols.kept_names import KeptNames


def with_answers(info: RecordingInfo) -> tuple[RecordingInfo, Answers | None]:
    """Return the recording before it became an archive, and the archive's answers, if any."""
    if not info.archive:
        return info, None
    from prospect.archived.archive_format import decode as decode_archive  # noqa: PLC0415 - rarely needed
    from prospect.archived.symbolizers import restored_info  # noqa: PLC0415 - rarely needed

    answers = decode_archive(info.archive)
    return restored_info(info, answers), answers


def make_symbolizer(
    options: SymbolOptions,
    answers: Answers | None,
    collector: Collector | None,
    kept: KeptNames | None = None,
) -> Symbolizer:
    """Return the symbolizer of this machine or of an archive.

    `kept` stores the names for the next part of a live session.
    """
    if answers is not None:
        from prospect.archived.symbolizers import ArchivedSymbolizer  # noqa: PLC0415 - rarely needed

        return ArchivedSymbolizer(options, answers)
    if collector is not None:
        from prospect.archived.symbolizers import CollectingSymbolizer  # noqa: PLC0415 - rarely needed

        return CollectingSymbolizer(options, collector)
    if kept is not None:
        from prospect.symbols.kept_names import CachingSymbolizer  # noqa: PLC0415 - rarely needed

        return CachingSymbolizer(kept, options)
    return Symbolizer(options)


def recorded_facts(info: RecordingInfo, jit: JitRecords, history: ProcessHistory) -> SymbolOptions:
    """Return a recording's facts about its machine, with the default choices."""
    kernel_ids = [entry.build_id for entry in info.build_ids if entry.name == KERNEL_KEY.path]
    text_address, text_symbol = _kernel_text(history)
    return SymbolOptions(
        hostname=info.hostname,
        target=info.target,
        recorded_until=recorded_until(info, jit.events),
        named_by=info.named_by,
        kernel_release=info.os_release,
        kernel_build_id=kernel_ids[0] if kernel_ids else b"",
        kernel_text=text_address,
        kernel_text_symbol=text_symbol,
        kernel_symbols=jit.events.kernel_symbols,
        jit_code=jit.code,
        jit_maps=jit.maps,
        starts_of=functools.partial(_program_starts, history.processes, info),
        epoch_ns=_epoch_ns(info, jit.events),
        names=history.names,
        images=info.images,
    )


def _program_starts(processes: ProcessRows, info: RecordingInfo, pid: int) -> list[int]:
    """Return when the programs of a process began, the last one first.

    A part of a live session gets the starts of earlier programs from the session.
    """
    starts: list[int] = processes.start_ns[processes.pid == pid][::-1].tolist()
    known = mapping_of(info.extras.get("program_starts")).get(str(pid))
    if starts and not starts[-1]:
        starts[-1:] = counts_of([known]) or [0]
    return starts


def _epoch_ns(info: RecordingInfo, events: Events) -> int:
    """Return the difference of ns since the epoch and times of the recording; 0: unknown."""
    started_at = number_of(info.extras.get("started_at"))
    is_time = 0 < started_at < LATEST_S
    return round(started_at * 1e9) - interval_ns(info, events)[0] if is_time else 0


def _kernel_text(history: ProcessHistory) -> tuple[int, str]:
    """Return the recorded address of a kernel symbol, and the symbol.

    The name of the kernel's mmap record ends with a symbol, whose address is its page offset.
    Source: ``tools/perf/util/synthetic-events.c`` perf_event__synthesize_kernel_mmap().
    """
    kernel = history.kernel_mappings
    for name, pgoff in zip(kernel.name.tolist(), kernel.pgoff.tolist(), strict=True):
        prefix, bracket, symbol = history.names[name].partition(b"]")
        if prefix == b"[kernel.kallsyms" and bracket:
            return pgoff, symbol.decode("utf-8", "surrogateescape") or "_text"
    return 0, "_text"


def hit_objects(placement: Placement, count: I64) -> Iterable[HitObject]:
    """Return the objects that have hits; `count` i64[h] is that of the placed hits."""
    of_object = np.bincount(placement.object_index, count, len(placement.keys)).astype(np.int64)
    rows = zip(placement.keys, placement.pids, of_object.tolist(), strict=True)
    return (HitObject(key, pids, hits) for key, pids, hits in rows if hits)


def name_all(
    placement: Placement, symbolizer: Symbolizer, builder: TableBuilder, announce: Announce
) -> tuple[I32, I32]:
    """Name each distinct (object, address) of a placement once, and add the names to `builder`.

    Returns:
        The location row of every hit, and the profile's row of every placed object, -1 for those
        without a hit.
    """
    order, starts = placement.sorted_places()
    addresses = placement.address.take(order)
    objects = placement.object_index.take(order)
    location = np.empty(len(order), np.int32)
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = addresses[1:] != addresses[:-1]
    is_new[starts] = True
    location[order] = np.cumsum(is_new) - 1
    object_rows = np.full(len(placement.keys), -1, np.int32)
    bounds = [*starts.tolist(), len(order)]
    for number, (start, end) in enumerate(itertools.pairwise(bounds), 1):
        row = int(objects[start])
        path = os.fsdecode(placement.keys[row].path)
        announce(f"naming {number} of {len(starts)} objects: {path}")
        found = symbolizer.resolve(
            placement.keys[row], placement.pids[row], addresses[start:end][is_new[start:end]]
        )
        object_rows[row] = builder.add(
            found.path,
            found.kind,
            found.named,
            build_id=found.build_id,
            note=found.note,
            part_kinds=found.part_kinds,
        )
    return location, object_rows
