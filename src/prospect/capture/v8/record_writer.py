"""Writes records into the rings of a recording from a process, as the walker does from samples.

A BPF program writes what a map holds, and is run for each record (BPF_PROG_TEST_RUN).

Defined by: ``net/bpf/test_run.c`` (bpf_prog_test_run_raw_tp), Linux 6.18.
"""

from __future__ import annotations

import os
import struct

from prospect.abi import bpf as abi
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.bpf_assembler import Label, Reg
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.kernel.bpf_assembler import Instruction

LARGEST_RECORD_BYTES = 1 << 15
_SIZE = struct.Struct("=Q")
_ATTEMPTS = 4


class RecordWriter(Closing):
    """Writes records into the ring of the CPU that it runs on."""

    def __init__(self, output: int) -> None:
        """Load the program.

        Args:
            output: the map with the event of each CPU, which the records are samples of.

        Raises:
            OSError: the kernel refused; EINVAL before Linux 5.10.
        """
        self._record = bpf_objects.create_map(
            bpf_objects.MapLayout(
                *("record", abi.BPF_MAP_TYPE_ARRAY, 4, _SIZE.size + LARGEST_RECORD_BYTES, 1)
            )
        )
        try:
            code = asm.assemble(_program(self._record, output))
            self._program = bpf_objects.load_raw_tracepoint_program("write_record", code)
        except OSError:
            os.close(self._record)
            raise

    def write(self, record: bytes) -> bool:
        """Write a record of at most `LARGEST_RECORD_BYTES`; return whether there was room.

        Raises:
            OSError: the kernel refused.
        """
        value = _SIZE.pack(len(record)) + record
        bpf_objects.write_element(
            self._record, 0, value.ljust(_SIZE.size + LARGEST_RECORD_BYTES, b"\0")
        )
        # The process may be moved to another CPU meanwhile, or be where nobody records.
        return any(bpf_objects.run_program(self._program) == 0 for _ in range(_ATTEMPTS))

    def close(self) -> None:
        """Leave nothing behind."""
        os.close(self._program)
        os.close(self._record)


def _program(record: int, output: int) -> list[Instruction | Label]:
    return [
        asm.move(Reg.R6, Reg.R1),
        asm.store(abi.BPF_W, Reg.FP, -4, 0),
        asm.load_map(Reg.R1, record),
        asm.move(Reg.R2, Reg.FP),
        asm.alu(abi.BPF_ADD, Reg.R2, -4),
        asm.call(abi.BPF_FUNC_map_lookup_elem),
        asm.jump_if(abi.BPF_JEQ, Reg.R0, 0, "out"),
        asm.load(abi.BPF_DW, Reg.R5, Reg.R0, 0),
        asm.jump_if(abi.BPF_JGT, Reg.R5, LARGEST_RECORD_BYTES, "out"),
        asm.jump_if(abi.BPF_JEQ, Reg.R5, 0, "out"),
        asm.move(Reg.R1, Reg.R6),
        asm.load_map(Reg.R2, output),
        asm.load_imm64(Reg.R3, abi.BPF_F_CURRENT_CPU),
        asm.move(Reg.R4, Reg.R0),
        asm.alu(abi.BPF_ADD, Reg.R4, _SIZE.size),
        asm.call(abi.BPF_FUNC_perf_event_output),
        asm.EXIT,
        Label("out"),
        asm.move(Reg.R0, -1),
        asm.EXIT,
    ]
