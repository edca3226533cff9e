"""Ruby's structures as data: the offsets of the fields that lead from a thread to its frames.

By version of CRuby, for 64-bit builds. In all versions the execution context begins with the VM
stack, its size in words, and the innermost control frame.

Source: ``vm_core.h``, ``iseq.h``, ``iseq.c``, ``method.h``, ``symbol.c``, ``internal/class.h``,
``include/ruby/st.h`` and ``include/ruby/internal/core/rstring.h`` of CRuby 2.7 to 3.4.
"""

from __future__ import annotations

from prospect.records import NamedTuple

# Before 3.0: the context's thread, and its pthread_t, which is the thread pointer in glibc.
CONTEXT_THREAD, THREAD_ID = 56, 72
# Flags of an object: its type, and the kind of an internal one, such as a block that is a C
# function, or an instruction sequence with its body at ISEQ_BODY.
TYPE_MASK, TYPE_CLASS, TYPE_STRING, TYPE_ARRAY = 0x1F, 0x02, 0x05, 0x07
IMEMO_MASK, IMEMO_IFUNC, IMEMO_METHOD, IMEMO_ISEQ = 0xF01F, 0x401A, 0x601A, 0x701A
ISEQ_BODY = 16
# A control frame: its environment. The method entry is before that. The flags in it begin with the
# kind of the frame: FRAME_OF_C for a method that is a C function.
FRAME_ENVIRONMENT, METHOD_BEFORE = 32, 16
FRAME_KIND_MASK, FRAME_OF_C = 0x7FFF0001, 0x55550001
# Method entry: flags, class, definition, name as called, owner. Definition: its own name.
METHOD_BYTES, DEFINITION_NAME = 40, 32
# A name is a number: that of an operator, or above its lowest bits. The symbol table: the array of
# arrays that have a string and a symbol for each number.
OPERATOR_END, NAME_SHIFT = 1024, 4
SYMBOL_ARRAYS, IN_ARRAY_SHIFT = 16, 9
# An array: whether its elements are in the object; its length, capacity, and elements' address.
ARRAY_INSIDE, ARRAY_LENGTH = 1 << 13, 16
# A class of up to 3.1: its extension, and in that the table of its variables. The table has the end
# of its entries, then their address; each is hash, key, value. An object's class.
CLASS_EXTENSION, CLASS_VARIABLES = 24, 8
TABLE_ENTRIES, ENTRY_BYTES = 40, 24
OBJECT_CLASS = 8
# In the mark of a frame: it is that of a C function.
IN_C = 2
# rb_iseq_constant_body: its kind and the words of its code (32 bits each), the code, and from its
# location the path, the label, the first line.
BODY_SIZE, BODY_CODE = 4, 8
BODY_PATH, BODY_LABEL, BODY_FIRST = 64, 80, 88
# Elements of an array that is stored in its object, such as a path and its real path.
ARRAY_ELEMENTS = 16
# RString: whether the text is elsewhere; before 3.2 the flags have a short one's length.
STRING_ELSEWHERE = 1 << 13
STRING_LENGTH, STRING_POINTER = 16, 24
SHORT_LENGTH_SHIFT, SHORT_LENGTH_MASK = 14, 0x1F
# struct succ_index_table: 7 bits for each of the first positions, nine of them in a word; then
# blocks of BLOCK_POSITIONS positions.
NEAR_POSITIONS, NEAR_BYTES, NEAR_IN_WORD, NEAR_BITS = 54, 48, 9, 7
BLOCK_POSITIONS, BLOCK_BYTES = 512, 80


class RubyLayout(NamedTuple):
    """Offsets to read frames of a version.

    Attributes:
        frame_bytes: of a control frame.
        insns_info: rb_iseq_constant_body: lines, positions, their number, the table of positions.
        line_bytes: of one entry of the lines.
        short_text: RString: the text, if it is in the object.
        has_short_length: whether its length is in the flags then.
        has_fixnum: whether the first line is a Ruby number.
        singleton: the flag of classes that have the methods of one object.
        attached: the object of such a class; 0 if it is in the table of its variables, or unknown.
    """

    frame_bytes: int
    insns_info: int
    line_bytes: int
    short_text: int
    has_short_length: int
    has_fixnum: int
    singleton: int = 1 << 12
    attached: int = 0


_OLD = RubyLayout(56, 120, 8, 16, 1, 1)
LAYOUTS = {
    0x207: _OLD,
    0x300: _OLD,
    0x301: _OLD._replace(frame_bytes=64, line_bytes=12),
    0x302: RubyLayout(64, 112, 12, 24, 0, 0),
    0x303: RubyLayout(56, 112, 12, 24, 0, 0, attached=128),
    0x304: RubyLayout(56, 112, 12, 24, 0, 0, singleton=1 << 13, attached=128),
}
