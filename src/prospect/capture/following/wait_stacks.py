"""The BPF program that records the copy of a stack once for all switches of a thread from there.

A thread waits in few places. The program runs as a thread of a followed process leaves its CPU
(`process_programs`), and writes the sample by one of two events: the first time with a copy of the
stack, and without one if a copy with the same key is in the ring already. Both have the key as
their raw data, and call chains, so that nothing but the copy is missing; a report takes it from the
other sample.

The key is a hash of the thread's number, its registers, and all words of the copy that may be
addresses, with their places. So stacks of one key have the same callers: these follow from return
addresses, saved frame pointers, and sizes of frames. Counters and texts on a stack make no
difference.

Defined by: ``arch/x86/include/asm/ptrace.h`` and ``arch/arm64/include/asm/ptrace.h`` for the
registers, Linux 6.18.
"""

from __future__ import annotations

import os

from prospect.abi import bpf as abi
from prospect.abi.bpf import BPF_DW, BPF_W
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import EXIT, REGISTERS, Label, Reg, assemble
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.kernel.bpf_assembler import Instruction

    Items = Iterator[Instruction | Label]

# Those used least recently are forgotten if there are more; such a stack is copied again.
MOST_WAIT_STACKS = 1 << 15
PIECE_BYTES, _SMALL_PIECE_BYTES = 1024, 128

R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FP = REGISTERS
_KEY, _FREE = -8, -16
_MULTIPLIER = 0x9E3779B97F4A7C15
_LEAST_ADDRESS = 1 << 16
_DROP = 0


class _Machine(NamedTuple):
    """A machine's struct pt_regs.

    Attributes:
        begin, size: what is read of it.
        hashed: offsets there of the program counter, the frame pointer, and the like.
        sp: offset of the stack pointer there.
        address_bits: how many an address has; 64 if some are signed.
    """

    begin: int
    size: int
    hashed: tuple[int, ...]
    sp: int
    address_bits: int


# x86-64 from bp to sp: bp, ip. arm64 from x29 to pc: x29, lr, pc.
_MACHINES = {
    "x86_64": _Machine(32, 128, (0, 96), 120, 47),
    "aarch64": _Machine(232, 32, (0, 8, 24), 16, 64),
}
_REGISTERS_AT = _FREE - max(machine.size for machine in _MACHINES.values())


class WaitMaps(NamedTuple):
    """The maps and numbers that the program uses.

    Attributes:
        outputs: descriptor of an array of events: those with copies of each CPU, then those
            without.
        seen: descriptor of a map of the keys whose copies are recorded.
        scratch: descriptor of an array of PIECE_BYTES for each CPU.
        cpus: how many CPUs there may be.
        copied_bytes: how much of a stack is copied.
    """

    outputs: int
    seen: int
    scratch: int
    cpus: int
    copied_bytes: int


def switch_program(maps: WaitMaps) -> bytes:
    """Return the program at a switch, which writes its sample."""
    return assemble(tuple(_switch(maps)))


def _switch(maps: WaitMaps) -> Items:
    # R6 the context, R7 the scratch memory, R8 a place on the thread's stack, R9 the hash.
    machine = _MACHINES[os.uname().machine]
    yield asm.move(R6, R1)
    yield asm.store(BPF_W, FP, _FREE, 0)
    yield from _look_up(maps.scratch, _FREE)
    yield asm.jump_if(abi.BPF_JEQ, R0, 0, "out")
    yield asm.move(R7, R0)
    yield from _registers(machine)
    yield asm.call(abi.BPF_FUNC_get_current_pid_tgid)
    yield asm.move(R9, R0)
    yield asm.load_imm64(R4, _MULTIPLIER)
    for place in (machine.sp, *machine.hashed):
        yield asm.load(BPF_DW, R3, FP, _REGISTERS_AT + place)
        yield from _mix()
    yield asm.load(BPF_DW, R8, FP, _REGISTERS_AT + machine.sp)
    yield from _hash_stack(maps.copied_bytes, machine)
    yield asm.alu(abi.BPF_OR, R9, 1)
    yield asm.store(BPF_DW, FP, _KEY, R9)
    yield from _look_up(maps.seen, _KEY)
    yield asm.move(R8, maps.cpus)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "known")
    yield asm.move(R8, 0)
    yield Label("known")
    yield from _write(maps)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "out")  # the ring was full
    yield asm.jump_if(abi.BPF_JEQ, R8, maps.cpus, "out")
    yield asm.store(BPF_DW, FP, _FREE, 0)
    yield asm.load_map(R1, maps.seen)
    yield from _address(R2, _KEY)
    yield from _address(R3, _FREE)
    yield asm.move(R4, abi.BPF_ANY)
    yield asm.call(abi.BPF_FUNC_map_update_elem)
    yield Label("out")
    yield asm.move(R0, _DROP)
    yield EXIT


def _registers(machine: _Machine) -> Items:
    """Read the registers with which the thread left user space."""
    yield asm.call(abi.BPF_FUNC_get_current_task_btf)
    yield asm.move(R1, R0)
    yield asm.call(abi.BPF_FUNC_task_pt_regs)
    yield asm.move(R3, R0)
    yield asm.alu(abi.BPF_ADD, R3, machine.begin)
    yield from _address(R1, _REGISTERS_AT)
    yield asm.move(R2, machine.size)
    yield asm.call(abi.BPF_FUNC_probe_read_kernel)


def _hash_stack(size_bytes: int, machine: _Machine) -> Items:
    """Hash the addresses on the stack, to the end of its mapping if that comes first."""
    for piece in range(-(-size_bytes // PIECE_BYTES)):
        yield from _read_user(PIECE_BYTES, "at the end")
        yield from _hash(PIECE_BYTES, machine, f"piece {piece}")
    yield asm.jump("hashed")
    yield Label("at the end")
    for piece in range(PIECE_BYTES // _SMALL_PIECE_BYTES - 1):
        yield from _read_user(_SMALL_PIECE_BYTES, "hashed")
        yield from _hash(_SMALL_PIECE_BYTES, machine, f"small piece {piece}")
    yield Label("hashed")


def _read_user(size_bytes: int, out: str) -> Items:
    yield asm.move(R1, R7)
    yield asm.move(R2, size_bytes)
    yield asm.move(R3, R8)
    yield asm.call(abi.BPF_FUNC_probe_read_user)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, out)
    yield asm.alu(abi.BPF_ADD, R8, size_bytes)


def _hash(size_bytes: int, machine: _Machine, name: str) -> Items:
    """Add words to the hash, 0 for those that are no addresses.

    Without jumps the verifier follows one way, and the CPU has nothing to predict.
    """
    yield asm.move(R1, 0)
    yield asm.load_imm64(R4, _MULTIPLIER)
    yield Label(name)
    yield asm.move(R2, R7)
    yield asm.alu(abi.BPF_ADD, R2, R1)
    yield asm.load(BPF_DW, R3, R2, 0)
    yield asm.move(R0, R3)
    if machine.address_bits < 64:
        # Less than the least address is more than the largest then.
        yield asm.alu(abi.BPF_SUB, R0, _LEAST_ADDRESS)
        yield asm.alu(abi.BPF_RSH, R0, machine.address_bits)
        yield from _to_mask(R0)
        yield asm.alu(abi.BPF_XOR, R0, -1)
    else:
        yield asm.alu(abi.BPF_RSH, R0, _LEAST_ADDRESS.bit_length() - 1)
        yield from _to_mask(R0)
    yield asm.alu(abi.BPF_AND, R3, R0)
    yield from _mix()
    yield asm.alu(abi.BPF_ADD, R1, 8)
    yield asm.jump_if(abi.BPF_JLT, R1, size_bytes, name)


def _to_mask(register: Reg) -> Items:
    """Set all bits unless the register is 0; its highest bit is 0."""
    yield asm.alu(abi.BPF_NEG, register, 0)
    yield asm.alu(abi.BPF_ARSH, register, 63)


def _mix() -> Items:
    """Add R3 to the hash; R4 is the multiplier."""
    yield asm.alu(abi.BPF_XOR, R9, R3)
    yield asm.alu(abi.BPF_MUL, R9, R4)


def _write(maps: WaitMaps) -> Items:
    """Write the sample by the event of this CPU from R8 on, with the key."""
    yield asm.call(abi.BPF_FUNC_get_smp_processor_id)
    yield asm.move(R3, R8)
    yield asm.alu(abi.BPF_ADD, R3, R0)
    yield asm.move(R1, R6)
    yield asm.load_map(R2, maps.outputs)
    yield from _address(R4, _KEY)
    yield asm.move(R5, 8)
    yield asm.call(abi.BPF_FUNC_perf_event_output)


def _look_up(map_fd: int, key: int) -> Items:
    yield asm.load_map(R1, map_fd)
    yield from _address(R2, key)
    yield asm.call(abi.BPF_FUNC_map_lookup_elem)


def _address(dst: Reg, place: int) -> Items:
    yield asm.move(dst, FP)
    yield asm.alu(abi.BPF_ADD, dst, place)
