"""Mapped files → the CPython in them: its version, and the places of its state and its code.

The file may be hostile, and may change while it is read: `elf_lookup` bounds the cost of reading,
and every number in it may be false.

Defined by: ``Python/pystate.c`` of CPython 3.8 to 3.12, PyGILState_GetThisThreadState(), whose
machine code has the place of the key of thread states; ``Include/internal/pycore_debug_offsets.h``
of later ones.
"""

from __future__ import annotations

import struct

from prospect.abi import cpython
from prospect.abi import runtime_frames as wire
from prospect.capture.capture_limits import MOST_GETTER_BYTES
from prospect.capture.runtimes.elf_lookup import ET_EXEC
from prospect.capture.runtimes.image_entry import entry_fields
from prospect.capture.runtimes.runtime import Image, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.abi.cpython import Layouts
    from prospect.capture.runtimes.elf_lookup import File
    from prospect.capture.runtimes.runtime import Placed

_WIDE = 0x48  # prefix of an instruction of 64-bit operands: these are no key, which is an int

_RUNTIME = b"_PyRuntime"
_RUNTIME_SECTION = b".PyRuntime"
_READER = b"PyGILState_GetThisThreadState"
_LOOP = b"_PyEval_EvalFrameDefault"
_VERSION = b"Py_Version"
_NAMES = (_RUNTIME, _READER, _LOOP, _VERSION)
# The values of keys have a known place in glibc only. With another C library threads are found by
# their numbers, which takes longer.
_GLIBC = b"libc.so.6"
# The fields of a walker's entry: the key's Py_tss_t, 0 if threads are found by their numbers, the
# pointer to the first interpreter, and the fields of `cpython.Layouts`.
_LAYOUTS = cpython.FrameLayout, cpython.CodeLayout, cpython.ThreadLayout
ENTRY = entry_fields(
    ("key", "first_interpreter"), [name for layout in _LAYOUTS for name in layout._fields]
)


def layouts_of(found: Placed) -> Layouts:
    """Return the layouts of an interpreter's structures."""
    left = list(found.words)
    frame, code, threads = ([left.pop(0) for _ in layout._fields] for layout in _LAYOUTS)
    return cpython.Layouts(
        found.version & 0xFF,
        cpython.FrameLayout(*frame),
        cpython.CodeLayout(*code),
        cpython.ThreadLayout(*threads),
    )


def find_python(file: File, path: bytes, /) -> Image | Unknown | None:
    """Return the CPython in a file, None if there is none.

    Before 3.11 only the file's name, `path`, has the version.

    Raises:
        ValueError: the file costs too much to read.
        struct.error: it is cut.
        OSError: it cannot be read.
    """
    code = [segment for segment in file.segments if segment.is_code]
    symbols = file.find(_NAMES)
    if _RUNTIME not in symbols:
        symbols[_RUNTIME] = file.section(_RUNTIME_SECTION)
    runtime = symbols[_RUNTIME][0]
    if not code or not runtime:
        return None
    head = file.at(runtime, cpython.DEBUG_BYTES)
    layouts, key = cpython.described_layouts(head), 0
    if layouts is None:
        minor = cpython.debug_minor(head)
        minor = _minor(file, path, symbols) if minor < 0 else minor
        layouts = cpython.known_layouts(minor)
        if layouts is None:
            return Unknown(wire.CPYTHON, 0x300 | minor) if minor >= 0 else None
        if _GLIBC in file.libraries():
            key = runtime + _key_offset(file, symbols, cpython.KEY_OFFSETS[minor])
    loop, loop_bytes = symbols.get(_LOOP, (code[0].address, 0))
    described = layouts.code.instructions
    described |= (layouts.code.first_line - layouts.code.signature) << wire.FIRST_LINE_SHIFT
    return Image(
        runtime=wire.CPYTHON,
        version=0x300 | layouts.minor,
        described=described,
        addresses=(key, runtime + layouts.threads.interpreters),
        words=(*layouts.frame, *layouts.code, *layouts.threads),
        text=(code[0].address, code[0].address + code[0].size),
        loop=(loop, loop + loop_bytes),
        is_fixed=file.kind == ET_EXEC,
        segments=file.segments,
    )


def _minor(file: File, path: bytes, symbols: dict[bytes, tuple[int, int]]) -> int:
    """Return the minor version, -1 if unknown."""
    if _VERSION in symbols:
        (version,) = struct.unpack("<I", file.at(symbols[_VERSION][0], 4))
        return cpython.minor_of(version)
    digits = path.rpartition(b"python3.")[2]
    number = digits[: len(digits) - len(digits.lstrip(b"0123456789"))]
    return int(number) if 0 < len(number) <= 2 else -1


def _key_offset(file: File, symbols: dict[bytes, tuple[int, int]], usual: int) -> int:
    """Return the offset of the key's Py_tss_t in _PyRuntime; the usual one if the code is unknown.

    The function loads the address of `autoTSSkey` for PyThread_tss_get(), or inlines that and
    loads the key itself, 4 bytes after that address.
    """
    if _READER not in symbols:
        return usual
    runtime, size = symbols[_RUNTIME]
    address, length = symbols[_READER]
    code = file.at(address, min(length, MOST_GETTER_BYTES))
    found = [one for one in _loaded_offsets(code, address - runtime) if 0 < one < size]
    return usual if usual in found or not found else found[0]


def _loaded_offsets(code: bytes, shift: int) -> Iterator[int]:
    """Give the offsets of Py_tss_t in x86-64 instructions; `shift` is the function's offset."""
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
