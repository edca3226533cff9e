"""Build perf.data in memory: records, attrs, features; files, pipes, compressed, either order.

    records = RecordBuilder(sample_type)
    data = FileBuilder(
        events=[EventDescription(EventAttr(sample_type=sample_type), ids=(7,), name="cpu-clock")],
        records=[records.comm(1, 1, "init"), records.sample(ip=0x1000, pid=1, tid=1, time=5)],
    ).file()

Every layout is written out here a second time, from ``include/uapi/linux/perf_event.h`` and
``tools/lib/perf/include/perf/event.h``, so that a mistake in `prospect` cannot hide.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import zstandard

from builders.perfdata_features import (
    pack_attr,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.abi.attr import EventDescription

IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, RAW = (1 << b for b in range(11))
BRANCH_STACK, REGS_USER, STACK_USER, WEIGHT, DATA_SRC, IDENTIFIER = (1 << b for b in range(11, 17))
TRANSACTION, REGS_INTR, PHYS_ADDR, AUX, CGROUP = (1 << b for b in range(17, 22))
DATA_PAGE_SIZE, CODE_PAGE_SIZE, WEIGHT_STRUCT = (1 << b for b in range(22, 25))

MISC_KERNEL = 1
MISC_USER = 2
MISC_COMM_EXEC = 1 << 13
MISC_MMAP_BUILD_ID = 1 << 14
MISC_SWITCH_OUT = 1 << 13

USUAL = IDENTIFIER | IP | TID | TIME | CPU | PERIOD


def record(type_: int, body: bytes = b"", *, misc: int = 0, order: str = "<") -> bytes:
    """A record of any type; the body is padded to a multiple of 8."""
    body += bytes(-len(body) % 8)
    return struct.pack(order + "IHH", type_, misc, 8 + len(body)) + body


@dataclass(frozen=True)
class RecordBuilder:
    """Records whose samples and tails are laid out by one sample_type.

    Side records take the tail's fields as keywords: pid, tid, time, id, stream_id, cpu.
    """

    sample_type: int = USUAL
    order: str = "<"
    sample_id_all: bool = True
    read_format: int = 0

    def pack(self, layout: str, *values: object) -> bytes:
        return struct.pack(self.order + layout, *values)

    def words(self, *values: int) -> bytes:
        return self.pack(f"{len(values)}Q", *(value & (1 << 64) - 1 for value in values))

    def text(self, text: str | bytes) -> bytes:
        """A name as in mmap and comm records: terminated, padded to a multiple of 8."""
        raw = text.encode() if isinstance(text, str) else text
        return raw + bytes(8 - len(raw) % 8)

    def side(self, type_: int, body: bytes, *, misc: int = 0, **tail: int) -> bytes:
        """A record other than a sample: body, padding, sample_id tail."""
        body += bytes(-len(body) % 8)
        return record(type_, body + self.tail(**tail), misc=misc, order=self.order)

    def tail(self, *, pid=0, tid=0, time=0, id=0, stream_id=0, cpu=0) -> bytes:  # noqa: A002 - the record's own word
        if not self.sample_id_all:
            return b""
        parts = {
            TID: self.pack("ii", pid, tid),
            TIME: self.words(time),
            ID: self.words(id),
            STREAM_ID: self.words(stream_id),
            CPU: self.pack("II", cpu, 0),
            IDENTIFIER: self.words(id),
        }
        return b"".join(part for bit, part in parts.items() if self.sample_type & bit)

    def sample(
        self,
        *,
        ip: int = 0,
        pid: int = 0,
        tid: int = 0,
        time: int = 0,
        addr: int = 0,
        id: int = 0,  # noqa: A002 - the kernel's name of the field
        stream_id: int = 0,
        cpu: int = 0,
        period: int = 1,
        read: Sequence[int] | None = None,
        chain: Sequence[int] = (),
        raw: bytes = b"",
        branches: Sequence[tuple[int, int, int]] = (),
        regs_user: Sequence[int] | None = None,
        regs_intr: Sequence[int] | None = None,
        stack_user: bytes | None = None,
        weight: int = 0,
        data_src: int = 0,
        transaction: int = 0,
        phys_addr: int = 0,
        cgroup: int = 0,
        data_page_size: int = 0,
        code_page_size: int = 0,
        aux: bytes = b"",
        misc: int = MISC_USER,
    ) -> bytes:
        """PERF_RECORD_SAMPLE with what `sample_type` asks for.

        `read` holds the words of struct read_format; by default one zero word for the value
        and one for each bit of `read_format` (no group). `regs_*` None: PERF_SAMPLE_REGS_ABI_NONE.
        """
        if read is None:
            read = [0] * (1 + (self.read_format & ~8).bit_count())
        parts = {
            IDENTIFIER: self.words(id),
            IP: self.words(ip),
            TID: self.pack("ii", pid, tid),
            TIME: self.words(time),
            ADDR: self.words(addr),
            ID: self.words(id),
            STREAM_ID: self.words(stream_id),
            CPU: self.pack("II", cpu, 0),
            PERIOD: self.words(period),
            READ: self.words(*read),
            CALLCHAIN: self.words(len(chain), *chain),
            RAW: self._raw(raw),
            BRANCH_STACK: self.words(len(branches), *(word for b in branches for word in b)),
            REGS_USER: self._registers(regs_user),
            STACK_USER: self._stack(stack_user),
            WEIGHT: self.words(weight),
            WEIGHT_STRUCT: self.words(weight),
            DATA_SRC: self.words(data_src),
            TRANSACTION: self.words(transaction),
            REGS_INTR: self._registers(regs_intr),
            PHYS_ADDR: self.words(phys_addr),
            CGROUP: self.words(cgroup),
            DATA_PAGE_SIZE: self.words(data_page_size),
            CODE_PAGE_SIZE: self.words(code_page_size),
            AUX: self.words(len(aux)) + aux,
        }
        body = b"".join(part for bit, part in parts.items() if self.sample_type & bit)
        return record(9, body, misc=misc, order=self.order)

    def _raw(self, raw: bytes) -> bytes:
        # The size counts its own padding: size word and data end on a multiple of 8.
        padded = raw + bytes(-(len(raw) + 4) % 8)
        return self.pack("I", len(padded)) + padded

    def _registers(self, registers: Sequence[int] | None) -> bytes:
        return self.words(0) if registers is None else self.words(2, *registers)

    def _stack(self, stack: bytes | None) -> bytes:
        if stack is None:
            return self.words(0)
        padded = stack + bytes(-len(stack) % 8)
        return self.words(len(padded)) + padded + self.words(len(stack))

    def mmap(self, pid, tid, start, length, name, /, *, pgoff=0, misc=MISC_USER, **tail) -> bytes:
        body = self.pack("iiQQQ", pid, tid, start, length, pgoff) + self.text(name)
        return self.side(1, body, misc=misc, **{"pid": pid, "tid": tid} | tail)

    def mmap2(
        self,
        pid,
        tid,
        start,
        length,
        name,
        /,
        *,
        pgoff=0,
        device=(0, 0),
        inode=0,
        build_id: bytes | None = None,
        prot=5,
        flags=2,
        misc=MISC_USER,
        **tail,
    ) -> bytes:
        if build_id is None:
            identity = self.pack("IIQQ", *device, inode, 0)
        else:
            misc |= MISC_MMAP_BUILD_ID
            identity = self.pack("BBH20s", len(build_id), 0, 0, build_id)
        body = self.pack("iiQQQ", pid, tid, start, length, pgoff) + identity
        body += self.pack("II", prot, flags) + self.text(name)
        return self.side(10, body, misc=misc, **{"pid": pid, "tid": tid} | tail)

    def comm(self, pid, tid, name, /, *, is_exec: bool = False, misc: int = 0, **tail) -> bytes:
        body = self.pack("ii", pid, tid) + self.text(name)
        misc |= MISC_COMM_EXEC * is_exec
        return self.side(3, body, misc=misc, **{"pid": pid, "tid": tid} | tail)

    def fork(self, pid, ppid, tid=None, ptid=None, /, *, time=0, **tail) -> bytes:
        """FORK: the tail names the parent, as the kernel does."""
        ids = (pid, ppid, pid if tid is None else tid, ppid if ptid is None else ptid)
        tail = {"pid": ids[1], "tid": ids[3]} | tail
        return self.side(7, self.pack("iiiiQ", *ids, time), time=time, **tail)

    def exit(self, pid, ppid, tid=None, ptid=None, /, *, time=0, **tail) -> bytes:
        """EXIT: the tail names the task that ends."""
        ids = (pid, ppid, pid if tid is None else tid, ppid if ptid is None else ptid)
        tail = {"pid": ids[0], "tid": ids[2]} | tail
        return self.side(4, self.pack("iiiiQ", *ids, time), time=time, **tail)

    def lost(self, id, lost, /, **tail) -> bytes:  # noqa: A002 - the kernel's name of the field
        return self.side(2, self.words(id, lost), **{"id": id} | tail)

    def lost_samples(self, lost, *, misc: int = 0, **tail) -> bytes:
        return self.side(13, self.words(lost), misc=misc, **tail)

    def throttle(self, time, id=0, stream_id=0, /, *, undo: bool = False, **tail) -> bytes:  # noqa: A002 - the record's own word
        return self.side(6 if undo else 5, self.words(time, id, stream_id), **{"time": time} | tail)

    def read(self, pid, tid, /, *words, **tail) -> bytes:
        return self.side(8, self.pack("ii", pid, tid) + self.words(*words), **tail)

    def aux(self, offset, size, flags=0, **tail) -> bytes:
        return self.side(11, self.words(offset, size, flags), **tail)

    def itrace_start(self, pid, tid, /, **tail) -> bytes:
        return self.side(12, self.pack("ii", pid, tid), **tail)

    def switch(self, *, out: bool = False, other: tuple[int, int] | None = None, **tail) -> bytes:
        """SWITCH, or SWITCH_CPU_WIDE with the `other` pid and tid."""
        body = b"" if other is None else self.pack("ii", *other)
        return self.side(14 if other is None else 15, body, misc=MISC_SWITCH_OUT * out, **tail)

    def namespaces(self, pid, tid, links: Sequence[tuple[int, int]] = (), /, **tail) -> bytes:
        body = self.pack("iiQ", pid, tid, len(links)) + self.words(*(w for ns in links for w in ns))
        return self.side(16, body, **tail)

    def ksymbol(self, address, length, name, *, kind=1, flags=0, **tail) -> bytes:
        body = self.pack("QIHH", address, length, kind, flags) + self.text(name)
        return self.side(17, body, **tail)

    def bpf_event(self, kind, flags, id, tag=b"12345678", /, **tail) -> bytes:  # noqa: A002 - the record's own word
        return self.side(18, self.pack("HHI8s", kind, flags, id, tag), **tail)

    def cgroup(self, id, path, /, **tail) -> bytes:  # noqa: A002 - the kernel's name of the field
        return self.side(19, self.words(id) + self.text(path), **tail)

    def text_poke(self, address, old: bytes, new: bytes, **tail) -> bytes:
        body = self.pack("QHH", address, len(old), len(new)) + old + new
        return self.side(20, body, **tail)

    def aux_output_hw_id(self, hw_id, **tail) -> bytes:
        return self.side(21, self.words(hw_id), **tail)

    def finished_round(self) -> bytes:
        return record(68, order=self.order)

    def id_index(self, entries: Iterable[tuple[int, int, int, int]]) -> bytes:
        entries = list(entries)
        words = (word for entry in entries for word in entry)
        return record(69, self.words(len(entries), *words), order=self.order)

    def auxtrace(self, payload: bytes) -> bytes:
        """AUXTRACE with the trace data that stands behind it, outside the chain of records."""
        body = self.pack("QQQIIII", len(payload), 0, 0, 0, 0, 0, 0)
        return record(71, body, order=self.order) + payload

    def time_conv(self) -> bytes:
        return record(79, self.words(10, 1, 0), order=self.order)


@dataclass(frozen=True)
class FileBuilder:
    """A recording: attrs, records, features, in one of the forms that perf writes.

    Attributes:
        features: feature bit → content of its section.
        attr_size: size of struct perf_event_attr in the file.
        data_size: what the header says in place of the truth (0: a killed recorder).
        padding: bytes between attrs and data, to unalign the data.
    """

    events: Sequence[EventDescription] = ()
    records: Sequence[bytes] = ()
    features: dict[int, bytes] = field(default_factory=dict)
    order: str = "<"
    attr_size: int = 136
    data_size: int | None = None
    padding: int = 0

    def file(self) -> bytes:
        """A regular file."""
        ids = b"".join(struct.pack(f"{self.order}{len(e.ids)}Q", *e.ids) for e in self.events)
        attrs, ids_at = b"", 104
        for event in self.events:
            attrs += pack_attr(event.attr, self.order, self.attr_size)
            attrs += struct.pack(self.order + "QQ", ids_at, 8 * len(event.ids))
            ids_at += 8 * len(event.ids)
        data = b"".join(self.records)
        data_at = 104 + len(ids) + len(attrs) + self.padding
        table, sections = b"", b""
        sections_at = data_at + len(data) + 16 * len(self.features)
        for _, content in sorted(self.features.items()):
            table += struct.pack(self.order + "QQ", sections_at + len(sections), len(content))
            sections += content
        bits = sum(1 << bit for bit in self.features)
        header = struct.pack(
            self.order + "Q8Q4Q",
            int.from_bytes(b"PERFILE2", "little"),
            104,
            self.attr_size + 16,
            104 + len(ids),
            len(attrs),
            data_at,
            len(data) if self.data_size is None else self.data_size,
            0,
            0,
            *(bits >> shift & (1 << 64) - 1 for shift in (0, 64, 128, 192)),
        )
        return header + ids + attrs + bytes(self.padding) + data + table + sections

    def compressed(self, *, two: bool = False, piece: int = 60_000, level: int = 3) -> bytes:
        """A regular file whose records are all compressed, as by ``perf record -z``.

        Args:
            two: PERF_RECORD_COMPRESSED2 (padded, with the payload's size), not COMPRESSED.
            piece: largest payload of one record; unpacked records straddle the pieces.
        """
        features = {27: struct.pack(self.order + "5I", 1, 1, level, 5, 1 << 20)}
        packed = self.compress(two=two, piece=piece, level=level)
        return FileBuilder(
            self.events, packed, features | self.features, self.order, self.attr_size
        ).file()

    def compress(self, *, two: bool = False, piece: int = 60_000, level: int = 3) -> list[bytes]:
        """The records as COMPRESSED records."""
        stream = zstandard.ZstdCompressor(level=level).compressobj()
        data = stream.compress(b"".join(self.records))
        data += stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        payloads = [data[at : at + piece] for at in range(0, len(data), piece)]
        if two:
            return [
                record(83, struct.pack(self.order + "Q", len(p)) + p, order=self.order)
                for p in payloads
            ]
        return [struct.pack(self.order + "IHH", 81, 0, 8 + len(p)) + p for p in payloads]

    def pipe(
        self, *, build_ids: Sequence[bytes] = (), names: bool = True, tracing: bytes = b""
    ) -> bytes:
        """The stream of ``perf record -o -``: attrs and features as records.

        Args:
            build_ids: complete HEADER_BUILD_ID records, which come last.
            names: give the names by EVENT_UPDATE records.
            tracing: payload of a HEADER_TRACING_DATA record (padded to a multiple of 8).
        """
        order = self.order
        out = struct.pack(order + "QQ", int.from_bytes(b"PERFILE2", "little"), 16)
        for event in self.events:
            ids = struct.pack(f"{order}{len(event.ids)}Q", *event.ids)
            out += record(64, pack_attr(event.attr, order, self.attr_size) + ids, order=order)
            if names and event.ids:
                body = struct.pack(order + "QQ", 2, event.ids[0]) + event.name.encode() + b"\0"
                out += record(78, body, order=order)
        for bit, content in sorted(self.features.items()):
            # perf does not pad these: all that follows is unaligned.
            out += struct.pack(order + "IHHQ", 80, 0, 16 + len(content), bit) + content
        if tracing:
            tracing += bytes(-len(tracing) % 8)
            out += record(66, struct.pack(order + "I", len(tracing)), order=order) + tracing
        return out + b"".join(self.records) + b"".join(build_ids)


def register_table(user):
    """Return the registers of `UserStates`, a row a state."""
    return np.column_stack([user.register(number) for number in user.register_numbers])
