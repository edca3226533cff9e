"""jitdump files in memory: code loads, moves and line entries, in either byte order."""

from __future__ import annotations

import struct


class DumpBuilder:
    """A jitdump file, record by record."""

    def __init__(self, *, order="<", pid=7, flags=0, machine=62, opened_ns=1):
        self.order = order
        self.content = struct.pack(
            order + "IIIIIIQQ", 0x4A695444, 1, 40, machine, 0, pid, opened_ns, flags
        )
        self.loads = 0

    def record(self, kind, time_ns, body, size=None):
        size = 16 + len(body) if size is None else size
        self.content += struct.pack(self.order + "IIQ", kind, size, time_ns) + body
        return self

    def load(self, time_ns, address, code, name, *, size=None):
        size = len(code) if size is None else size
        fields = struct.pack(self.order + "IIQQQQ", 7, 7, address, address, size, self.loads)
        self.loads += 1
        return self.record(0, time_ns, fields + name + b"\0" + code)

    def move(self, time_ns, index, old, new, size):
        fields = struct.pack(self.order + "IIQQQQQ", 7, 7, new, old, new, size, index)
        return self.record(1, time_ns, fields)

    def lines(self, address, entries, *, count=None):
        count = len(entries) if count is None else count
        body = struct.pack(self.order + "QQ", address, count)
        for where, line, file in entries:
            body += struct.pack(self.order + "QiI", where, line, 0) + file + b"\0"
        return self.record(2, 1, body)

    def view(self):
        return memoryview(self.content)
