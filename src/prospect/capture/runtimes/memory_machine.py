"""Runs a runtime's walk outside the kernel, on memory that is read from the process.

A walk consists of instructions of the kernel's BPF machine (`runtime`). This executes the same
instructions for users who may not load programs: process_vm_readv(2) reads the thread's memory for
the helpers, and their output is returned instead of written into the ring.

In the kernel, the verifier proves that these programs end and stay within their maps. Here an
access outside of a map ends a walk, and so do `MOST_STEPS` instructions.

Defined by: RFC 9669 (BPF Instruction Set Architecture).
"""

from __future__ import annotations

import operator
import struct

from prospect.abi import bpf as abi
from prospect.capture.capture_limits import MOST_STEPS
from prospect.capture.kernel.bpf_assembler import Label, Reg
from prospect.capture.runtimes import image_entry
from prospect.capture.runtimes.process_memory import UnreadableError
from prospect.capture.runtimes.walk_parts import (
    RECALLED_BYTES,
    SCRATCH_BYTES,
    SEEN_BYTES,
    THREAD_POINTER,
    Maps,
)
from prospect.capture.runtimes.walk_rooms import IMAGES, ROOM, ROOM_COUNT
from prospect.capture.runtimes.walker import walk_program
from prospect.light import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.capture.kernel.bpf_assembler import Instruction
    from prospect.capture.runtimes.process_memory import ProcessMemory
    from prospect.capture.runtimes.runtime import Placed, Runtime

    # Operation, registers, offset, immediate, and the target of a jump.
    Step = tuple[int, int, int, int, int, int]

# Maps and the stack are areas of memory; the upper bits of an address are the area's number.
_AREA_SHIFT = 56
_OFFSET_MASK = (1 << _AREA_SHIFT) - 1
_STACK, _ENTRY, _SCRATCH, _RECALLED, _SEEN, _ROOMS = range(0x81, 0x87)
_STACK_BYTES = 512
_MAPS = Maps(
    images=-1,
    walks=-1,
    output=-1,
    scratch=_SCRATCH,
    recalled=_RECALLED,
    seen=_SEEN,
    rooms=_ROOMS,
    threads=-1,
    news=-1,
)
_MASK = (1 << 64) - 1
_FORMATS = {
    abi.BPF_B: struct.Struct("<B"),
    abi.BPF_H: struct.Struct("<H"),
    abi.BPF_W: struct.Struct("<I"),
    abi.BPF_DW: struct.Struct("<Q"),
}
_VALUE_MASKS = {size: (1 << 8 * one.size) - 1 for size, one in _FORMATS.items()}
_COMPUTED: dict[int, Callable[[int, int], int]] = {
    abi.BPF_MOV: lambda _, operand: operand,
    abi.BPF_ADD: lambda value, operand: value + operand & _MASK,
    abi.BPF_SUB: lambda value, operand: value - operand & _MASK,
    abi.BPF_MUL: lambda value, operand: value * operand & _MASK,
    abi.BPF_LSH: lambda value, operand: value << (operand & 63) & _MASK,
    abi.BPF_RSH: lambda value, operand: value >> (operand & 63),
    abi.BPF_AND: operator.and_,
    abi.BPF_OR: operator.or_,
    abi.BPF_XOR: operator.xor,
}
# All compare unsigned numbers.
_HOLDS: dict[int, Callable[[int, int], bool]] = {
    abi.BPF_JEQ: operator.eq,
    abi.BPF_JNE: operator.ne,
    abi.BPF_JLT: operator.lt,
    abi.BPF_JLE: operator.le,
    abi.BPF_JGT: operator.gt,
    abi.BPF_JGE: operator.ge,
    abi.BPF_JA: lambda *_: True,
    abi.BPF_JCOND: lambda *_: False,
}
_CLASS, _SIZE, _OPERATION = 0x07, 0x18, 0xF0
_FAULT = -14 & _MASK  # EFAULT
_ENTRY_ADDRESS, _TOP = _ENTRY << _AREA_SHIFT, (_STACK << _AREA_SHIFT) + _STACK_BYTES


class MemoryMachine:
    """Walks the threads of all processes of one runtime.

    Like the kernel's maps, it remembers the names that it sent for all of them.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._steps = _decoded(walk_program(_MAPS, runtime))
        self._areas = {
            _STACK: bytearray(_STACK_BYTES),
            _ENTRY: bytearray(image_entry.ENTRY_BYTES),
            _SCRATCH: bytearray(SCRATCH_BYTES),
            _RECALLED: bytearray(RECALLED_BYTES),
            _SEEN: bytearray(SEEN_BYTES),
            _ROOMS: bytearray(ROOM.size * ROOM_COUNT),
        }
        self._sent: list[bytes] = []
        self._memory: ProcessMemory | None = None
        self._ids = 0

    def forget(self) -> None:
        """Send the names of all functions again."""
        self._areas[_SEEN] = bytearray(SEEN_BYTES)

    def refused(self, image: int) -> int:
        """Return the number of names of an image that there was no room for."""
        rooms = self._areas[_ROOMS]
        return int(ROOM.unpack_from(rooms, ROOM.size * (image % IMAGES))[2])

    def walk(
        self, image: int, placed: Placed, memory: ProcessMemory, ids: tuple[int, int], pointer: int
    ) -> list[bytes]:
        """Return the records of a thread: those of new functions, then its stack.

        `ids` are the numbers of process and thread, `pointer` is the thread pointer, 0 if unknown.

        Raises:
            UnreadableError: the memory may not be read, or is invalid.
        """
        self._areas[_STACK][:] = bytes(_STACK_BYTES)
        entry = image_entry.encode(image, placed, (image % IMAGES, IMAGES))
        self._areas[_ENTRY][: len(entry)] = entry
        struct.pack_into("<Q", self._areas[_STACK], _STACK_BYTES + THREAD_POINTER, pointer)
        self._sent, self._memory, self._ids = [], memory, ids[0] << 32 | ids[1]
        try:
            self._run()
        except (struct.error, KeyError) as error:
            raise UnreadableError from error
        return self._sent

    def _run(self) -> None:
        registers = [0] * 11
        registers[Reg.R8], registers[Reg.FP] = _ENTRY_ADDRESS, _TOP
        registers[Reg.R7] = _SCRATCH << _AREA_SHIFT
        steps, areas = self._steps, self._areas
        at = 0
        for _ in range(MOST_STEPS):
            opcode, dst, src, offset, immediate, target = steps[at]
            at += 1
            kind = opcode & _CLASS
            if kind == abi.BPF_ALU64:
                operand = registers[src] if opcode & abi.BPF_X else immediate
                registers[dst] = _COMPUTED[opcode & _OPERATION](registers[dst], operand)
            elif kind == abi.BPF_LDX:
                address = registers[src] + offset
                (registers[dst],) = _FORMATS[opcode & _SIZE].unpack_from(
                    areas[address >> _AREA_SHIFT], address & _OFFSET_MASK
                )
            elif kind in (abi.BPF_STX, abi.BPF_ST):
                value = registers[src] if kind == abi.BPF_STX else immediate
                address = registers[dst] + offset
                size, area = opcode & _SIZE, areas[address >> _AREA_SHIFT]
                if opcode & abi.BPF_ATOMIC == abi.BPF_ATOMIC:
                    value += _FORMATS[size].unpack_from(area, address & _OFFSET_MASK)[0]
                value &= _VALUE_MASKS[size]
                _FORMATS[size].pack_into(area, address & _OFFSET_MASK, value)
            elif kind == abi.BPF_LD:
                registers[dst] = immediate
            elif opcode == abi.BPF_JMP | abi.BPF_EXIT:
                return
            elif opcode == abi.BPF_JMP | abi.BPF_CALL:
                registers[0] = self._call(immediate, registers)
            else:
                operand = registers[src] if opcode & abi.BPF_X else immediate
                if _HOLDS[opcode & _OPERATION](registers[dst], operand):
                    at = target
        raise UnreadableError

    def _call(self, helper: int, registers: list[int]) -> int:
        """Emulate a helper function of the kernel; return its result."""
        _, first, second, third, fourth, fifth = registers[:6]
        if helper == abi.BPF_FUNC_probe_read_user:
            return self._read(first, second, third)
        if helper == abi.BPF_FUNC_ktime_get_ns:
            return monotonic_ns()
        if helper == abi.BPF_FUNC_get_current_pid_tgid:
            return self._ids
        if helper == abi.BPF_FUNC_map_lookup_elem:
            row = ROOM.size if first == _ROOMS else 0
            area, at = self._areas[second >> _AREA_SHIFT], second & _OFFSET_MASK
            return (first << _AREA_SHIFT) + row * int(_FORMATS[abi.BPF_W].unpack_from(area, at)[0])
        if helper == abi.BPF_FUNC_perf_event_output:
            at = fourth & _OFFSET_MASK
            self._sent.append(bytes(self._areas[fourth >> _AREA_SHIFT][at : at + fifth]))
            return 0
        raise KeyError(helper)

    def _read(self, into: int, size: int, address: int) -> int:
        area, at = self._areas[into >> _AREA_SHIFT], into & _OFFSET_MASK
        if at + size > len(area) or self._memory is None:
            raise KeyError(into)
        try:
            area[at : at + size] = self._memory.read(address, size) if size else b""
        except UnreadableError:
            # The kernel does the same.
            area[at : at + size] = bytes(size)
            return _FAULT
        return 0


def _decoded(program: list[Instruction | Label]) -> list[Step]:
    """Return the instructions, with the targets of jumps."""
    places: dict[str, int] = {}
    instructions: list[Instruction] = []
    for item in program:
        if isinstance(item, Label):
            places[item.name] = len(instructions)
        else:
            instructions.append(item)
    return [
        (
            *(one.opcode, one.dst, one.src, one.offset, one.immediate & _MASK),
            places[one.target] if one.target else 0,
        )
        for one in instructions
    ]
