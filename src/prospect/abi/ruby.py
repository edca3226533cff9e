"""Ruby's structures as data: the offsets of the fields that lead from a thread to its frames.

By version of CRuby, for 64-bit builds. The execution context begins with the VM stack, its size in
words, and the innermost control frame, in all of them.

Defined by: ``vm_core.h``, ``iseq.h``, ``iseq.c`` and ``include/ruby/internal/core/rstring.h`` of
CRuby 2.7 to 3.4.
"""

from __future__ import annotations

from prospect.records import NamedTuple

# Before 3.0: the context's thread, and its pthread_t, which is the thread pointer in glibc.
CONTEXT_THREAD, THREAD_ID = 56, 72
# Flags of an object: its type, and the kind of an internal one: a block that is a C function,
# or an instruction sequence, which has its body at an offset.
TYPE_MASK, TYPE_STRING, TYPE_ARRAY = 0x1F, 0x05, 0x07
IMEMO_MASK, IMEMO_IFUNC, IMEMO_ISEQ = 0xF01F, 0x401A, 0x701A
ISEQ_BODY = 16
# rb_iseq_constant_body: its kind and how many words of code it has (32 bits each), the code, and
# from its location the path, the label, the first line.
BODY_SIZE, BODY_CODE = 4, 8
BODY_PATH, BODY_LABEL, BODY_FIRST = 64, 80, 88
# Elements of an array that is stored in its object, as a path and its real path are.
ARRAY_ELEMENTS = 16
# RString: whether the text is elsewhere; a short one's length in the flags before 3.2.
STRING_ELSEWHERE = 1 << 13
STRING_LENGTH, STRING_POINTER = 16, 24
SHORT_LENGTH_SHIFT, SHORT_LENGTH_MASK = 14, 0x1F
# struct succ_index_table: 7 bits for each of the first positions, nine of them in a word; then
# blocks of so many positions.
NEAR_POSITIONS, NEAR_BYTES, NEAR_IN_WORD, NEAR_BITS = 54, 48, 9, 7
BLOCK_POSITIONS, BLOCK_BYTES = 512, 80


class RubyLayout(NamedTuple):
    """How frames of a version are read.

    Attributes:
        frame_bytes: of a control frame.
        insns_info: rb_iseq_constant_body: lines, positions, how many, the table of positions.
        line_bytes: of one entry of the lines.
        short_text: RString: where the text begins if it is in the object.
        has_short_length: whether its length is in the flags then.
        has_fixnum: whether the first line is a Ruby number.
    """

    frame_bytes: int
    insns_info: int
    line_bytes: int
    short_text: int
    has_short_length: int
    has_fixnum: int


_OLD = RubyLayout(56, 120, 8, 16, 1, 1)
LAYOUTS = {
    0x207: _OLD,
    0x300: _OLD,
    0x301: _OLD._replace(frame_bytes=64, line_bytes=12),
    0x302: RubyLayout(64, 112, 12, 24, 0, 0),
    0x303: RubyLayout(56, 112, 12, 24, 0, 0),
    0x304: RubyLayout(56, 112, 12, 24, 0, 0),
}
