"""The relay on the target: it receives the recorder, and sends the recording.

Standard input has the packed recorder, the request, then orders, each a line of JSON. Standard
output gets a line of JSON about this Python, then frames in one zlib stream: a letter, a length
(u32), as many bytes. The relay writes nothing to the target's disk: the recorder, the recording and
the answer are files without a name in memory. The recorder, which starts separately, gets them when
they are complete (see `joining`).

The host sends this source unchanged, and it must run on any Python from 3.8 on. It imports no other
module of Prospect.

Frames: ``D`` offset u64 and bytes of the recording; ``T`` its new size, u64; ``A`` the recorder's
answer. For a requested file: ``S`` offset u64 and bytes, ``T`` its size, ``E`` at its end, or ``N``
if there is none.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import select
import signal
import socket
import stat
import struct
import sys
import time
import zlib

TICK_S = 0.25
FILE_S = 20.0
PIECE_BYTES = 1 << 20
# The recorder writes the beginning of the recording again as it knows more; it is sent again.
HEAD_BYTES = 1 << 20
PUNCH_HOLE_KEEP_SIZE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, linux/falloc.h
PAGE = 4096
MOST_ANSWER_BYTES = 1 << 26
# The sections of an ELF file with names and call-frame information; not code, data or DWARF.
SECTIONS = (
    b".symtab .strtab .dynsym .dynstr .eh_frame .eh_frame_hdr .debug_frame .sframe .dynamic .plt"
    b" .plt.sec .plt.got .rela.plt .rel.plt .gnu.version .gnu.version_r .gnu_debuglink"
    b" .gnu_debugaltlink .gnu_debugdata .note.gnu.build-id .shstrtab .ARM.exidx"
).split()
MOST_SECTIONS = 1 << 18
MOST_NAMES_BYTES = 1 << 26
EXTENDED = 0xFFFF  # SHN_XINDEX, PN_XNUM
CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid
FRAME = struct.Struct("<cI")
OFFSET = struct.Struct("<Q")
SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP}


def write_all(descriptor: int, data: bytes) -> None:
    """Write all data.

    Raises:
        OSError: the file takes no more.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class Out:
    """Frames to the host."""

    def __init__(self) -> None:
        self.packer = zlib.compressobj(1)

    def frame(self, letter: bytes, *parts: bytes) -> None:
        """Send a frame of these parts, concatenated."""
        write_all(1, self.packer.compress(FRAME.pack(letter, sum(map(len, parts)))))
        for part in parts:
            write_all(1, self.packer.compress(part))

    def flush(self) -> None:
        """Send all frames so far."""
        write_all(1, self.packer.flush(zlib.Z_SYNC_FLUSH))


class Recording:
    """The recording, which is sent and freed as it grows."""

    def __init__(self, descriptor: int, out: Out) -> None:
        self.descriptor = descriptor
        self.out = out
        self.sent = 0
        self.head = b""
        self.punch = ctypes.CDLL(None).fallocate
        self.punch.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]

    def send_new(self) -> None:
        """Send the bytes since the last time."""
        size = os.fstat(self.descriptor).st_size
        if size < self.sent:
            self.out.frame(b"T", OFFSET.pack(size))
            self.sent = size
            self.head = self.head[:size]
        self.send_changes(os.pread(self.descriptor, min(self.sent, HEAD_BYTES), 0))
        while self.sent < size:
            data = os.pread(self.descriptor, PIECE_BYTES, self.sent)
            if not data:
                break
            self.out.frame(b"D", OFFSET.pack(self.sent), data)
            if self.sent < HEAD_BYTES:
                self.head = (self.head + data)[:HEAD_BYTES]
            self.sent += len(data)
            self.forget()
        self.out.flush()

    def send_changes(self, head: bytes) -> None:
        """Send the pages of the beginning that have changed since they were sent."""
        if head == self.head[: len(head)]:
            return
        for at in range(0, len(head), PAGE):
            page = head[at : at + PAGE]
            if page != self.head[at : at + PAGE][: len(page)]:
                self.out.frame(b"D", OFFSET.pack(at), page)
        self.head = head

    def forget(self) -> None:
        """Free the memory of sent bytes, except for the beginning."""
        end = self.sent // PAGE * PAGE
        if end > HEAD_BYTES:
            self.punch(self.descriptor, PUNCH_HOLE_KEEP_SIZE, HEAD_BYTES, end - HEAD_BYTES)


def main(name: str) -> None:
    """Serve the host until it closes standard input or the connection is gone."""
    meeting = socket.socket(socket.AF_UNIX)
    meeting.bind("\0" + name)
    meeting.listen()
    hello = {"python": list(sys.version_info[:3]), "magic": importlib.util.MAGIC_NUMBER.hex()}
    os.write(1, json.dumps(hello).encode("ascii") + b"\n")
    agent, recording, request, answer = (
        os.memfd_create(name) for name in ("agent", "recording", "request", "answer")
    )
    for descriptor in (agent, request):
        size = sys.stdin.buffer.readline()
        if not size:
            return  # the host sends nothing to a Python that is too old
        write_all(descriptor, zlib.decompress(sys.stdin.buffer.read(int(size))))
    out = Out()
    grown = Recording(recording, out)
    orders = b""
    watched = [0, meeting.fileno()]
    while True:
        ready = select.select(watched, [], [], TICK_S)[0]
        if 0 in ready:
            read = os.read(0, 1 << 16)
            if not read:
                return
            *whole, orders = (orders + read).split(b"\n")
            for line in whole:
                obey(json.loads(line), out, grown, answer)
        if meeting.fileno() in ready:
            joined = met(meeting, agent, (recording, request, answer))
            if joined:  # kept open: its end shows the agent the end of this process
                watched = [0]
        grown.send_new()


def met(meeting: socket.socket, agent: int, files: tuple[int, ...]) -> socket.socket | None:
    """Give the files to the agent, unless that is another user's process.

    Returns: the connection, None on failure.
    """
    come, _ = meeting.accept()
    said = come.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    with contextlib.suppress(OSError):  # it has ended
        if CREDENTIALS.unpack(said)[1] == os.geteuid():
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(files)}i", *files))
            come.sendmsg([b"%d" % agent], [rights])
            return come
    come.close()
    return None


def obey(order: dict[str, object], out: Out, grown: Recording, answer: int) -> None:
    """Follow an order of the host."""
    if "signal" in order:
        pid = json.loads(os.pread(answer, MOST_ANSWER_BYTES, 0) or b"{}").get("pid")
        with contextlib.suppress(ProcessLookupError, TypeError):  # it has ended, or not started
            os.kill(int(pid), SIGNALS[str(order["signal"])])
    elif "end" in order:
        grown.send_new()
        out.frame(b"A", os.pread(answer, MOST_ANSWER_BYTES, 0))
        out.flush()
    elif "file" in order:
        if not relay(order, out):
            out.frame(b"N")
        out.flush()


def relay(order: dict[str, object], out: Out) -> bool:
    """Send a file that a child reads; return whether it is complete.

    A process chose the file by a mapping, and its file system may block every reader.
    """
    ours, its = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(ours)
            send_file(order, its)
        finally:  # even if a hostile file raises an exception
            os._exit(0)
    os.close(its)
    letter = b""
    deadline = time.monotonic() + FILE_S
    while letter != b"E":
        head = read_until(deadline, ours, FRAME.size)
        if not head:
            break
        letter, size = FRAME.unpack(head)
        content = read_until(deadline, ours, size)
        if len(content) < size:
            letter = b""
            break
        out.frame(letter, content)
    os.close(ours)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, os.WNOHANG)
    return letter == b"E"


def read_until(deadline: float, pipe: int, size: int) -> bytes:
    """Read `size` bytes; return none if there are fewer, or they do not come in time."""
    data = b""
    while len(data) < size:
        if not select.select([pipe], [], [], max(deadline - time.monotonic(), 0))[0]:
            return b""
        more = os.read(pipe, size - len(data))
        if not more:
            return b""
        data += more
    return data


def opened(order: dict[str, object]) -> int:
    """Open a requested file, below its process's root and with its inode if these are known."""
    path = os.fsencode(str(order["file"]))
    places = [b"/proc/%d/root%s" % (int(str(order["pid"])), path)] if "pid" in order else []
    for place in [*places, path]:
        with contextlib.suppress(OSError):
            # O_NONBLOCK: opening a FIFO must not block.
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            status = os.fstat(descriptor)
            is_it = status.st_ino == order.get("inode", status.st_ino)
            if is_it and stat.S_ISREG(status.st_mode):
                return descriptor
            os.close(descriptor)
    raise ValueError("no such file")


def send_file(order: dict[str, object], to: int) -> None:
    """Write frames with all of the kernel's listing, or with the `SECTIONS` of an ELF file."""

    def send(letter: bytes, *parts: bytes) -> None:
        write_all(to, b"".join((FRAME.pack(letter, sum(map(len, parts))), *parts)))

    descriptor = opened(order)
    if order["file"] == "/proc/kallsyms":
        at = 0
        while True:
            data = os.read(descriptor, PIECE_BYTES)
            if not data:
                break
            send(b"S", OFFSET.pack(at), data)
            at += len(data)
    else:
        file_size = os.fstat(descriptor).st_size
        for start, size in elf_parts(descriptor, file_size):
            for at in range(start, start + size, PIECE_BYTES):
                length = min(PIECE_BYTES, start + size - at)
                send(b"S", OFFSET.pack(at), os.pread(descriptor, length, at))
        send(b"T", OFFSET.pack(file_size))
    send(b"E")


def elf_parts(descriptor: int, size: int) -> list[tuple[int, int]]:
    """Return (offset, size) of the parts of an ELF file to send; defined by elf(5).

    Raises:
        ValueError: it is none, or has no sections.
        struct.error: they are outside of it.
    """
    head = os.pread(descriptor, 64, 0)
    if len(head) < 64 or head[:4] != b"\x7fELF":
        raise ValueError("not an ELF file")
    order = "<" if head[5] == 1 else ">"
    is_64 = head[4] == 2
    ident = struct.unpack_from(order + ("QQQIHHHHHH" if is_64 else "IIIIHHHHHH"), head, 24)
    program, table, entry, count, names = ident[1], ident[2], ident[7], ident[8], ident[9]
    if not 0 < table < size:
        raise ValueError("it has no sections")
    layout = struct.Struct(order + ("IIQQQQII" if is_64 else "IIIIIIII"))

    def section(row: int) -> tuple[int, ...]:
        return layout.unpack_from(os.pread(descriptor, entry, table + row * entry))

    # Numbers of more than 16 bits are in the first section: sh_size, sh_link, sh_info.
    *_, most_sections, link, most_segments = section(0)
    count = count or most_sections
    names = link if names == EXTENDED else names
    segments = most_segments if ident[6] == EXTENDED else ident[6]
    if names >= count:
        raise ValueError("its sections have no names")
    parts = [(0, 64), (program, ident[5] * segments), (table, entry * count)]
    offset, length = section(names)[4:6]
    length = min(length, size - offset, MOST_NAMES_BYTES)
    strings = os.pread(descriptor, length, offset) if length > 0 else b""
    for row in range(min(count, MOST_SECTIONS)):
        name, kind, _, _, offset, length, _, _ = section(row)
        text = strings[name : strings.find(b"\0", name)]
        if kind != 8 and (text in SECTIONS or text.startswith(b".note")):  # SHT_NOBITS has none
            parts.append((offset, length))
    return [(start, min(length, size - start)) for start, length in parts if start < size]
