"""Offsets of fields of the kernel's tasks, which the kernel itself fills into programs.

A program is loaded with its own types: a ``task_struct`` that has only the fields it reads, at
offsets of our choice. The kernel looks for fields of these names in its own types, and puts their
offsets into the instructions. So nobody here reads the kernel's types, which takes 20 ms before
Linux 6.16.

Defined by: struct bpf_core_relo in ``include/uapi/linux/bpf.h``; check_core_relo() in
``kernel/bpf/verifier.c`` and bpf_core_apply() in ``kernel/bpf/btf.c``, Linux 5.17 and later;
``Documentation/bpf/btf.rst`` for types.
"""

from __future__ import annotations

import struct

from prospect.abi import bpf as abi
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel import bpf_objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.capture.kernel.bpf_assembler import Instruction, Label, Reg

OLDEST_LINUX = (5, 17)
# Their offsets in our own structure: 4 bytes each, one after the other.
_OFFSETS = {"pid": 0, "tgid": 4}
_INTEGER, _TASK, _PROTOTYPE, _FUNCTION = 1, 2, 3, 4
_INTEGER_BYTES, _INTEGER_IS_SIGNED = 4, 1 << 24
_KIND_SHIFT = 24


def add_offset(register: Reg, field: str) -> Instruction:
    """Return the instruction that adds a field's offset, known to the kernel, to a register."""
    return asm.alu(abi.BPF_ADD, register, _OFFSETS[field])._replace(field=field)


class TaskFields:
    """The types by which programs name fields of a task."""

    def __init__(self) -> None:
        """Load them.

        Raises:
            OSError: the kernel refused.
        """
        self._strings = bytearray(b"\0")
        self._paths: dict[str, int] = {}
        self.fd = bpf_objects.load_types(self._types(), bytes(self._strings))

    def load_raw_tracepoint_program(self, name: str, program: Sequence[Instruction | Label]) -> int:
        """Load a program that has such fields; return its descriptor.

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
            # The path to it: the first task, its member of this number.
            self._paths[field] = self._string(f"0:{number}")
        types += self._type("", abi.BTF_KIND_FUNC_PROTO, _INTEGER)
        return types + self._type("program", abi.BTF_KIND_FUNC, _PROTOTYPE)

    def _type(self, name: str, kind: int, size_or_type: int, members: int = 0) -> bytes:
        return struct.pack("=3I", self._string(name), kind << _KIND_SHIFT | members, size_or_type)

    def _string(self, text: str) -> int:
        """Return where a string begins in those of the types."""
        if not text:
            return 0
        at = len(self._strings)
        self._strings += text.encode() + b"\0"
        return at
