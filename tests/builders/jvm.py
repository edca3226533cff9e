"""The memory of a HotSpot JVM with a few methods, laid out as OpenJDK 8, 11, 17 or 25 does."""

from __future__ import annotations

import struct

from prospect.capture.java.vm_tables import VmTables
from prospect.capture.runtimes.process_memory import UnreadableError

METHOD_TABLE = 0x7F00_0000_1000  # what every Method begins with
HEAP, SEGMENTS, SEGMENT_SHIFT = 0x7F10_0000_0000, 0x7F20_0000_0000, 7
HEAP_BYTES = 1 << 16
VERSION_AT, HEAPS_AT, LOADERS_AT, LIST_AT, HEAP_AT = 0x1000, 0x1008, 0x1010, 0x1100, 0x1200

COMMON = {
    "CodeHeap::_memory": 0,
    "CodeHeap::_segmap": 0x70,
    "VirtualSpace::_low": 16,
    "VirtualSpace::_high": 24,
    "CodeHeap::_log2_segment_size": 0xF0,
    "HeapBlock::_header": 0,
    "HeapBlock::Header::_length": 0,
    "Method::_constMethod": 8,
    "ConstMethod::_constants": 8,
    "ConstMethod::_constMethod_size": 24,
    "ConstantPool::_pool_holder": 24,
    "Klass::_name": 24,
    "Symbol::_length": 4,
    "Symbol::_body": 6,
    "ClassLoaderData::_next": 0,
    "ClassLoaderData::_klasses": 8,
    "Klass::_next_link": 0,
    "Klass::_layout_helper": 8,
    "InstanceKlass::_methods": 16,
    "Array<Method*>::_data": 8,
}
OF_17 = COMMON | {
    "HeapBlock::Header::_used": 8,
    "ConstMethod::_flags": 28,
    "ConstMethod::_code_size": 32,
    "ConstMethod::_name_index": 34,
    "ConstantPool::_source_file_name_index": 54,
    "CodeBlob::_name": 96,
    "CodeBlob::_size": 12,
    "CodeBlob::_frame_complete_offset": 20,
    "CodeBlob::_data_offset": 24,
    "CodeBlob::_frame_size": 28,
    "CodeBlob::_code_begin": 32,
    "CodeBlob::_code_end": 40,
    "CompiledMethod::_method": 112,
    "CompiledMethod::_scopes_data_begin": 120,
    "nmethod::_entry_bci": 192,
    "nmethod::_osr_entry_point": 232,
    "nmethod::_state": 315,
    "nmethod::_metadata_offset": 260,
    "nmethod::_scopes_pcs_offset": 268,
    "nmethod::_dependencies_offset": 272,
    "nmethod::_compile_id": 304,
    "nmethod::_comp_level": 308,
}
OF_25 = COMMON | {
    "HeapBlock::Header::_used": 4,
    "ConstMethod::_flags._flags": 28,
    "ConstMethod::_code_size": 34,
    "ConstMethod::_name_index": 36,
    "ConstantPool::_source_file_name_index": 62,
    "CodeBlob::_name": 8,
    "CodeBlob::_size": 24,
    "CodeBlob::_relocation_size": 28,
    "CodeBlob::_code_offset": 36,
    "CodeBlob::_frame_complete_offset": 54,
    "CodeBlob::_data_offset": 40,
    "CodeBlob::_frame_size": 44,
    "CodeBlob::_mutable_data": 16,
    "CodeBlob::_mutable_data_size": 48,
    "nmethod::_method": 80,
    "nmethod::_entry_bci": 156,
    "nmethod::_osr_entry_point": 144,
    "nmethod::_state": 219,
    "nmethod::_scopes_pcs_offset": 196,
    "nmethod::_scopes_data_offset": 200,
    "nmethod::_immutable_data": 96,
    "nmethod::_immutable_data_size": 160,
    "nmethod::_compile_id": 212,
    "nmethod::_comp_level": 216,
}
# Classes have the name of the file, and arrays that grow begin with more.
OF_11 = {name: at for name, at in OF_17.items() if "source_file" not in name} | {
    "GrowableArray<int>::_data": 24,
    "InstanceKlass::_source_file_name_index": 32,
}
# Code blobs have offsets only, and the tables do not say where the lists of classes are.
OF_8 = {
    name: at
    for name, at in OF_11.items()
    if not name.startswith(("CodeBlob", "CompiledMethod", "GrowableArray"))
    and name not in {"ClassLoaderData::_klasses", "Klass::_next_link"}
} | {
    "CodeBlob::_name": 8,
    "CodeBlob::_size": 16,
    "CodeBlob::_code_offset": 32,
    "CodeBlob::_frame_complete_offset": 36,
    "CodeBlob::_data_offset": 40,
    "CodeBlob::_frame_size": 44,
    "nmethod::_method": 64,
    "nmethod::_scopes_data_offset": 264,
    "Klass::_next_sibling": 40,
    "InstanceKlass::_class_loader_data": 56,
}
SIZES_17 = {
    "HeapBlock": 16,
    "CodeBlob": 104,
    "nmethod": 352,
    "ConstMethod": 48,
    "ConstantPool": 72,
    "ClassLoaderData": 16,
}
SIZES_25 = {"HeapBlock": 8, "CodeBlob": 64, "nmethod": 224, "ConstMethod": 56, "ConstantPool": 80}
# push %rbp; sub $16,%rsp; … add $16,%rsp; pop %rbp; ret
CODE = b"\x55\x48\x83\xec\x10" + b"\x90" * 43 + b"\x48\x83\xc4\x10\x5d\xc3" + b"\xf4" * 10


class FakeMemory:
    """Bytes at addresses, read as `ProcessMemory` reads a process."""

    def __init__(self):
        self.parts = {}

    def put(self, at, content):
        self.parts[at] = bytearray(content)

    def change(self, at, content):
        for begin, part in self.parts.items():
            if begin <= at and at + len(content) <= begin + len(part):
                part[at - begin : at - begin + len(content)] = content
                return
        raise KeyError(hex(at))

    def read(self, address, size):
        for begin, part in self.parts.items():
            if begin <= address and address + size <= begin + len(part):
                return bytes(part[address - begin : address - begin + size])
        raise UnreadableError

    def number(self, address):
        return int.from_bytes(self.read(address, 8), "little")

    def read_pieces(self, pieces):
        return [self.read(*piece) for piece in pieces]

    def read_packed(self, remote, count, size):
        data = b"".join(self.read(*one) for one in struct.iter_unpack("=QQ", remote))
        assert len(data) == size
        assert count == len(remote) // 16
        return data


class FakeJvm:
    """A JVM; `version` chooses the layout."""

    def __init__(self, version=17):
        self.version = version
        self.is_late = version >= 23
        self.offsets = {8: OF_8, 11: OF_11, 17: OF_17, 25: OF_25}[version]
        self.sizes = SIZES_25 if self.is_late else SIZES_17
        self.next_class = self.offsets.get("Klass::_next_link", 48)
        statics = {
            "CodeCache::_heap" if version == 8 else "CodeCache::_heaps": HEAPS_AT,
            "ClassLoaderDataGraph::_head": LOADERS_AT,
            "Abstract_VM_Version::_vm_major_version": VERSION_AT,
        }
        self.tables = VmTables(self.offsets, statics, self.sizes)
        self.memory = FakeMemory()
        self.next = 0x6000_0000
        self.segments = bytearray(b"\xff" * (HEAP_BYTES >> SEGMENT_SHIFT))
        self.memory.put(VERSION_AT, struct.pack("<I", 25 if version == 8 else version))
        self.memory.put(HEAPS_AT, struct.pack("<Q", HEAP_AT if version == 8 else LIST_AT))
        listed = bytearray(40)
        struct.pack_into("<i", listed, 0, 1)
        at = self.offsets.get("GrowableArray<int>::_data", 8)
        struct.pack_into("<QQ", listed, at, LIST_AT + at + 8, HEAP_AT)
        self.memory.put(LIST_AT, listed)
        heap = bytearray(0x100)
        struct.pack_into("<QQ", heap, 16, HEAP, HEAP + HEAP_BYTES)
        struct.pack_into("<QQ", heap, 0x70 + 16, SEGMENTS, SEGMENTS + len(self.segments))
        struct.pack_into("<i", heap, 0xF0, SEGMENT_SHIFT)
        self.memory.put(HEAP_AT, heap)
        self.memory.put(HEAP, bytes(HEAP_BYTES))
        self.memory.put(SEGMENTS, self.segments)
        self.memory.put(LOADERS_AT, bytes(8))
        self.names = {}

    def somewhere(self, content):
        """Put bytes where nothing is."""
        at = self.next
        self.memory.put(at, content)
        self.next += -(-len(content) // 64) * 64 + 64
        return at

    def symbol(self, text):
        if text not in self.names:
            self.names[text] = self.somewhere(struct.pack("<IH", 7, len(text)) + text)
        return self.names[text]

    def method(self, holder, name, *, file=b"", lines=b"", bytecode=b"\x2a" * 12):
        """Lay out a Method; return its address."""
        klass = self.somewhere(bytes(24) + struct.pack("<QH", self.symbol(holder), 2))
        size = self.sizes["ConstantPool"]
        pool = bytearray(size + 24)
        struct.pack_into("<Q", pool, 24, klass)
        file_at = self.offsets.get("ConstantPool::_source_file_name_index", -1)
        if file_at >= 0:
            struct.pack_into("<H", pool, file_at, 2)
        struct.pack_into("<QQ", pool, size + 8, self.symbol(name), self.symbol(file or b"A.java"))
        size = self.sizes["ConstMethod"]
        rest = bytecode + lines
        const = bytearray(size) + rest + bytes(-(size + len(rest)) % 8)
        struct.pack_into("<Q", const, 8, self.somewhere(pool))
        struct.pack_into("<ii", const, 24, len(const) // 8, int(bool(lines)))
        struct.pack_into("<H", const, self.offsets["ConstMethod::_code_size"], len(bytecode))
        struct.pack_into("<H", const, self.offsets["ConstMethod::_name_index"], 1)
        return self.somewhere(struct.pack("<QQ", METHOD_TABLE, self.somewhere(const)))

    def loader(self):
        """Lay out a class loader without classes; return its address."""
        before = self.memory.number(LOADERS_AT)
        loader = self.somewhere(struct.pack("<QQ", before, 0))
        self.memory.change(LOADERS_AT, struct.pack("<Q", loader))
        return loader

    def klass(self, loader, methods, *, kind=8):
        """Lay out a class of a loader, whose methods are at these addresses."""
        listed = self.somewhere(struct.pack(f"<q{len(methods)}Q", len(methods), *methods))
        before = self.memory.number(loader + 8)
        content = bytearray(64)
        struct.pack_into("<qQ", content, 8, kind, listed)
        struct.pack_into("<QQ", content, 48, 0, loader)
        struct.pack_into("<Q", content, self.next_class, before)
        klass = self.somewhere(content)
        self.memory.change(loader + 8, struct.pack("<Q", klass))

    def blob(self, segment, name, *, code=CODE, words=4, complete=5, **compiled):
        """Put code into the heap, 8 segments of it; return where its instructions begin.

        Keywords of compiled code: method, compile_id, state, metadata, positions, scopes.
        """
        block = HEAP + (segment << SEGMENT_SHIFT)
        begin = block + self.sizes["HeapBlock"]
        header = 512
        metadata = struct.pack(
            f"<{len(compiled.get('metadata', ()))}Q", *compiled.get("metadata", ())
        )
        positions, scopes = compiled.get("positions", b""), compiled.get("scopes", b"")
        content = bytearray(header) + code + metadata + scopes + positions
        size = len(content)
        put = self._putter(content)
        put("CodeBlob::_name", "<Q", self.somewhere(name + bytes(64)))
        put("CodeBlob::_size", "<i", size)
        put("CodeBlob::_frame_size", "<i", words)
        put("CodeBlob::_data_offset", "<i", header + len(code))
        has_offsets = "CodeBlob::_code_offset" in self.offsets
        if has_offsets:
            put("CodeBlob::_code_offset", "<i", header)
        else:
            put("CodeBlob::_code_begin", "<QQ", begin + header, begin + header + len(code))
        put("CodeBlob::_frame_complete_offset", "<h" if self.is_late else "<i", complete)
        if self.is_late:
            put("CodeBlob::_mutable_data", "<Q", self.somewhere(bytes(8) + metadata))
            put("CodeBlob::_mutable_data_size", "<i", 8 + len(metadata))
            put("CodeBlob::_relocation_size", "<i", 8)
        if "method" in compiled:
            put("nmethod::_method", "<Q", compiled["method"])
            put("nmethod::_entry_bci", "<i", -1)
            put("nmethod::_compile_id", "<i", compiled.get("compile_id", 1))
            put("nmethod::_state", "<b", compiled.get("state", 0))
            put("nmethod::_comp_level", "<b", 4)
            at = header + len(code)
            if self.is_late:
                put("nmethod::_immutable_data", "<Q", self.somewhere(positions + scopes + bytes(1)))
                put("nmethod::_immutable_data_size", "<i", len(positions) + len(scopes))
                put("nmethod::_scopes_data_offset", "<i", len(positions))
            else:
                put("nmethod::_metadata_offset", "<i", at)
                at += len(metadata)
                if has_offsets:
                    put("nmethod::_scopes_data_offset", "<i", at)
                else:
                    put("CompiledMethod::_scopes_data_begin", "<Q", begin + at)
                at += len(scopes)
                put("nmethod::_scopes_pcs_offset", "<i", at)
                put("nmethod::_dependencies_offset", "<i", at + len(positions))
        assert self.sizes["HeapBlock"] + size <= 8 << SEGMENT_SHIFT
        used = struct.pack("<QB" if self.sizes["HeapBlock"] == 16 else "<IB", 8, 1)
        self.memory.change(block, used)
        self.memory.change(begin, content)
        self.segments[segment : segment + 8] = bytes(range(8))
        self.memory.change(SEGMENTS, self.segments)
        return begin + header

    def free(self, segment):
        """Free a block, whose segments stay as they are."""
        at = self.offsets["HeapBlock::Header::_used"]
        self.memory.change(HEAP + (segment << SEGMENT_SHIFT) + at, b"\0")

    def _putter(self, content):
        def put(name, form, *values):
            late = name.replace("nmethod::_method", "CompiledMethod::_method")
            struct.pack_into(form, content, self.offsets.get(name, self.offsets.get(late)), *values)

        return put


def number(value, shift):
    """Compress a number as `unsigned5.hpp` does."""
    found = bytearray()
    while value >= 192 - shift and len(found) < 4:
        value -= 192 - shift
        found.append(192 + value % 64)
        value >>= 6
    found.append(value + shift)
    return bytes(found)


def scopes_of(chain, shift):
    """Lay out scopes; return them, and where the innermost begins.

    Args:
        chain: (index of the method, bci) of each scope, the outermost first.
        shift: of compressed numbers.
    """
    data, at = b"\x01", 0
    for method, bci in chain:
        sender, at = at, len(data)
        data += b"".join(number(one, shift) for one in (sender, method, bci + 1))
    return data, at


def positions_of(*rows):
    """Lay out PcDesc structures: offset of the code, and of the scope, each."""
    whole = ((-1, 0), *rows, (0x7FFFFFFF, 0))
    return b"".join(struct.pack("<iiii", pc, scope, 0, 0) for pc, scope in whole)
