"""Mapped files → the CPython in them: its version, and where a process has its key and its code.

Comes in: an open file that some process maps executable, and where. Goes out: `Interpreter`, or
None for what is no CPython known here. The file may be anything, and change while it is read: it is
read by pread(), in bounded pieces, and every number in it may be false.

Defined by: the gABI (symbol table, program headers); ``Python/pystate.c`` of CPython 3.8 to 3.14,
PyGILState_GetThisThreadState(), whose machine code says where the key of thread states is.
"""

from __future__ import annotations

import os
import struct

from prospect.abi import cpython
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ELF64, _LITTLE_ENDIAN, _X86_64, _EXECUTABLE = 2, 1, 62, 2
# _Py_DebugOffsets, at the beginning of _PyRuntime: cookie, version, free_threaded
_DEBUG_OFFSETS = struct.Struct("<8sQQ")
_DEBUG_COOKIE = b"xdebugpy"
_PT_LOAD, _PF_X, _SHT_DYNSYM = 1, 1, 11
_PAGE = 4096
_WIDE = 0x48  # before an instruction of 64-bit operands: no key, which is an int
_MOST_TABLE_BYTES = 1 << 24
_MOST_ROWS = 1 << 10
_MOST_CODE_BYTES = 64
_ADDRESS_END = 1 << 47

_RUNTIME = b"_PyRuntime"
_READER = b"PyGILState_GetThisThreadState"
_LOOP = b"_PyEval_EvalFrameDefault"
_VERSION = b"Py_Version"
# Where keys have their values, glibc's structures say; musl's are others.
_LIBC = b"\0libc.so.6\0"
_NAMES = (_RUNTIME, _READER, _LOOP, _VERSION)


class Interpreter(NamedTuple):
    """CPython 3.`minor` in a process.

    `key_address` is where its Py_tss_t is; `text` and `loop` are where the code of its file and of
    the evaluation loop begin and end.
    """

    minor: int
    key_address: int
    text: tuple[int, int]
    loop: tuple[int, int]


class Image(NamedTuple):
    """CPython in a file; as `Interpreter`, by the file's own addresses.

    `segments` are its loaded ones: offset, address, size.
    """

    minor: int
    key: int
    text: tuple[int, int]
    loop: tuple[int, int]
    is_fixed: bool
    segments: tuple[tuple[int, int, int], ...]

    def placed(self, start: int, offset: int) -> Interpreter | None:
        """Return what it is in a process that has `offset` of the file at `start`."""
        bias = 0
        if not self.is_fixed:
            for begin, address, _ in self.segments:
                if begin & -_PAGE == offset & -_PAGE:
                    bias = start - (address & -_PAGE)
                    break
            else:
                return None
        numbers = (self.key, *self.text, *self.loop)
        if not all(0 <= number + bias < _ADDRESS_END for number in numbers):
            return None
        key, *rest = (number + bias for number in numbers)
        return Interpreter(self.minor, key, (rest[0], rest[1]), (rest[2], rest[3]))


def read_image(fd: int, path: bytes) -> Image | None:
    """Return the CPython in an ELF file, None if there is none that is known here.

    Args:
        fd: the file.
        path: its name, which has the version where the file does not (before 3.11).
    """
    try:
        return _image(fd, path)
    except (struct.error, OverflowError, OSError, ValueError):
        return None


def _image(fd: int, path: bytes) -> Image | None:
    header = _HEADER.unpack(os.pread(fd, _HEADER.size, 0))
    if header[:3] != (b"\x7fELF", _ELF64, _LITTLE_ENDIAN) or header[4] != _X86_64:
        return None
    segments = _rows(fd, _SEGMENT, header[7], header[11], header[12])
    loaded = tuple((row[2], row[3], row[5]) for row in segments if row[0] == _PT_LOAD)
    code = [row for row in segments if row[0] == _PT_LOAD and row[1] & _PF_X]
    symbols = _symbols(fd, _rows(fd, _SECTION, header[8], header[13], header[14]))
    if not code or _RUNTIME not in symbols or _LOOP not in symbols:
        return None
    minor = _minor(fd, path, symbols, loaded)
    if minor not in cpython.FRAMES or _is_free_threaded(fd, symbols, loaded):
        return None
    key = _key_offset(fd, symbols, loaded, cpython.KEY_OFFSETS[minor])
    loop, loop_bytes = symbols[_LOOP]
    return Image(
        minor=minor,
        key=symbols[_RUNTIME][0] + key,
        text=(code[0][3], code[0][3] + code[0][6]),
        loop=(loop, loop + loop_bytes),
        is_fixed=header[3] == _EXECUTABLE,
        segments=loaded,
    )


def _rows(fd: int, form: struct.Struct, at: int, each: int, count: int) -> list[tuple[int, ...]]:
    if each != form.size or count > _MOST_ROWS:
        return []
    data = os.pread(fd, each * count, at)
    return list(form.iter_unpack(data[: len(data) // each * each]))


def _symbols(fd: int, sections: list[tuple[int, ...]]) -> dict[bytes, tuple[int, int]]:
    """Return value and size of the symbols that are looked for, as far as the file defines them.

    Nothing of a file that is linked with another C library than glibc.
    """
    found = {}
    for section in sections:
        if section[1] != _SHT_DYNSYM or section[6] >= len(sections):
            continue
        names = _piece(fd, sections[section[6]])
        table = _piece(fd, section)
        if _LIBC not in names:
            return {}
        numbers = {names.find(b"\0" + name + b"\0") + 1: name for name in _NAMES}
        numbers.pop(0, None)
        for row in _SYMBOL.iter_unpack(table[: len(table) // _SYMBOL.size * _SYMBOL.size]):
            if row[0] in numbers and row[3]:
                found[numbers[row[0]]] = (row[4], row[5])
    return found


def _piece(fd: int, section: tuple[int, ...]) -> bytes:
    return os.pread(fd, min(section[5], _MOST_TABLE_BYTES), section[4])


def _at(fd: int, segments: tuple[tuple[int, int, int], ...], address: int, size: int) -> bytes:
    """Return bytes of the file by their address."""
    for offset, begin, length in segments:
        if begin <= address < begin + length:
            return os.pread(fd, min(size, begin + length - address), offset + address - begin)
    return b""


def _minor(
    fd: int,
    path: bytes,
    symbols: dict[bytes, tuple[int, int]],
    segments: tuple[tuple[int, int, int], ...],
) -> int:
    """Return the minor version, -1 where it is not known."""
    if _VERSION in symbols:
        (version,) = struct.unpack("<I", _at(fd, segments, symbols[_VERSION][0], 4))
        return version >> 16 & 0xFF if version >> 24 == 3 else -1
    digits = path.rpartition(b"python3.")[2]
    number = digits[: len(digits) - len(digits.lstrip(b"0123456789"))]
    return int(number) if 0 < len(number) <= 2 else -1


def _is_free_threaded(
    fd: int, symbols: dict[bytes, tuple[int, int]], segments: tuple[tuple[int, int, int], ...]
) -> bool:
    """Whether it has no global lock, and other structures; from 3.13 on it says so itself."""
    head = _at(fd, segments, symbols[_RUNTIME][0], _DEBUG_OFFSETS.size)
    if len(head) < _DEBUG_OFFSETS.size:
        return False
    cookie, _, free_threaded = _DEBUG_OFFSETS.unpack(head)
    return bool(cookie == _DEBUG_COOKIE and free_threaded)


def _key_offset(
    fd: int,
    symbols: dict[bytes, tuple[int, int]],
    segments: tuple[tuple[int, int, int], ...],
    usual: int,
) -> int:
    """Return where in _PyRuntime the key's Py_tss_t is; the usual place if the code is not known.

    The function loads the address of `autoTSSkey` for PyThread_tss_get(), or inlines that and
    loads the key itself, which stands 4 bytes behind.
    """
    if _READER not in symbols:
        return usual
    runtime, size = symbols[_RUNTIME]
    address, length = symbols[_READER]
    code = _at(fd, segments, address, min(length, _MOST_CODE_BYTES))
    found = [one for one in _loaded_offsets(code, address - runtime) if 0 < one < size]
    return usual if usual in found or not found else found[0]


def _loaded_offsets(code: bytes, shift: int) -> Iterator[int]:
    """Give the offsets of Py_tss_t that instructions of x86-64 lead to.

    Args:
        code: of the function.
        shift: from _PyRuntime to the function.
    """
    for at in range(len(code) - 6):
        (near,) = struct.unpack_from("<i", code, at + 2)
        (far,) = struct.unpack("<i", code[at + 3 : at + 7])
        if code[at : at + 2] == b"\x48\x8d" and code[at + 2] & 0xC0 == 0x80:
            yield far  # lea disp32(register), register
        elif code[at : at + 2] == b"\x48\x8d" and code[at + 2] & 0xC7 == 0x05:
            yield shift + at + 7 + far  # lea disp32(%rip), register
        elif code[at] == 0x8B and code[at + 1] & 0xC7 == 0x05:
            yield shift + at + 6 + near - 4  # mov disp32(%rip), register
        elif code[at : at + 2] == b"\x83\x3d" and not code[at + 6] and code[at - 1] != _WIDE:
            yield shift + at + 7 + near  # cmpl $0, disp32(%rip): whether there is a key
