"""Probes at the entries of functions: their cost, their program, and the kernel's table of calls.

The kernel handles a breakpoint in several ways, depending on the instruction that it replaces, and
their costs differ much: a nop of five bytes becomes a call, the kernel emulates pushes and jumps,
and executes all others out of line with a second trap after them. ``endbr64``, with which many
functions begin, is a kind of its own. To measure the cost, this runs a little code in a file
without a name, with and without a probe. Rounds in which another task had the CPU do not count.

The program runs at the entry of a probed function, on x86-64. The function's first instruction has
not run, so the registers are the caller's, and the return address is on top of the stack. The
program changes nothing in the process, so stacks can be unwound as before.

Probes and table exist as long as this process has file descriptors of them.

Source: uprobe_multi_link_handler(), bpf_uprobe_multi_link_attach() in ``kernel/trace/bpf_trace.c``;
arch_uprobe_analyze_insn(), arch_uprobe_optimize() in ``arch/x86/kernel/uprobes.c``, Linux 6.18;
bpf-helpers(7); Intel SDM volume 2 for the bytes.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from prospect.abi import bpf as abi
from prospect.abi.bpf import BPF_DW, BPF_W
from prospect.capture.counting.syscall_counts import pid_and_tid, pid_namespace
from prospect.capture.events.sample_cost import duration_ns, median_and_spread, preemptions
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
    look_up,
    move,
    store,
    update,
)
from prospect.capture.kernel.perf_syscalls import checked, libc
from prospect.light import Descriptor
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prospect.capture.counting.entry_hook import EntryHook
    from prospect.capture.counting.syscall_counts import Namespace

KINDS = ("nop", "emulated", "endbr64", "other")
_FIRST = {
    "nop": b"\x0f\x1f\x44\x00\x00",
    "emulated": b"\x55",  # push %rbp
    "endbr64": b"\xf3\x0f\x1e\xfa",
    "other": b"\x89\xf8",  # mov %edi, %eax
}
_REST = {"emulated": b"\x5d\xc3"}  # pop %rbp; ret
_RET = b"\xc3"
_TIMED_CALLS, _ROUNDS = 100, 9
# The longest time until a loaded CPU has completed _FEWEST_ROUNDS undisturbed.
_LOADED_BUDGET_NS = 50_000_000
_FEWEST_ROUNDS = 5
# If the cost cannot be measured: the largest known one, so that the budget holds.
UNKNOWN_NS = 60_000.0


class ProbeCost(NamedTuple):
    """The added time of a call of a probed function, in ns, and its error."""

    cost_ns: float
    spread_ns: float


def kind_of(code: bytes) -> str:
    """Return the kind of a function by its first bytes."""
    if code.startswith(_FIRST["nop"]):
        return "nop"
    if code.startswith(_FIRST["endbr64"]):
        return "endbr64"
    opcode = code[1:2] if code[:1] == b"\x41" else code[:1]  # with REX.B: push %r8 to %r15
    is_push = b"\x50" <= opcode <= b"\x57"
    is_jump = code[:1] in (b"\xe8", b"\xe9", b"\xeb") or b"\x70" <= code[:1] <= b"\x7f"
    is_long_jump = code[:1] == b"\x0f" and b"\x80" <= code[1:2] <= b"\x8f"
    return "emulated" if is_push or is_jump or is_long_jump else "other"


def measure_probe_cost(kind: str, attach: Callable[[bytes, int], int]) -> ProbeCost:
    """Measure the cost of a probe, for a few milliseconds.

    Args:
        kind: one of `KINDS`.
        attach: probes a file at an offset, and returns the probe's descriptor.

    Returns:
        The cost; `UNKNOWN_NS` if this system does not allow to execute or probe such a file.
    """
    try:
        return _measure(_program(kind), attach)
    except OSError:
        return ProbeCost(UNKNOWN_NS, UNKNOWN_NS / 2)


def _program(kind: str) -> tuple[bytes, int]:
    """Return code that calls a function of this kind, and the function's offset."""
    head = b"\x53\xbb" + _TIMED_CALLS.to_bytes(4, "little")  # push %rbx; mov $CALLS, %ebx
    loop = b"\xff\xcb\x75\xf7\x5b\xc3"  # dec %ebx; jnz to the call; pop %rbx; ret
    # The call's displacement is relative to its end; the rest of the loop is in between.
    code = head + b"\xe8" + len(loop).to_bytes(4, "little") + loop
    return code + _FIRST[kind] + _REST.get(kind, _RET), len(code)


def _measure(program: tuple[bytes, int], attach: Callable[[bytes, int], int]) -> ProbeCost:
    code, function = program
    with Descriptor(os.memfd_create("prospect-probe-cost", os.MFD_CLOEXEC)) as file:
        os.write(file, code.ljust(mmap.PAGESIZE, b"\xcc"))
        address = _map(file)
        try:
            run = ctypes.CFUNCTYPE(None)(address)
            plain_ns = min(_durations_ns(run))
            with Descriptor(attach(b"/proc/self/fd/%d" % file, function)):
                run()
                probed = [(each_ns - plain_ns) / _TIMED_CALLS for each_ns in _durations_ns(run)]
        finally:
            libc().munmap(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE))
    cost_ns, spread_ns = median_and_spread(probed)
    return ProbeCost(max(cost_ns, 1.0), spread_ns)


def _map(file: int) -> int:
    """Map a page of a file for execution and return its address."""
    call = libc().mmap
    call.restype = ctypes.c_long
    address: int = call(
        None,
        ctypes.c_size_t(mmap.PAGESIZE),
        mmap.PROT_READ | mmap.PROT_EXEC,
        mmap.MAP_PRIVATE,
        file,
        ctypes.c_long(0),
    )
    return checked(address)


def _durations_ns(run: Callable[[], object]) -> list[int]:
    """Time rounds without another task; return all rounds if nearly every one was disturbed."""
    every: list[int] = []
    alone: list[int] = []
    begin_ns = time.perf_counter_ns()
    while len(alone) < _ROUNDS:
        if len(every) >= _ROUNDS and time.perf_counter_ns() - begin_ns >= _LOADED_BUDGET_NS:
            break
        switches = preemptions()
        took_ns = duration_ns(run)
        every.append(took_ns)
        if preemptions() == switches:
            alone.append(took_ns)
    return alone if len(alone) >= _FEWEST_ROUNDS else every


R0, R1, R2, R3, _, _, R6, R7, R8, _, FP = REGISTERS

# function u32 and CLOSED_BIT, pid u32, return address u64
KEY = struct.Struct("=IIQ")
# calls, time of the first (CLOCK_MONOTONIC, ns)
VALUE = struct.Struct("=2Q")
# Calls while no window was open: removing probes takes time, and their cost matters.
CLOSED_BIT = 1 << 31

# struct pt_regs of x86-64. Source: arch/x86/include/asm/ptrace.h
_SP_OFFSET = 152
_KEY_AT = -KEY.size
_FUNCTION, _PID, _CALLER = _KEY_AT, _KEY_AT + 4, _KEY_AT + 8
_VALUE_AT = _KEY_AT - VALUE.size
_CALLS, _FIRST_NS = _VALUE_AT, _VALUE_AT + 8
_INDEX = _VALUE_AT - 8


class Maps(NamedTuple):
    """File descriptors of the maps.

    Attributes:
        counts: a hash, KEY → VALUE.
        dropped: per-CPU array of one u64: calls for which `counts` had no room.
        gate: array of one u32: 0 or CLOSED_BIT, which is added to the function's number.
    """

    counts: int
    dropped: int
    gate: int


def call_program(maps: Maps, namespace: Namespace | None) -> bytes:
    """Return the code.

    Args:
        maps: take the counts.
        namespace: the pid namespace whose pids are counted, None for the first one.
    """
    return assemble(
        (
            move(R6, R1),
            *pid_and_tid(namespace),
            alu(abi.BPF_RSH, R8, 32),
            store(BPF_W, FP, _PID, R8),
            move(R1, R6),
            call(abi.BPF_FUNC_get_attach_cookie),
            move(R7, R0),
            *_element(maps.gate),
            jump_if(abi.BPF_JEQ, R0, 0, "done"),
            load(BPF_W, R1, R0, 0),
            alu(abi.BPF_OR, R7, R1),
            store(BPF_W, FP, _FUNCTION, R7),
            store(BPF_DW, FP, _CALLER, 0),  # remains if the stack cannot be read
            *address(R1, _CALLER),
            move(R2, 8),
            load(BPF_DW, R3, R6, _SP_OFFSET),
            call(abi.BPF_FUNC_probe_read_user),
            *look_up(maps.counts, _KEY_AT),
            jump_if(abi.BPF_JNE, R0, 0, "count"),
            *_new_counts(maps.counts),
            jump_if(abi.BPF_JEQ, R0, 0, "dropped"),
            Label("count"),
            move(R1, 1),
            atomic_add(R0, 0, R1),
            jump("done"),
            Label("dropped"),
            *_element(maps.dropped),
            jump_if(abi.BPF_JEQ, R0, 0, "done"),
            move(R1, 1),
            atomic_add(R0, 0, R1),
            Label("done"),
            move(R0, 0),
            EXIT,
        )
    )


def _element(map_fd: int) -> Sequence[Instruction | Label]:
    """Set R0 to the only element of an array; the verifier cannot know that it exists."""
    return (store(BPF_W, FP, _INDEX, 0), *look_up(map_fd, _INDEX))


def _new_counts(counts_fd: int) -> Sequence[Instruction | Label]:
    """Make the counts of the key and set R0 to them, 0 if there is no room."""
    return (
        call(abi.BPF_FUNC_ktime_get_ns),
        store(BPF_DW, FP, _FIRST_NS, R0),
        store(BPF_DW, FP, _CALLS, 0),
        # Another CPU may have made them meanwhile.
        *update(counts_fd, (FP, _KEY_AT), (FP, _VALUE_AT), abi.BPF_NOEXIST),
        *look_up(counts_fd, _KEY_AT),
    )


_ENTRIES = 1 << 16
# The kernel's ENOTSUPP, for which user space has no name. Source: include/linux/errno.h
_KERNEL_ENOTSUPP = 524
_CANNOT_PROBE = (errno.EINVAL, errno.EOPNOTSUPP, errno.EIO, _KERNEL_ENOTSUPP)


class Function(NamedTuple):
    """A function to count.

    Attributes:
        file: descriptor of its image, open for reading.
        object_path: of the image.
        name: as in the symbol table.
        address: SVMA.
        offset: in the file.
        code: its first bytes.
    """

    file: int
    object_path: str
    name: bytes
    address: int
    offset: int
    code: bytes


class CallRow(NamedTuple):
    """A row of the table: the calls of a function by one process from one place.

    Attributes:
        function: row of the functions.
        is_open: whether the gate was open.
        caller: return address.
        first_ns: time of the first call, CLOCK_MONOTONIC.
    """

    function: int
    is_open: bool
    pid: int
    caller: int
    calls: int
    first_ns: int


class CallProbes:
    """The probes: call `open`, then `place` and `remove` as often as needed, then `close`.

    The kernel takes a few milliseconds to place and to remove them. `open_gate` and `close_gate`
    take effect at once.
    Methods raise OSError if the kernel refuses.

    Attributes:
        hook: runs at the probes, as long as they are placed.
    """

    def __init__(self, functions: Sequence[Function]) -> None:
        self.hook: EntryHook | None = None
        self._functions = functions
        self._held = bpf_objects.Held()
        self._maps = Maps(-1, -1, -1)
        self._program_fd = -1
        self._taken: dict[tuple[int, int, int], int] = {}

    def open(self) -> None:
        """Make the table and load the program, with the gate closed."""
        layout = bpf_objects.MapLayout
        kind, flags = abi.BPF_MAP_TYPE_HASH, abi.BPF_F_NO_PREALLOC
        layouts = (
            layout("prospect_calls", kind, KEY.size, VALUE.size, _ENTRIES, flags),
            layout("prospect_full", abi.BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, entries=1),
            layout("prospect_gate", abi.BPF_MAP_TYPE_ARRAY, 4, 4, entries=1),
        )
        self._maps = Maps(*(self._held.keep(bpf_objects.create_map(one)) for one in layouts))
        code = call_program(self._maps, pid_namespace())
        self._program_fd = self._held.keep(bpf_objects.load_uprobes_program("prospect_calls", code))
        self.close_gate()

    def close(self) -> None:
        """Close all descriptors; the kernel then removes everything."""
        self._held.close()

    def measure_cost(self, kind: str) -> ProbeCost:
        """Measure the cost of a counted call, for a kind of first instruction."""
        number = len(self._functions)  # of no function
        return measure_probe_cost(
            kind,
            lambda path, at: bpf_objects.attach_uprobes(self._program_fd, path, [at], [number]),
        )

    def find_impossible(self) -> list[int]:
        """Return the functions that the kernel cannot probe.

        This maps each file meanwhile. For an unmapped file, the kernel would validate the probed
        instruction at a later mmap() and not report a failure.
        Source: uprobe_mmap() in ``kernel/events/uprobes.c``, Linux 6.18.

        Raises:
            OSError: it can probe none, for a reason other than their instructions.
        """
        found: list[int] = []
        for file, numbers in self._by_file(range(len(self._functions))).items():
            size = os.fstat(file).st_size
            with mmap.mmap(file, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC):
                found += self._impossible_of(file, numbers)
        return found

    def place(self, numbers: Iterable[int]) -> None:
        """Place probes at these functions."""
        for file, of_file in self._by_file(numbers).items():
            self._held.links.append(self._attach(file, of_file))
            if self.hook:
                self._held.links += self.hook.attach(*self._places(file, of_file))

    def remove(self) -> None:
        """Remove the probes."""
        self._held.detach()

    @property
    def are_placed(self) -> bool:
        """Whether there are any probes."""
        return bool(self._held.links)

    def open_gate(self) -> None:
        """Count calls as in a window from now on."""
        bpf_objects.write_element(self._maps.gate, 0, bytes(4))

    def close_gate(self) -> None:
        """Count calls as outside of windows from now on."""
        bpf_objects.write_element(self._maps.gate, 0, CLOSED_BIT.to_bytes(4, "little"))

    def rows(self) -> Iterator[CallRow]:
        """Yield the table."""
        known = range(len(self._functions))
        dump = bpf_objects.read_hash(self._maps.counts, KEY.size, VALUE.size)
        for keys, values in dump:
            pairs = zip(KEY.iter_unpack(keys), VALUE.iter_unpack(values), strict=True)
            for (place, pid, caller), (calls, first_ns) in pairs:
                function = place & ~CLOSED_BIT
                if function in known:
                    yield CallRow(function, function == place, pid, caller, calls, first_ns)

    def take(self) -> list[CallRow]:
        """Return rows with the calls since the last time."""
        added = []
        for row in self.rows():
            key = (row.function | (not row.is_open) << 31, row.pid, row.caller)
            if more := row.calls - self._taken.get(key, 0):
                self._taken[key] = row.calls
                added.append(row._replace(calls=more))
        return added

    def dropped(self) -> int:
        """Return the number of calls that are in no row."""
        return bpf_objects.read_percpu_sum(self._maps.dropped, 0) + bpf_objects.missed_runs(
            self._program_fd
        )

    def _by_file(self, numbers: Iterable[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for number in numbers:
            found[self._functions[number].file].append(number)
        return found

    def _attach(self, file: int, numbers: list[int]) -> int:
        return bpf_objects.attach_uprobes(self._program_fd, *self._places(file, numbers))

    def _places(self, file: int, numbers: list[int]) -> tuple[bytes, list[int], list[int]]:
        """Return the arguments of `attach_uprobes`: path, offsets, and a number for each."""
        offsets = [self._functions[number].offset for number in numbers]
        return b"/proc/self/fd/%d" % file, offsets, numbers

    def _impossible_of(self, file: int, numbers: list[int]) -> list[int]:
        try:
            os.close(self._attach(file, numbers))
        except OSError as error:
            if error.errno not in _CANNOT_PROBE:
                raise
            if len(numbers) == 1:
                return numbers
            half = len(numbers) // 2
            first, second = numbers[:half], numbers[half:]
            return [*self._impossible_of(file, first), *self._impossible_of(file, second)]
        return []
