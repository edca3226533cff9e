"""CPython's own structures as data: where the fields stand that lead from a thread to its frames.

By minor version of CPython 3, for 64-bit builds with the global interpreter lock. They are the same
in all releases of a minor version: extensions are compiled against them.

Defined by: ``Include/internal/pycore_frame.h``, ``Include/cpython/{pystate,code,unicodeobject}.h``
and ``Include/internal/pycore_runtime.h`` of CPython 3.8 to 3.14, checked with offsetof().
"""

from __future__ import annotations

from prospect.records import NamedTuple

NO_OFFSET = 0xFFFFFFFF
# struct pthread of glibc on x86-64: where the first 32 keys' values stand, from the thread pointer;
# 16 bytes a key, the value in the second 8.
GLIBC_KEYS_OFFSET = 0x310
# Of PyBytesObject: its bytes.
BYTES_OFFSET = 32
# Of all objects with a length: it stands behind the reference count and the type.
LENGTH_OFFSET = 16
# What `owner` says of a frame that stands for a call from C, which is no Python function (3.12 on).
OWNED_BY_C = 3


class FrameLayout(NamedTuple):
    """How frames are found and read.

    Attributes:
        thread_frame: PyThreadState: its frame, or what holds that.
        cframe: in what `thread_frame` leads to, the frame; NO_OFFSET where that is the frame.
        base, size: which bytes of a frame are read; the rest are offsets in them.
        code: its code object; the two low bits are no part of the address.
        back: the frame that called it.
        last: the last instruction; an address where `last_is_address`, else a number.
        owner: the byte that marks where a run of frames begins: `is_entry` in 3.11.
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


class CodeLayout(NamedTuple):
    """How code objects are read.

    Attributes:
        file, name, lines: pointers to str, str, bytes; `name` is the qualified one from 3.11 on.
        first_line: i32.
        signature: 8 bytes with the first line among them, which distinguish code objects that have
            had the same address.
        instructions: where the first instruction stands; 0 where frames have numbers.
        ascii, compact: where the text of a str begins, of ASCII and of other compact ones.
    """

    file: int
    name: int
    lines: int
    first_line: int
    signature: int
    instructions: int
    ascii: int
    compact: int


_OLD = FrameLayout(24, NO_OFFSET, 24, 88, 8, 0, 80, 0, 0)
_OLD_CODE = CodeLayout(104, 112, 120, 40, 36, 0, 48, 72)
FRAMES = {
    8: _OLD,
    9: _OLD,
    10: _OLD._replace(size=80, last=72),
    11: FrameLayout(56, 8, 0, 72, 32, 48, 56, 68, 1),
    12: FrameLayout(56, 0, 0, 72, 0, 8, 56, 70, 1),
    13: FrameLayout(72, NO_OFFSET, 0, 72, 0, 8, 56, 70, 1),
    14: FrameLayout(72, NO_OFFSET, 0, 80, 0, 8, 56, 74, 1),
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
# Where _PyRuntime has the key of thread states, as a check on what its reader's code says.
KEY_OFFSETS = {8: 1392, 9: 584, 10: 584, 11: 592, 12: 1544, 13: 2160, 14: 2336}
