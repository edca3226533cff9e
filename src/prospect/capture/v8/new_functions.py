"""New functions of V8, which the walk meets in samples: reads and records their names at once.

The walk cannot read a name, which may be in pieces, or a line, which needs the source. So it sends
news of the function. This side has a child read the process's memory, and writes the records. The
CPU time and the bytes of each process and user are bounded: functions without room wait, and those
beyond a number of them are only counted.
"""

from __future__ import annotations

import os
import struct
from collections import deque

from prospect.abi import bpf as abi
from prospect.capture.capture_limits import (
    LARGEST_RECORD_BYTES,
    MOST_KNOWN,
    MOST_OF_IMAGE,
    MOST_READ_TRIES,
    MOST_WAITING,
)
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.bpf_assembler import Label, Reg
from prospect.capture.runtimes.name_bounds import NAME_COST, OF_IMAGE, OF_USER, Room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prospect.capture.kernel.bpf_assembler import Instruction
    from prospect.capture.runtimes.runtime import Placed

# News of the walk: image, function, its 8 signed bytes, and an address in its compiled code or 0.
NEWS = struct.Struct("=QQQQ")
_AT_ONCE = 64
_SOON_MS = 20


class _Process:
    """A process with V8, and its functions that wait for their names."""

    def __init__(self, pid: int, uid: int, words: tuple[int, ...]) -> None:
        self.pid, self.uid, self.words = pid, uid, words
        self.waiting: deque[tuple[int, ...]] = deque()
        self.room = Room(OF_IMAGE)


class NewFunctions:
    """Records the names of functions that the walk meets.

    Attributes:
        refused: functions that there was no room for, by image.
    """

    def __init__(
        self,
        drain: Callable[[], Iterable[bytes]],
        write: Callable[[bytes], bool],
        ask: Callable[..., tuple[int, Sequence[bytes], Sequence[int]] | None],
    ) -> None:
        """Prepare.

        Args:
            drain: returns the walk's news, `NEWS` each, once.
            write: writes a record into the recording; returns whether there was room.
            ask: reads functions of a process at the cost of its user: see
                `function_records.FunctionRecords.of`, with the user before its arguments; returns
                None if the user has no time left now.
        """
        self._drain, self._write, self._ask = drain, write, ask
        self._processes: dict[int, _Process] = {}
        self._of_user: dict[int, Room] = {}
        self._waiting = 0
        # Records that the ring had no room for: at most those of one answer.
        self._unwritten: deque[bytes] = deque()
        self.refused: dict[int, int] = {}

    def register(self, image: int, pid: int, uid: int, found: Placed) -> None:
        """Add the process of an image with V8."""
        if image in self._processes:
            return
        while len(self._processes) >= MOST_KNOWN:
            oldest = self._processes.pop(next(iter(self._processes)))
            self._waiting -= len(oldest.waiting)
        self._processes[image] = _Process(pid, uid, found.words)
        self._of_user.setdefault(uid, Room(OF_USER))

    def look(self) -> None:
        """Take the walk's news; read and record the functions that there is room for."""
        while self._unwritten and self._write(self._unwritten[0]):
            self._unwritten.popleft()
        for record in self._drain():
            image, *thing = NEWS.unpack(record)
            process = self._processes.get(image)
            if process is None:
                continue
            if self._waiting >= MOST_WAITING or len(process.waiting) >= MOST_OF_IMAGE:
                self.refused[image] = self.refused.get(image, 0) + 1
                continue
            process.waiting.append((*thing, 0))
            self._waiting += 1
        if self._waiting and not self._unwritten:
            for image, process in self._processes.items():
                if process.waiting:
                    self._name(image, process)

    def wait_ms(self) -> int | None:
        """Return when to look again without news; None if nothing waits."""
        return _SOON_MS if self._waiting or self._unwritten else None

    def _name(self, image: int, process: _Process) -> None:
        room = self._of_user[process.uid]
        if process.room.is_full() or room.is_full():
            return
        taken = [process.waiting[row] for row in range(min(len(process.waiting), _AT_ONCE))]
        met = [one[:-1] for one in taken]
        answer = self._ask(process.uid, process.pid, image, process.words, met)
        if answer is None:
            return
        done, records, failed = answer
        done = min(max(done, 1), len(taken))
        for _ in range(done):
            process.waiting.popleft()
        self._waiting -= done
        for number in failed:
            *thing, tries = taken[number]
            if tries < MOST_READ_TRIES:
                process.waiting.append((*thing, tries + 1))
                self._waiting += 1
        for record in records:
            if self._unwritten or not self._write(record):
                self._unwritten.append(record)
        size = sum(map(len, records)) + NAME_COST * done
        process.room.fill(size)
        room.fill(size)


# Defined by: ``net/bpf/test_run.c`` (bpf_prog_test_run_raw_tp), Linux 6.18.

_SIZE = struct.Struct("=Q")
_ATTEMPTS = 4


class RecordWriter:
    """Writes records from this process into the ring of its CPU.

    A BPF program writes what a map holds. It is run for each record (BPF_PROG_TEST_RUN).
    """

    def __init__(self, output: int) -> None:
        """Load the program; `output` is the map with the event of each CPU.

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
        # The process may move to another CPU meanwhile, or be on one that is not recorded.
        return any(bpf_objects.run_program(self._program) == 0 for _ in range(_ATTEMPTS))


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
