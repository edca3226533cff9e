"""Turn blocks of records into a profile, through all stages. No other module knows every stage.

Blocks come from a live kernel, a file or a stream alike. This module imports no source of them.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi.runtime_frames import without_frames_event
from prospect.analysis.profile_request import (
    MOST_SAMPLES_WITH_CALLEES,
    Callbacks,
    ProfileRequest,
    damage_words,
)
from prospect.announcing import bytes_of, silent
from prospect.assembly.entry_reasons.hit_reasons import label_samples, with_entry_reasons
from prospect.assembly.extras import recorded_until
from prospect.assembly.placing.jit import find_jit_code
from prospect.assembly.placing.location_names import (
    hit_objects,
    make_symbolizer,
    name_all,
    recorded_facts,
    with_answers,
)
from prospect.assembly.placing.placement import KERNEL_KEY, place, with_addresses
from prospect.assembly.stacks.chain_frames import cut_by_process, cut_chains
from prospect.assembly.tables.clocks import (
    clock_of_id,
    describe_clock_stops,
    describe_clocks,
    with_clocks,
)
from prospect.assembly.tables.hit_tables import (
    describe_hits,
    describe_losses,
    describe_mappings,
    describe_samples,
    describe_syscalls,
)
from prospect.assembly.tables.process_table import (
    UnhitMappings,
    describe_processes,
    with_control_groups,
)
from prospect.assembly.tables.recorded_calls import describe_call_counts, read_call_counts
from prospect.assembly.tables.run_facts import describe_run, has_user_callers
from prospect.assembly.threads import waits as off_cpu
from prospect.errors import RecordingError
from prospect.events.decode import decode
from prospect.files.budget import ReadBudget
from prospect.options import NamingOptions
from prospect.profile.builder import TableBuilder
from prospect.profile.model import ENTRY_REASON_NONE, EntryReasonTable, Profile
from prospect.records import NamedTuple, replace
from prospect.spaces.attribution import attribute
from prospect.spaces.process_history import build_spaces
from prospect.symbols.naming_options import debug_servers

if TYPE_CHECKING:
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.analysis.profile_request import RecordSource
    from prospect.announcing import Announce
    from prospect.archived.kept_answers import Answers
    from prospect.assembly.code.recorded_objects import RecordedObjects
    from prospect.assembly.entry_reasons.hit_reasons import SampleEntryReasons
    from prospect.assembly.labels import Labelled
    from prospect.assembly.placing.jit import JitRecords
    from prospect.assembly.placing.placement import Placement
    from prospect.assembly.runtimes.runtime_stacks import RuntimeSamples
    from prospect.assembly.stacks.stack_forest import SampleCallers
    from prospect.assembly.tables.recorded_calls import CountedCalls
    from prospect.assembly.threads.waits import Waits
    from prospect.assembly.threads.wall_path import CommandPath, TurnSource
    from prospect.columns.array_types import I32
    from prospect.events.record_columns import Events
    from prospect.profile.run_info import RunInfo
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.process_history import ProcessHistory
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.symbolizer import Symbolizer


class _Order(NamedTuple):
    """A request for a profile of a recording.

    Attributes:
        answers: those of an archive, None for a recording.
        may_spend: whether the addresses of samples may be overwritten.
    """

    naming: NamingOptions
    wanted: ProfileRequest
    sinks: Callbacks
    answers: Answers | None
    may_spend: bool

    @property
    def announce(self) -> Announce:
        """Shows messages about the progress."""
        return self.sinks.announce or silent


def build_profile(
    source: RecordSource,
    naming: NamingOptions | None = None,
    wanted: ProfileRequest | None = None,
    sinks: Callbacks | None = None,
) -> Profile:
    """Decode, place and name every sample of a recording, which is read to its end.

    Raises:
        RecordingError: it describes impossible events, or is so damaged that no sample is read.
    """
    sinks, wanted = sinks or Callbacks(), wanted or ProfileRequest()
    order = _Order(naming or NamingOptions(), wanted, sinks, None, may_spend=True)
    return _profile_of([_decoded(source, wanted, sinks)], source.info, order)


def _decoded(source: RecordSource, wanted: ProfileRequest, sinks: Callbacks) -> Events:
    announce = sinks.announce or silent
    events = decode(
        source.blocks(),
        source.info.events,
        source.damage,
        clock_of_id(source.info),
        lambda done: announce(f"decoding {bytes_of(done, source.size_bytes)}"),
        innermost_functions=not (
            wanted.stacks
            or wanted.callees
            or (wanted.waits and off_cpu.records_switches(source.info))
        ),
    )
    if events.damage and not len(events.samples):
        raise RecordingError(
            f"{source.info.origin}: no sample could be read:"
            f" {damage_words(source.info.origin, events)}"
        )
    if unread_bytes := events.unread_bytes + source.unread_bytes:
        events = replace(events, unread_bytes=unread_bytes)
        sinks.tell_unread(source.info.origin, events)
    return events


def profile_of_events(
    events: Events,
    info: RecordingInfo,
    naming: NamingOptions,
    wanted: ProfileRequest,
    sinks: Callbacks,
) -> Profile:
    """Place and name every sample of decoded records of a recording."""
    return _profile_of([events], info, _Order(naming, wanted, sinks, None, may_spend=False))


def _profile_of(handed_over: list[Events], info: RecordingInfo, order: _Order) -> Profile:
    """Make a profile of records, which are removed from their list.

    So if the caller does not keep them, their memory is freed as early as possible.
    """
    info, answers = with_answers(info._replace(events=without_frames_event(info.events)))
    if answers is not None:
        # The archive is untrusted: its names must not get into the cache.
        naming = replace(order.naming, use_cache=False)
        order = order._replace(naming=naming, answers=answers)
    wanted, sinks = order.wanted, order.sinks
    announce = order.announce
    placed = _place_all(handed_over, info, order)
    placed.symbolizer.fetch(hit_objects(placed.of_hits, placed.hits.count), announce)
    builder = TableBuilder()
    location_index, object_rows = name_all(placed.placement, placed.symbolizer, builder, announce)
    announce("adding up samples")
    profile = _assemble(placed, location_index, object_rows, builder)
    run = _with_limits_of_archive(profile.run, placed.symbolizer, order)
    profile, entry_reason = replace(profile, run=run), placed.hits.label
    if placed.labels:
        profile, entry_reason = (
            placed.labels.added_to(profile, entry_reason),
            placed.labels.entry_reasons_of(entry_reason),
        )
    profile = with_entry_reasons(profile, entry_reason, placed.labelled.entry_reasons)
    if wanted.hints:
        profile = _with_raw_data(profile, placed)
    finds_inlined = wanted.callees and profile.stacks is not None
    if wanted.lines or finds_inlined or wanted.code or sinks.keep_code:
        profile = _with_files(profile, placed, object_rows, order)
    if placed.waits is None:
        return profile
    waits, turns, history = placed.waits, placed.turns, placed.history
    # Free 100 bytes a switch, as much as the tables of waits and of turns need.
    del placed
    profile = off_cpu.with_wait_table(profile, waits)
    del waits
    return turns.added_to(profile, history) if turns else profile


def _with_files(profile: Profile, placed: _Placed, object_rows: I32, order: _Order) -> Profile:
    """Add source lines and instructions, which are read from the files."""
    from prospect.assembly.code.recorded_objects import (  # noqa: PLC0415 - few go back to files
        recorded_objects,
    )

    recorded = recorded_objects(
        placed.placement, object_rows, placed.symbolizer, placed.symbol_options
    )
    recorded = replace(
        recorded, answers=order.answers, collector=order.sinks.collector, announce=order.announce
    )
    return _with_source(profile, recorded, order)


class _Placed(NamedTuple):
    """Decoded records, and the places of their addresses.

    `events` have no addresses of samples; the hits have them. `placement` has rows for the hits,
    then for their callers, then for counted calls.
    """

    events: Events
    info: RecordingInfo
    waits: Waits | None
    path: CommandPath | None
    turns: TurnSource | None
    jit: JitRecords
    history: ProcessHistory
    symbol_options: SymbolOptions
    symbolizer: Symbolizer
    labelled: SampleEntryReasons
    labels: Labelled | None
    hits: Attribution
    calls: SampleCallers | None
    cut_chains: tuple[tuple[int, int], ...]
    counted: CountedCalls | None
    placement: Placement

    @property
    def of_hits(self) -> Placement:
        """The placement of the hits alone."""
        return self.placement.first(len(self.hits))


def _of_switches(
    events: Events, info: RecordingInfo, order: _Order
) -> tuple[CommandPath | None, TurnSource | None]:
    """Return the critical path of the command and the source of turns; None if not wanted.

    They come before waits, which reuse their memory.
    """
    if events.switches is None:
        return None, None
    from prospect.assembly.threads.wall_path import (  # noqa: PLC0415 - only of switches
        find_path,
        find_schedule,
        turn_source,
    )

    switches = events.switches
    if order.sinks.keep_schedule is not None:
        order.sinks.keep_schedule(find_schedule(events, switches, info))
    path = find_path(events, switches, info) if order.wanted.path else None
    has_turns = order.wanted.turns and off_cpu.switch_event(info) >= 0
    return path, turn_source(events, switches, info) if has_turns else None


def _place_all(handed_over: list[Events], info: RecordingInfo, order: _Order) -> _Placed:
    """Find the object at every address of the records, which are removed from their list."""
    wanted, collector, announce = order.wanted, order.sinks.collector, order.announce
    announce("following processes and their mappings")
    events, info = with_clocks(handed_over.pop(), info)
    events = off_cpu.with_copies_of_waits(events, info)
    events = off_cpu.with_switches(events, info)
    path, turns = _of_switches(events, info, order)
    waits = off_cpu.find_waits(events, info, as_samples=wanted.waits or wanted.stacks)
    events, info = (events, info) if waits is None else (waits.events, waits.info)
    budget = ReadBudget.of_environment()
    jit = find_jit_code(events, info, recorded_until(info, events), budget)
    events, runtimes = _with_runtimes(events, jit, order)
    if runtimes and wanted.hints:  # every part of a session would repeat it
        jit = replace(jit, notes=(*jit.notes, *runtimes.notes))
    if collector is not None:
        collector.jit_dumps |= jit.dumps
    history = build_spaces(jit.events)
    symbol_options = replace(
        _symbol_options(info, jit, history, order),
        budget=budget,
        runtimes=runtimes.stacks.code if runtimes else None,
    )
    symbolizer = make_symbolizer(symbol_options, order.answers, collector, order.sinks.kept_names)
    announce("placing samples")
    events = _with_bytecode(events, info, jit, history, symbolizer)
    kernel_names = functools.partial(symbolizer.resolve, KERNEL_KEY, ())
    labelled = label_samples(events.samples, kernel_names, info.arch)
    if waits is not None and waits.calls is not None:
        from prospect.assembly.threads.followed_threads import with_calls  # noqa: PLC0415 - only with --wall

        labelled = with_calls(labelled, waits.calls, info.arch)
    labels = _labels(events, labelled, order)
    label = labels.state if labels else labelled.label
    is_cut = cut_chains(events.samples, info.events)
    with_callers = bool(wanted.stacks or (wanted.waits and waits))
    only_for = wanted.callees if not with_callers else ""
    if only_for and len(events.samples) <= MOST_SAMPLES_WITH_CALLEES:
        with_callers = runtimes is not None or has_user_callers(info)
    may_spend = order.may_spend and not with_callers
    hits = attribute(events.samples, history.timeline, label, history.runs, may_spend=may_spend)
    calls = None
    if with_callers:
        samples = events.samples
        if only_for:
            from prospect.assembly.stacks.stack_forest import with_shown_copies  # noqa: PLC0415 - only with stacks

            samples = with_shown_copies(samples, hits, history, info, only_for)
        from prospect.assembly.stacks.stack_forest import find_callers  # noqa: PLC0415 - only with stacks

        calls = find_callers(
            *(samples, history, info, symbolizer, is_cut), announce=announce, runtimes=runtimes
        )
    counted = read_call_counts(info, history.timeline)
    others = [found.addresses for found in (calls, counted) if found is not None]
    code = symbol_options.runtimes
    placement = place(with_addresses(hits, others), history, info, symbolizer.images.is_other, code)
    # The hits have the addresses now: 80 MB of ten million samples.
    no_address = np.broadcast_to(np.uint64(0), len(events.samples))
    events = replace(events, samples=replace(events.samples, ip=no_address))
    return _Placed(
        events=events,
        info=info,
        waits=waits,
        path=path,
        turns=turns,
        jit=replace(jit, events=events),
        history=history,
        symbol_options=symbol_options,
        symbolizer=symbolizer,
        labelled=labelled,
        labels=labels,
        hits=hits,
        calls=calls,
        cut_chains=cut_by_process(events.samples, is_cut, info.events),
        counted=counted,
        placement=placement,
    )


def _with_runtimes(
    events: Events, jit: JitRecords, order: _Order
) -> tuple[Events, RuntimeSamples | None]:
    """Return events whose samples have frames of runtimes, and the frames; None without."""
    if events.runtimes is None:
        return events, None
    from prospect.assembly.runtimes.runtime_stacks import with_runtimes  # noqa: PLC0415 - few recordings have them

    return with_runtimes(events, native=order.naming.native, named=jit.pids)


def _with_bytecode(
    events: Events,
    info: RecordingInfo,
    jit: JitRecords,
    history: ProcessHistory,
    symbolizer: Symbolizer,
) -> Events:
    """Return events whose samples in a JVM's interpreter have the address of its bytecode."""
    if not jit.jvm_pids or events.samples.user is None:
        return events
    from prospect.assembly.stacks.unwinding import in_bytecode  # noqa: PLC0415 - only with stacks of a JVM

    samples = in_bytecode(events.samples, history, info, symbolizer, jit.jvm_pids)
    return replace(events, samples=samples)


def _labels(events: Events, labelled: SampleEntryReasons, order: _Order) -> Labelled | None:
    """Label samples by the source of `--label`."""
    if not order.naming.label:
        return None
    from prospect.assembly.labels import label_by  # noqa: PLC0415 - only with --label

    return label_by(events.samples, labelled.label, order.naming.label)


def _assemble(
    placed: _Placed, location_index: I32, object_rows: I32, builder: TableBuilder
) -> Profile:
    """Make the tables of a profile, without the entry reasons of kernel time."""
    events, info, history, hits = placed.events, placed.info, placed.history, placed.hits
    stacks = stack_index = None
    if placed.calls is not None:
        from prospect.assembly.stacks.stack_forest import named_stacks  # noqa: PLC0415 - only with stacks

        stacks, stack_index = named_stacks(placed.calls, placed.placement, location_index, hits)
    objects, functions, locations = builder.tables()
    hit_table, comms = describe_hits(hits, location_index, history)
    run = describe_run(info, events, placed.symbolizer.notes)
    notes = (*placed.jit.notes, *placed.symbolizer.process_notes)
    run = replace(
        run,
        process_notes=notes,
        jit_pids=tuple(sorted(placed.jit.pids)),
        cut_chains=placed.cut_chains,
    )
    if placed.waits is not None:
        run = off_cpu.with_wait_events(run, placed.waits)
    clocks = describe_clocks(info, events, run)
    processes = with_control_groups(
        describe_processes(history, info), events, hits, info.extras.get("containers")
    )
    calls = describe_call_counts(placed.counted, location_index, objects, functions, locations)
    return Profile(
        run=run,
        comms=comms,
        processes=processes,
        objects=objects,
        functions=functions,
        locations=locations,
        mappings=describe_mappings(hits, placed.of_hits, object_rows, history),
        hits=hit_table,
        losses=describe_losses(events, info),
        entry_reasons=EntryReasonTable(np.array([ENTRY_REASON_NONE], np.uint8), [""]),
        samples=describe_samples(events.samples, hits, stack_index),
        clocks=clocks.table,
        clock_stops=describe_clock_stops(clocks, events.losses),
        syscalls=describe_syscalls(info, processes),
        stacks=stacks,
        stack_copies=placed.calls.copies if placed.calls else None,
        call_counts=calls,
        threads=off_cpu.describe_threads(placed.waits, history) if placed.waits else None,
        wall=placed.path.described(history) if placed.path else None,
        unhit_mappings=UnhitMappings(
            history, hits.process_row, placed.of_hits.mapping_index, info.extras
        ),
    )


def _with_source(profile: Profile, recorded: RecordedObjects, order: _Order) -> Profile:
    if order.sinks.keep_code is not None:
        from prospect.assembly.code.later_code import later_code  # noqa: PLC0415 - only in view

        order.sinks.keep_code(later_code(recorded))
    if order.wanted.lines:
        from prospect.assembly.code.location_lines import describe_lines  # noqa: PLC0415 - only with --lines

        choice = order.wanted.line_choice
        lines = describe_lines(profile, recorded, choice and choice(profile))
        profile = replace(profile, lines=lines)
    elif order.wanted.callees and profile.stacks is not None:
        from prospect.assembly.code.location_lines import describe_inlined  # noqa: PLC0415 - only with stacks

        profile = replace(profile, lines=describe_inlined(profile, recorded))
    if order.wanted.code:
        from prospect.assembly.code.code import describe_code  # noqa: PLC0415 - only with -e

        profile = replace(profile, code=describe_code(profile, recorded, order.wanted.code))
    return profile


def _with_limits_of_archive(run: RunInfo, symbolizer: Symbolizer, order: _Order) -> RunInfo:
    """Add the limits that an archive has, or keep those of this machine for an archive."""
    answers, collector = order.answers, order.sinks.collector
    if answers is not None:
        limits = (*answers.limits, *symbolizer.notes)
        run = replace(run, limits=limits, process_notes=answers.process_notes)
    if collector is not None:
        collector.limits, collector.process_notes = run.limits, run.process_notes
    return run


def _with_raw_data(profile: Profile, placed: _Placed) -> Profile:
    if placed.events.samples.data is not None:
        from prospect.assembly.raw.raw_records import with_sample_data  # noqa: PLC0415 - only with raw data

        profile = with_sample_data(profile, placed.events, placed.info.events)
    return profile


def _real_path(chosen: str) -> bytes:
    return os.fsencode(os.path.realpath(chosen)) if chosen else b""


def _symbol_options(
    info: RecordingInfo, jit: JitRecords, history: ProcessHistory, order: _Order
) -> SymbolOptions:
    naming, wanted = order.naming, order.wanted
    return replace(
        recorded_facts(info, jit, history),
        system_map=naming.system_map or None,
        kernel_image=naming.kernel_image or None,
        sysroot=_real_path(naming.sysroot),
        debug_dir=_real_path(naming.debug_dir),
        use_cache=naming.use_cache,
        servers=debug_servers(os.environ, naming.debuginfod_s),
        wants_lines=wanted.lines
        or order.sinks.keep_code is not None
        or (wanted.code is not None and wanted.code.with_lines),
    )
