"""One HotSpot JVM: each look at its code cache writes records of new code.

The time of a piece of code is that of the look before the one that found it: its place was then
empty or had other code. If it had other code, it is unknown which one ran between two looks, and
the name of these addresses says so.

A pointer to metadata is one to a Method if the object begins as other Methods do, with the address
of their virtual functions.

Defined by: ``src/hotspot/share/oops/method.hpp``, ``constMethod.hpp``, ``constantPool.hpp`` and
``symbol.hpp`` (OpenJDK 8 to 25). The table of lines follows the bytecode.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from contextlib import suppress

from prospect.abi import hotspot as wire
from prospect.capture.capture_limits import (
    LONGEST_JAVA_NAME,
    MOST_A_LOOK,
    MOST_CLASSES,
    MOST_KEPT_NAMES,
    MOST_LOADERS,
    MOST_METHOD_TABLES,
    MOST_METHODS,
    MOST_METHODS_OF_A_CLASS,
    MOST_PIECE_TRIES,
)
from prospect.capture.java.code_pieces import CodeHeaps, HeapLayout, PieceLayout, PieceReader
from prospect.capture.java.vm_tables import UnknownError, read_tables
from prospect.capture.runtimes.process_memory import ProcessMemory, UnreadableError
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prospect.capture.java.code_pieces import Changes, Piece
    from prospect.capture.java.vm_tables import VmTables

_WORD, _HALF, _SHORT = struct.Struct("<Q"), struct.Struct("<i"), struct.Struct("<H")
_AT_ONCE, _BYTES_AT_ONCE = 200, 1 << 16
_HAS_LINES = 1


class Method(NamedTuple):
    """A method: its class with dots, name, source file, bytecode and table of lines."""

    holder: bytes
    name: bytes
    file: bytes
    bytecode: int
    bytecode_bytes: int
    lines: bytes


class MethodLayout:
    """The layout of methods; raises UnknownError as `VmTables` does."""

    def __init__(self, tables: VmTables) -> None:
        self.const_method = tables.offset("Method::_constMethod")
        self.const_bytes = tables.size("ConstMethod")
        self.constants = tables.offset("ConstMethod::_constants")
        self.words = tables.offset("ConstMethod::_constMethod_size")
        self.flags = tables.offset("ConstMethod::_flags", "ConstMethod::_flags._flags")
        self.code_size = tables.offset("ConstMethod::_code_size")
        self.name = tables.offset("ConstMethod::_name_index")
        self.pool_bytes = tables.size("ConstantPool")
        self.holder = tables.offset("ConstantPool::_pool_holder")
        file = "ConstantPool::_source_file_name_index"
        # Up to 14 the class has the file.
        self.is_file_of_class = not tables.has(file)
        self.file = tables.offset(file, "InstanceKlass::_source_file_name_index")
        self.class_name = tables.offset("Klass::_name")
        self.symbol_length = tables.offset("Symbol::_length")
        self.symbol_body = tables.offset("Symbol::_body", "Symbol::_body[0]")


class MethodReader:
    """Reads methods of one process; each class and name once."""

    def __init__(self, memory: ProcessMemory, layout: MethodLayout) -> None:
        self._memory = memory
        self._layout = layout
        self._tables: set[int] = set()
        self._symbols: dict[int, bytes] = {}
        self._classes: dict[int, tuple[int, int]] = {}

    @property
    def knows_methods(self) -> bool:
        """Whether the first word of Methods is known."""
        return bool(self._tables)

    def learn(self, methods: Iterable[int]) -> None:
        """Learn the first words of Methods from pointers to these."""
        for first in self._words([one for one in methods if one]).values():
            if len(self._tables) < MOST_METHOD_TABLES:
                self._tables.add(first)

    def among(self, pointers: Iterable[int]) -> set[int]:
        """Return the pointers to Methods among some pointers."""
        firsts = self._words(list({one for one in pointers if one and not one & 7}))
        return {pointer for pointer, first in firsts.items() if first in self._tables}

    def read(self, pointers: Iterable[int]) -> dict[int, Method]:
        """Return Methods by their addresses, without invalid ones."""
        layout = self._layout
        wanted = list(dict.fromkeys(one for one in pointers if one))
        const_of = self._words(wanted, layout.const_method)
        consts = self._read(dict.fromkeys(const_of.values(), layout.const_bytes))
        pools = self._pools({self._number(c, layout.constants) for c in consts.values()})
        names: dict[int, int] = {}
        for one in consts.values():
            pool = self._number(one, layout.constants)
            (index,) = _SHORT.unpack_from(one, layout.name)
            names[pool + layout.pool_bytes + 8 * index] = 0
        slots = [*names, *(file for _, file in pools.values() if file)]
        symbol_at = self._words(slots)
        symbols = {*symbol_at.values(), *(name for name, _ in pools.values())}
        self._read_symbols(symbols)
        lines = self._lines(consts)
        found = {}
        for pointer, const in const_of.items():
            content = consts.get(const)
            if content is None:
                continue
            pool = self._number(content, layout.constants)
            class_name, file = pools.get(pool, (0, 0))
            (index,) = _SHORT.unpack_from(content, layout.name)
            name = symbol_at.get(pool + layout.pool_bytes + 8 * index, 0)
            holder = self._symbols.get(class_name, b"")
            if name not in self._symbols or not holder:
                continue
            found[pointer] = Method(
                holder=class_with_dots(holder),
                name=self._symbols[name],
                file=self._symbols.get(symbol_at.get(file, 0), b""),
                bytecode=const + layout.const_bytes,
                bytecode_bytes=_SHORT.unpack_from(content, layout.code_size)[0],
                lines=lines.get(const, b""),
            )
        return found

    def _pools(self, pools: set[int]) -> dict[int, tuple[int, int]]:
        """Return by constant pool the symbol of the class, and the slot of the file's name."""
        layout = self._layout
        new = [one for one in pools if one and one not in self._classes]
        contents = self._read(dict.fromkeys(new, layout.pool_bytes))
        holder_of = {pool: self._number(c, layout.holder) for pool, c in contents.items()}
        names = self._words(list(set(holder_of.values())), layout.class_name)
        files = self._files_of_classes(holder_of) if layout.is_file_of_class else contents
        if len(self._classes) > MOST_KEPT_NAMES:
            self._classes.clear()
        for pool in contents:
            at = 0 if layout.is_file_of_class else layout.file
            index = _SHORT.unpack_from(files[pool], at)[0] if pool in files else 0
            slot = pool + layout.pool_bytes + 8 * index if index else 0
            self._classes[pool] = names.get(holder_of[pool], 0), slot
        return {pool: self._classes[pool] for pool in pools if pool in self._classes}

    def _files_of_classes(self, holder_of: dict[int, int]) -> dict[int, bytes]:
        """Return by constant pool the index of the file's name, from its class."""
        place_of = {pool: holder + self._layout.file for pool, holder in holder_of.items()}
        found = self._read(dict.fromkeys(place_of.values(), _SHORT.size))
        return {pool: found[place] for pool, place in place_of.items() if place in found}

    def _read_symbols(self, symbols: set[int]) -> None:
        layout = self._layout
        if len(self._symbols) > MOST_KEPT_NAMES:
            self._symbols.clear()
        new = [one for one in symbols if one and one not in self._symbols]
        heads = self._read(dict.fromkeys(new, layout.symbol_length + 2))
        sizes = {
            one: min(_SHORT.unpack_from(head, layout.symbol_length)[0], LONGEST_JAVA_NAME)
            for one, head in heads.items()
        }
        bodies = self._read({one + layout.symbol_body: size for one, size in sizes.items() if size})
        for one in sizes:
            text = bodies.get(one + layout.symbol_body, b"")
            if text and b"\0" not in text:
                self._symbols[one] = text

    def _lines(self, consts: dict[int, bytes]) -> dict[int, bytes]:
        """Return by ConstMethod the bytes after the bytecode, which begin with its lines."""
        layout = self._layout
        sizes = {}
        places = {}
        for const, content in consts.items():
            (code_size,) = _SHORT.unpack_from(content, layout.code_size)
            (words,) = _HALF.unpack_from(content, layout.words)
            begin = layout.const_bytes + code_size
            size = min(8 * words - begin, wire.MOST_LINES_BYTES)
            if content[layout.flags] & _HAS_LINES and size > 0:
                places[const] = const + begin
                sizes[const + begin] = size
        contents = self._read(sizes)
        return {const: contents[at] for const, at in places.items() if at in contents}

    def _words(self, addresses: list[int], offset: int = 0) -> dict[int, int]:
        """Return the 64 bits at an offset from addresses, if they can be read."""
        contents = self._read(dict.fromkeys([one + offset for one in addresses], 8))
        return {
            one: _WORD.unpack(contents[one + offset])[0]
            for one in addresses
            if one + offset in contents
        }

    def _read(self, sizes: dict[int, int]) -> dict[int, bytes]:
        """Return memory by addresses, without pieces that cannot be read."""
        found: dict[int, bytes] = {}
        for part in _parts(sizes):
            try:
                contents = self._memory.read_pieces(part)
                found.update(zip((at for at, _ in part), contents, strict=True))
            except UnreadableError:
                for at, size in part:
                    with suppress(UnreadableError):
                        found[at] = self._memory.read(at, size)
        return found

    @staticmethod
    def _number(content: bytes, offset: int) -> int:
        return int(_WORD.unpack_from(content, offset)[0])


def _parts(sizes: dict[int, int]) -> Iterator[list[tuple[int, int]]]:
    """Cut memory to read, sizes by addresses, into parts for one call each."""
    part: list[tuple[int, int]] = []
    left = _BYTES_AT_ONCE
    for piece in sizes.items():
        if len(part) == _AT_ONCE or piece[1] > left:
            yield part
            part, left = [], _BYTES_AT_ONCE
        part.append(piece)
        left -= piece[1]
    if part:
        yield part


def class_with_dots(name: bytes) -> bytes:
    """Return the name of a class as Java writes it, without the numbers of hidden classes.

    ``a/B$$Lambda$7/0x00007f...`` and ``a/B$$Lambda+0x00007f...`` (21 and later) become
    ``a.B$$Lambda``: their numbers differ in each run.
    """
    for mark in (b"+0x", b"/0x"):
        name = name.partition(mark)[0]
    head, mark, number = name.rpartition(b"$$Lambda$")
    if mark and number.isdigit():
        name = head + b"$$Lambda"
    return name.replace(b"/", b".")


_MACHINES = {"x86_64": 62, "aarch64": 183}
_HEADER_BYTES = wire.FILE_HEADER.size
_VERSIONS = range(8, 200)
# HotSpot had its own version numbers up to Java 8. HotSpot 25 of Java 8 has one heap, Java 25 more.
_HOTSPOT_OF_8 = 25


class JvmFile:
    """The records of one process, compressed one by one.

    Attributes:
        size_bytes: before compression.
        taken_bytes: the room that it has taken.
    """

    def __init__(self, pid: int, take: Callable[[int, int], bool]) -> None:
        """Begin; `take` takes room: for so many bytes, after so many."""
        self._take = take
        self._packer = zlib.compressobj(1)
        self._parts: list[bytes] = []
        self.size_bytes = self.taken_bytes = 0
        machine = _MACHINES.get(os.uname().machine, 0)
        header = (wire.MAGIC, wire.VERSION, _HEADER_BYTES, machine, 0, pid)
        self._put(wire.FILE_HEADER.pack(*header, monotonic_ns(), 0))

    def add(self, kind: int, payload: bytes, time_ns: int = 0) -> bool:
        """Write a record; return whether there was room for it."""
        size = wire.PREFIX.size + len(payload)
        if not self._take(size, self.size_bytes):
            return False
        self.taken_bytes += size
        self._put(wire.PREFIX.pack(kind, size, time_ns) + payload)
        return True

    def take(self) -> bytes:
        """Return what was written since the last time, as a part of one compressed stream."""
        parts = [*self._parts, self._packer.flush(zlib.Z_SYNC_FLUSH)]
        self._parts = []
        return b"".join(parts)

    def _put(self, record: bytes) -> None:
        self.size_bytes += len(record)
        packed = self._packer.compress(record)
        if packed:
            self._parts.append(packed)


def _full_name(method: Method) -> bytes:
    return (method.holder + b"." + method.name)[: wire.MOST_NAME_BYTES]


class Jvm:
    """Reads one process.

    Attributes:
        version: of the JVM, 0 if unknown.
        left_out: pieces of code without room.
    """

    def __init__(
        self, pid: int, uid: int, take: Callable[[int, int], bool], *, with_classes: bool = False
    ) -> None:
        """Prepare; `with_classes` also describes methods that are only interpreted."""
        self.pid = pid
        self.uid = uid
        self.file = JvmFile(pid, take)
        self.version = 0
        self.left_out = 0
        self._memory = ProcessMemory(pid)
        self._heaps: CodeHeaps | None = None
        self._with_classes = with_classes
        self._classes: ClassReader | None = None
        # Begin and end of the code in each block at the last look.
        self._live: dict[int, tuple[int, int]] = {}
        self._waiting: dict[int, int] = {}
        self._tries: dict[int, int] = {}
        self._methods: dict[int, tuple[int, Method]] = {}
        self._number = self._method_number = 0
        self._looked_ns = 0

    @property
    def has_begun(self) -> bool:
        """Whether its structures are known."""
        return self._heaps is not None

    def begin(self, base: int) -> bool:
        """Find its structures; return whether it has them yet.

        Raises:
            UnreadableError: it has ended, or may not be read.
            UnknownError: its structures are unknown.
        """
        tables = read_tables(self._memory, base)
        if tables is None:
            return False
        major = "_vm_major_version"
        major_at = tables.static(f"Abstract_VM_Version::{major}", f"VM_Version::{major}")
        version = int.from_bytes(self._memory.read(major_at, 4), "little")
        if not version:
            return False  # it has not begun yet
        layout = HeapLayout(tables)
        if layout.is_one and version == _HOTSPOT_OF_8:
            version = 8
        if version not in _VERSIONS:
            raise UnknownError("version")
        self._pieces = PieceReader(self._memory, layout.block_bytes, PieceLayout(tables))
        self._reader = MethodReader(self._memory, MethodLayout(tables))
        self._heaps = CodeHeaps(self._memory, layout)
        if self._with_classes:
            self._classes = ClassReader(self._memory, ClassLayout(tables))
        self.version = version
        # Compressed numbers have had no zero bytes since 20.
        self.file.add(wire.KIND_VM, wire.VM.pack(version, version >= 20))
        return True

    def look(self) -> int:
        """Look at the code cache; return the number of changes.

        Raises:
            UnreadableError: the process has ended.
            UnknownError: its structures are invalid.
        """
        if self._heaps is None:
            return 0
        before_ns, now_ns = self._looked_ns, monotonic_ns()
        changes = self._heaps.look()
        if changes is None:
            return 0
        self._looked_ns = now_ns
        seen_ns = monotonic_ns()
        found = self._read_pieces(changes, before_ns)
        replaced = self._replaced(changes, found)
        for begin, end in replaced:
            self._load(wire.REPLACED, begin, bytes(end - begin), before_ns)
        self._write(found, replaced, seen_ns)
        return len(changes.new) + len(changes.gone) + self._look_at_classes()

    def _look_at_classes(self) -> int:
        """Describe methods of new classes; return their number."""
        if self._classes is None:
            return 0
        pointers = self._classes.look()
        if not self._reader.knows_methods:
            # Nothing was compiled yet: these show the first word of Methods.
            self._reader.learn(pointers)
        methods = self._reader.among(pointers)
        self._describe(methods - self._methods.keys())
        return len(methods)

    def _read_pieces(self, changes: Changes, before_ns: int) -> dict[int, tuple[Piece, int]]:
        """Return new pieces by their blocks, with the earliest time of each."""
        heaps = self._heaps
        found: dict[int, tuple[Piece, int]] = {}
        for block, mark in changes.new.items():
            since_ns = self._waiting.pop(block, before_ns)
            if len(found) >= MOST_A_LOOK:
                self._wait(block, since_ns)
                continue
            try:
                piece = self._pieces.read(block)
            except UnreadableError:
                piece = None
            if piece is None or heaps is None or not heaps.is_same(block, mark):
                tries = self._tries[block] = self._tries.get(block, 0) + 1
                if tries < MOST_PIECE_TRIES:
                    self._wait(block, since_ns)
                continue
            self._tries.pop(block, None)
            found[block] = piece, since_ns
        return found

    def _wait(self, block: int, since_ns: int) -> None:
        """Leave a block to the next look."""
        self._waiting[block] = since_ns
        if self._heaps is not None:
            self._heaps.forget(block)

    def _replaced(
        self, changes: Changes, found: dict[int, tuple[Piece, int]]
    ) -> list[tuple[int, int]]:
        """Return begins and ends of old code that new code replaced; forget it."""
        gone = [self._live.pop(block) for block in changes.gone if block in self._live]
        return [one for one in gone if any(_overlap(one, piece) for piece, _ in found.values())]

    def _write(
        self, found: dict[int, tuple[Piece, int]], replaced: list[tuple[int, int]], seen_ns: int
    ) -> None:
        pointers: dict[int, list[int]] = {}
        self._reader.learn({piece.method for piece, _ in found.values()})
        for block, (piece, _) in found.items():
            try:
                pointers[block] = self._pieces.read_metadata(piece)
            except UnreadableError:
                pointers[block] = []
        methods = self._reader.among(one for many in pointers.values() for one in many)
        self._describe(methods | {piece.method for piece, _ in found.values() if piece.method})
        for block, (piece, since_ns) in found.items():
            is_replaced = any(_overlap(one, piece) for one in replaced)
            pairs = [
                (row + 1, self._methods[one][0])
                for row, one in enumerate(pointers[block])
                if one in methods and one in self._methods
            ]
            if not self._put(piece, pairs, seen_ns if is_replaced else since_ns):
                self.left_out += 1
            self._live[block] = piece.begin, piece.end

    def _describe(self, pointers: set[int]) -> None:
        """Write records of new methods, some of which are at the addresses of earlier ones."""
        for pointer, method in self._reader.read(pointers).items():
            known = self._methods.get(pointer)
            if known is not None and known[1] == method:
                continue
            self._method_number += 1
            texts = (
                _full_name(method),
                method.file[: wire.MOST_NAME_BYTES],
                method.lines[: wire.MOST_LINES_BYTES],
            )
            head = wire.METHOD.pack(
                *(self._method_number, method.bytecode_bytes, method.bytecode, pointer),
                *(len(method.holder), *map(len, texts)),
            )
            # Its class may have been loaded long ago.
            since_ns = self._looked_ns if known else 0
            if self.file.add(wire.KIND_METHOD, head + b"".join(texts), since_ns):
                self._methods[pointer] = self._method_number, method

    def _put(self, piece: Piece, pairs: list[tuple[int, int]], since_ns: int) -> bool:
        """Write the records of a piece of code; return whether there was room."""
        try:
            code = self._pieces.read_code(piece)
            positions = self._pieces.read_range(*piece.positions)
            scopes = self._pieces.read_range(*piece.scopes)
        except UnreadableError:
            return True
        details = wire.DETAILS.pack(
            *(max(piece.frame_words, 0), piece.complete, piece.entry, piece.kind, piece.level),
            *(len(pairs), len(positions), len(scopes)),
        )
        packed = b"".join(wire.PAIR.pack(*pair) for pair in pairs)
        record = details + packed + positions + scopes
        return self.file.add(wire.KIND_DETAILS, record) and self._load(
            self._name(piece), piece.begin, code, since_ns
        )

    def _name(self, piece: Piece) -> bytes:
        known = self._methods.get(piece.method)
        if known is not None:
            return _full_name(known[1])
        return wire.INTERPRETER if piece.kind == wire.CODE_INTERPRETER else piece.name

    def _load(self, name: bytes, begin: int, code: bytes, since_ns: int) -> bool:
        self._number += 1
        head = wire.LOAD.pack(self.pid, self.pid, begin, begin, len(code), self._number)
        name = name.replace(b"\0", b"?")[: wire.MOST_NAME_BYTES]
        return self.file.add(wire.KIND_LOAD, head + name + b"\0" + code, since_ns)


def _overlap(old: tuple[int, int], piece: Piece) -> bool:
    return piece.begin < old[1] and old[0] < piece.end


# The methods of all classes that a JVM has loaded are the names of interpreted frames.
#
# New classes and class loaders are at the beginning of their lists, so a walk ends where the last
# one began, and a program's own classes come before those of the library.
#
# Defined by: ``src/hotspot/share/classfile/classLoaderData.hpp`` and ``oops/instanceKlass.hpp``
# (OpenJDK 8 to 25): ClassLoaderDataGraph::_head, ClassLoaderData::_klasses, Klass::_next_link,
# InstanceKlass::_methods. Version 8 exports neither list. Klass::_next_link is between two fields
# that it exports, and ClassLoaderData::_klasses is the pointer to a class whose loader is this
# one.

# Classes that one look reads.
_CLASSES_A_LOOK = 256


class ClassLayout:
    """The layout of classes and their lists; raises UnknownError as `VmTables` does."""

    def __init__(self, tables: VmTables) -> None:
        self.head = tables.static("ClassLoaderDataGraph::_head")
        self.next_loader = tables.offset("ClassLoaderData::_next")
        classes, next_class = "ClassLoaderData::_klasses", "Klass::_next_link"
        self.classes = self.loader = -1
        if tables.has(classes):
            self.classes = tables.offset(classes)
            self.next_class = tables.offset(next_class)
        else:
            self.loader_bytes = tables.size("ClassLoaderData")
            self.loader = tables.offset("InstanceKlass::_class_loader_data")
            self.next_class = self.loader - _WORD.size
            if tables.offset("Klass::_next_sibling") != self.next_class - _WORD.size:
                raise UnknownError(next_class)
        self.kind = tables.offset("Klass::_layout_helper")
        self.methods = tables.offset("InstanceKlass::_methods")
        # Array<Method*>: the length, then the pointers.
        self.first_method = tables.offset("Array<Method*>::_data")
        self.class_bytes = max(self.next_class, self.methods, self.kind) + 8


class ClassReader:
    """Gives the Methods of classes, each class once."""

    def __init__(self, memory: ProcessMemory, layout: ClassLayout) -> None:
        self._memory = memory
        self._layout = layout
        # By loader, the first class of its list at the last look.
        self._first: dict[int, int] = {}
        # The offset of a loader's list, -1 if it is neither in the tables nor found yet.
        self._list_at = layout.classes
        self._waiting: deque[int] = deque()
        self._classes = self._methods = 0

    def look(self) -> list[int]:
        """Return Methods of new classes, some classes at a time."""
        with suppress(UnreadableError):  # classes are being unloaded
            self._find()
        found: list[int] = []
        for _ in range(min(_CLASSES_A_LOOK, len(self._waiting))):
            with suppress(UnreadableError):
                found.extend(self._methods_of(self._waiting.popleft()))
        found = found[: MOST_METHODS - self._methods]
        self._methods += len(found)
        return found

    def _find(self) -> None:
        layout = self._layout
        if self._classes >= MOST_CLASSES:
            return
        loaders: set[int] = set()
        at = self._memory.number(layout.head)
        while at and at not in loaders and len(loaders) < MOST_LOADERS:
            loaders.add(at)
            if self._list_at < 0:
                self._list_at = self._place_of_list(at)
            first = self._memory.number(at + self._list_at) if self._list_at >= 0 else 0
            if first != self._first.get(at, 0):
                self._waiting.extend(self._classes_from(first, self._first.get(at, 0)))
                self._first[at] = first
            at = self._memory.number(at + layout.next_loader)
        self._first = {one: first for one, first in self._first.items() if one in loaders}

    def _place_of_list(self, loader: int) -> int:
        """Return the offset of a loader's first class, -1 if it is not found."""
        content = self._memory.read(loader, self._layout.loader_bytes)
        for offset in range(0, len(content) - _WORD.size + 1, _WORD.size):
            (one,) = _WORD.unpack_from(content, offset)
            with suppress(UnreadableError):
                if one and self._memory.number(one + self._layout.loader) == loader:
                    return offset
        return -1

    def _classes_from(self, first: int, last: int) -> Iterator[int]:
        at = first
        while at and at != last and self._classes < MOST_CLASSES:
            self._classes += 1
            yield at
            at = self._memory.number(at + self._layout.next_class)

    def _methods_of(self, one: int) -> list[int]:
        layout = self._layout
        content = self._memory.read(one, layout.class_bytes)
        # Classes of arrays have negative numbers, and no methods.
        if _HALF.unpack_from(content, layout.kind)[0] <= 0:
            return []
        (listed,) = _WORD.unpack_from(content, layout.methods)
        (count,) = _HALF.unpack(self._memory.read(listed, 4)) if listed else (0,)
        if not 0 < count <= MOST_METHODS_OF_A_CLASS:
            return []
        data = self._memory.read(listed + layout.first_method, _WORD.size * count)
        return [method for (method,) in _WORD.iter_unpack(data)]
