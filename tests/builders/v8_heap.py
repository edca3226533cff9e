"""Objects of V8 in the memory of a played process, as `capture.v8` reads them."""

from __future__ import annotations

import struct

from prospect.abi import v8
from prospect.capture.runtimes.process_memory import ProcessMemory, UnreadableError

BASE, SIZE = 0x7F00_0000_0000, 0x40000
VERSIONS = tuple(v8.VERSIONS)
TYPES = {
    "JSFunction__JS_FUNCTION_TYPE": 2066,
    "SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE": 262,
    "ScopeInfo__SCOPE_INFO_TYPE": 261,
    "Script__SCRIPT_TYPE": 167,
    "BytecodeArray__BYTECODE_ARRAY_TYPE": 191,
    "Code__CODE_TYPE": 245,
    "InstructionStream__INSTRUCTION_STREAM_TYPE": 252,
    "TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE": 196,
    "ByteArray__BYTE_ARRAY_TYPE": 190,
    "InterpreterData__INTERPRETER_DATA_TYPE": 159,
}
ODDBALL, FIXED_ARRAY = 131, 175
ONE_BYTE = v8.STRING_ONE_BYTE


def exported(version):
    """The numbers that a file with a version exports."""
    is_new, is_newest = version >= (12, 4), version >= (12, 9)
    offset = 8 * is_newest
    kinds = {"InstructionStream": version >= (11, 3), "TrustedByteArray": is_new}
    numbers = {
        "class_JSFunction__shared__SharedFunctionInfo": 32 if version >= (11, 8) else 24,
        "class_SharedFunctionInfo__name_or_scope_info__Object": 16 + offset,
        "class_SharedFunctionInfo__script_or_debug_info__HeapObject": 32 + offset,
        "class_SharedFunctionInfo__flags__int": 48 + offset,
        "scopeinfo_idx_first_vars": 5 if is_newest else 3,
        "frametype_BuiltinExitFrame": 25,
    }
    numbers |= {
        f"type_{name}": number
        for name, number in TYPES.items()
        if kinds.get(name.partition("__")[0], True)
    }
    return {b"v8dbg_" + name.encode(): number for name, number in numbers.items()}


def layout_of(version):
    """The layout of a version."""
    return v8.layout_for(version, exported(version))


class Heap(ProcessMemory):
    """One piece of memory, which a test fills with objects."""

    def __init__(self, version):
        super().__init__(1)
        self.layout = layout_of(version)
        self.content = bytearray(SIZE)
        self._at = BASE + 0x100
        self._maps = {}

    def read(self, address, size):
        if not BASE <= address <= BASE + SIZE - size:
            raise UnreadableError
        return bytes(self.content[address - BASE : address - BASE + size])

    def put(self, address, *words):
        """Write 64 bits each."""
        at = address - BASE
        self.content[at : at + 8 * len(words)] = struct.pack(f"<{len(words)}Q", *words)

    def room(self, size, align=16):
        """Take memory."""
        at = -(-self._at // align) * align
        self._at = at + size
        return at

    def map_of(self, kind):
        """The map of objects of a type."""
        if kind not in self._maps:
            at = self.room(32)
            self._maps[kind] = at + 1
            struct.pack_into("<H", self.content, at - BASE + v8.MAP_TYPE, kind)
        return self._maps[kind]

    def object(self, kind, *words):
        """An object of a type: its tagged address."""
        at = self.room(8 + 8 * len(words))
        self.put(at, self.map_of(kind), *words)
        return at + 1

    def string(self, text, stored=v8.SEQUENTIAL):
        """A string with a text of its own."""
        width = 1 if text.isascii() else 2
        data = text.encode("latin-1" if width == 1 else "utf-16-le")
        kind = stored | (ONE_BYTE if width == 1 else 0)
        words = [len(data) // width << 32, 0, 0]
        found = self.object(kind, *words, *[0] * (len(data) // 8 + 1))
        at = found - 1 + v8.STRING_TEXT - BASE
        if stored == v8.EXTERNAL:
            place = self.room(len(data) + 8)
            self.content[place - BASE : place - BASE + len(data)] = data
            self.put(found - 1 + v8.STRING_SECOND, place)
        else:
            self.content[at : at + len(data)] = data
        return found

    def made_of(self, stored, length, first, second=0):
        """A string that is made of others."""
        return self.object(stored | ONE_BYTE, length << 32, first, second)

    def oddball(self):
        """Something that is undefined."""
        return self.object(ODDBALL)

    def bytes(self, data):
        """An array of bytes."""
        kind = self.layout.trusted_bytes_type
        found = self.object(kind, len(data) << 32, *[0] * (len(data) // 8 + 1))
        at = found - 1 + v8.ARRAY_DATA - BASE
        self.content[at : at + len(data)] = data
        return found

    def array(self, *words):
        """A fixed array."""
        return self.object(FIXED_ARRAY, len(words) << 32, *words)

    def scope(self, name, position, variables=0, inferred=0, before=()):
        """The scope of a function with its name."""
        layout = self.layout
        each = 2 * variables if variables < v8.MOST_INLINE_VARIABLES else 1 + variables
        places = [position << 32, (position + 50) << 32]
        head = [0, 0, variables << 32] + (places if layout.has_positions_first else [])
        words = [*before, name, 0xFFFF_FFFF_0000_0000, inferred or self.oddball()]
        after = [] if layout.has_positions_first else places
        rest = [self.oddball()] * 4
        return self.object(layout.scope_type, *head, *[0] * each, *words, *after, *rest)

    def script(self, name, source):
        """A script."""
        return self.object(self.layout.script_type, source, name, *[0] * 12)

    def bytecode(self, rows):
        """A function's bytecode with a table of (offset, place)."""
        words = [0] * 10
        words[self.layout.line_table // 8 - 1] = self.bytes(self.table(rows))
        return self.object(self.layout.bytecode_type, *words)

    def shared(self, name, script, data=0, number=1):
        """A function: its SharedFunctionInfo."""
        layout = self.layout
        words = [0] * 9
        words[v8.SHARED_DATA // 8 - 1] = data or self.oddball()
        words[layout.name // 8 - 1] = name
        words[layout.script // 8 - 1] = script
        words[layout.flags // 8 - 1] = number << 32 | 0x1234
        return self.object(layout.shared_type, *words)

    def table(self, rows):
        """A table of source positions; rows are (offset, place) or with the inlined call."""
        found = bytearray()
        offset = position = 0
        for at, place, *call in rows:
            now = raw_position(place, *call)
            step = at - offset
            coded = step << 2 | 3 if self.layout.has_statement_bit else _signed(step)
            found += _number(coded) + _number(_signed(now - position))
            offset, position = at, now
        return bytes(found)

    def code(self, shared, rows, calls=(), inlined=(), size=0x400):
        """Optimized code of a function: where its instructions begin.

        `calls` are (place, outer call, number in `inlined`).
        """
        layout = self.layout
        table = self.bytes(self.table(rows))
        packed = b"".join(
            struct.pack("<QIxxxx", raw_position(place, outer), number)
            for place, outer, number in calls
        )
        literals = self.array(*(one | 2 for one in inlined))
        wrapped = shared
        if layout.literals == 3:
            wrapped = self.object(FIXED_ARRAY, shared)
        how = [0] * 12
        how[1] = len(inlined) << 32
        how[layout.literals] = literals
        how[layout.literals + 4] = wrapped
        how[layout.literals + 5] = self.bytes(packed) if packed else self.oddball()
        stream = self.room(layout.code_begin + size, 64)
        begin = stream + layout.code_begin
        kind = layout.baseline + 1
        if layout.code_start:
            code = self.object(layout.code_type, *[0] * 10)
            self.put(stream, self.map_of(layout.stream_type), code)
            self.put(code - 1 + layout.code_start, begin)
        else:
            code = stream + 1
            self.put(stream, self.map_of(layout.code_type))
        self.put(code - 1 + layout.code_bytecode, self.array(*how))
        self.put(code - 1 + layout.code_table, table)
        for offset, value in ((layout.code_flags, kind), (layout.code_size, size)):
            struct.pack_into("<I", self.content, code - 1 + offset - BASE, value)
        return begin


def raw_position(place, call=-1):
    """A position in a table."""
    return (place + 1) << 1 | (call + 1) << 31


def _signed(value):
    return value << 1 if value >= 0 else (-value - 1) << 1 | 1


def _number(coded):
    found = bytearray()
    while True:
        found.append(coded & 127 | (128 if coded > 127 else 0))
        coded >>= 7
        if not coded:
            return bytes(found)


def a_number(value):
    """32 bits, as tables of lines in a recording have them."""
    return struct.pack("<I", value)
