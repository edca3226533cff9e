"""A jitdump file's bytes → the code that a JIT wrote, as columns.

The file may be of any origin and either byte order. Records of unknown kinds are skipped. Reading
stops at a damaged record, and the report says so. Defined by
``tools/perf/Documentation/jitdump-specification.txt`` and ``tools/perf/util/jitdump.h``, Linux
6.18.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record
from prospect.symbols.symbols_limits import LONGEST_NAME_BYTES, MOST_DUMP_RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.columns.array_types import I64, U64

_MAGIC = 0x4A695444
_BYTE_ORDERS = "<>"
# magic, version, size of this header, ELF machine, padding, pid, time, flags
_HEADER = "IIIIIIQQ"
_HEADER_BYTES = struct.calcsize("=" + _HEADER)
_FLAG_ARCH_TIMESTAMP = 1

# kind, size of the whole record, time
_PREFIX = "IIQ"
_PREFIX_BYTES = struct.calcsize("=" + _PREFIX)
_CODE_LOAD, _CODE_MOVE, _CODE_DEBUG_INFO, _CODE_CLOSE = 0, 1, 2, 3
# pid, tid, virtual address, address of the code, its size, its index; then the name, then the code
_LOAD = "IIQQQQ"
_LOAD_BYTES = struct.calcsize("=" + _LOAD)
# pid, tid, virtual address, old address, new address, size, index
_MOVE = "IIQQQQQ"
# address of the code that the next load brings, number of entries
_DEBUG = "QQ"
_DEBUG_BYTES = struct.calcsize("=" + _DEBUG)


class JitDump(Record, eq=False):
    """The records of a jitdump file, in their order.

    Attributes:
        order: ``"<"`` or ``">"``.
        machine: EM_* of the code.
        pid: of the process that wrote it, in its own pid namespace.
        opened_ns: time in the header: on the same clock as `time_ns`, or any number.
        is_cpu_time: whether times are of the CPU's counter instead of CLOCK_MONOTONIC.
        time_ns: u64[n] time of the load of each piece of code.
        address: u64[n] AVMA.
        size: u64[n] in bytes, above 0.
        code: i64[n] offset of its bytes in the file.
        name, name_length: i64[n] the same of its name.
        debug: i64[n] offset of its line entries in the file, -1 if there are none.
        debug_entries: i64[n] their number.
        moved: i64[m] row of the load that was moved.
        moved_ns: u64[m] time of the move.
        moved_to: u64[m] its new AVMA.
        damage: the reason why reading stopped before the end; empty if it did not.
    """

    data: memoryview
    order: str
    machine: int
    pid: int
    opened_ns: int
    is_cpu_time: bool
    time_ns: U64
    address: U64
    size: U64
    code: I64
    name: I64
    name_length: I64
    debug: I64
    debug_entries: I64
    moved: I64
    moved_ns: U64
    moved_to: U64
    damage: str = ""

    def __len__(self) -> int:
        return len(self.address)


def parse_jitdump(
    data: memoryview, begin_walk: Callable[[memoryview, str], DumpWalk] | None = None
) -> JitDump | None:
    """Parse a jitdump file, which may still grow; None if it is no jitdump file.

    `begin_walk` makes the reader of its records from the bytes and their order.
    """
    order = next((one for one in _BYTE_ORDERS if _has_magic(data, one)), "")
    if not order:
        return None
    _, version, header_bytes, machine, _, pid, opened_ns, flags = struct.unpack_from(
        order + _HEADER, data
    )
    if version == 0 or header_bytes < _HEADER_BYTES:
        return None
    walk = (begin_walk or DumpWalk)(data, order)
    walk.run(header_bytes)
    loads = np.array(walk.loads, np.uint64).reshape(-1, 8)
    moves = np.array(walk.moves, np.uint64).reshape(-1, 3)
    return JitDump(
        data=data,
        order=order,
        machine=machine,
        pid=pid,
        opened_ns=opened_ns,
        is_cpu_time=bool(flags & _FLAG_ARCH_TIMESTAMP),
        time_ns=loads[:, 0],
        address=loads[:, 1],
        size=loads[:, 2],
        code=loads[:, 3].astype(np.int64),
        name=loads[:, 4].astype(np.int64),
        name_length=loads[:, 5].astype(np.int64),
        debug=loads[:, 6].astype(np.int64) - 1,
        debug_entries=loads[:, 7].astype(np.int64),
        moved=moves[:, 0].astype(np.int64),
        moved_ns=moves[:, 1],
        moved_to=moves[:, 2],
        damage=walk.damage,
    )


def _has_magic(data: memoryview, order: str) -> bool:
    return len(data) >= _HEADER_BYTES and struct.unpack_from(order + "I", data)[0] == _MAGIC


class DumpWalk:
    """Reads the records of a jitdump file one after another.

    Attributes:
        loads: time, address, size, code, name, its length, debug + 1, debug entries of each load.
        moves: load, time, new address of each move.
        damage: see `JitDump`.
    """

    def __init__(self, data: memoryview, order: str) -> None:
        self._data = data
        self._prefix = struct.Struct(order + _PREFIX)
        self._load_fields = struct.Struct(order + _LOAD)
        self._move_fields = struct.Struct(order + _MOVE)
        self._debug_fields = struct.Struct(order + _DEBUG)
        self._row_of_index: dict[int, int] = {}
        self._debug: dict[int, tuple[int, int]] = {}
        self.loads: list[tuple[int, ...]] = []
        self.moves: list[tuple[int, int, int]] = []
        self.damage = ""

    def run(self, offset: int) -> None:
        """Read records from an offset on."""
        for _ in range(MOST_DUMP_RECORDS):
            left = len(self._data) - offset
            if left <= 0:
                return
            kind, size, time_ns = (
                self._prefix.unpack_from(self._data, offset)
                if left >= _PREFIX_BYTES
                else (_CODE_CLOSE, 0, 0)
            )
            if kind == _CODE_CLOSE and size >= _PREFIX_BYTES:
                return
            if not _PREFIX_BYTES <= size <= left:
                # A process that was killed, or still writes, leaves half a record.
                self.damage = f"its record at offset {offset} is not whole"
                return
            try:
                self.read(kind, offset + _PREFIX_BYTES, offset + size, time_ns)
            except struct.error:
                self.damage = f"its record at offset {offset} is too short"
                return
            offset += size
        self.damage = f"only its first {MOST_DUMP_RECORDS} records were read"

    def read(self, kind: int, begin: int, end: int, time_ns: int) -> None:
        """Read one record, whose fields are from `begin` to `end`."""
        # Fields are unpacked from the record's bytes, never from those that follow.
        if kind == _CODE_LOAD:
            self._load(begin, end, time_ns)
        elif kind == _CODE_MOVE:
            *_, new, _, index = self._move_fields.unpack_from(self._data[begin:end])
            row = self._row_of_index.get(index)
            if row is not None:
                self.moves.append((row, time_ns, new))
        elif kind == _CODE_DEBUG_INFO:
            address, entries = self._debug_fields.unpack_from(self._data[begin:end])
            self._debug[address] = begin + _DEBUG_BYTES, min(entries, end - begin)

    def _load(self, begin: int, end: int, time_ns: int) -> None:
        fields = self._load_fields.unpack_from(self._data[begin:end])
        _, _, _, address, size, index = fields
        name = begin + _LOAD_BYTES
        # Its name ends with a NUL; the code fills the record's end.
        name_end = bytes(self._data[name : min(end, name + LONGEST_NAME_BYTES)]).find(b"\0")
        debug, entries = self._debug.pop(address, (-1, 0))
        code = name + name_end + 1
        if name_end < 0 or not 0 < size <= end - code or address + size >= 1 << 64:
            return
        self._row_of_index[index] = len(self.loads)
        self.loads.append((time_ns, address, size, code, name, name_end, debug + 1, entries))
