"""Offsets of fields in kernel structures: in a task, and on the way from it to its user memory.

Either the kernel writes them into a program (`TaskFields`), from Linux 5.17 on, or this module
reads them from the kernel's types (`kernel_types`), which takes 20 ms before Linux 6.16. It
searches the types as bytes and does not decode them: there are 100,000.

Defined by: ``Documentation/bpf/btf.rst``; struct btf_header, btf_type and btf_member in
``include/uapi/linux/btf.h``, Linux 6.18; struct bpf_core_relo in ``include/uapi/linux/bpf.h``,
check_core_relo() in ``kernel/bpf/verifier.c`` and bpf_core_apply() in ``kernel/bpf/btf.c``.
"""

from __future__ import annotations

import mmap
import struct

from prospect.abi import bpf as abi
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel import bpf_objects
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.capture.kernel.bpf_assembler import Instruction, Label, Reg

    Types = bytes | mmap.mmap

BTF_FILE = "/sys/kernel/btf/vmlinux"

_HEADER = struct.Struct("=HBBIIIII")
_TYPE = struct.Struct("=III")
_MEMBER = struct.Struct("=III")
_WORD = struct.Struct("=I")
_KIND_SHIFT, _KIND_MASK, _COUNT_MASK = 24, 0x1F, 0xFFFF
_OFFSET_MASK = 0xFFFFFF  # in structures with bit fields, the bits above are their sizes
_KIND_FLAG = 1 << 31


def kernel_types() -> Types:
    """Return the contents of `BTF_FILE`, not copied if the kernel is 6.16 or newer: 5 MB.

    Raises:
        OSError: it cannot be read.
    """
    with open(BTF_FILE, "rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
        except (OSError, ValueError):
            return file.read()


class TaskOffsets(NamedTuple):
    """Offsets in bytes: `mm` and `thread_pointer` in a task, the others in its memory."""

    mm: int
    thread_pointer: int
    start_code: int
    start_stack: int
    start_brk: int


def task_offsets(types: Types) -> TaskOffsets:
    """Find the offsets in the contents of `BTF_FILE`.

    Raises:
        ValueError: it is no BTF, or has other structures than those known.
    """
    found = _Types(types)
    task, thread, memory = (
        found.members(name) for name in (b"task_struct", b"thread_struct", b"mm_struct")
    )
    if b"start_code" not in memory:
        # All but the CPU masks at its end are in a structure without a name, at offset 0.
        memory = found.unnamed_with(b"start_code", b"start_brk", b"start_stack", b"mmap_base")
    try:
        return TaskOffsets(
            mm=task[b"mm"],
            thread_pointer=task[b"thread"] + thread[b"fsbase"],
            start_code=memory[b"start_code"],
            start_stack=memory[b"start_stack"],
            start_brk=memory[b"start_brk"],
        )
    except KeyError as error:
        raise ValueError(f"the kernel's types have no {error.args[0].decode()}") from error


class SwitchOffsets(NamedTuple):
    """Offsets in bytes of members of a task.

    Attributes:
        pid, tgid: the id of the thread, and of its process.
        comm: its name.
        ran_ns: its CPU time.
        real_parent: the task that started its process.
    """

    pid: int
    comm: int
    ran_ns: int
    tgid: int
    real_parent: int


def switch_offsets(types: Types) -> SwitchOffsets:
    """Find the offsets in the contents of `BTF_FILE`.

    Raises:
        ValueError: it is no BTF, or has another task.
    """
    found = _Types(types)
    task, entity = found.members(b"task_struct"), found.members(b"sched_entity")
    try:
        ran_ns = task[b"se"] + entity[b"sum_exec_runtime"]
        numbers = task[b"pid"], task[b"comm"], ran_ns, task[b"tgid"], task[b"real_parent"]
        return SwitchOffsets(*numbers)
    except KeyError as error:
        raise ValueError(f"the kernel's types have no {error.args[0].decode()}") from error


class _Types:
    """The two sections of the kernel's types: where they begin and end in `data`."""

    def __init__(self, data: Types) -> None:
        try:
            magic, version, _, header, types_at, types_bytes, strings_at, strings_bytes = (
                _HEADER.unpack_from(data)
            )
        except struct.error as error:
            raise ValueError("the kernel's types are cut") from error
        if (magic, version) != (abi.BTF_MAGIC, abi.BTF_VERSION):
            raise ValueError("the kernel's types have another format")
        self._data = data
        self._types = header + types_at, min(header + types_at + types_bytes, len(data))
        self._strings = header + strings_at, min(header + strings_at + strings_bytes, len(data))

    def members(self, name: bytes) -> dict[bytes, int]:
        """Return the offsets in bytes of the members of a structure; empty if there is none."""
        for at in self._places_of(name):
            found = self._members_at(at)
            if found:
                return found
        return {}

    def unnamed_with(self, *names: bytes) -> dict[bytes, int]:
        """Return the members of a structure without a name that has members of these names."""
        for at in self._places_of(names[0]):
            # Back to the structure's head, which has no name: members are 12 bytes apart.
            first = max(at - 1024 * _MEMBER.size, self._types[0] - 1)
            for begin in range(at - _TYPE.size, first, -_MEMBER.size):
                if self._data[begin : begin + 4] == b"\0\0\0\0":
                    found = self._members_at(begin)
                    if found.keys() >= set(names):
                        return found
        return {}

    def _places_of(self, name: bytes) -> Iterator[int]:
        """Yield the places of the types section that have a name's offset."""
        found = self._data.find(b"\0" + name + b"\0", *self._strings)
        if found < 0:
            return
        word = _WORD.pack(found + 1 - self._strings[0])
        begin, end = self._types
        at = self._data.find(word, begin, end)
        while at >= 0:
            if (at - begin) % 4 == 0:
                yield at
            at = self._data.find(word, at + 1, end)

    def _members_at(self, at: int) -> dict[bytes, int]:
        """Return the members of the structure whose head is at a place; empty if there is none."""
        if at + _TYPE.size > self._types[1]:
            return {}
        _, info, size = _TYPE.unpack_from(self._data, at)
        count, kind = info & _COUNT_MASK, info >> _KIND_SHIFT & _KIND_MASK
        end = at + _TYPE.size + count * _MEMBER.size
        if kind != abi.BTF_KIND_STRUCT or not count or end > self._types[1]:
            return {}
        found = {}
        for name, _, offset in _MEMBER.iter_unpack(self._data[at + _TYPE.size : end]):
            bits = offset & _OFFSET_MASK if info & _KIND_FLAG else offset
            begin = self._strings[0] + name
            if begin >= self._strings[1] or bits > 8 * size:
                return {}
            found[self._data[begin : self._data.find(b"\0", begin)]] = bits // 8
        return found


OLDEST_LINUX = (5, 17)
# Offsets of these fields in the structure that programs come with: 4 bytes each, concatenated.
_OFFSETS = {"pid": 0, "tgid": 4}
_INTEGER, _TASK, _PROTOTYPE, _FUNCTION = 1, 2, 3, 4
_INTEGER_BYTES, _INTEGER_IS_SIGNED = 4, 1 << 24
_TYPE_KIND_SHIFT = 24


def add_offset(register: Reg, field: str) -> Instruction:
    """Return the instruction that adds a field's offset in the kernel's structure to a register."""
    return asm.alu(abi.BPF_ADD, register, _OFFSETS[field])._replace(field=field)


class TaskFields:
    """The types by which programs name fields of a task.

    A program comes with types: a ``task_struct`` that has only the fields it reads, at any offsets.
    The kernel looks for fields of these names in its own types, and writes their offsets into the
    instructions.
    """

    def __init__(self) -> None:
        """Load them.

        Raises:
            OSError: the kernel refused.
        """
        self._strings = bytearray(b"\0")
        self._paths: dict[str, int] = {}
        self.fd = bpf_objects.load_types(self._types(), bytes(self._strings))

    def load_raw_tracepoint_program(self, name: str, program: Sequence[Instruction | Label]) -> int:
        """Load a program that uses such fields; return its descriptor.

        Raises:
            OSError: the kernel refused; EINVAL before Linux 5.17.
        """
        places = b"".join(
            struct.pack("=4I", at, _TASK, self._paths[field], abi.BPF_CORE_FIELD_BYTE_OFFSET)
            for at, field in asm.fields_of(program)
        )
        relocations = bpf_objects.Relocations(self.fd, _FUNCTION, places)
        return bpf_objects.load_raw_tracepoint_program(name, asm.assemble(program), relocations)

    def _types(self) -> bytes:
        bits = 8 * _INTEGER_BYTES
        types = self._type("int", abi.BTF_KIND_INT, _INTEGER_BYTES)
        types += struct.pack("=I", _INTEGER_IS_SIGNED | bits)
        size = _INTEGER_BYTES * len(_OFFSETS)
        types += self._type("task_struct", abi.BTF_KIND_STRUCT, size, len(_OFFSETS))
        for number, (field, offset) in enumerate(_OFFSETS.items()):
            types += struct.pack("=3I", self._string(field), _INTEGER, 8 * offset)
            # The path to it: member `number` of the first task.
            self._paths[field] = self._string(f"0:{number}")
        types += self._type("", abi.BTF_KIND_FUNC_PROTO, _INTEGER)
        return types + self._type("program", abi.BTF_KIND_FUNC, _PROTOTYPE)

    def _type(self, name: str, kind: int, size_or_type: int, members: int = 0) -> bytes:
        return struct.pack(
            "=3I", self._string(name), kind << _TYPE_KIND_SHIFT | members, size_or_type
        )

    def _string(self, text: str) -> int:
        """Append a string to those of the types; return where it begins."""
        if not text:
            return 0
        at = len(self._strings)
        self._strings += text.encode() + b"\0"
        return at
