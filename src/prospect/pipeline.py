"""Blocks → events → spaces → symbols → Profile: the one place that sees every stage.

Comes in: record blocks and what their recording says of itself, from a live kernel, a file or a
stream alike. Goes out: a `Profile`. No source is imported here.
"""

from __future__ import annotations

import functools
import itertools
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from prospect.assembly.causes import with_causes
from prospect.assembly.chains import distinct_callers
from prospect.assembly.clock_stops import describe_clock_stops
from prospect.assembly.clocks import clock_of_id, describe_clocks
from prospect.assembly.hits import describe_losses, describe_mappings
from prospect.assembly.jit import find_jit_code
from prospect.assembly.places import KERNEL_KEY, place
from prospect.assembly.processes import describe_processes
from prospect.assembly.run import describe_run, recorded_until
from prospect.assembly.runtime_hints import runtime_hints
from prospect.assembly.sample_causes import label_samples
from prospect.assembly.stacks import build_stacks, caller_addresses, joined, without_strays
from prospect.assembly.syscalls import describe_syscalls
from prospect.assembly.user_contexts import find_user_contexts
from prospect.events.decode import decode
from prospect.profile.builder import TableBuilder
from prospect.profile.model import (
    CAUSE_NONE,
    CauseTable,
    HitTable,
    Profile,
    SampleTable,
)
from prospect.spaces.attribution import attribute
from prospect.spaces.runs import task_tid
from prospect.spaces.world import build_spaces
from prospect.symbols.cache import SymbolCache
from prospect.symbols.objects import HitObject
from prospect.symbols.options import DEBUG_SERVERS_S, SymbolOptions, debug_servers
from prospect.symbols.symbolizer import Symbolizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from prospect.abi.block import RecordBlock
    from prospect.abi.recording import RecordingInfo
    from prospect.archived.answers import Answers
    from prospect.archived.collector import Collector
    from prospect.assembly.chains import Callers
    from prospect.assembly.code import CodeChoice
    from prospect.assembly.jit import JitRecords
    from prospect.assembly.places import Addresses, Placement
    from prospect.events.columns import Samples
    from prospect.profile.stack_quality import StackQuality
    from prospect.spaces.world import World


@dataclass(frozen=True)
class PipelineOptions:
    """What a person may choose about naming.

    Attributes:
        system_map: a System.map to use for the kernel (-K).
        kernel_image: an uncompressed kernel image to use (-L).
        use_cache: whether symbol tables are kept on disk between runs.
        stacks: whether call stacks are wanted (`Profile.stacks`), where the recording has them.
        lines: whether the source line of every location is wanted (`Profile.lines`).
        code: whose instructions are wanted (`Profile.code`), None for nobody's.
        debuginfod_s: how long debug-file servers may delay the profile; 0 asks none.
        announce: told how far asking them is, several times a second; None to say nothing.
        collector: keeps what this machine says, for an archive; None to keep nothing.
    """

    system_map: str | None = None
    kernel_image: str | None = None
    use_cache: bool = True
    stacks: bool = False
    lines: bool = False
    code: CodeChoice | None = None
    debuginfod_s: float = DEBUG_SERVERS_S
    announce: Callable[[str], None] | None = None
    collector: Collector | None = None


class RecordSource(Protocol):
    """Where records come from: a file, a stream, a live kernel."""

    @property
    def info(self) -> RecordingInfo:
        """What the recording says of itself.

        Its events are known from the start, the rest at the latest when all blocks were read: a
        stream brings build ids last.
        """
        ...

    @property
    def damage(self) -> list[str]:
        """Sentences about unreadable parts; grows while blocks are read."""
        ...

    def blocks(self) -> Iterable[RecordBlock]:
        """Return the records, once."""
        ...


def build_profile(source: RecordSource, options: PipelineOptions | None = None) -> Profile:
    """Decode, place and name every sample of a recording.

    Args:
        source: the recording; read to its end.
        options: naming choices.

    Raises:
        RecordingError: it describes impossible events.
    """
    events = decode(source.blocks(), source.info.events, source.damage, clock_of_id(source.info))
    info, answers = _with_answers(source.info)
    chosen = options or PipelineOptions()
    if answers is not None:
        # Anyone may have made the archive: what it says is not kept for other recordings.
        chosen = replace(chosen, use_cache=False)
    jit = find_jit_code(events, info, recorded_until(info, events))
    if chosen.collector is not None:
        chosen.collector.jit_dumps |= jit.dumps
    world = build_spaces(jit.events)
    symbol_options = _symbol_options(info, jit, world, chosen)
    symbolizer = _symbolizer(symbol_options, answers, chosen.collector)
    told = label_samples(events.samples, functools.partial(symbolizer.resolve, KERNEL_KEY, ()))
    hits = attribute(events.samples, world.timeline, told.label)
    calls = None
    if chosen.stacks:
        calls = _find_callers(events.samples, world, info, symbolizer, use_cache=chosen.use_cache)
    addresses = hits if calls is None else joined(hits, calls.addresses)
    placement = place(addresses, world, info, symbolizer.images.is_other)
    hit_placement = placement.first(len(hits))
    symbolizer.fetch(_hit_objects(hit_placement, hits.count), chosen.announce)
    builder = TableBuilder()
    location_index, object_rows = _name_all(placement, symbolizer, builder)
    hit_location = location_index[: len(hits)]
    stacks = stack_index = None
    if calls is not None:
        is_nowhere = placement.is_nowhere[len(hits) :]
        callers, caller_row = without_strays(calls.callers, calls.row, is_nowhere)
        caller_location = location_index[len(hits) :].take(caller_row)
        stacks, stack_index = build_stacks(callers, caller_location, hits, hit_location)
    objects, functions, locations = builder.tables()
    comms, comm_index = np.unique(hits.comm, return_inverse=True)
    run = describe_run(info, events, (*jit.notes, *symbolizer.notes))
    if answers is not None:
        run = replace(run, limits=(*answers.limits, *symbolizer.notes))
    if chosen.collector is not None:
        chosen.collector.limits = run.limits
    clocks = describe_clocks(info, events, run)
    processes = describe_processes(world, info)
    samples = events.samples
    profile = Profile(
        run=run,
        comms=[_text(world.names[row]) if row >= 0 else "?" for row in comms.tolist()],
        processes=processes,
        objects=objects,
        functions=functions,
        locations=locations,
        mappings=describe_mappings(hits, hit_placement, object_rows, world),
        hits=HitTable(
            process_index=hits.process_row,
            comm_index=comm_index.astype(np.int32),
            location_index=hit_location,
            mode=hits.mode,
            event=hits.event,
            cause_index=np.zeros(len(hits), np.int32),
            count=hits.count,
            period=hits.period,
        ),
        losses=describe_losses(events, info),
        causes=CauseTable(np.array([CAUSE_NONE], np.uint8), [""]),
        samples=SampleTable(
            hit_index=hits.sample_row,
            time_ns=samples.time_ns,
            cpu=samples.cpu,
            clock=samples.clock,
            period=samples.period,
            tid=task_tid(samples.task),
            stack_index=stack_index,
        ),
        clocks=clocks.table,
        clock_stops=describe_clock_stops(clocks, events.losses),
        syscalls=describe_syscalls(info, processes),
        stacks=stacks,
        stack_quality=calls.quality if calls else None,
    )
    profile = with_causes(profile, hits.label, told.causes)
    if hints := runtime_hints(profile, jit.pids):
        run = replace(profile.run, limits=(*profile.run.limits, *hints))
        profile = replace(profile, run=run)
    if options is None or not (options.lines or options.code):
        return profile
    # Only reports that go back to the files pay for what that takes.
    from prospect.assembly.source import add_source, recorded_objects  # noqa: PLC0415

    recorded = recorded_objects(placement, object_rows, symbolizer, symbol_options)
    recorded = replace(recorded, answers=answers, collector=options.collector)
    return add_source(profile, recorded, lines=options.lines, code=options.code)


@dataclass(frozen=True)
class _Calls:
    """Callers of all samples, their distinct addresses, and i64[m] the row of each caller's.

    `quality` tells what became of copies of stacks, where there are any.
    """

    callers: Callers
    addresses: Addresses
    row: NDArray[np.int64]
    quality: StackQuality | None


def _find_callers(
    samples: Samples,
    world: World,
    info: RecordingInfo,
    symbolizer: Symbolizer,
    *,
    use_cache: bool,
) -> _Calls | None:
    """Read the call chains and unwind copies of stacks, None where no sample has either."""
    has_states = samples.user is not None or samples.calls is not None
    if samples.chain is None and not has_states:
        return None
    contexts = find_user_contexts(samples, world.timeline)
    quality = None
    if has_states:
        from prospect.assembly.recorded_code import RecordedCode  # noqa: PLC0415 - seldom recorded
        from prospect.assembly.unwinding import with_whole_chains  # noqa: PLC0415 - likewise

        cache = SymbolCache.of_user() if use_cache else None
        code = RecordedCode(contexts, world, info, symbolizer, cache)
        samples, quality = with_whole_chains(samples, contexts, code, info)
    callers = distinct_callers(samples, contexts.of_sample)
    return _Calls(callers, *caller_addresses(callers, contexts), quality)


def _with_answers(info: RecordingInfo) -> tuple[RecordingInfo, Answers | None]:
    """Return what the archive of a recording says, and the recording as it was; None without."""
    if not info.archive:
        return info, None
    from prospect.archived.answering import restored_info  # noqa: PLC0415 - rarely needed
    from prospect.archived.decoding import decode as decode_archive  # noqa: PLC0415 - likewise

    answers = decode_archive(info.archive)
    return restored_info(info, answers), answers


def _symbolizer(
    options: SymbolOptions, answers: Answers | None, collector: Collector | None
) -> Symbolizer:
    """Return what names addresses: this machine, or what the archive has of another."""
    if answers is not None:
        from prospect.archived.answering import ArchivedSymbolizer  # noqa: PLC0415 - rarely needed

        return ArchivedSymbolizer(options, answers)
    if collector is not None:
        from prospect.archived.collector import CollectingSymbolizer  # noqa: PLC0415 - likewise

        return CollectingSymbolizer(options, collector)
    return Symbolizer(options)


def _symbol_options(
    info: RecordingInfo, jit: JitRecords, world: World, options: PipelineOptions
) -> SymbolOptions:
    kernel_ids = [entry.build_id for entry in info.build_ids if entry.name == KERNEL_KEY.path]
    text_address, text_symbol = _kernel_text(world)
    return SymbolOptions(
        hostname=info.hostname,
        recorded_until=recorded_until(info, jit.events),
        kernel_release=info.os_release,
        kernel_build_id=kernel_ids[0] if kernel_ids else b"",
        kernel_text=text_address,
        kernel_text_symbol=text_symbol,
        kernel_symbols=jit.events.kernel_symbols,
        jit_code=jit.code,
        jit_maps=jit.maps,
        names=world.names,
        system_map=options.system_map,
        kernel_image=options.kernel_image,
        use_cache=options.use_cache,
        servers=debug_servers(os.environ, options.debuginfod_s),
        wants_lines=options.lines or (options.code is not None and options.code.with_lines),
    )


def _kernel_text(world: World) -> tuple[int, str]:
    """Return where the recorded kernel stood, and the symbol that stood there.

    The kernel's own mmap record is named after the symbol that it was found by, whose address is
    its page offset. Source: ``tools/perf/util/synthetic-events.c``
    perf_event__synthesize_kernel_mmap().
    """
    kernel = world.kernel_mappings
    for name, pgoff in zip(kernel.name.tolist(), kernel.pgoff.tolist(), strict=True):
        prefix, bracket, symbol = world.names[name].partition(b"]")
        if prefix == b"[kernel.kallsyms" and bracket:
            return pgoff, _text(symbol) or "_text"
    return 0, "_text"


def _hit_objects(placement: Placement, count: NDArray[np.int64]) -> Iterable[HitObject]:
    """Give the objects with their hits."""
    of_object = np.bincount(placement.object_index, count, len(placement.keys)).astype(np.int64)
    rows = zip(placement.keys, placement.pids, of_object.tolist(), strict=True)
    return (HitObject(key, pids, hits) for key, pids, hits in rows if hits)


def _name_all(
    placement: Placement, symbolizer: Symbolizer, builder: TableBuilder
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Name each distinct (object, address) once.

    Returns:
        The location row of every hit, and of every placed object its row in the profile, -1 for
        those without a hit.
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
    for start, end in itertools.pairwise(bounds):
        row = int(objects[start])
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


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
