"""`record`: run a command, or attach to processes, and record the machine meanwhile.

The module does the work before the command starts, so it imports nothing slow. `interval`
continues from there.
"""

from __future__ import annotations

import os
import time

from prospect.capture.kernel.procfs import CpuWatch
from prospect.capture.loop.command import Command, SignalWatch
from prospect.capture.loop.drain_loop import DrainLoop
from prospect.capture.machine.mapped_files import MappedFiles
from prospect.capture.sink import RecordSink, default_bound_bytes
from prospect.errors import CaptureError, UsageError
from prospect.light import Closing
from prospect.perfdata.writer import RecordingWriter
from prospect.recording.opened_events import LEAST_MAX_BYTES, open_events, with_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from prospect.announcing import Announce
    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.following.process_filter import ProcessFilter
    from prospect.capture.java.java_reader import JavaFunctions
    from prospect.capture.loop.attached import Attached
    from prospect.capture.python.memory_reader import MemoryFrames
    from prospect.capture.runtimes.runtime_reader import RuntimeFrames
    from prospect.recording.exact_counters import ExactCounter
    from prospect.recording.followed_switches import SwitchPrograms
    from prospect.recording.interval import RecordingResult
    from prospect.recording.opened_events import RecordOptions

# Room before the records: for sentences on limits and the like, for ids with their CPUs in JSON
# and in EVENT_DESC, for characters that JSON may have to escape.
_EARLY_BYTES = 6144
_EARLY_BYTES_AN_ID = 48
_EARLY_BYTES_A_CHARACTER = 8
_FIRST = -20  # setpriority(2)
_NOT_CHOSEN = (
    "Callers in user space were not recorded: the kernel refused the programs that choose the"
    " processes ({}). record -a records the stacks of every process without them."
)
_NOT_COPIED = "Waits have no stacks: the kernel refused the program that copies them ({})."


def record(
    options: RecordOptions,
    output_fd: int,
    warn: Announce | None = None,
    sink: Callable[[int, int], RecordSink] = RecordSink,
) -> RecordingResult:
    """Run a command, or watch running processes, and record all that this user may see.

    Args:
        output_fd: a regular file, opened for writing; the caller closes it.
        warn: called before COMMAND runs, with the possible cost of the recording.
        sink: makes the sink of the records, from the file and its bound in bytes.

    Raises:
        UsageError: this kernel or this machine cannot follow an option, or options contradict
            each other.
        CommandError: the command cannot be started.
        CaptureError: no event can be opened, or a process does not exist; the message says what
            to do.
        RecordingError: the file cannot be written at all.
    """
    if options.flush_centiseconds < 1:
        raise UsageError("the buffers' flush interval must be at least 1/100 s (-M)")
    if options.max_bytes is not None and options.max_bytes < LEAST_MAX_BYTES:
        raise UsageError("a recording may be bounded to no less than 1 MiB (--max-size)")
    _check_target(options)
    options = with_rate(options)
    try:
        return _record(options, output_fd, warn, sink)
    except OSError as error:
        raise CaptureError(f"recording is not possible: {error.strerror or error}") from error


def _mend(records: bytearray, events: EventSet) -> None:
    from prospect.recording.mending import mend_in_memory  # noqa: PLC0415 - once COMMAND runs

    mend_in_memory(records, events.descriptions())


def _record(
    options: RecordOptions,
    output_fd: int,
    warn: Announce | None,
    make_sink: Callable[[int, int], RecordSink],
) -> RecordingResult:
    with (
        CpuWatch() as watch,
        SignalWatch() as signals,
        _awaited(options, signals) as command,
        _SwitchPrograms(options) as switches,
        open_events(options, command.pid, watch.online, switches) as events,
        _mapped_files(options, events, watch, command.pid) as mapped_files,
        _exact_counters(options, command.pid, warn) as counters,
        _ChosenProcesses(events) as chosen,
        _RuntimeFrames(options, events) as python,
        _JavaFunctions(events) as java,
    ):
        writer = RecordingWriter(
            output_fd, events.descriptions(), early_bytes=_early_size_bytes(options, events)
        )
        if options.compress:
            from prospect.capture.compressed_sink import CompressedSink  # noqa: PLC0415 - rarely needed

            def make_sink(fd: int, bound_bytes: int) -> RecordSink:
                return CompressedSink(fd, bound_bytes, lambda records: _mend(records, events))

        sink = make_sink(output_fd, options.max_bytes or default_bound_bytes(output_fd))
        loop = DrainLoop(events, command, signals, watch, sink)
        started_at = time.time()
        for counter in counters.values():
            counter.start()
        mapped_files.wait()
        if switches is not None:
            switches.start(events, options.pids, command.pid)
        pids = options.pids or (command.pid,)
        if options.call_graph or options.off_cpu:
            chosen.start(pids)
        loop.start(options.flush_centiseconds)
        command.let_start()
        chosen.start(pids, hurries=True)
        python.start(loop, mapped_files.python_fd, command.pid, chosen)
        java.watch(loop, mapped_files.jvms_fd)
        from prospect.recording.interval import Started, follow  # noqa: PLC0415 - once COMMAND runs

        return follow(
            Started(
                options=options,
                started_at=started_at,
                command=command,
                events=events,
                mapped_files=mapped_files,
                counters=counters,
                python=lambda: python.frames,
                java=lambda: java.functions,
                switches=switches,
                limits=chosen.limits,
                loop=loop,
                sink=sink,
                writer=writer,
                output_fd=output_fd,
            )
        )


def _check_target(options: RecordOptions) -> None:
    if options.command and options.for_s is not None:
        raise UsageError("COMMAND is recorded until it ends: drop it, or drop --for")
    if options.count_calls and (options.pids or not options.command):
        raise UsageError("--count-calls counts in COMMAND: give one, without -p")
    if options.wall and options.off_cpu:
        raise UsageError("--off-cpu records what --wall does, and stacks: give one of them")
    if options.count_hook and not options.count_calls:
        raise UsageError("--count-hook runs where calls are counted: give --count-calls too")


def _awaited(options: RecordOptions, signals: SignalWatch) -> Command | Attached:
    """Return COMMAND, which waits for its release, or the processes that end the interval."""
    if options.command and not options.pids:
        return Command(options.command, signals)
    from prospect.capture.loop.attached import Attached  # noqa: PLC0415 - not for a command

    attached = Attached(options.pids, options.for_s)
    if not options.command:
        return attached
    attached.close()
    return Command(options.command, signals)


def _mapped_files(
    options: RecordOptions, events: EventSet, watch: CpuWatch, command_pid: int
) -> MappedFiles:
    return MappedFiles(
        events.tasks,
        watch.online,
        command_pid,
        finds_python=bool(events.python_ids()),
        attached=options.pids,
        copies=bool(options.images),
        of_all=options.of_all,
    )


class _ChosenProcesses(Closing):
    """The programs that choose the processes whose stacks are recorded, if needed.

    COMMAND waits for them if options ask for stacks. Default stacks begin a few ms after COMMAND.

    Attributes:
        filter: the programs; None for none.
        limits: a sentence if the kernel refuses them.
    """

    def __init__(self, events: EventSet) -> None:
        self._events = events
        self.filter: ProcessFilter | None = None
        self._pids: tuple[int, ...] = ()
        self.limits: tuple[str, ...] = ()

    def close(self) -> None:
        """Remove the programs."""
        if self.filter:
            self.filter.close()

    def start(self, pids: tuple[int, ...], *, hurries: bool = False) -> None:
        """Record stacks of these processes and their descendants from now on, if needed.

        Args:
            hurries: whether to do this with the highest priority, because COMMAND runs.
        """
        self._pids = pids
        if not self._events.plan.filters or self.filter or self.limits:
            return
        usual = os.getpriority(os.PRIO_PROCESS, 0)
        if hurries:
            _set_priority(_FIRST)
        try:
            self.filter = self._started()
        except OSError as error:
            sentence = _NOT_COPIED if self._events.plan.of_every_process else _NOT_CHOSEN
            self.limits = (sentence.format(os.strerror(error.errno or 0)),)
        _set_priority(usual)

    def for_python(self) -> ProcessFilter | None:
        """Return the programs for Python frames of these processes; None for every process."""
        if not self.filter and self._events.plan.may_filter:
            try:
                self.filter = self._started()
            except OSError:
                return None
        return self.filter

    def _started(self) -> ProcessFilter:
        from prospect.capture.following.process_filter import ProcessFilter  # noqa: PLC0415 - once COMMAND runs

        plan = self._events.plan
        has_copies = plan.copies is not None
        started = ProcessFilter(
            plan.periods,
            copies=has_copies,
            at_events=plan.filters,
            copies_of_waits=plan.copies_of_waits,
            every_process=plan.of_every_process,
        )
        try:
            started.start(self._events, self._pids)
        except OSError:
            started.close()
            raise
        return started


def _set_priority(nice: int) -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except OSError:
        return  # without CAP_SYS_NICE


class _RuntimeFrames(Closing):
    """The reader of Python frames, which starts once Python runs."""

    def __init__(self, options: RecordOptions, events: EventSet) -> None:
        self._events = events
        self._choice, self._rate_hz = options.python, options.frequency_hz
        self.frames: RuntimeFrames | MemoryFrames | None = None

    def close(self) -> None:
        """End the reader."""
        if self.frames:
            self.frames.close()

    def start(
        self, loop: DrainLoop, python_fd: int, command_pid: int, chosen: _ChosenProcesses
    ) -> None:
        """Start the reader if COMMAND is Python, or when `MappedFiles.python_fd` is readable."""
        self._chosen = chosen
        if python_fd < 0:
            return
        from prospect.capture.machine.runtime_processes import executes_runtime  # noqa: PLC0415 - once COMMAND runs

        if executes_runtime(command_pid) or self._events.plan.wakes_at_samples:
            self._begin(loop, is_there=True)
        else:
            loop.watch(python_fd, lambda: self._begin(loop, is_there=bool(os.read(python_fd, 1))))

    def _begin(self, loop: DrainLoop, *, is_there: bool) -> None:
        if self._events.plan.reads_memory:
            from prospect.capture.python.memory_reader import MemoryFrames  # noqa: PLC0415 - once COMMAND runs

            self.frames = loop.drain.frames = MemoryFrames(self._events)
            return
        from prospect.capture.runtimes.runtime_reader import RuntimeFrames  # noqa: PLC0415 - once COMMAND runs

        self.frames = frames = RuntimeFrames()
        beside_others = self._choice == "always"
        frames.start(
            self._events,
            self._rate_hz,
            beside_others=beside_others,
            is_there=is_there,
            chosen=self._chosen.for_python(),
        )


class _JavaFunctions(Closing):
    """The reader of JVMs, which starts once there is one."""

    def __init__(self, events: EventSet) -> None:
        self._events = events
        self.functions: JavaFunctions | None = None

    def close(self) -> None:
        """End the reader."""
        if self.functions:
            self.functions.close()

    def watch(self, loop: DrainLoop, jvms_fd: int) -> None:
        """Start the reader when `MappedFiles.jvms_fd` is readable."""
        loop.watch(jvms_fd, lambda: self._begin(jvms_fd))

    def _begin(self, jvms_fd: int) -> None:
        from prospect.capture.java.java_reader import JavaFunctions  # noqa: PLC0415 - once COMMAND runs

        self.functions = JavaFunctions()
        described = self._events.descriptions()
        with_stacks = any(one.attr.sample_stack_user for one in described)
        self.functions.start(jvms_fd, with_stacks=with_stacks)


class _SwitchPrograms:
    """The programs of --wall or --off-cpu; None if the options do not need them."""

    def __init__(self, options: RecordOptions) -> None:
        self._is_wanted = options.wall or (options.off_cpu and options.wakers)
        self._has_stacks = not options.wall
        self._of_every_thread = options.wall == "system" or not (options.command or options.pids)
        if options.off_cpu:
            self._of_every_thread |= options.of_all or bool(options.events)
        self._programs: SwitchPrograms | None = None

    def __enter__(self) -> SwitchPrograms | None:
        if self._is_wanted:
            from prospect.recording.followed_switches import SwitchPrograms  # noqa: PLC0415 - only with --wall

            self._programs = SwitchPrograms(
                every_thread=self._of_every_thread, has_stacks=self._has_stacks
            )
        return self._programs

    def __exit__(self, *_: object) -> None:
        if self._programs is not None:
            self._programs.close()


class _NoCounters:
    def __enter__(self) -> dict[str, ExactCounter]:
        return {}

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""


def _exact_counters(
    options: RecordOptions, pid: int, warn: Announce | None
) -> AbstractContextManager[Mapping[str, ExactCounter]]:
    if not (options.count_syscalls or options.count_calls):
        return _NoCounters()
    from prospect.announcing import silent  # noqa: PLC0415 - only where calls are counted
    from prospect.recording.exact_counters import exact_counters  # noqa: PLC0415 - only where calls are counted

    return exact_counters(options, pid, warn or silent)


def _early_size_bytes(options: RecordOptions, events: EventSet) -> int:
    """Return an upper bound on the size of the early document and short feature sections."""
    words = sum(map(len, (*options.command, *options.command_line)))
    ids = sum(len(event.ids) for event in events.descriptions())
    size = _EARLY_BYTES + _EARLY_BYTES_AN_ID * ids + _EARLY_BYTES_A_CHARACTER * words
    return size // 8 * 8
