"""V8's structures as data: the offsets that lead from a stack frame to a function's name and line.

V8 exports numbers for debuggers of core files, symbols that begin with ``v8dbg_``. They have the
types of objects, and most offsets. The others are known by version here. All are for 64-bit builds
without compressed pointers, as Node's are.

An object's address is tagged: its lowest bit is 1. A small integer (Smi) has its value in the upper
half of a word, and 0 in the lower.

Defined by: ``tools/gen-postmortem-metadata.py`` for the symbols; ``frame-constants.h`` and
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
# A version has one of these names for each.
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
    "stream_type": (
        "type_InstructionStream__INSTRUCTION_STREAM_TYPE",
        "type_Code__CODE_TYPE",
    ),
    "trusted_bytes_type": (
        "type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE",
        "type_ByteArray__BYTE_ARRAY_TYPE",
    ),
    "bytes_type": ("type_ByteArray__BYTE_ARRAY_TYPE",),
    "interpreter_type": ("type_InterpreterData__INTERPRETER_DATA_TYPE",),
}
SYMBOLS = tuple(_PREFIX + one.encode() for names in _EXPORTED.values() for one in names)
VERSION_SYMBOLS = (b"_ZN2v88internal7Version6major_E", b"_ZN2v88internal7Version6minor_E")

# While JavaScript runs, r13 points so far into its Isolate.
ISOLATE_REGISTER_BIAS = 128
# From a frame's address. Frames that are not of JavaScript have a Smi instead of the context: twice
# their type, of which the first two are entries from C++.
FRAME_FUNCTION, FRAME_CONTEXT, FRAME_CALLER, FRAME_RETURN = -16, -8, 0, 8
FRAME_BYTECODE, FRAME_OFFSET = -32, -40
ENTRY_TYPES = (1, 2)
EXIT_TYPE = 3  # of runtime functions in C++
FRAME_TARGET = 24  # of a builtin in C++: its function
# Where the frame of an entry keeps `entered` of what is further out and, from 12.9 on, `called`.
ENTRY_OUTER, ENTRY_CALLED = -64, -72
# The fields that are the same in all of these versions.
MAP_TYPE = 12
SHARED_DATA = 8
SCRIPT_SOURCE, SCRIPT_NAME = 8, 16
STRING_LENGTH, STRING_TEXT = 12, 16
STRING_FIRST, STRING_SECOND = 16, 24
INTERPRETER_BYTECODE = 8
ARRAY_LENGTH, ARRAY_DATA = 8, 16
WRAPPED_SHARED = 8
CODE_KIND_MASK = 15
# In the type of a string: how it is stored, and whether a character takes one byte.
STRING_KIND, STRING_ONE_BYTE = 7, 8
SEQUENTIAL, CONS, EXTERNAL, SLICED, THIN = 0, 1, 2, 3, 5
# A scope with more variables than that has one word for each, instead of two.
MOST_INLINE_VARIABLES = 75
_POSITIONS_FIRST = 5
SCOPE_POSITION = 3

_MOST_OFFSET = 256
_MOST_TYPE = 1 << 16


# Frames in a recording, see `abi.runtime_frames`: what their `last` is. The innermost one may be
# marked as one that runs; otherwise it has called C++.
ENTRY = 1  # the entry from C++, at an address in the builtins: nothing
INTERPRETED = 2  # an offset in the bytecode
COMPILED = 3  # the lower half of an address, 0 in a builtin
PLACED = 4  # a line: made of a compiled one by a report
RUNS = 64
KIND_MASK = RUNS - 1
# A piece of compiled code is in a recording as the lines of a function whose address is that of its
# instructions, an even number, with the SharedFunctionInfo as the 8 bytes that are signed: `CODE`,
# then rows, nodes, and functions. A row is where a node begins in the instructions: a function, a
# line of it, and the node that it is inlined in. A function has an address and a signature.
CODE = struct.Struct("<IIII")  # size of the instructions, numbers of rows, nodes and functions
CODE_ROW = struct.Struct("<II")
CODE_NODE = struct.Struct("<IIi")
CODE_FUNCTION = struct.Struct("<QII")
# The file of functions that V8 itself brings.
NO_FILE = "[V8]"


class Layout(NamedTuple):
    """How V8's objects are read, in one version.

    The fields from `js_shared` on are what the symbols of a file say. Without these it is what only
    the version tells.

    Attributes:
        entered: Isolate: the frame from which JavaScript called C++; 0 while it runs itself.
        called: the same, for C functions that are called without their own frame.
        outermost: the same, the outermost entry from C++; 0 while there is none.
        builtins: the same, the addresses of builtins, all in one piece of code.
        builtins_bytes: size of that piece.
        first_bytes: size of the first one, by which an Isolate is known.
        entry: where in that piece the entry from C++ calls JavaScript.
        line_table: BytecodeArray: its table of source positions.
        instructions: where it has its instructions.
        code_bytecode: Code: the bytecode that it was made from, or how it was optimized.
        code_table: Code: its table of source positions.
        code_start: Code: the address of its instructions; 0 if they are in it.
        code_begin: where its instructions begin in what precedes them: Code, or InstructionStream.
        code_flags, code_size: Code: 32 bits each, the first one with its kind.
        baseline: number of the kind that is not optimized; those above it are.
        literals: in what tells how it was optimized, the word with the inlined functions; those
            with the function itself and with the places of inlined calls have higher numbers by 4.
        not_string: types below this one are strings'.
        has_statement_bit: tables of source positions tell statements by a bit, not by a sign.
        version: as 0x0D06.
        js_shared: JSFunction: what all closures of a function share.
        name, script, flags: SharedFunctionInfo: the name or the scope, the script, and 32 bits of
            flags before the number that the function has in its script.
        first_variable: ScopeInfo: how many words precede its variables, without its map.
        builtin_exit: type of the frames of builtins that are in C++.
        function_type, shared_type, scope_type, script_type, bytecode_type, code_type,
            stream_type, trusted_bytes_type, bytes_type, interpreter_type: numbers of these objects'
            types. A stream is what precedes instructions. Those of a stream and of trusted bytes
            may be the same as others.
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
        """Whether a scope has its place in the source before its variables (13.6 on)."""
        return self.first_variable >= _POSITIONS_FIRST


_VERSIONS = {
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


def known_versions() -> list[tuple[int, int]]:
    """Return the versions that are known, the oldest first."""
    return sorted(_VERSIONS)


def builtins_place(version: int) -> tuple[int, int]:
    """Return the size of a version's builtins, and where in them C++ enters; 0 for unknown ones.

    Args:
        version: as 0x0D06.
    """
    known = _VERSIONS.get((version >> 8, version & 0xFF))
    return (known.builtins_bytes, known.entry) if known else (0, 0)


def layout_for(version: tuple[int, int], numbers: Mapping[bytes, int]) -> Layout | None:
    """Return the layout of a version; None if it is not known, or the numbers are not plausible.

    Args:
        version: of V8, its first two numbers.
        numbers: by those of `SYMBOLS` that the file has. They may be anything.
    """
    known = _VERSIONS.get(version)
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
