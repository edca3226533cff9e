"""bpf(): maps, types, programs, raw tracepoints, and ring buffers that programs fill.

Each lives until its file descriptor is closed, at the latest at the end of this process.
Functions raise OSError if the kernel, or its verifier, refuses.

Defined by: bpf(2), ``union bpf_attr`` in ``include/uapi/linux/bpf.h``, Linux 6.18;
``Documentation/bpf/btf.rst`` for types; ``Documentation/bpf/ringbuf.rst`` and
``kernel/bpf/ringbuf.c`` for rings.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct

from prospect.abi import bpf as abi
from prospect.capture.kernel.perf_syscalls import checked, libc
from prospect.light import Closing, Descriptor
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# arch/x86/entry/syscalls/syscall_64.tbl, scripts/syscall.tbl
_BPF = {"x86_64": 321, "aarch64": 280}
# Only programs under the GPL may call the tracing helpers. These programs are offered under the
# GPL in addition to the project's own licence.
_LICENSE = b"GPL"
_INSTRUCTION_BYTES = 8
_FUNCTION_BYTES = 8
_RELOCATION_BYTES = 16
_ATTEMPTS = 10
# Entries that one call reads; a bucket of a hash never has as many.
_BATCH = 1 << 14
# More than any kernel's NR_CPUS (8192 on x86): the kernel writes a value for each possible CPU.
_MOST_CPUS = 1 << 14
# struct bpf_prog_info up to and with recursion_misses (Linux 5.12), at this offset.
_INFO_BYTES = 224
_RUN_TIME_OFFSET = 192
_MISSES_OFFSET = 208
_NAME_OFFSET = 64


class Held:
    """Maps and programs in the kernel, and `links`, as long as the programs run."""

    def __init__(self) -> None:
        self.links: list[int] = []
        self._fds: list[int] = []

    def keep(self, fd: int) -> int:
        """Keep a map, a program or types until `close`; return its descriptor."""
        self._fds.append(fd)
        return fd

    def detach(self) -> None:
        """Stop the programs."""
        while self.links:
            os.close(self.links.pop())

    def close(self) -> None:
        """Let go of everything; the kernel then takes it away."""
        self.detach()
        while self._fds:
            os.close(self._fds.pop())


class ValueType(NamedTuple):
    """Types of a map's key and value, which task storage requires."""

    types_fd: int
    key_id: int
    value_id: int


class Relocations(NamedTuple):
    """Places of a program into which the kernel writes offsets from its own types.

    Attributes:
        types_fd: types that describe the places, and a function for the program.
        places: array of struct bpf_core_relo.
    """

    types_fd: int
    function_id: int
    places: bytes


class LoadedProgram(NamedTuple):
    """A program: its number, BPF_PROG_TYPE_*, name, and run time while run times are enabled."""

    number: int
    kind: int
    name: str
    run_ns: int = 0


class MapLayout(NamedTuple):
    """The kind and sizes of a map.

    Attributes:
        name: shown in lists of the machine's maps, 15 characters at most.
        kind: BPF_MAP_TYPE_*.
        entries: the largest number of entries, 0 for task storage.
        flags: BPF_F_*.
        types: of key and value, if the kind needs them.
    """

    name: str
    kind: int
    key_bytes: int
    value_bytes: int
    entries: int
    flags: int = 0
    types: ValueType = ValueType(0, 0, 0)


def create_map(layout: MapLayout) -> int:
    """Create a map and return its file descriptor."""
    name, *numbers, types = layout
    # inner_map_fd and numa_node before the name, map_ifindex after it: all 0.
    attr = struct.pack("=5I8x16s4x3I", *numbers, name.encode(), *types)
    return _bpf(abi.BPF_MAP_CREATE, attr)


def load_words_type(words: int) -> ValueType:
    """Load the types "u32" for a key and "array of `words` u64" for a value."""
    strings = b"\0u32\0u64\0"
    types = b"".join(
        struct.pack("=4I", name_offset, abi.BTF_KIND_INT << 24, size, size * 8)
        for name_offset, size in ((1, 4), (5, 8))
    )
    # struct btf_array: of type 2, indexed by type 1
    types += struct.pack("=6I", 0, abi.BTF_KIND_ARRAY << 24, 0, 2, 1, words)
    return ValueType(load_types(types, strings), key_id=1, value_id=3)


def load_types(types: bytes, strings: bytes) -> int:
    """Load types in the kernel's format, BTF, and return their file descriptor."""
    header = struct.pack(
        "=HBB5I", abi.BTF_MAGIC, abi.BTF_VERSION, 0, 24, 0, len(types), len(types), len(strings)
    )
    blob = ctypes.create_string_buffer(header + types + strings)
    attr = struct.pack("=QQI", ctypes.addressof(blob), 0, len(blob) - 1)
    return _bpf(abi.BPF_BTF_LOAD, attr + bytes(12))


def load_raw_tracepoint_program(
    name: str, code: bytes, relocations: Relocations | None = None
) -> int:
    """Load a program of BPF_PROG_TYPE_RAW_TRACEPOINT and return its file descriptor.

    Args:
        name: shown in lists of the machine's programs, 15 characters at most.
        code: as `bpf_assembler.assemble` returns it.
        relocations: offsets that the kernel fills in (Linux 5.17).
    """
    return _load_program(name, code, abi.BPF_PROG_TYPE_RAW_TRACEPOINT, 0, relocations)


def load_uprobes_program(name: str, code: bytes) -> int:
    """Load a program for many places of an image, as `load_raw_tracepoint_program` does.

    Raises:
        OSError: the kernel or its verifier refused; EINVAL before Linux 6.6.
    """
    return _load_program(name, code, abi.BPF_PROG_TYPE_KPROBE, abi.BPF_TRACE_UPROBE_MULTI)


def load_perf_event_program(name: str, code: bytes) -> int:
    """Load a program that runs when an event overflows, as `load_raw_tracepoint_program` does."""
    return _load_program(name, code, abi.BPF_PROG_TYPE_PERF_EVENT, 0)


def _load_program(
    name: str, code: bytes, kind: int, attach_type: int, relocations: Relocations | None = None
) -> int:
    instructions = ctypes.create_string_buffer(code, len(code))
    license_name = ctypes.create_string_buffer(_LICENSE)
    # No verifier's log, no version, no flags before the name; no device after it.
    attr = struct.pack(
        "=IIQQ24x16s4xI",
        kind,
        len(code) // _INSTRUCTION_BYTES,
        ctypes.addressof(instructions),
        ctypes.addressof(license_name),
        name.encode(),
        attach_type,
    )
    if relocations is not None:
        # struct bpf_func_info: the program's only function begins at its first instruction.
        function = ctypes.create_string_buffer(struct.pack("=II", 0, relocations.function_id), 8)
        places = ctypes.create_string_buffer(relocations.places, len(relocations.places))
        # No lines, no target, no array of descriptors between them.
        attr += struct.pack(
            "=IIQI24xI8xQII",
            *(relocations.types_fd, _FUNCTION_BYTES, ctypes.addressof(function), 1),
            len(places) // _RELOCATION_BYTES,
            *(ctypes.addressof(places), _RELOCATION_BYTES, 0),
        )
    for _ in range(_ATTEMPTS):
        try:
            return _bpf(abi.BPF_PROG_LOAD, attr)
        except BlockingIOError:
            continue  # a signal interrupted the verifier
    return _bpf(abi.BPF_PROG_LOAD, attr)


def attach_raw_tracepoint(name: str, program_fd: int) -> int:
    """Run a program at a tracepoint, on all CPUs, until the returned descriptor is closed."""
    text = ctypes.create_string_buffer(name.encode())
    attr = struct.pack("=QI4x", ctypes.addressof(text), program_fd)
    return _bpf(abi.BPF_RAW_TRACEPOINT_OPEN, attr)


def attach_uprobes(  # noqa: PLR0913 - as the call's own arguments
    program_fd: int,
    path: bytes,
    offsets: Sequence[int],
    cookies: Sequence[int],
    *,
    flags: int = 0,
    pid: int = 0,
) -> int:
    """Run a program at places of a file until the returned descriptor is closed.

    Args:
        program_fd: from `load_uprobes_program`.
        path: of the file, without NUL.
        offsets: of the first bytes of instructions in the file.
        cookies: for each place a number that the program can get.
        flags: BPF_F_UPROBE_MULTI_*.
        pid: the one process in which it runs, 0 for all.

    Raises:
        OSError: the kernel refused one of the places, or the file.
    """
    text = ctypes.create_string_buffer(path)
    places = (ctypes.c_uint64 * len(offsets))(*offsets)
    numbers = (ctypes.c_uint64 * len(cookies))(*cookies)
    # No target, no flags of the link, no reference counters.
    attr = struct.pack(
        "=IIIIQQQQIIII",
        *(program_fd, 0, abi.BPF_TRACE_UPROBE_MULTI, 0),
        *(ctypes.addressof(text), ctypes.addressof(places), 0, ctypes.addressof(numbers)),
        *(len(offsets), flags, pid, 0),
    )
    return _bpf(abi.BPF_LINK_CREATE, attr)


def attach_to_event(program_fd: int, event_fd: int) -> int:
    """Run a program when an event overflows, until the returned descriptor is closed.

    Raises:
        OSError: the kernel refused; EINVAL before Linux 5.15, or if the event takes no program.
    """
    return _bpf(
        abi.BPF_LINK_CREATE, struct.pack("=IIII32x", program_fd, event_fd, abi.BPF_PERF_EVENT, 0)
    )


def run_program(program_fd: int) -> int:
    """Run a program of BPF_PROG_TYPE_RAW_TRACEPOINT now, on this CPU; return its result.

    Raises:
        OSError: the kernel refused; EINVAL before Linux 5.10.
    """
    attr = bytearray(struct.pack("=I76x", program_fd))
    _bpf(abi.BPF_PROG_TEST_RUN, attr)
    (result,) = struct.unpack_from("=i", attr, 4)
    return int(result)


def read_hash(map_fd: int, key_bytes: int, value_bytes: int) -> list[tuple[bytes, bytes]]:
    """Return all of a hash as portions of (keys, values), each of them concatenated."""
    keys = ctypes.create_string_buffer(_BATCH * key_bytes)
    values = ctypes.create_string_buffer(_BATCH * value_bytes)
    position = ctypes.create_string_buffer(8)
    portions: list[tuple[bytes, bytes]] = []
    at_end = False
    while not at_end:
        attr = bytearray(
            struct.pack(
                "=QQQQIIQQ",
                ctypes.addressof(position) if portions else 0,
                ctypes.addressof(position),
                ctypes.addressof(keys),
                ctypes.addressof(values),
                _BATCH,
                map_fd,
                0,
                0,
            )
        )
        try:
            _bpf(abi.BPF_MAP_LOOKUP_BATCH, attr)
        except OSError as error:
            if error.errno != errno.ENOENT:  # ENOENT comes with the last portion
                raise
            at_end = True
        (count,) = struct.unpack_from("=I", attr, 32)
        portions.append((keys.raw[: count * key_bytes], values.raw[: count * value_bytes]))
    return portions


def read_percpu_sum(map_fd: int, index: int) -> int:
    """Return the sum over the CPUs of a u64 in a per-CPU array."""
    return sum(struct.unpack(f"={_MOST_CPUS}Q", read_element(map_fd, index, _MOST_CPUS * 8)))


def read_element(map_fd: int, index: int, value_bytes: int) -> bytes:
    """Return an element of an array."""
    value = ctypes.create_string_buffer(value_bytes)
    _of_entry(abi.BPF_MAP_LOOKUP_ELEM, map_fd, struct.pack("=I", index), value)
    return value.raw


def write_element(map_fd: int, index: int, value: bytes) -> None:
    """Write an element of an array; raises as `write_entry`."""
    write_entry(map_fd, struct.pack("=I", index), value)


def write_entry(map_fd: int, key: bytes, value: bytes) -> None:
    """Write an entry of a hash, or an element of an array whose key is 4 bytes.

    Raises:
        OSError: the kernel refused; E2BIG if the map is full.
    """
    _of_entry(abi.BPF_MAP_UPDATE_ELEM, map_fd, key, ctypes.create_string_buffer(value, len(value)))


def delete_entry(map_fd: int, key: bytes) -> None:
    """Delete an entry of a hash or of an array of programs.

    Raises:
        OSError: the kernel refused; ENOENT if there is none.
    """
    name = ctypes.create_string_buffer(key, len(key))
    attr = struct.pack("=I4xQQQ", map_fd, ctypes.addressof(name), 0, 0)
    _bpf(abi.BPF_MAP_DELETE_ELEM, attr)


def _of_entry(command: int, map_fd: int, key: bytes, value: ctypes.Array[ctypes.c_char]) -> None:
    name = ctypes.create_string_buffer(key, len(key))
    places = ctypes.addressof(name), ctypes.addressof(value)
    _bpf(command, struct.pack("=I4xQQQ", map_fd, *places, abi.BPF_ANY))


def enable_run_times() -> int:
    """Let the kernel add up the run times of programs until the returned descriptor is closed.

    Raises:
        OSError: the kernel refused; EINVAL before Linux 5.8.
    """
    return _bpf(abi.BPF_ENABLE_STATS, struct.pack("=I", abi.BPF_STATS_RUN_TIME))


def loaded_programs() -> list[LoadedProgram]:
    """Return all programs that are loaded now."""
    found: list[LoadedProgram] = []
    number = 0
    while True:
        attr = bytearray(struct.pack("=III", number, 0, 0))
        try:
            _bpf(abi.BPF_PROG_GET_NEXT_ID, attr)
        except OSError as error:
            if error.errno == errno.ENOENT:  # there are no more
                return found
            raise
        (number,) = struct.unpack_from("=I", attr, 4)
        try:
            fd = _bpf(abi.BPF_PROG_GET_FD_BY_ID, struct.pack("=III", number, 0, 0))
        except FileNotFoundError:
            continue  # it has just gone
        with Descriptor(fd):
            info = _program_info(fd)
        (kind,) = struct.unpack_from("=I", info)
        name = info[_NAME_OFFSET : _NAME_OFFSET + 16].rstrip(b"\0").decode(errors="replace")
        (run_ns,) = struct.unpack_from("=Q", info, _RUN_TIME_OFFSET)
        found.append(LoadedProgram(number, kind, name, run_ns))


def missed_runs(program_fd: int) -> int:
    """Return how often the kernel skipped a program because it was running on that CPU already."""
    (misses,) = struct.unpack_from("=Q", _program_info(program_fd), _MISSES_OFFSET)
    return int(misses)


def _program_info(program_fd: int) -> bytes:
    info = ctypes.create_string_buffer(_INFO_BYTES)
    attr = struct.pack("=IIQ", program_fd, _INFO_BYTES, ctypes.addressof(info))
    _bpf(abi.BPF_OBJ_GET_INFO_BY_FD, attr)
    return info.raw


def _bpf(command: int, attr: bytes | bytearray) -> int:
    """Call bpf(). If `attr` is a bytearray, it then has what the kernel wrote into it."""
    buffer = (ctypes.c_char * len(attr)).from_buffer(
        attr if isinstance(attr, bytearray) else bytearray(attr)
    )
    number = _BPF[os.uname().machine]
    size = ctypes.c_uint(len(attr))
    return checked(libc().syscall(ctypes.c_long(number), ctypes.c_int(command), buffer, size))


_HEADER = struct.Struct("=II")
_BUSY, _DISCARDED = 1 << 31, 1 << 30
_LENGTH_MASK = _DISCARDED - 1


class BpfRing(Closing):
    """The reader of a ring; the descriptor of its map is readable if there are records."""

    def __init__(self, map_fd: int, size_bytes: int) -> None:
        """Map it.

        Args:
            map_fd: the caller closes it.

        Raises:
            OSError: the kernel refused.
        """
        self._size = size_bytes
        self._mine = mmap.mmap(map_fd, mmap.PAGESIZE)
        self._theirs = mmap.mmap(
            *(map_fd, mmap.PAGESIZE + 2 * size_bytes, mmap.MAP_SHARED, mmap.PROT_READ),
            offset=mmap.PAGESIZE,
        )
        # Format 'Q' makes every access one 64-bit load or store, as positions need.
        self._read_to = memoryview(self._mine).cast("Q")
        self._written_to = memoryview(self._theirs)[: mmap.PAGESIZE].cast("Q")

    def drain(self) -> Iterator[bytes]:
        """Yield the records in it, the oldest first, and remove each."""
        at, end = self._read_to[0], self._written_to[0]
        while at < end:
            place = mmap.PAGESIZE + at % self._size
            (head, _) = _HEADER.unpack_from(self._theirs, place)
            if head & _BUSY:
                return
            length = head & _LENGTH_MASK
            begin = place + _HEADER.size
            record = self._theirs[begin : begin + length]
            at += -(-(length + _HEADER.size) // 8) * 8
            self._read_to[0] = at
            if not head & _DISCARDED:
                yield record

    def close(self) -> None:
        """Unmap it."""
        self._read_to.release()
        self._written_to.release()
        self._mine.close()
        self._theirs.close()
