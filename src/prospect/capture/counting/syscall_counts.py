"""--count-syscalls: counts every system call of the machine in the kernel.

Two programs run at the raw tracepoints sys_enter(regs, number) and sys_exit(regs, result). The
recorder reads their counts at the end; docs/recording.md describes them under `syscalls`. Raw
tracepoints cost less than perf events of the same name, and need no tracefs. Programs and maps
exist as long as this process has file descriptors of them.

Each thread has its own state, which the kernel frees with the thread. A call is counted as it
begins, so that one that never ends counts too; its time is added as it ends. Counters belong to a
process, the program that it runs (an exec or a fork begins another), a call, and a group of CPUs:
hundreds of CPUs that add to one cache line would wait for each other.

Source: ``include/trace/events/syscalls.h``; syscall_trace_enter() and syscall_exit_work() in
``kernel/entry/``; ``kernel/trace/bpf_trace.c`` and ``kernel/bpf/hashtab.c``, Linux 6.18;
bpf-helpers(7).
"""

from __future__ import annotations

import errno
import os
import struct
import time
from typing import TYPE_CHECKING, Any

from prospect.abi import bpf as abi
from prospect.abi.bpf import BPF_B, BPF_DW, BPF_W
from prospect.abi.syscall_names import NO_SUCH_CALL
from prospect.capture.capture_limits import MOST_SYSCALL_ENTRIES
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.bpf_assembler import (
    EXIT,
    REGISTERS,
    Instruction,
    Label,
    address,
    alu,
    assemble,
    atomic_add,
    call,
    jump,
    jump_if,
    load,
    load_imm64,
    load_map,
    look_up,
    move,
    store,
    update,
)
from prospect.capture.kernel.procfs import possible_cpus
from prospect.errors import CaptureError
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    Program = Sequence[Instruction | Label]

R0, R1, R2, R3, R4, _, R6, R7, R8, _, FP = REGISTERS

# A thread's state: the start of its call (0 for none), then the key of that call's counters.
STATE_WORDS = 3
_BEGUN_NS = 0
_KEY = 8
_PID = 8
_CALL = 12
_SINCE_NS = 16
# pid u32, call u32, since_ns u64: the time at which the process began to run this program
COUNTS_KEY = struct.Struct("=IIQ")
# calls, ended calls, nanoseconds in ended calls
COUNTS_VALUE = struct.Struct("=3Q")
_CALLS = 0
_ENDED = 8
_TIME_NS = 16
# pid u32 → since_ns u64
IMAGES_KEY_BYTES = 4
IMAGES_VALUE_BYTES = 8

# Parts of `call`: the number, whether through the 32-bit interface, the group of CPUs.
NUMBER_MASK = 0xFFFF
COMPAT_BIT = 1 << 16
_GROUP_SHIFT = 24
CALL_MASK = NUMBER_MASK | COMPAT_BIT
# Numbers from here on are counted as NO_SUCH_CALL, so that a program that invents numbers does not
# fill the map.
_NUMBERS = 1024
MOST_GROUPS = 16

_ZERO_COUNTS = -COUNTS_VALUE.size
_SCRATCH = _ZERO_COUNTS - 8
_DROPPED_KEY = _SCRATCH - 8


class Maps(NamedTuple):
    """File descriptors of the maps.

    Attributes:
        threads: task storage, STATE_WORDS u64: each thread's state.
        images: pid → the time at which it began to run its program, for threads that start later.
        counts: COUNTS_KEY → COUNTS_VALUE.
        dropped: per-CPU array of one u64: calls for which `counts` had no room.
    """

    threads: int
    images: int
    counts: int
    dropped: int


class Machine(NamedTuple):
    """Differences between machines.

    Attributes:
        register_offset: in struct pt_regs, of the register that shows 32-bit code.
        register_mask, compat_value: the masked register of a 32-bit call has this value.
        exec_calls: `call` of execve and execveat, native and 32-bit.
    """

    register_offset: int
    register_mask: int
    compat_value: int
    exec_calls: tuple[int, ...]


class Namespace(NamedTuple):
    """A pid namespace other than the first: the kernel's numbers of its file."""

    device: int
    inode: int


MACHINES = {
    # pt_regs.cs is __USER32_CS; Xen's FLAT_USER_CS32 has the same low byte.
    # Source: arch/x86/include/asm/segment.h, arch/x86/include/asm/xen/interface_64.h
    "x86_64": Machine(136, 0xFF, 0x23, (59, 322, 11 | COMPAT_BIT, 358 | COMPAT_BIT)),
    # pt_regs.pstate has PSR_MODE32_BIT. Source: arch/arm64/include/uapi/asm/ptrace.h
    "aarch64": Machine(264, 0x10, 0x10, (221, 281, 11 | COMPAT_BIT, 387 | COMPAT_BIT)),
}


def enter_program(
    maps: Maps, machine: Machine, cpu_shift: int, namespace: Namespace | None
) -> bytes:
    """Return the code for sys_enter.

    Args:
        maps: take the counts.
        machine: the one on which it runs.
        cpu_shift: a CPU's number shifted right by this is its group, below MOST_GROUPS.
        namespace: the pid namespace whose pids are counted, None for the first one.
    """
    return assemble(
        (
            move(R6, R1),
            *_thread_state(maps, abi.BPF_LOCAL_STORAGE_GET_F_CREATE, "dropped"),
            store(BPF_DW, R7, _BEGUN_NS, 0),
            load(BPF_DW, R1, R7, _SINCE_NS),
            jump_if(abi.BPF_JNE, R1, 0, "known"),
            *_identify(maps, namespace),
            Label("known"),
            *_which_call(machine, cpu_shift),
            *look_up(maps.counts, _KEY, R7),
            jump_if(abi.BPF_JNE, R0, 0, "count"),
            *_new_counts(maps),
            jump_if(abi.BPF_JEQ, R0, 0, "dropped"),
            Label("count"),
            move(R1, 1),
            atomic_add(R0, _CALLS, R1),
            call(abi.BPF_FUNC_ktime_get_ns),
            store(BPF_DW, R7, _BEGUN_NS, R0),
            jump("done"),
            Label("dropped"),
            *_count_dropped(maps),
            Label("done"),
            move(R0, 0),
            EXIT,
        )
    )


def exit_program(maps: Maps, machine: Machine) -> bytes:
    """Return the code for sys_exit, which ignores calls that began before counting."""
    return assemble(
        (
            move(R6, R1),
            call(abi.BPF_FUNC_ktime_get_ns),
            move(R8, R0),
            *_thread_state(maps, 0, "done"),
            load(BPF_DW, R1, R7, _BEGUN_NS),
            jump_if(abi.BPF_JEQ, R1, 0, "done"),
            alu(abi.BPF_SUB, R8, R1),
            store(BPF_DW, R7, _BEGUN_NS, 0),
            *look_up(maps.counts, _KEY, R7),
            jump_if(abi.BPF_JEQ, R0, 0, "done"),
            move(R1, 1),
            atomic_add(R0, _ENDED, R1),
            atomic_add(R0, _TIME_NS, R8),
            load(BPF_DW, R1, R6, 8),
            jump_if(abi.BPF_JNE, R1, 0, "done"),
            load(BPF_W, R1, R7, _CALL),
            alu(abi.BPF_AND, R1, CALL_MASK),
            *(jump_if(abi.BPF_JEQ, R1, number, "executed") for number in machine.exec_calls),
            jump("done"),
            Label("executed"),
            *_begin_image(maps),
            Label("done"),
            move(R0, 0),
            EXIT,
        )
    )


def _thread_state(maps: Maps, flags: int, otherwise: str) -> Program:
    """Set R7 to the thread's state, or go to `otherwise`."""
    return (
        call(abi.BPF_FUNC_get_current_task_btf),
        move(R2, R0),
        load_map(R1, maps.threads),
        move(R3, 0),
        move(R4, flags),
        call(abi.BPF_FUNC_task_storage_get),
        jump_if(abi.BPF_JEQ, R0, 0, otherwise),
        move(R7, R0),
    )


def _identify(maps: Maps, namespace: Namespace | None) -> Program:
    """Fill in a thread's state at its first call: its process, and the start of its program.

    Later threads of a process use the known time, so that all threads share counters. If none is
    known, any time of the process's life will do.
    """
    return (
        *pid_and_tid(namespace),
        move(R1, R8),
        alu(abi.BPF_RSH, R1, 32),
        store(BPF_W, R7, _PID, R1),
        alu(abi.BPF_LSH, R8, 32),
        alu(abi.BPF_RSH, R8, 32),
        jump_if(abi.BPF_JEQ, R8, R1, "begins"),
        *look_up(maps.images, _PID, R7),
        jump_if(abi.BPF_JEQ, R0, 0, "begins"),
        load(BPF_DW, R1, R0, 0),
        store(BPF_DW, R7, _SINCE_NS, R1),
        jump("known"),
        Label("begins"),
        *_begin_image(maps),
    )


def pid_and_tid(namespace: Namespace | None) -> Program:
    """Set R8 to the process's id in the upper half, the thread's in the lower one.

    Both are 0 for a thread that is not in the namespace. This changes other registers and the
    stack.
    """
    if namespace is None:
        return (call(abi.BPF_FUNC_get_current_pid_tgid), move(R8, R0))
    return (
        load_imm64(R1, namespace.device),
        load_imm64(R2, namespace.inode),
        *address(R3, _SCRATCH),
        move(R4, 8),
        call(abi.BPF_FUNC_get_ns_current_pid_tgid),
        load(BPF_DW, R8, FP, _SCRATCH),
    )


def _begin_image(maps: Maps) -> Program:
    """Note that the process of the state in R7 runs another program from now on."""
    return (
        call(abi.BPF_FUNC_ktime_get_ns),
        store(BPF_DW, R7, _SINCE_NS, R0),
        *update(maps.images, (R7, _PID), (R7, _SINCE_NS), abi.BPF_ANY),
    )


def _which_call(machine: Machine, cpu_shift: int) -> Program:
    """Write `call` into the state in R7; R6 points to the tracepoint's arguments."""
    return (
        load(BPF_DW, R8, R6, 8),
        jump_if(abi.BPF_JLT, R8, _NUMBERS, "numbered"),
        move(R8, NO_SUCH_CALL),
        Label("numbered"),
        *address(R1, _SCRATCH),
        move(R2, 8),
        load(BPF_DW, R3, R6, 0),
        alu(abi.BPF_ADD, R3, machine.register_offset),
        call(abi.BPF_FUNC_probe_read_kernel),
        load(BPF_B, R1, FP, _SCRATCH),
        alu(abi.BPF_AND, R1, machine.register_mask),
        jump_if(abi.BPF_JNE, R1, machine.compat_value, "native"),
        alu(abi.BPF_OR, R8, COMPAT_BIT),
        Label("native"),
        call(abi.BPF_FUNC_get_smp_processor_id),
        alu(abi.BPF_RSH, R0, cpu_shift),
        alu(abi.BPF_LSH, R0, _GROUP_SHIFT),
        alu(abi.BPF_OR, R8, R0),
        store(BPF_W, R7, _CALL, R8),
    )


def _new_counts(maps: Maps) -> Program:
    """Make the counters of the state in R7 and set R0 to them, 0 if there is no room."""
    return (
        *(store(BPF_DW, FP, _ZERO_COUNTS + place, 0) for place in (_CALLS, _ENDED, _TIME_NS)),
        # Another thread may have made them meanwhile.
        *update(maps.counts, (R7, _KEY), (FP, _ZERO_COUNTS), abi.BPF_NOEXIST),
        *look_up(maps.counts, _KEY, R7),
    )


def _count_dropped(maps: Maps) -> Program:
    return (
        store(BPF_W, FP, _DROPPED_KEY, 0),
        *look_up(maps.dropped, _DROPPED_KEY),
        jump_if(abi.BPF_JEQ, R0, 0, "done"),
        move(R1, 1),
        atomic_add(R0, 0, R1),
    )


_NEEDED = (
    "5.13 or later, built with CONFIG_BPF_SYSCALL, CONFIG_DEBUG_INFO_BTF and CONFIG_FTRACE_SYSCALLS"
)
# PROC_PID_INIT_INO, include/linux/proc_ns.h
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
# One entry for so much memory: it takes about 100 bytes, so a full map takes an 80th of the
# machine's memory. With 25 different calls a process, 8 GiB suffice for 40,000 processes.
_BYTES_AN_ENTRY = 1 << 13
_FEWEST_ENTRIES = 1 << 16
# Before 6.1, tracing programs can only use preallocated memory.
# Source: check_map_prog_compatibility() in kernel/bpf/verifier.c, Linux 5.15
_ALLOCATES_SINCE = (6, 1)
_SET_ASIDE_SHARE = 8
_IMAGES = 1 << 16
_OTHER_NAMESPACES = (
    "System calls of processes in other pid namespaces are counted, but"
    " not by process: run outside of the container to see their processes."
)
_ROUNDS, _CALLS_A_ROUND = 20, 500


class Counted(NamedTuple):
    """The result of counting: the document for the recording, and sentences on its limits."""

    document: dict[str, Any]
    limits: tuple[str, ...]


class SyscallCounter:
    """The kernel's counters of system calls: `open`, `start`, `finish`, `close`."""

    def __init__(self) -> None:
        self._held = bpf_objects.Held()
        self._maps = Maps(-1, -1, -1, -1)
        self._enter_fd = self._exit_fd = -1
        self._is_first_namespace = True
        self._interval_ns = (0, 0)

    def open(self) -> None:
        """Make the maps and load the programs, without counting anything yet.

        Raises:
            CaptureError: the kernel refuses; the message says what to do.
        """
        machine = MACHINES.get(os.uname().machine)
        if machine is None:
            known = " and ".join(sorted(MACHINES))
            raise CaptureError(f"--count-syscalls works on {known}, not on {os.uname().machine}")
        try:
            namespace = pid_namespace()
            self._is_first_namespace = namespace is None
            self._maps = self._create_maps()
            enter = enter_program(self._maps, machine, _cpu_shift(), namespace)
            leave = exit_program(self._maps, machine)
            load = bpf_objects.load_raw_tracepoint_program
            self._enter_fd = self._held.keep(load("prospect_enter", enter))
            self._exit_fd = self._held.keep(load("prospect_exit", leave))
        except OSError as error:
            raise refusal(error, "--count-syscalls", _NEEDED) from error

    def start(self) -> None:
        """Begin to count.

        Raises:
            CaptureError: the kernel refuses.
        """
        try:
            self._attach()
        except OSError as error:
            raise refusal(error, "--count-syscalls", _NEEDED) from error
        self._interval_ns = (monotonic_ns(), 0)

    def finish(self) -> Counted:
        """Stop counting; return the counts, and their cost, which takes about 20 ms to measure."""
        self._held.detach()
        self._interval_ns = (self._interval_ns[0], monotonic_ns())
        try:
            return self._read()
        except OSError as error:
            return Counted({}, (f"The counts of system calls cannot be read: {error.strerror}.",))

    def _read(self) -> Counted:
        dropped = bpf_objects.read_percpu_sum(self._maps.dropped, 0)
        dropped += bpf_objects.missed_runs(self._enter_fd)
        counts = bpf_objects.read_hash(self._maps.counts, COUNTS_KEY.size, COUNTS_VALUE.size)
        document = {
            "interval_ns": list(self._interval_ns),
            "dropped": dropped,
            **columns_of(counts),
            "cost_ns": self._measure_cost_ns(),
        }
        limits: list[str] = []
        if dropped:
            limits.append(
                f"{dropped} system calls found no room in the kernel's table and are not counted."
            )
        if not self._is_first_namespace:
            limits.append(_OTHER_NAMESPACES)
        return Counted(document, tuple(limits))

    def close(self) -> None:
        """Close all descriptors; the kernel then removes everything."""
        self._held.close()

    def _create_maps(self) -> Maps:
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        entries, flags = _room(memory_bytes, os.uname().release)
        words = bpf_objects.load_words_type(STATE_WORDS)
        self._held.keep(words.types_fd)
        layout = bpf_objects.MapLayout
        storage, state_bytes = abi.BPF_MAP_TYPE_TASK_STORAGE, 8 * STATE_WORDS
        images, counts = abi.BPF_MAP_TYPE_LRU_HASH, abi.BPF_MAP_TYPE_HASH
        layouts = (
            layout("prospect_thread", storage, 4, state_bytes, 0, abi.BPF_F_NO_PREALLOC, words),
            layout("prospect_images", images, IMAGES_KEY_BYTES, IMAGES_VALUE_BYTES, _IMAGES),
            layout("prospect_counts", counts, COUNTS_KEY.size, COUNTS_VALUE.size, entries, flags),
            layout("prospect_full", abi.BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, entries=1),
        )
        return Maps(*(self._held.keep(bpf_objects.create_map(one)) for one in layouts))

    def _attach(self) -> None:
        # The end first: calls that begin in between are then ignored, not left without an end.
        self._held.links.append(bpf_objects.attach_raw_tracepoint("sys_exit", self._exit_fd))
        self._held.links.append(bpf_objects.attach_raw_tracepoint("sys_enter", self._enter_fd))

    def _measure_cost_ns(self) -> float:
        """Return the time that counting adds to a short call.

        The kernel's own statistics of programs would not show all of it: with a tracepoint in use,
        each call takes the kernel's slow path. Caches are warm here, so it is a lower bound.
        """
        plain_ns = _call_ns()
        self._attach()
        counted_ns = _call_ns()
        self._held.detach()
        return max(counted_ns - plain_ns, 0.0)


def columns_of(portions: list[tuple[bytes, bytes]]) -> dict[str, dict[str, list[int]]]:
    """Turn a dump of the counters into columns: `images` and `counts` of docs/recording.md.

    This adds up groups of CPUs. Process 0 represents all processes outside of this pid namespace,
    and becomes -1.
    """
    images: dict[tuple[int, int], int] = {}
    sums: dict[tuple[int, int], list[int]] = {}
    for keys, values in portions:
        pairs = zip(COUNTS_KEY.iter_unpack(keys), COUNTS_VALUE.iter_unpack(values), strict=True)
        for (pid, which, since_ns), value in pairs:
            own = (pid, since_ns) if pid else (-1, 0)
            image = images.setdefault(own, len(images))
            row = sums.setdefault((image, which & CALL_MASK), [0, 0, 0])
            for column, number in enumerate(value):
                row[column] += number
    return {
        "images": {
            "pid": [pid for pid, _ in images],
            "since_ns": [since_ns for _, since_ns in images],
        },
        "counts": {
            "image": [image for image, _ in sums],
            "number": [call & NUMBER_MASK for _, call in sums],
            "compat": [int(bool(call & COMPAT_BIT)) for _, call in sums],
            "calls": [row[0] for row in sums.values()],
            "ended": [row[1] for row in sums.values()],
            "time_ns": [row[2] for row in sums.values()],
        },
    }


def _call_ns() -> float:
    """Return the time of a short system call, in the fastest of many rounds."""
    shortest = float("inf")
    for _ in range(_ROUNDS):
        begin_ns = time.perf_counter_ns()
        for _ in range(_CALLS_A_ROUND):
            os.getppid()
        shortest = min(shortest, (time.perf_counter_ns() - begin_ns) / _CALLS_A_ROUND)
    return shortest


def _room(memory_bytes: int, release: str) -> tuple[int, int]:
    """Return the largest number of counters, and the map's flags, for a kernel release."""
    wanted = max(_FEWEST_ENTRIES, min(memory_bytes // _BYTES_AN_ENTRY, MOST_SYSCALL_ENTRIES))
    entries = 1 << (wanted.bit_length() - 1)
    numbers = release.replace("-", ".").split(".")[:2]
    version = tuple(int(number) if number.isdecimal() else 0 for number in numbers)
    if version >= _ALLOCATES_SINCE:
        return entries, abi.BPF_F_NO_PREALLOC
    return entries // _SET_ASIDE_SHARE, 0


def _cpu_shift() -> int:
    """Return the shift of a CPU's number after which neighbours form MOST_GROUPS groups."""
    last = possible_cpus() - 1
    return max(0, last.bit_length() - (MOST_GROUPS - 1).bit_length())


def pid_namespace() -> Namespace | None:
    """Return this process's pid namespace, None if it is the first one.

    In the first one, pids are the same as in the records of perf events.
    """
    file = os.stat("/proc/self/ns/pid")
    if file.st_ino == _FIRST_PID_NAMESPACE:
        return None
    # MKDEV() of include/linux/kdev_t.h: user space sees another packing.
    device = os.major(file.st_dev) << 20 | os.minor(file.st_dev)
    return Namespace(device, file.st_ino)


def refusal(error: OSError, option: str, needed: str) -> CaptureError:
    """Return an error that says why the kernel refuses to count, and what to do."""
    if error.errno in (errno.EPERM, errno.EACCES):
        return CaptureError(
            f"{option}: the kernel does not allow it: run as root, or with CAP_BPF and"
            " CAP_PERFMON, in a container that allows bpf(); a kernel in lockdown never does"
        )
    if error.errno in (errno.ENOSYS, errno.EINVAL, errno.E2BIG, errno.ENOTSUP, errno.ENOENT):
        return CaptureError(
            f"{option}: this kernel cannot: it takes Linux {needed} ({error.strerror})"
        )
    return CaptureError(f"{option}: the kernel has no room for the counters: {error.strerror}")
