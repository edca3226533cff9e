"""Probes at the entries of functions: their cost, their program, and the kernel's table of calls.

The kernel has several ways through a breakpoint, by the instruction that it replaces, and one costs
many times another: a nop of five bytes becomes a call, pushes and jumps are emulated, all others
are executed out of line with a second trap after them. ``endbr64``, with which many functions
begin, is its own kind. The cost is measured on a little code in a file without a name, with
and without a probe; rounds in which another task had the CPU do not count.

The program runs as a probed function is entered, on x86-64. It sees the registers of the caller:
the function's first instruction has not run, so the return address is on top of the stack. It
changes nothing in the process, so stacks can be unwound as before.

Probes and table are held by file descriptors of this process, and end with it.

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
    Instruction,
    Label,
    Reg,
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
# As long is waited until a loaded CPU has left alone the fewest rounds.
_LOADED_BUDGET_NS = 50_000_000
_FEWEST_ROUNDS = 5
# If the cost cannot be measured: as much as was ever seen, and so no promise is broken.
UNKNOWN_NS = 60_000.0


class ProbeCost(NamedTuple):
    """The added time of a call of a probed function, in ns, and its error."""

    cost_ns: float
    spread_ns: float


def kind_of(code: bytes) -> str:
    """Name the kind of a function by its first bytes."""
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
    """Measure for some milliseconds what a probe costs.

    Args:
        kind: one of `KINDS`.
        attach: probes a file at an offset, and returns the descriptor that holds the probe.

    Returns:
        The cost; `UNKNOWN_NS` where this system lets nobody execute such a file, or probe it.
    """
    try:
        return _measure(_program(kind), attach)
    except OSError:
        return ProbeCost(UNKNOWN_NS, UNKNOWN_NS / 2)


def _program(kind: str) -> tuple[bytes, int]:
    """Return code that calls such a function `_TIMED_CALLS` times, and the function's offset."""
    head = b"\x53\xbb" + _TIMED_CALLS.to_bytes(4, "little")  # push %rbx; mov $CALLS, %ebx
    loop = b"\xff\xcb\x75\xf7\x5b\xc3"  # dec %ebx; jnz to the call; pop %rbx; ret
    # The call's displacement counts from after the call: the rest of the loop is in between.
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
    """Time rounds without another task; all rounds where nearly every one was disturbed."""
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


R0, R1, R2, R3, R4, R6, R7, R8, FP = (
    *(Reg.R0, Reg.R1, Reg.R2, Reg.R3, Reg.R4),
    *(Reg.R6, Reg.R7, Reg.R8, Reg.FP),
)

# function u32 and CLOSED_BIT, pid u32, return address u64
KEY = struct.Struct("=IIQ")
# calls, when the first of them was (CLOCK_MONOTONIC, ns)
VALUE = struct.Struct("=2Q")
# Calls while no window was open: probes are not gone at once, and what they cost has to be known.
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
        dropped: per-CPU array of one u64: calls that found no room in `counts`.
        gate: array of one u32: what is added to the function's number, 0 or CLOSED_BIT.
    """

    counts: int
    dropped: int
    gate: int


def call_program(maps: Maps, namespace: Namespace | None) -> bytes:
    """Return the code.

    Args:
        maps: where to count.
        namespace: number processes as this pid namespace does, None for the first one.
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
            store(BPF_DW, FP, _CALLER, 0),  # where the stack cannot be read
            *_read_return_address(),
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


def _read_return_address() -> Sequence[Instruction | Label]:
    return (
        *address(R1, _CALLER),
        move(R2, 8),
        load(BPF_DW, R3, R6, _SP_OFFSET),
        call(abi.BPF_FUNC_probe_read_user),
    )


def _element(map_fd: int) -> Sequence[Instruction | Label]:
    """Set R0 to the one element of an array; the kernel cannot know that it is there."""
    return (
        store(BPF_W, FP, _INDEX, 0),
        *look_up(map_fd, _INDEX),
    )


def _new_counts(counts_fd: int) -> Sequence[Instruction | Label]:
    """Make the counts of the key and set R0 to them, 0 if there is no room."""
    return (
        call(abi.BPF_FUNC_ktime_get_ns),
        store(BPF_DW, FP, _FIRST_NS, R0),
        store(BPF_DW, FP, _CALLS, 0),
        # Another CPU may have made them in the meantime.
        *update(counts_fd, (FP, _KEY_AT), (FP, _VALUE_AT), abi.BPF_NOEXIST),
        *look_up(counts_fd, _KEY_AT),
    )


_ENTRIES = 1 << 16
# Its ENOTSUPP, which user space has no name for. Source: include/linux/errno.h
_KERNEL_ENOTSUPP = 524
_CANNOT_PROBE = (errno.EINVAL, errno.EOPNOTSUPP, errno.EIO, _KERNEL_ENOTSUPP)


class Function(NamedTuple):
    """A function to count.

    Attributes:
        file: descriptor of its image, open for reading.
        object_path: where that is.
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
    """A row of the table: who called what, how often.

    Attributes:
        function: row of the functions.
        is_open: whether that was while the gate was open.
        caller: return address.
        first_ns: when the first of them was, CLOCK_MONOTONIC.
    """

    function: int
    is_open: bool
    pid: int
    caller: int
    calls: int
    first_ns: int


class CallProbes:
    """The probes: `open`, then `place` and `remove` as often as needed, `close`.

    The kernel takes some milliseconds to place and to remove them. `open_gate` and `close_gate` say
    at once from when to when calls count.

    Attributes:
        hook: is run where the probes are, as long as they are there.
    """

    def __init__(self, functions: Sequence[Function]) -> None:
        self.hook: EntryHook | None = None
        self._functions = functions
        self._held = bpf_objects.Held()
        self._maps = Maps(-1, -1, -1)
        self._program_fd = -1
        self._taken: dict[tuple[int, int, int], int] = {}

    def open(self) -> None:
        """Make the table and load the program; the gate is closed.

        Raises:
            OSError: the kernel refused.
        """
        self._maps = Maps(*(self._held.keep(bpf_objects.create_map(one)) for one in _layouts()))
        code = call_program(self._maps, pid_namespace())
        self._program_fd = self._held.keep(bpf_objects.load_uprobes_program("prospect_calls", code))
        self.close_gate()

    def close(self) -> None:
        """Let go of everything; the kernel then takes it away."""
        self._held.close()

    def measure_cost(self, kind: str) -> ProbeCost:
        """Measure what a call costs that is counted, for a kind of first instruction."""
        number = len(self._functions)  # which is none of them
        return measure_probe_cost(
            kind,
            lambda path, at: bpf_objects.attach_uprobes(self._program_fd, path, [at], [number]),
        )

    def find_impossible(self) -> list[int]:
        """Return the functions that the kernel cannot probe.

        Each file is mapped here meanwhile: for an unmapped file the kernel validates the probed
        instruction at a later mmap and does not report a failure.
        Source: uprobe_mmap() in ``kernel/events/uprobes.c``, Linux 6.18.

        Raises:
            OSError: it can probe none, for another reason than their instructions.
        """
        found: list[int] = []
        for file, numbers in self._by_file(range(len(self._functions))).items():
            size = os.fstat(file).st_size
            with mmap.mmap(file, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC):
                found += self._impossible_of(file, numbers)
        return found

    def place(self, numbers: Iterable[int]) -> None:
        """Place probes at these functions.

        Raises:
            OSError: the kernel refused.
        """
        for file, of_file in self._by_file(numbers).items():
            self._held.links.append(self._attach(file, of_file))
            if self.hook:
                self._held.links += self.hook.attach(*self._places(file, of_file))

    def remove(self) -> None:
        """Take the probes away."""
        self._held.detach()

    @property
    def are_placed(self) -> bool:
        """Whether there are any."""
        return bool(self._held.links)

    def open_gate(self) -> None:
        """Let calls count from now on."""
        bpf_objects.write_element(self._maps.gate, 0, bytes(4))

    def close_gate(self) -> None:
        """Let calls count apart from now on."""
        bpf_objects.write_element(self._maps.gate, 0, CLOSED_BIT.to_bytes(4, "little"))

    def rows(self) -> Iterator[CallRow]:
        """Yield the table.

        Raises:
            OSError: the kernel refused.
        """
        known = range(len(self._functions))
        dump = bpf_objects.read_hash(self._maps.counts, KEY.size, VALUE.size)
        for keys, values in dump:
            pairs = zip(KEY.iter_unpack(keys), VALUE.iter_unpack(values), strict=True)
            for (place, pid, caller), (calls, first_ns) in pairs:
                function = place & ~CLOSED_BIT
                if function in known:
                    yield CallRow(function, function == place, pid, caller, calls, first_ns)

    def take(self) -> list[CallRow]:
        """Return rows of what was added since the last time.

        Raises:
            OSError: the kernel refused.
        """
        added = []
        for row in self.rows():
            key = (row.function | (not row.is_open) << 31, row.pid, row.caller)
            if more := row.calls - self._taken.get(key, 0):
                self._taken[key] = row.calls
                added.append(row._replace(calls=more))
        return added

    def dropped(self) -> int:
        """Return how many calls are in no row.

        Raises:
            OSError: the kernel refused.
        """
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
        """Return what is attached to: path, offsets, and a number for each."""
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


def _layouts() -> tuple[bpf_objects.MapLayout, ...]:
    return (
        bpf_objects.MapLayout(
            "prospect_calls",
            abi.BPF_MAP_TYPE_HASH,
            KEY.size,
            VALUE.size,
            _ENTRIES,
            abi.BPF_F_NO_PREALLOC,
        ),
        bpf_objects.MapLayout(
            "prospect_full", abi.BPF_MAP_TYPE_PERCPU_ARRAY, key_bytes=4, value_bytes=8, entries=1
        ),
        bpf_objects.MapLayout(
            "prospect_gate", abi.BPF_MAP_TYPE_ARRAY, key_bytes=4, value_bytes=4, entries=1
        ),
    )
