"""Methods of a JVM: class, name, source file and lines, from their structures in its memory.

A pointer to metadata is one to a Method if what it points at begins as other Methods do, with the
address of their virtual functions.

Defined by: ``src/hotspot/share/oops/method.hpp``, ``constMethod.hpp``, ``constantPool.hpp`` and
``symbol.hpp`` (OpenJDK 8 to 25). The table of lines follows the bytecode.
"""

from __future__ import annotations

import struct

from prospect.abi import hotspot as wire
from prospect.capture.runtimes.process_memory import UnreadableError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prospect.capture.java.vm_tables import VmTables
    from prospect.capture.runtimes.process_memory import ProcessMemory

_WORD, _HALF, _SHORT = struct.Struct("<Q"), struct.Struct("<i"), struct.Struct("<H")
_AT_ONCE, _BYTES_AT_ONCE = 200, 1 << 16
_HAS_LINES = 1
_LONGEST_SYMBOL = 512
_MOST_KEPT = 1 << 17
_MOST_TABLES = 64  # virtual functions of Methods: those of the library, of shared archives


class Method(NamedTuple):
    """A method: its class with dots, name, source file, bytecode and table of lines."""

    holder: bytes
    name: bytes
    file: bytes
    bytecode: int
    bytecode_bytes: int
    lines: bytes


class MethodLayout:
    """Where methods have what is read of them; raises UnknownError as `VmTables` does."""

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
        # Up to 14 the class has it.
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
        """Whether it is known what Methods begin with."""
        return bool(self._tables)

    def learn(self, methods: Iterable[int]) -> None:
        """Learn from pointers that are to Methods what these begin with."""
        for first in self._words([one for one in methods if one]).values():
            if len(self._tables) < _MOST_TABLES:
                self._tables.add(first)

    def among(self, pointers: Iterable[int]) -> set[int]:
        """Return which pointers are to Methods."""
        firsts = self._words(list({one for one in pointers if one and not one & 7}))
        return {pointer for pointer, first in firsts.items() if first in self._tables}

    def read(self, pointers: Iterable[int]) -> dict[int, Method]:
        """Return Methods by their addresses; those that cannot be right are missing."""
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
        """Return of constant pools the symbol of the class, and the slot of the file's name."""
        layout = self._layout
        new = [one for one in pools if one and one not in self._classes]
        contents = self._read(dict.fromkeys(new, layout.pool_bytes))
        holder_of = {pool: self._number(c, layout.holder) for pool, c in contents.items()}
        names = self._words(list(set(holder_of.values())), layout.class_name)
        files = self._files_of_classes(holder_of) if layout.is_file_of_class else contents
        if len(self._classes) > _MOST_KEPT:
            self._classes.clear()
        for pool in contents:
            at = 0 if layout.is_file_of_class else layout.file
            index = _SHORT.unpack_from(files[pool], at)[0] if pool in files else 0
            slot = pool + layout.pool_bytes + 8 * index if index else 0
            self._classes[pool] = names.get(holder_of[pool], 0), slot
        return {pool: self._classes[pool] for pool in pools if pool in self._classes}

    def _files_of_classes(self, holder_of: dict[int, int]) -> dict[int, bytes]:
        """Return by constant pool the index of the file's name, which its class has."""
        place_of = {pool: holder + self._layout.file for pool, holder in holder_of.items()}
        found = self._read(dict.fromkeys(place_of.values(), _SHORT.size))
        return {pool: found[place] for pool, place in place_of.items() if place in found}

    def _read_symbols(self, symbols: set[int]) -> None:
        layout = self._layout
        if len(self._symbols) > _MOST_KEPT:
            self._symbols.clear()
        new = [one for one in symbols if one and one not in self._symbols]
        heads = self._read(dict.fromkeys(new, layout.symbol_length + 2))
        sizes = {
            one: min(_SHORT.unpack_from(head, layout.symbol_length)[0], _LONGEST_SYMBOL)
            for one, head in heads.items()
        }
        bodies = self._read({one + layout.symbol_body: size for one, size in sizes.items() if size})
        for one in sizes:
            text = bodies.get(one + layout.symbol_body, b"")
            if text and b"\0" not in text:
                self._symbols[one] = text

    def _lines(self, consts: dict[int, bytes]) -> dict[int, bytes]:
        """Return by ConstMethod what follows the bytecode, where it begins with lines."""
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
        """Return the 64 bits at an offset from addresses, as far as they can be read."""
        contents = self._read(dict.fromkeys([one + offset for one in addresses], 8))
        return {
            one: _WORD.unpack(contents[one + offset])[0]
            for one in addresses
            if one + offset in contents
        }

    def _read(self, sizes: dict[int, int]) -> dict[int, bytes]:
        """Read memory by addresses, as far as it is there."""
        found: dict[int, bytes] = {}
        for part in _parts(sizes):
            try:
                contents = self._memory.read_pieces(part)
            except UnreadableError:
                found.update(self._one_by_one(part))
                continue
            found.update(zip((at for at, _ in part), contents, strict=True))
        return found

    def _one_by_one(self, pieces: list[tuple[int, int]]) -> dict[int, bytes]:
        found = {}
        for at, size in pieces:
            try:
                found[at] = self._memory.read(at, size)
            except UnreadableError:
                continue
        return found

    @staticmethod
    def _number(content: bytes, offset: int) -> int:
        return int(_WORD.unpack_from(content, offset)[0])


def _parts(sizes: dict[int, int]) -> Iterator[list[tuple[int, int]]]:
    """Cut a list of memory to read into parts that one call reads."""
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
    """Return the name of a class as Java writes it, without what tells hidden classes apart.

    ``a/B$$Lambda$7/0x00007f...`` and ``a/B$$Lambda+0x00007f...`` (21 and later) become
    ``a.B$$Lambda``: their numbers are others in each run.
    """
    for mark in (b"+0x", b"/0x"):
        name = name.partition(mark)[0]
    head, mark, number = name.rpartition(b"$$Lambda$")
    if mark and number.isdigit():
        name = head + b"$$Lambda"
    return name.replace(b"/", b".")
