"""V8's structures as data: the offsets that lead from a stack frame to a function's name and line.

V8 exports numbers for debuggers of core files: symbols that begin with ``v8dbg_``. They have the
types of objects, and most offsets. This module has the others by version. All are for 64-bit builds
without compressed pointers, such as Node's.

An object's address is tagged: its lowest bit is 1. A small integer (Smi) has its value in the upper
half of a word, and 0 in the lower.

Source: ``tools/gen-postmortem-metadata.py`` for the symbols; ``frame-constants.h`` and
``isolate-data.h`` in ``src/execution`` for frames and the beginning of an Isolate;
``src/objects/*.tq`` for objects; V8 of Node 16 (9.4) to 26 (14.6).
"""

from __future__ import annotations

import struct

from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = b"v8dbg_"
# A version has one of the names for each field.
_EXPORTED = {
    "js_shared": ("class_JSFunction__shared__SharedFunctionInfo",),
    "name": (
        "class_SharedFunctionInfo__name_or_scope_info__Object",
        "class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
        "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
    ),
    "script": (
        "class_SharedFunctionInfo__script_or_debug_info__HeapObject",
        "class_SharedFunctionInfo__script__Tagged_HeapObject_",
    ),
    "flags": ("class_SharedFunctionInfo__flags__int",),
    "first_variable": ("scopeinfo_idx_first_vars",),
    "builtin_exit": ("frametype_BuiltinExitFrame",),
    "function_type": ("type_JSFunction__JS_FUNCTION_TYPE",),
    "shared_type": ("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE",),
    "scope_type": ("type_ScopeInfo__SCOPE_INFO_TYPE",),
    "script_type": ("type_Script__SCRIPT_TYPE",),
    "bytecode_type": ("type_BytecodeArray__BYTECODE_ARRAY_TYPE",),
    "code_type": ("type_Code__CODE_TYPE",),
    "stream_type": ("type_InstructionStream__INSTRUCTION_STREAM_TYPE", "type_Code__CODE_TYPE"),
    "trusted_bytes_type": (
        "type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE",
        "type_ByteArray__BYTE_ARRAY_TYPE",
    ),
    "bytes_type": ("type_ByteArray__BYTE_ARRAY_TYPE",),
    "interpreter_type": ("type_InterpreterData__INTERPRETER_DATA_TYPE",),
}
SYMBOLS = tuple(_PREFIX + one.encode() for names in _EXPORTED.values() for one in names)
VERSION_SYMBOLS = (b"_ZN2v88internal7Version6major_E", b"_ZN2v88internal7Version6minor_E")

# While JavaScript runs, r13 points this many bytes into its Isolate.
ISOLATE_REGISTER_BIAS = 128
# Offsets from a frame's address. Frames other than JavaScript's have a Smi instead of the context:
# twice their type. The first two types are entries from C++.
FRAME_FUNCTION, FRAME_CONTEXT, FRAME_CALLER, FRAME_RETURN = -16, -8, 0, 8
FRAME_BYTECODE, FRAME_OFFSET = -32, -40
ENTRY_TYPES = (1, 2)
EXIT_TYPE = 3  # of runtime functions in C++
FRAME_TARGET = 24  # of a builtin in C++: its function
# In the frame of an entry: `entered` of the frames further out and, from 12.9 on, `called`.
ENTRY_OUTER, ENTRY_CALLED = -64, -72
# Offsets that are the same in all of these versions.
MAP_TYPE = 12
SHARED_DATA = 8
SCRIPT_SOURCE, SCRIPT_NAME = 8, 16
STRING_LENGTH, STRING_TEXT = 12, 16
STRING_FIRST, STRING_SECOND = 16, 24
INTERPRETER_BYTECODE = 8
ARRAY_LENGTH, ARRAY_DATA = 8, 16
WRAPPED_SHARED = 8
CODE_KIND_MASK = 15
# In the type of a string: its representation, and whether a character takes one byte.
STRING_KIND, STRING_ONE_BYTE = 7, 8
SEQUENTIAL, CONS, EXTERNAL, SLICED, THIN = 0, 1, 2, 3, 5
# A scope with more variables has one word for each, instead of two.
MOST_INLINE_VARIABLES = 75
_POSITIONS_FIRST = 5
SCOPE_POSITION = 3

_MOST_OFFSET = 256
_MOST_TYPE = 1 << 16


# Frames in a recording, see `abi.runtime_frames`: the meaning of their `last`. The innermost one
# may be marked as running; otherwise it has called C++.
ENTRY = 1  # the entry from C++, at an address in the builtins: none
INTERPRETED = 2  # an offset in the bytecode
COMPILED = 3  # the lower half of an address, 0 in a builtin
PLACED = 4  # a line, which a report made of a compiled one
RUNS = 64
KIND_MASK = RUNS - 1
# A recording has a piece of compiled code as the lines of a function. The function's address is
# that of the instructions, an even number. Its 8 signed bytes are the SharedFunctionInfo. The lines
# are `CODE`, then rows, nodes, and functions. A row is an offset in the instructions and a node. A
# node is a function, a line of it, and the node that it is inlined in. A function is an address and
# a signature.
CODE = struct.Struct("<IIII")  # size of the instructions, numbers of rows, nodes and functions
CODE_ROW = struct.Struct("<II")
CODE_NODE = struct.Struct("<IIi")
CODE_FUNCTION = struct.Struct("<QII")
# The file of V8's own functions.
NO_FILE = "[V8]"


class Layout(NamedTuple):
    """Offsets and types to read the objects of a version of V8.

    The symbols of a file give the fields from `js_shared` on, the version all others.

    Attributes:
        entered: Isolate: the frame from which JavaScript called C++; 0 while it runs itself.
        called: Isolate: the same, for C functions that are called without their own frame.
        outermost: Isolate: the outermost entry from C++; 0 while there is none.
        builtins: Isolate: the addresses of builtins, all in one piece of code.
        builtins_bytes: size of that piece.
        first_bytes: size of the first builtin, which identifies an Isolate.
        entry: offset in that piece at which the entry from C++ calls JavaScript.
        line_table: BytecodeArray: its table of source positions.
        instructions: BytecodeArray: its instructions.
        code_bytecode: Code: its bytecode, or its data of optimization.
        code_table: Code: its table of source positions.
        code_start: Code: the address of its instructions; 0 if they are in it.
        code_begin: Code or InstructionStream: its instructions.
        code_flags, code_size: Code: 32 bits each, the first one with its kind.
        baseline: number of the kind that is not optimized; higher kinds are.
        literals: data of optimization: the word with the inlined functions; those with the function
            itself and with the positions of inlined calls have higher numbers by 4.
        not_string: types below this one are those of strings.
        has_statement_bit: tables of source positions mark statements by a bit, not by a sign.
        version: as 0x0D06.
        js_shared: JSFunction: the SharedFunctionInfo of all closures of a function.
        name, script, flags: SharedFunctionInfo: the name or the scope, the script, and 32 bits of
            flags before the number that the function has in its script.
        first_variable: ScopeInfo: the number of words before its variables, without its map.
        builtin_exit: type of the frames of builtins in C++.
        function_type, shared_type, scope_type, script_type, bytecode_type, code_type,
            stream_type, trusted_bytes_type, bytes_type, interpreter_type: numbers of these objects'
            types. A stream precedes instructions. Those of a stream and of trusted bytes may be the
            same as others.
    """

    entered: int
    called: int
    outermost: int
    builtins: int
    builtins_bytes: int
    first_bytes: int
    entry: int
    line_table: int
    instructions: int
    code_bytecode: int
    code_table: int
    code_start: int
    code_begin: int
    code_flags: int
    code_size: int
    baseline: int
    literals: int
    not_string: int = 128
    has_statement_bit: int = 0
    version: int = 0
    js_shared: int = 0
    name: int = 0
    script: int = 0
    flags: int = 0
    first_variable: int = 0
    builtin_exit: int = 0
    function_type: int = 0
    shared_type: int = 0
    scope_type: int = 0
    script_type: int = 0
    bytecode_type: int = 0
    code_type: int = 0
    stream_type: int = 0
    trusted_bytes_type: int = 0
    bytes_type: int = 0
    interpreter_type: int = 0

    @property
    def has_positions_first(self) -> bool:
        """Whether a scope has its source position before its variables (13.6 on)."""
        return self.first_variable >= _POSITIONS_FIRST


VERSIONS = {
    (9, 4): Layout(
        *(0x36B8, 0x20, 0x36E0, 0x3708, 0x13A100, 0x540, 0x8C43, 32, 54),
        *(16, 24, 0, 96, 48, 40, 11, 2, 64),
    ),
    (9, 6): Layout(
        *(0x37A8, 0x130, 0x37D0, 0x37F8, 0x146E00, 0x340, 0x9E83, 32, 54),
        *(16, 24, 0, 128, 48, 40, 11, 2, 64),
    ),
    (10, 2): Layout(
        *(0x4538, 0x100, 0x4558, 0x4588, 0x15AA00, 0x340, 0x9DC3, 32, 56),
        *(16, 24, 0, 128, 48, 40, 11, 2),
    ),
    (10, 8): Layout(
        *(0x4800, 0xD8, 0x4820, 0x4850, 0x178B00, 0x340, 0x9B83, 32, 54),
        *(16, 24, 0, 128, 48, 40, 11, 2),
    ),
    (11, 3): Layout(
        *(0x180, 0xE8, 0x1A0, 0x4A48, 0x192000, 0x340, 0x9E03, 32, 54),
        *(16, 24, 40, 16, 48, 56, 11, 2),
    ),
    (11, 8): Layout(
        *(0x188, 0xF0, 0x1A8, 0x4C40, 0x1C3B00, 0x340, 0xA843, 32, 52),
        *(8, 16, 32, 32, 40, 44, 11, 2),
    ),
    (12, 4): Layout(
        *(0x110, 0xF0, 0x1A8, 0x4E88, 0x1E0000, 0x340, 0xB203, 24, 64),
        *(8, 16, 40, 32, 48, 52, 10, 2),
    ),
    (12, 9): Layout(
        *(0x110, 0xF0, 0x1A8, 0x5050, 0x1E4700, 0x400, 0xAC1B, 24, 64),
        *(8, 16, 40, 32, 48, 52, 10, 2),
    ),
    (13, 6): Layout(
        *(0x140, 0x128, 0x1D8, 0x5A70, 0x205000, 0x400, 0xAF67, 24, 64),
        *(8, 16, 40, 32, 52, 56, 10, 3),
    ),
    (14, 1): Layout(
        *(0x148, 0x130, 0x1E0, 0x5230, 0x208300, 0x400, 0xAFA7, 24, 64),
        *(8, 16, 40, 32, 52, 56, 10, 3, 128, 1),
    ),
    (14, 6): Layout(
        *(0x148, 0x130, 0x1E0, 0x5C20, 0x215000, 0x400, 0xAF67, 24, 64),
        *(8, 16, 40, 32, 52, 56, 11, 3, 128, 1),
    ),
}


def builtins_place(version: int) -> tuple[int, int]:
    """Return the size of the builtins of a version, such as 0x0D06, and the offset of its entry.

    Both are 0 for an unknown version.
    """
    known = VERSIONS.get((version >> 8, version & 0xFF))
    return (known.builtins_bytes, known.entry) if known else (0, 0)


def layout_for(version: tuple[int, int], numbers: Mapping[bytes, int]) -> Layout | None:
    """Return the layout of a version; None if it is unknown, or the numbers are not plausible.

    Args:
        version: the first two numbers of V8's version.
        numbers: untrusted values of those of `SYMBOLS` that the file has.
    """
    known = VERSIONS.get(version)
    if known is None:
        return None
    found = {}
    for field, names in _EXPORTED.items():
        symbols = (_PREFIX + one.encode() for one in names)
        found[field] = next((numbers[one] for one in symbols if one in numbers), -1)
    layout = known._replace(version=version[0] << 8 | version[1], **found)
    return layout if _is_plausible(layout) else None


def _is_plausible(layout: Layout) -> bool:
    pointers = layout.js_shared, layout.name, layout.script
    types = layout[layout._fields.index("function_type") :]
    distinct = set(types) - {layout.stream_type, layout.trusted_bytes_type}
    return (
        all(0 < one < _MOST_OFFSET and one % 8 == 0 for one in (*pointers, layout.flags))
        and all(layout.not_string <= one < _MOST_TYPE for one in types)
        and len(distinct) >= len(types) - 4
        and 3 <= layout.first_variable <= _POSITIONS_FIRST
        and 0 < layout.builtin_exit < _MOST_OFFSET
    )
