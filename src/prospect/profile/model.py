"""The leaf model: the tables of a profile, after decoding and naming.

Renderers, estimates and stores use this model and no other. Tables are records of columns (numpy
arrays or lists of str, equally long). A `_index` is a row of another table, -1 if there is none.
This module imports no numpy, so that commands that only name a column or a kind start without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.columns.array_types import F64, I8, I32, I64, U8, U16, U32, U64, Bools, Ints
    from prospect.profile.optional_tables import CallCounts, CodeTable, LineTable, MemoryMap
    from prospect.profile.run_info import RunInfo

BIRTH_PREEXISTING = 0
BIRTH_FORK = 1
BIRTH_EXEC = 2

CPUMODE_KERNEL = 1
CPUMODE_USER = 2

KIND_ELF = 0
KIND_KERNEL = 1
KIND_MODULE = 2
KIND_VDSO = 3
KIND_BPF = 4
KIND_JIT = 5
KIND_ANON = 6
KIND_UNKNOWN = 7
KIND_PYTHON = 8
KIND_RUBY = 9
KIND_PHP = 10
KIND_JAVASCRIPT = 11

# The object of the frame that replaces callers that were not recorded.
CUT_OBJECT = "[cut]"

ENTRY_REASON_NONE = 0  # not in the kernel
ENTRY_REASON_SYSCALL = 1
ENTRY_REASON_EXCEPTION = 2
ENTRY_REASON_INTERRUPT = 3
ENTRY_REASON_SOFTIRQ = 4
ENTRY_REASON_KERNEL_THREAD = 5
ENTRY_REASON_IDLE = 6
ENTRY_REASON_UNCLASSIFIED = 7  # a kernel chain was recorded, but no known entry is in it
ENTRY_REASON_UNRECORDED = 8  # kernel time of a recording without kernel chains

STOP_THROTTLED = 0
STOP_FULL = 1

NO_CPU = 0xFFFF

KIND_NAMES = (
    *("elf", "kernel", "module", "vdso", "bpf", "jit", "anon", "unknown"),
    *("python", "ruby", "php", "javascript"),
)
# Source files of functions that a runtime names.
SOURCE_KINDS = (KIND_PYTHON, KIND_RUBY, KIND_PHP, KIND_JAVASCRIPT)

# Results of unwinding a copied stack.
END_WHOLE = "complete"
END_NO_ROW = "no row"
END_CUT = "cut"
NO_COPY = -1
# The largest copy of a stack: the size of a record is a u16.
MOST_COPY_BYTES = 65520

# States of a thread of the critical path.
PATH_RAN, PATH_WAITED, PATH_BLOCKED, PATH_UNKNOWN = range(4)
# A turn is cut by the start or end of the recording, or unclear if a wait in it is unknown.
TURN_WHOLE, TURN_CUT, TURN_UNCLEAR = range(3)
TURN_STATES = ("whole", "cut", "unclear")
NO_TURNS = "the profile has no turns: record with --off-cpu, and open it with stacks=True"
# Threads of a turn's pieces.
THREADS_OF_TURNS = ("own thread", "other thread", "other process")
PATH_STATES = ("running", "waiting for a CPU", "blocked", "not known")
NO_LABELS = "samples have no labels"
NO_PATH = "the profile has no critical path: record a command with --off-cpu or --wall"

# States of a thread that does not run.
BLOCKED = "blocked"
RUNNABLE = "runnable"


class HitClasses(Record):
    """The classes of hits that `HitTable.class_index` separates, besides the table's other columns.

    Attributes:
        dimensions: in which the classes differ: some of "cpu", "thread", "hour", "session", "host".
        names: of each class in each dimension.
    """

    dimensions: tuple[str, ...]
    names: list[tuple[str, ...]]


class DataColumn(Record):
    """A column of some samples.

    Attributes:
        values: f64[k] numbers, NaN for none; or, as f64 too, rows of `texts`, NaN for none.
        texts: meanings of the values; empty for numbers.
    """

    name: str
    values: F64
    texts: tuple[str, ...] = ()


class SampleData(Record):
    """The columns of an event's samples.

    Attributes:
        event_index: row of `RunInfo.events`.
        source: the plug-in that decoded them.
        sample: i64[k] row of the profile's samples.
        columns: each of k values.
    """

    event_index: int
    source: str
    sample: I64
    columns: tuple[DataColumn, ...]


class StackCopies(Record):
    """Samples with registers of user space, and how far their stacks were unwound from a copy.

    Kernel threads have no such stack.

    Attributes:
        copy_bytes: the requested size of a copy.
        ends: reasons why unwinding stopped: END_WHOLE at the outermost function, END_CUT if the
            next frame is beyond the copy, END_NO_ROW without call-frame information, and others.
        paths: of the objects in which stacks ended, "" for code without an image.
        end: i8[n] row of `ends`; NO_COPY if the stack could not be read.
        frames: i32[n] frames in the copy.
        needed_bytes: i64[n] the copy that would hold a whole cut stack; 0 for others.
        is_least: bool[n] whether even more may be needed, as its thread was never seen whole.
        place: i32[n] row of `paths`, -1 for a stack that is whole or has no frame.
        is_continued: bool[n] whether recorded frame pointers continued it.
        only_of_waits: whether only stacks of waits were copied, as with ``--off-cpu`` alone.
    """

    copy_bytes: int
    ends: tuple[str, ...]
    paths: tuple[str, ...]
    pid: U32
    end: I8
    frames: I32
    needed_bytes: I64
    is_least: Bools
    place: I32
    is_continued: Bools
    only_of_waits: bool = False

    def __len__(self) -> int:
        return len(self.pid)


class ThreadTimes(Record):
    """The life of every thread in the interval, by the scheduler's switches; exact.

    The times of a row add up to its life, from `begin_ns` to `end_ns`. Process zero, the idle one,
    has no row. Rows ascend by thread, then by begin: the kernel reuses numbers of threads.

    Attributes:
        process_index: i32[t] into processes: its last program; -1 if unknown.
        name: the thread's last name.
        begin_ns, end_ns: u64[t] on the recording's clock; birth and death if these are within the
            interval.
        cpu_ns: i64[t] on a CPU, interrupts included.
        runnable_ns: i64[t] ready, without a CPU.
        blocked_ns: i64[t] waiting for anything else.
        unknown_ns: i64[t] between switches with missing records.
        stackless_ns: i64[t] runnable or blocked, with an unknown stack: since before the interval,
            new threads until they get a CPU, and if the sample was lost.
        since_before_ns: i64[t] of these, in the wait that it was in as the interval began.
        blocks, preemptions: i64[t] how often it left a CPU to wait, and while runnable.
        longest_ns: i64[t] the longest time that it was blocked.
    """

    process_index: I32
    name: list[str]
    tid: I32
    begin_ns: U64
    end_ns: U64
    cpu_ns: I64
    runnable_ns: I64
    blocked_ns: I64
    unknown_ns: I64
    stackless_ns: I64
    since_before_ns: I64
    blocks: I64
    preemptions: I64
    longest_ns: I64

    def __len__(self) -> int:
        return len(self.tid)

    @property
    def life_ns(self) -> I64:
        """The length of each life in the interval, i64[t]."""
        return (self.end_ns - self.begin_ns).view("int64")


class WallTakers(Record):
    """Threads that had the CPU while a thread of the path waited for one.

    Attributes:
        piece: i64[k] row of `WallPath`, ascending.
        tid: i32[k] 0 if no thread had it, -1 if that was not recorded.
        process_index: i32[k] into processes, -1 for none.
        name_index: i32[k] row of `WallPath.names`.
        length_ns: i64[k] those of a piece add up to its length.
    """

    piece: I64
    tid: I32
    process_index: I32
    name_index: I32
    length_ns: I64


class WallPath(Record):
    """The critical path of COMMAND: pieces that add up to the time from its start to its exit.

    The pieces are in chronological order; each begins where the one before ends. The pieces of
    turns are in the order of the turns (`TurnTable`).

    Attributes:
        begin_ns: u64[p] on the recording's clock.
        length_ns: i64[p].
        state: u8[p] PATH_*.
        tid: i32[p].
        process_index: i32[p] into processes: its program at the time; -1 if unknown.
        name_index: i32[p] row of `names`: the thread's name at the time.
        ended_by: i32[p] the thread that ended a blocked piece, 0 for an interrupt, -1 if that was
            not recorded and for all other pieces.
        ender_index: i32[p] row of `names` of that thread, -1 for none.
        ender_process_index: i32[p] into processes: its program, -1 for none.
        takers: threads that had the CPU while the path waited for one.
        cpu: i32[p] the CPU of running pieces, -1 if unknown; None if not kept.
    """

    begin_ns: U64
    length_ns: I64
    state: U8
    tid: I32
    process_index: I32
    name_index: I32
    ended_by: I32
    ender_index: I32
    ender_process_index: I32
    takers: WallTakers
    names: list[str]
    cpu: I32 | None = None

    def __len__(self) -> int:
        return len(self.tid)


class TurnTable(Record):
    """Turns of threads: from the end of an idle wait to the start of the thread's next one.

    The turns of each thread are in chronological order, and do not overlap.

    Attributes:
        tid: i32[n].
        process_index: i32[n] into processes: its program.
        begin_ns: u64[n] on the recording's clock.
        length_ns: i64[n].
        state: u8[n] TURN_*.
        is_loop: bool[n] whether the thread serves many requests at once, so that the turn is one
            of its event loop.
        kind_index: i32[n] row of `kinds`.
        kinds: a function, or the system call of the idle wait before.
        turn_of_piece: i32[p] the turn of each piece, ascending; those of TURN_WHOLE have pieces.
        pieces: of each turn, in chronological order; they add up to its length.
        during_index: i32[p] for pieces of other threads, the wait of the turn's own thread at the
            time, or its next, a row of `during`; -1 for its own pieces, and if unknown.
        during: names of system calls and locks.
    """

    tid: I32
    process_index: I32
    begin_ns: U64
    length_ns: I64
    state: U8
    is_loop: Bools
    kind_index: I32
    kinds: list[str]
    turn_of_piece: I32
    pieces: WallPath
    during_index: I32
    during: list[str]

    def __len__(self) -> int:
        return len(self.tid)


class ProcessTable(Record):
    """One row for each program image that a process ran: a new row at fork and at exec.

    Attributes:
        name: the process's last comm in this row's life.
        pid, parent_pid, group_pid, session_pid: i32[p], -1 if unknown.
        parent_index: i32[p] the row that forked this one (for an exec: the row before the exec).
        birth: u8[p] BIRTH_*.
        start_ns, end_ns: u64[p]; 0 for before the interval, 2**64 - 1 for still running.
        is_kernel_thread, is_recorder, is_command: bool[p]; `is_command` marks COMMAND itself,
            `is_descendant` COMMAND and its descendants.
        control_group: path of the control group of its last sample, "" if unknown; None if no event
            tells it.
        service: the name of that (`group_names`); None if no event tells it.
        image: the image of its container, "" for none; None if no event tells it.
    """

    name: list[str]
    pid: I32
    parent_pid: I32
    group_pid: I32
    session_pid: I32
    parent_index: I32
    birth: U8
    start_ns: U64
    end_ns: U64
    is_kernel_thread: Bools
    is_recorder: Bools
    is_command: Bools
    is_descendant: Bools
    control_group: list[str] | None = None
    service: list[str] | None = None
    image: list[str] | None = None

    def __len__(self) -> int:
        return len(self.name)


class ObjectTable(Record):
    """Mapped objects with code: files, the kernel, modules, the vdso, JIT and anonymous memory.

    `kind` u8[o] is KIND_*; `build_id` is lower-case hex, empty if unknown; `source` u8[o] is the
    NameSource of most functions of the object; `note` gives the reason for no or poor names.
    """

    path: list[str]
    kind: U8
    build_id: list[str]
    source: U8
    note: list[str]

    def __len__(self) -> int:
        return len(self.path)


class FunctionTable(Record):
    """Functions with a hit. An object's hits without a name share rows with an empty `name`.

    Attributes:
        name: demangled, perhaps on demand; ``a->b`` for a bracket; "" if there is none.
        linkage_name: as in the symbol table.
        aliases: other symbols at the same address, perhaps made on demand.
        address: u64[f] of its first instruction: SVMA for images, the kernel's own for the kernel.
        size_bytes: u64[f], 0 if unknown.
        is_global: bool[f]; False for local (static) symbols.
        source: u8[f] NameSource.
    """

    name: Sequence[str]
    linkage_name: Sequence[str]
    aliases: Sequence[tuple[str, ...]]
    object_index: I32
    address: U64
    size_bytes: U64
    is_global: Bools
    source: U8

    def __len__(self) -> int:
        return len(self.name)


class LocationTable(Record):
    """Distinct instructions hit: `function_index` i32[l], `address` u64[l] (as in functions)."""

    function_index: I32
    address: U64

    def __len__(self) -> int:
        return len(self.address)


class MappingTable(Record):
    """Executable mappings of processes: i32, i32, u64, u64, u64, i64, i8 columns, equally long.

    `prot` are PROT_* bits, -1 if unknown.
    """

    process_index: I32
    object_index: I32
    start: U64
    end: U64
    pgoff: U64
    hits: I64
    prot: I8


class EntryReasonTable(Record):
    """Reasons why the CPU was in the kernel. Row 0 is ENTRY_REASON_NONE, for hits outside it.

    `kind` u8[c] is ENTRY_REASON_*; `name` distinguishes entry reasons of a kind: the system call
    ("read"), the exception ("page fault"), the interrupt's vector, the softirq, the kernel thread;
    "" for none.
    """

    kind: U8
    name: list[str]

    def __len__(self) -> int:
        return len(self.name)


class HitTable(Record):
    """Every sample of the recording, in exactly one row.

    Attributes:
        process_index: i32[h] into processes.
        comm_index: i32[h] into `Profile.comms`: the thread's name at the time.
        location_index: i32[h] into locations.
        mode: u8[h] PERF_RECORD_MISC_CPUMODE: CPUMODE_KERNEL, CPUMODE_USER or another.
        event: u16[h] row of `RunInfo.events`.
        entry_reason_index: i32[h] into entry reasons.
        count: i64[h] samples.
        period: i64[h] sum of the samples' periods, in the event's unit.
        stack_index: i32[h] into `Profile.stacks`: the hits' own frame, in profiles that have stacks
            and no samples; None in all others, in which a hit has as many stacks as samples.
        label_index: i32[h] into `Profile.labels`; None without a label source.
        host_hour: i32[h] the number of the host and hour that represent others, chosen with the
            probability `RunInfo.host_share`; -1 for those that represent only themselves. None if
            all do.
        class_index: i32[h] row of `Profile.classes`; None if that is.
    """

    process_index: I32
    comm_index: I32
    location_index: I32
    mode: U8
    event: U16
    entry_reason_index: I32
    count: I64
    period: I64
    stack_index: I32 | None = None
    label_index: I32 | None = None
    host_hour: I32 | None = None
    class_index: I32 | None = None

    def __len__(self) -> int:
        return len(self.count)


class SampleTable(Record):
    """The time, CPU and clock of each sample, in the order of the recording.

    Estimates of error, the sample accounting and figures by time need this table. It is empty in
    profiles that were made without it.

    Attributes:
        hit_index: i32[n] into hits.
        time_ns: u64[n] on the recording's clock.
        cpu: u16[n], NO_CPU if unknown.
        clock: u8[n] position in the event's clock bank; 0 if there is one clock.
        period: u64[n] in the event's unit, a broadcast scalar if all are equal; None if only their
            sums by hit are known.
        tid: i32[n] None if unknown.
        stack_index: i32[n] into `Profile.stacks`: the sample's own frame, whose location is that of
            its hit; None if the recording has no call chains.
    """

    hit_index: I32
    time_ns: U64
    cpu: U16
    clock: U8
    period: U64 | None = None
    tid: I32 | None = None
    stack_index: I32 | None = None

    def __len__(self) -> int:
        return len(self.hit_index)


class WaitTable(Record):
    """Waits off the CPU that began in the recording: the code where a thread stopped, and how long.

    A thread that is woken before it gets a CPU has two: it is blocked, then runnable. Each wait is
    measured, so waits are neither hits nor samples, and have no error.

    Attributes:
        is_runnable: bool[w] whether the thread was ready and waited for a CPU; else it was blocked.
        process_index, comm_index, location_index, mode, entry_reason_index, label_index: as in
            `HitTable`.
        tid: i32[w].
        cpu: u16[w] the CPU that it left.
        begin_ns: u64[w] on the recording's clock.
        length_ns: u64[w].
        stack_index: i32[w] into `Profile.stacks`; None if the recording has no call chains.
        waker: i32[w] the thread that ended it, 0 for an interrupt, -1 if unknown; None if
            wake-ups were not recorded.
    """

    is_runnable: Bools
    process_index: I32
    comm_index: I32
    location_index: I32
    mode: U8
    entry_reason_index: I32
    tid: I32
    cpu: U16
    begin_ns: U64
    length_ns: U64
    stack_index: I32 | None = None
    label_index: I32 | None = None
    waker: I32 | None = None

    def __len__(self) -> int:
        return len(self.length_ns)


class StackTable(Record):
    """Distinct call stacks, as a forest: a row is a frame and, with its callers, a stack.

    Callers are before what they call, so that one pass from the last row to the first adds every
    frame to its callers. User frames are the outer ones, kernel frames the inner ones: the first
    kernel frame is called by the user frame that made the system call.

    Attributes:
        caller_index: i32[s] row of the calling frame, less than the row itself; -1 for outermost.
        location_index: i32[s] into locations: the instruction of the sample, or of the call.
        mode: u8[s] CPUMODE_KERNEL, CPUMODE_USER or another.
        depth: i32[s] number of callers; 0 for outermost.
    """

    caller_index: I32
    location_index: I32
    mode: U8
    depth: I32

    def __len__(self) -> int:
        return len(self.caller_index)


class ClockTable(Record):
    """The timers that took the samples: one row for each stretch of time that a CPU was online.

    Only clocks with a fixed grid: no hardware counters, no per-task events, which stop at each
    switch. Empty if a recording has none.

    Attributes:
        event: u16[c] row of `RunInfo.events`.
        clock: u8[c] as in samples.
        begin_ns, end_ns: u64[c] when it ran.
        lost: i64[c] samples that the kernel counted as lost; for a clock and CPU with several rows,
            all are in the first.
    """

    event: U16
    clock: U8
    cpu: I32
    period_ns: F64
    begin_ns: U64
    end_ns: U64
    lost: I64

    def __len__(self) -> int:
        return len(self.cpu)


class ClockStopTable(Record):
    """When a clock delivered no samples, as the kernel reported, or left its grid.

    Attributes:
        kind: u8[s] STOP_THROTTLED: the kernel stopped the timer for taking too much time;
            STOP_FULL: the buffer was full until `end_ns`, from an unknown time on.
        clock_index: i32[s] into clocks.
        begin_ns, end_ns: u64[s]; equal for STOP_FULL.
    """

    kind: U8
    clock_index: I32
    begin_ns: U64
    end_ns: U64

    def __len__(self) -> int:
        return len(self.kind)


class SyscallTable(Record):
    """System calls that began in the interval, exactly: a row a process, call and interface.

    Attributes:
        process_index: i32[s] into processes, -1 if unknown.
        name_index: i32[s] into `names`.
        is_compat: bool[s] made through the kernel's 32-bit interface.
        calls: i64[s] that began.
        unfinished: i64[s] of these, without an end in the interval: pending, or calls that never
            return (exit).
        time_ns: i64[s] wall time from begin to end of those that ended, waiting included.
        names: distinct calls, by their names in user space ("read").
        dropped: calls that are in no row, because the kernel had no room for them.
        cost_ns: by how much counting made a call longer, as measured on this machine.
    """

    process_index: I32
    name_index: I32
    is_compat: Bools
    calls: I64
    unfinished: I64
    time_ns: I64
    names: list[str]
    dropped: int = 0
    cost_ns: float = 0.0

    def __len__(self) -> int:
        return len(self.calls)


class LossTable(Record):
    """Samples that the kernel dropped, and throttle marks, by CPU: i32, i64, i64 columns."""

    cpu: I32
    lost: I64
    throttled: I64


class Profile(Record):
    """A whole profile. See docs/design.md for the picture of its tables.

    Tables that were not requested are None.

    Attributes:
        lines: of the locations.
        code: of chosen functions.
        syscalls, call_counts: exact counts of system calls, and of calls of functions.
        stacks, stack_copies: None too if the recording has no call chains, or no copies of stacks.
        threads, waits: None too if the recording has no switches.
        wall, turns: the critical path of COMMAND, and turns of threads that wait for work; in the
            same way.
        unhit_mappings: returns the mappings without a hit of the process in a row of `processes`.
        sample_data: the decoded raw data of samples.
        labels, classes: meanings of `HitTable.label_index` and `HitTable.class_index`.
        part_of: set in a part of a recording, which has no samples itself.
    """

    run: RunInfo
    comms: list[str]
    processes: ProcessTable
    objects: ObjectTable
    functions: FunctionTable
    locations: LocationTable
    mappings: MappingTable
    hits: HitTable
    losses: LossTable
    entry_reasons: EntryReasonTable
    samples: SampleTable
    clocks: ClockTable
    clock_stops: ClockStopTable | None = None
    lines: LineTable | None = None
    code: CodeTable | None = None
    syscalls: SyscallTable | None = None
    stacks: StackTable | None = None
    stack_copies: StackCopies | None = None
    call_counts: CallCounts | None = None
    threads: ThreadTimes | None = None
    waits: WaitTable | None = None
    wall: WallPath | None = None
    turns: TurnTable | None = None
    unhit_mappings: Callable[[int], MemoryMap] | None = None
    sample_data: tuple[SampleData, ...] = ()
    labels: list[str] | None = None
    classes: HitClasses | None = None
    part_of: PartOf | None = None


class PartOf(Record):
    """The recording that a profile is a part of: its ticks give the errors of the part's times.

    Attributes:
        hit_index: i32[n] the hit of each of its samples, a row of the part's hits; -1 for samples
            outside the part.
    """

    profile: Profile
    hit_index: I32

    def renumbered(self, number: Ints) -> PartOf:
        """Return the same for hits with new numbers, i[h]: -1 for omitted ones."""
        if not len(number):
            return self
        hit_index = number.take(self.hit_index, mode="clip").astype(self.hit_index.dtype)
        hit_index[self.hit_index < 0] = -1
        return PartOf(self.profile, hit_index)


def copies_of_waits_alone(profile: Profile) -> bool:
    """Return whether only the stacks of waits were copied, not those of samples."""
    copies = profile.stack_copies
    return copies is not None and copies.only_of_waits


def sampled(profile: Profile) -> PartOf:
    """Return the recording whose samples a profile's hits are: itself, unless it is a part."""
    return profile.part_of or PartOf(profile, profile.samples.hit_index)
