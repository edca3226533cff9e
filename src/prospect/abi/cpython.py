"""CPython's structures as data: the offsets of the fields that lead from a thread to its frames.

By minor version of CPython 3, for 64-bit builds with the global interpreter lock. All releases of a
minor version have the same offsets: extensions are compiled against them.

Source: ``Include/internal/pycore_frame.h``, ``Include/cpython/{pystate,code,unicodeobject}.h`` and
``Include/internal/pycore_runtime.h`` of CPython 3.8 to 3.14, checked with offsetof().
"""

from __future__ import annotations

import struct

from prospect.abi.runtime_frames import MOST_FRAME_BYTES
from prospect.records import NamedTuple

NO_OFFSET = 0xFFFFFFFF
# struct pthread of glibc on x86-64: the offset of the first 32 keys' values from the thread
# pointer; 16 bytes a key, the value in the second 8.
GLIBC_KEYS_OFFSET = 0x310
# `owner` of a frame for a call from C, which is no Python function (3.12 on).
OWNED_BY_C = 3


class FrameLayout(NamedTuple):
    """Offsets to find and read frames.

    Attributes:
        thread_frame: PyThreadState: its frame, or its _PyCFrame.
        cframe: _PyCFrame: the frame; NO_OFFSET if `thread_frame` leads to the frame.
        base, size: the bytes of a frame to read; the other offsets are in them.
        code: its code object; the two low bits are no part of the address.
        back: the frame that called it.
        last: the last instruction; an address if `last_is_address`, else a number.
        owner: the byte that marks the first frame of a run: `is_entry` in 3.11.
        copy: i32 number of the copy of the bytecode that `last` is in; NO_OFFSET if there is one.
    """

    thread_frame: int
    cframe: int
    base: int
    size: int
    code: int
    back: int
    last: int
    owner: int
    last_is_address: int
    copy: int = NO_OFFSET


class CodeLayout(NamedTuple):
    """Offsets to read code objects.

    Attributes:
        file, name, lines: pointers to str, str, bytes; `name` is the qualified one from 3.11 on.
        first_line: i32.
        signature: 8 bytes, which contain the first line. They distinguish code objects that have
            had the same address.
        instructions: the first instruction; 0 if frames have numbers.
        ascii, compact: the text of an ASCII str, and of another compact one.
        length: of str and bytes; a str has its state 16 bytes after it.
        bytes: the content of a bytes object.
        state_shift: the number of bits that the state is further up than usual.
        copies: a pointer to the number of copies of the bytecode and their addresses; NO_OFFSET
            if there is one.
    """

    file: int
    name: int
    lines: int
    first_line: int
    signature: int
    instructions: int
    ascii: int
    compact: int
    length: int = 16
    bytes: int = 32
    state_shift: int = 0
    copies: int = NO_OFFSET


_OLD = FrameLayout(24, NO_OFFSET, 24, 88, 8, 0, 80, 0, 0)
_OLD_CODE = CodeLayout(104, 112, 120, 40, 36, 0, 48, 72)
FRAMES = {
    8: _OLD,
    9: _OLD,
    10: _OLD._replace(size=80, last=72),
    11: FrameLayout(56, 8, 0, 72, 32, 48, 56, 68, 1),
    12: FrameLayout(56, 0, 0, 72, 0, 8, 56, 70, 1),
}
CODE = {
    8: _OLD_CODE,
    9: _OLD_CODE,
    10: _OLD_CODE,
    11: CodeLayout(112, 128, 136, 72, 72, 184, 48, 72),
    12: CodeLayout(112, 128, 136, 68, 68, 192, 40, 56),
    13: CodeLayout(112, 128, 136, 68, 68, 200, 40, 56),
    14: CodeLayout(112, 128, 136, 68, 68, 208, 40, 56),
}
# The offset in _PyRuntime of the key of thread states, to check the one found in its reader's code.
KEY_OFFSETS = {8: 1392, 9: 584, 10: 584, 11: 592, 12: 1544}


# _PyRuntime begins with _Py_DebugOffsets from 3.13 on: the index of each offset among its 64-bit
# words, from the cookie on. They change with minor versions; later versions are read as the last
# one here.
DEBUG_COOKIE = b"xdebugpy"
_DEBUG_NAMES = (
    *("version", "free_threaded", "runtime", "interpreters"),
    *("interpreter", "next_interpreter", "threads"),
    *("thread", "next_thread", "frame", "thread_id", "native_id"),
    *("frame_size", "previous", "executable", "instruction", "owner", "bytecode_index"),
    *("code_size", "file", "name", "lines", "first_line", "bytecode", "bytecodes"),
    *("bytes_length", "bytes_text", "str_size", "str_state", "str_length", "ascii_size"),
)
_DEBUG_WORDS = {
    13: (
        *(1, 2, 3, 5, 6, 8, 9, 19, 21, 23, 24, 25, 28, 29, 30, 31, 33, 0),
        *(34, 35, 37, 38, 39, 43, 0, 65, 66, 67, 68, 69, 70),
    ),
    14: (
        *(1, 2, 3, 5, 6, 8, 9, 22, 24, 26, 27, 28, 31, 32, 33, 34, 36, 38),
        *(39, 40, 42, 43, 44, 48, 49, 75, 76, 77, 78, 79, 80),
    ),
    15: (
        *(1, 2, 3, 5, 6, 8, 9, 22, 24, 26, 30, 31, 39, 40, 41, 42, 44, 46),
        *(47, 48, 50, 51, 52, 56, 57, 87, 88, 89, 90, 91, 92),
    ),
}
DEBUG_BYTES = 8 * 112
# Structures of CPython are smaller.
_MOST_OF_A_RUNTIME, _MOST_OF_A_STRUCTURE = 1 << 24, 1 << 16
# Bits of the interned state of a str, below those of its kind and storage.
_INTERNED_BITS, _INTERNED_BITS_FREE = 2, 8
_FREE_BYTES_SINCE = 14


class ThreadLayout(NamedTuple):
    """Offsets to find a thread's state from the list of interpreters.

    Attributes:
        interpreters: _PyRuntime: the first interpreter.
        next_interpreter, threads: PyInterpreterState: the next one, and its first thread.
        next_thread, number: PyThreadState: the next one, and its pthread_self().
        native: PyThreadState: its gettid(); NO_OFFSET before 3.11.
    """

    interpreters: int
    next_interpreter: int
    threads: int
    next_thread: int
    number: int
    native: int = NO_OFFSET


_OLD_THREADS = ThreadLayout(32, 0, 8, 8, 176)
THREADS = {
    8: _OLD_THREADS,
    9: _OLD_THREADS,
    10: _OLD_THREADS,
    11: ThreadLayout(40, 0, 16, 8, 152, 160),
    12: ThreadLayout(40, 0, 72, 8, 136, 144),
}
# The offset of gettid() in struct pthread (pthread_self()), of glibc and of musl, on x86-64.
PTHREAD_TID_OFFSETS = (720, 48)


class Layouts(NamedTuple):
    """All layouts of a build of CPython 3.`minor`."""

    minor: int
    frame: FrameLayout
    code: CodeLayout
    threads: ThreadLayout


def known_layouts(minor: int) -> Layouts | None:
    """Return the layouts of a version without _Py_DebugOffsets; None if it is unknown."""
    if minor not in FRAMES:
        return None
    return Layouts(minor, FRAMES[minor], CODE[minor], THREADS[minor])


def described_layouts(head: bytes) -> Layouts | None:
    """Return the layouts that _Py_DebugOffsets describes; None if they are not plausible.

    Args:
        head: the first `DEBUG_BYTES` of _PyRuntime, untrusted.
    """
    minor = debug_minor(head)
    places = _DEBUG_WORDS.get(min(minor, max(_DEBUG_WORDS)))
    if places is None:
        return None
    words = struct.unpack_from(f"<{DEBUG_BYTES // 8}Q", head)
    at = {name: words[place] for name, place in zip(_DEBUG_NAMES, places, strict=True)}
    # Word 0, the cookie, represents offsets that a version does not have.
    has_copies = bool(at["free_threaded"]) and 0 not in places
    if not _is_plausible(at, has_copies=has_copies):
        return None
    interned = _INTERNED_BITS
    if at["free_threaded"] and minor >= _FREE_BYTES_SINCE:
        interned = _INTERNED_BITS_FREE
    fields = at["previous"], at["executable"], at["instruction"], at["owner"] & -8
    frame = FrameLayout(
        thread_frame=at["frame"],
        cframe=NO_OFFSET,
        base=0,
        size=max(*fields, at["bytecode_index"] & -8 if has_copies else 0) + 8,
        code=at["executable"],
        back=at["previous"],
        last=at["instruction"],
        owner=at["owner"],
        last_is_address=1,
        copy=at["bytecode_index"] if has_copies else NO_OFFSET,
    )
    code = CodeLayout(
        file=at["file"],
        name=at["name"],
        lines=at["lines"],
        first_line=at["first_line"],
        signature=at["first_line"],
        instructions=at["bytecode"],
        ascii=at["ascii_size"],
        compact=at["ascii_size"] + 16,
        length=at["str_length"],
        bytes=at["bytes_text"],
        state_shift=interned - _INTERNED_BITS,
        copies=at["bytecodes"] if has_copies else NO_OFFSET,
    )
    names = ("interpreters", "next_interpreter", "threads", "next_thread", "thread_id", "native_id")
    return Layouts(minor, frame, code, ThreadLayout(*(at[name] for name in names)))


def debug_minor(head: bytes) -> int:
    """Return the minor version of CPython 3 of a _Py_DebugOffsets, -1 for none."""
    if len(head) < DEBUG_BYTES or not head.startswith(DEBUG_COOKIE):
        return -1
    (version,) = struct.unpack_from("<Q", head, 8)
    return minor_of(version)


def minor_of(version: int) -> int:
    """Return the minor version in a PY_VERSION_HEX of CPython 3, -1 for another major version."""
    return version >> 16 & 0xFF if version >> 24 == 3 else -1


def _is_plausible(at: dict[str, int], *, has_copies: bool) -> bool:
    """Return whether all fields are inside their structures, which have plausible sizes."""
    if not 0 < at["interpreters"] < at["runtime"] <= _MOST_OF_A_RUNTIME:
        return False
    inside = {
        "interpreter": ("next_interpreter", "threads"),
        "thread": ("next_thread", "frame", "thread_id", "native_id"),
        "frame_size": ("previous", "executable", "instruction"),
        "code_size": ("file", "name", "lines", "bytecode"),
        "str_size": ("str_length", "ascii_size"),
    }
    if has_copies:
        inside["code_size"] += ("bytecodes",)
    for size, fields in inside.items():
        most = _MOST_OF_A_RUNTIME if size == "interpreter" else _MOST_OF_A_STRUCTURE
        if not 0 < at[size] <= most or any(at[one] % 8 or at[one] >= at[size] for one in fields):
            return False
    reach = [at[one] for one in ("previous", "executable", "instruction")]
    reach += [at["owner"], at["bytecode_index"] if has_copies else 0]
    return (
        max(reach) <= MOST_FRAME_BYTES - 8
        and at["first_line"] + 4 < at["code_size"]
        # The walker reads the length and the state of a str in one piece.
        and at["str_state"] == at["str_length"] + 16
        and at["bytes_length"] == at["str_length"] < at["bytes_text"] < _MOST_OF_A_STRUCTURE
    )
