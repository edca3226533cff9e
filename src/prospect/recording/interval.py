"""Follow a recording from the command's start to the end of the file.

The file also has the JSON document of `document`, which docs/recording.md describes.
"""

from __future__ import annotations

import os

from prospect.abi import constants as abi
from prospect.capture.events.event_choice import SCOPE_SYSTEM
from prospect.capture.loop.command import Command
from prospect.capture.machine.kept_jit_files import JitFiles
from prospect.capture.machine.surroundings import calls_before, describe_surroundings
from prospect.errors import RecordingError
from prospect.recording.document import (
    Interval,
    build_ids_by_path,
    describe_files,
    describe_interval,
    early_document,
    recording_info,
)
from prospect.recording.opened_events import tracing_data
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from prospect.abi.recorded_facts import BuildId, RecordingInfo
    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.events.event_choice import EventPlan
    from prospect.capture.java.java_reader import JavaFunctions
    from prospect.capture.loop.attached import Attached
    from prospect.capture.loop.drain_loop import DrainLoop
    from prospect.capture.machine.mapped_files import MappedFiles
    from prospect.capture.machine.read_files import ReadFile
    from prospect.capture.machine.surroundings import Background
    from prospect.capture.python.memory_reader import MemoryFrames
    from prospect.capture.runtimes.runtime_reader import RuntimeFrames
    from prospect.capture.sink import RecordSink
    from prospect.perfdata.writer import RecordingWriter
    from prospect.recording.exact_counters import ExactCounter
    from prospect.recording.followed_switches import SwitchPrograms
    from prospect.recording.opened_events import RecordOptions

_SIGNALLED = 128


# Parts of a run's description that may be big, the most useful last, and sentences if they are
# dropped.
_BIG_KEYS = {
    "memory_maps": "memory maps were not kept",
    "jit_files": "files with names of JIT code were not copied",
    "mapped_files": "build ids of mapped files were not kept",
}


class RecordingResult(NamedTuple):
    """The end of the command and of the recording.

    Attributes:
        exit_status: the command's, as in a shell; 128 + the signal that ended the interval if the
            command outlived it.
        cut: a sentence, also in `limits`, on why the file is incomplete; "" if it is complete.
        interrupted_by: the signal that ended the interval, 0 for none.
        limits: sentences about missing parts.
        counters: Prospect's counters of the run.
    """

    exit_status: int
    interrupted_by: int
    limits: tuple[str, ...]
    counters: dict[str, int]
    cut: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether the file is incomplete."""
        return bool(self.cut)

    @property
    def status(self) -> int:
        """The exit status of Prospect: the command's, but 1 instead of 0 if the file is cut."""
        return self.exit_status or int(self.is_cut)


class Started(NamedTuple):
    """A recording whose command has just started.

    Attributes:
        started_at: in seconds since 1970.
        command, events, mapped_files, counters, loop, sink, writer: closed by the caller.
        switches: the programs that record switches, None for none.
        limits: sentences about parts that could not be started.
        python: returns the reader of Python frames, None as long as there is none.
        java: returns the reader of JVMs, None as long as there is none.
    """

    options: RecordOptions
    started_at: float
    command: Command | Attached
    events: EventSet
    mapped_files: MappedFiles
    counters: Mapping[str, ExactCounter]
    loop: DrainLoop
    sink: RecordSink
    writer: RecordingWriter
    output_fd: int
    python: Callable[[], RuntimeFrames | MemoryFrames | None]
    java: Callable[[], JavaFunctions | None]
    switches: SwitchPrograms | None = None
    limits: tuple[str, ...] = ()


def follow(started: Started) -> RecordingResult:
    """Record until the command ends or a signal comes, and finish the file.

    Raises:
        CommandError: the command could not be executed.
        OSError: a call of the kernel failed.
    """
    options, events, loop = started.options, started.events, started.loop
    events.hide_frames(lambda: bool((reader := started.python()) and reader.is_attached))
    command, mapped_files = started.command, started.mapped_files
    with JitFiles() as jit_files:
        jit_files.start()
        tasks = events.tasks if options.pids else ()
        before = _calls_before(options)
        background = describe_surroundings(loop, events.plan, command.pid, tasks)
        snapshot = background.snapshot
        mapped_files.look_at(snapshot.files, snapshot.ticks, snapshot.pythons, snapshot.jvms)
        recorder_pids = [os.getpid(), *jit_files.pids]
        recorder_pids += filter(None, [mapped_files.reader.pid])
        early = early_document(options, events, background, loop.begin_ns)
        early |= {"command_pid": command.pid, "started_at": started.started_at}
        early["recorder_pids"] = recorder_pids
        early_info = recording_info(options, events, background, early)
        started.writer.describe(early_info, early_info.events)
        while not loop.done:
            loop.step(wait=True)
            jit_files.look()
        python, java = started.python(), started.java()
        readers = [reader for reader in (python, java) if reader]
        # All of them finish at the same time.
        for child in (mapped_files.reader, jit_files, *readers):
            child.stop()
        for reader in readers:
            recorder_pids += reader.pids
            reader.finish()
        read_files = mapped_files.finish()
        jit_copies = [*jit_files.collect(), *(java.files() if java else ())]
        jit_files.close()
        limits, of_switches = started.switches.finish() if started.switches else ((), {})
        counted = {key: counter.finish() for key, counter in started.counters.items()}
        result = _sum_up(events, loop, background, command, started.sink.bytes_written)
        limits = (*started.limits, *jit_files.limits, *mapped_files.limits, *limits)
        for part in (*counted.values(), *readers):
            limits += tuple(part.limits)
        result = result._replace(limits=(*result.limits, *limits))
        extras = _describe_run(options, result, events, loop, background)
        extras |= {key: counter.document for key, counter in counted.items()}
        extras |= _describe_command(options, command)
        extras["started_at"] = started.started_at
        if python:
            extras["dropped_share"] = python.dropped_share
        pids = [*recorder_pids, *jit_files.pids[1:], *mapped_files.child_pids]
        extras["recorder_pids"] = pids
        for of_child in (one.used_s for one in (mapped_files.reader, jit_files, *readers)):
            for name, used_s in zip(("user_s", "system_s"), of_child, strict=True):
                extras["recorder_rusage"][name] += used_s
        extras |= mapped_files.documents | before | of_switches
        if jit_copies:
            extras["jit_files"] = jit_copies
        events.close()  # their rings may be all the memory that this user may lock
        extras |= _describe_cost(options, events.plan)
        return _written(started, background, read_files, result, extras)


def _calls_before(options: RecordOptions) -> dict[str, Any]:
    """Return the calls that threads are in, if the recording has waits of older threads."""
    if not (options.off_cpu or options.wall) or (options.command and not options.pids):
        return {}
    return {"calls_before": calls_before(options.pids)}


def _written(
    started: Started,
    background: Background,
    read_files: list[ReadFile],
    result: RecordingResult,
    extras: dict[str, Any],
) -> RecordingResult:
    """Write the description of the run after the records."""
    if started.sink.keeps_records:
        read_files = _mended(started, read_files, result)
    extras["mapped_files"] = describe_files(read_files)
    options, events = started.options, started.events
    info = recording_info(options, events, background, extras, tracing_data(options, events))
    info = info._replace(build_ids=(*info.build_ids, *build_ids_by_path(read_files)))
    if started.mapped_files.copies:
        from prospect.recording.sampled_images import sampled_images  # noqa: PLC0415 - few recordings have copies

        info = info._replace(
            image_section=sampled_images(
                started.mapped_files,
                started.output_fd,
                started.writer.data_offset,
                packs=started.options.images == "packed",
            )
        )
    if started.options.compress:
        from prospect.capture.compressed_sink import CompressedSink  # noqa: PLC0415 - rarely needed

        if isinstance(started.sink, CompressedSink):
            info = info._replace(compression=started.sink.compression())
    return _finish(started.writer, info, result)


def _mended(
    started: Started, read_files: list[ReadFile], result: RecordingResult
) -> list[ReadFile]:
    """Repair records, drop other processes' mappings without samples; return the files left."""
    from prospect.recording.mending import mend_records  # noqa: PLC0415 - at the end

    options, fd, begin = started.options, started.output_fd, started.writer.data_offset
    events = started.events.descriptions()
    if started.mapped_files.has_leaked_bits:
        from prospect.perfdata.leaked_bits import clear_build_id_bits  # noqa: PLC0415 - rarely needed

        clear_build_id_bits(fd, begin)
    mend_records(fd, begin, os.fstat(fd).st_size, events)
    has_others = started.events.plan.scope == SCOPE_SYSTEM and not options.of_all
    if result.is_cut or not (has_others and (options.pids or options.command)):
        return read_files
    if options.images != "packed":  # the recording will not be kept
        return read_files
    from prospect.recording.unsampled_mappings import drop_unsampled_mappings  # noqa: PLC0415 - only if it is kept

    files = drop_unsampled_mappings(fd, begin, events, options.pids or (started.command.pid,))
    if files is None:
        return read_files
    return [one for one in read_files if (one.major, one.minor, one.inode) in files]


def _finish(
    writer: RecordingWriter, info: RecordingInfo, result: RecordingResult
) -> RecordingResult:
    """Write the description of the run, on a full disk without its big parts."""
    try:
        writer.finish(info, info.events)
    except RecordingError as error:
        if info.image_section:
            limit = f"{error}: files that may be gone now were not kept."
            info = info._replace(image_section=b"")
            info.extras["limits"] = limits = [*result.limits, limit]
            return _finish(writer, info, result._replace(limits=tuple(limits)))
        big = next((key for key in _BIG_KEYS if key in info.extras), "")
        if not big:
            # The file stays readable; only the description is missing.
            limit = f"{error}: the description of the run is missing."
            return result._replace(limits=(*result.limits, limit), cut=limit)
        result = result._replace(limits=(*result.limits, f"{error}: {_BIG_KEYS[big]}."))
        extras = {key: value for key, value in info.extras.items() if key != big}
        extras["limits"] = list(result.limits)
        # The section of build ids is as big as `mapped_files`.
        build_ids = tuple(one for one in info.build_ids if big != "mapped_files" or _is_system(one))
        return _finish(writer, info._replace(extras=extras, build_ids=build_ids), result)
    return result


def _is_system(entry: BuildId) -> bool:
    return not entry.name.startswith(b"/") or entry.cpumode == abi.PERF_RECORD_MISC_KERNEL


def _sum_up(
    events: EventSet,
    loop: DrainLoop,
    background: Background,
    command: Command | Attached,
    bytes_written: int,
) -> RecordingResult:
    limits = (*events.plan.limits, *background.limits, *loop.limits, *loop.drain.limits)
    lost = events.read_lost()
    lost_frames = sum(lost.get(one, 0) for one in events.python_ids())
    if lost_frames:
        limits += (
            f"Functions of runtimes: stacks without room in the kernel's buffers: {lost_frames}.",
        )
    ended = command.reap()
    exit_status = 0
    if isinstance(command, Command):
        exit_status = ended.exit_status if ended else _SIGNALLED + loop.interrupted_by
    if isinstance(command, Command) and not ended:
        limits += (f"COMMAND (process {command.pid}) was still running at the end.",)
    return RecordingResult(
        exit_status=exit_status,
        interrupted_by=loop.interrupted_by,
        limits=limits,
        cut=loop.cut,
        counters={
            "buffers_read": loop.drain.buffers_read,
            "buffer_flushes": loop.drain.buffer_flushes,
            "wakeups": loop.wakeups,
            "bytes": bytes_written,
            "incomplete_maps": len(background.snapshot.unreadable),
        },
    )


def _describe_command(options: RecordOptions, command: Command | Attached) -> dict[str, Any]:
    ended = command.reap()
    usage: dict[str, float] = {}
    if ended and isinstance(command, Command) and not options.pids:
        usage = {
            "user_s": ended.user_s,
            "system_s": ended.system_s,
            "max_rss_kib": ended.max_rss_kib,
        }
    return {
        "command": [os.fsdecode(word) for word in options.command],
        "command_pid": command.pid,
        "attached_pids": list(options.pids),
        "rusage": usage,
    }


def _describe_cost(options: RecordOptions, plan: EventPlan) -> dict[str, float]:
    if options.events:
        return {}  # each event has another, unknown cost
    from prospect.recording.sampling_cost import describe_cost  # noqa: PLC0415 - not of all

    return describe_cost(plan, use_cache=options.use_cache)


def _describe_run(
    options: RecordOptions,
    result: RecordingResult,
    events: EventSet,
    loop: DrainLoop,
    background: Background,
) -> dict[str, Any]:
    interval = Interval(loop.begin_ns, loop.end_ns, loop.cpu_times, loop.drain.cpu_changes)
    return describe_interval(options, events, interval, background, events.read_lost()) | {
        "exit_status": result.exit_status,
        "interrupted_by": result.interrupted_by,
        "is_cut": result.is_cut,
        "limits": list(result.limits),
        "counters": result.counters,
    }
