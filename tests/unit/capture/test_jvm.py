"""Reading a JVM's code cache: what is new, what was replaced, and what cannot be right."""

import ctypes
import os
import struct
import zlib
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders.jvm import (
    CODE,
    HEAP,
    HEAP_AT,
    HEAPS_AT,
    VERSION_AT,
    FakeJvm,
    positions_of,
    scopes_of,
)
from prospect.abi import hotspot as wire
from prospect.capture.java import java_reader, jvm_watcher
from prospect.capture.java import jvm as module
from prospect.capture.java.java_reader import JavaFunctions
from prospect.capture.java.jvm import Jvm, class_with_dots
from prospect.capture.java.jvm_messages import (
    KIND_END,
    KIND_FILE,
    KIND_STATE,
    MessageReader,
    MessageWriter,
)
from prospect.capture.java.jvm_watcher import Bounds
from prospect.capture.java.vm_tables import LoadedImage, UnknownError
from prospect.capture.machine.runtime_processes import is_jvm
from prospect.capture.runtimes.process_memory import ProcessMemory, UnreadableError
from prospect.symbols.jit.hotspot_code import read_hotspot


@pytest.fixture(params=(8, 11, 17, 25))
def fake(request):
    return FakeJvm(request.param)


def reader(fake, monkeypatch, take=lambda _size, _has: True, **keywords):
    monkeypatch.setattr(module, "ProcessMemory", lambda _pid: fake.memory)
    monkeypatch.setattr(module, "read_tables", lambda _memory, _base: fake.tables)
    one = Jvm(7, 0, take, **keywords)
    assert one.begin(0)
    return one


class Looks:
    """Looks at a JVM, and what its records say after each one."""

    def __init__(self, jvm):
        self.jvm = jvm
        self.unpacker = zlib.decompressobj()
        self.content = b""

    def look(self):
        self.jvm.look()
        self.content += self.unpacker.decompress(self.jvm.file.take())
        return read_hotspot(b"x", self.content)

    def names(self):
        code = self.look()
        dump = code.dump
        return [
            (bytes(dump.data[begin : begin + length]).decode(), int(address))
            for row, (begin, length, address) in enumerate(
                zip(dump.name.tolist(), dump.name_length.tolist(), dump.address, strict=True)
            )
            if row not in code.walk.bytecode
        ]


def test_code_is_named_by_class_and_method(fake, monkeypatch):
    shift = int(fake.version >= 20)
    outer = fake.method(b"a/b/Outer", b"run", file=b"Outer.java", lines=lines(shift))
    inner = fake.method(b"Inner$1", b"step", file=b"Inner.java", lines=lines(shift))
    scopes, scope = scopes_of([(1, 4), (3, 0)], shift)
    at = fake.blob(
        8,
        b"nmethod",
        method=outer,
        metadata=[outer, 0x999, inner],
        scopes=scopes,
        positions=positions_of((20, 1), (30, scope)),
    )
    stub = fake.blob(16, b"StubRoutines (1)", words=0)
    code = Looks(reader(fake, monkeypatch)).look()
    assert {bytes(one) for one in code.table.names(range(len(code.table)))} == {
        b"a.b.Outer.run",
        b"Inner$1.step",
        b"StubRoutines (1)",
    }
    row = code.dump.address.tolist().index(at)
    inside = code.svma[row : row + 1]
    names, frames = code.frames_of(inside + 25)
    # What follows a position up to the next one is described there.
    assert [(names[name], file, line) for name, file, line in frames[0]] == [
        (b"a.b.Outer.run", "a/b/Outer.java", 41),
        (b"Inner$1.step", "Inner.java", 40),
    ]
    assert code.lines_of(inside + 25) == [("Inner.java", 40)]
    assert code.lines_of(inside + 40) == [("", 0)]
    assert bytes(code.code_at(int(inside[0]), 1000)) == CODE
    assert stub in code.dump.address.tolist()


def lines(shift):
    """Lines 40 from the beginning and 41 from byte 4 on."""
    return bytes((0xFF, shift, 80 + shift, 4 << 3 | 1, 0))


def test_replaced_code_has_no_name_between_two_looks(fake, monkeypatch):
    first, second = fake.method(b"A", b"first"), fake.method(b"A", b"second")
    at = fake.blob(8, b"nmethod", method=first, compile_id=1)
    looks = Looks(reader(fake, monkeypatch))
    assert looks.names() == [("A.first", at)]
    fake.blob(8, b"nmethod", method=second, compile_id=2)
    assert [name for name, _ in looks.names()] == ["A.first", wire.REPLACED.decode(), "A.second"]
    code = looks.look()
    since = [ns for row, ns in enumerate(code.dump.time_ns) if row not in code.walk.bytecode]
    assert since[0] == 0 < since[1] < since[2]


def test_freed_code_keeps_its_name_until_something_else_is_there(fake, monkeypatch):
    first, second = fake.method(b"A", b"first"), fake.method(b"A", b"second")
    fake.blob(8, b"nmethod", method=first, compile_id=1)
    looks = Looks(reader(fake, monkeypatch))
    looks.look()
    fake.free(8)
    assert [name for name, _ in looks.names()] == ["A.first"]
    fake.blob(8, b"nmethod", method=second, compile_id=2)
    # It was seen to be free, so that what is there since is the second.
    assert [name for name, _ in looks.names()] == ["A.first", "A.second"]


def test_code_that_is_not_finished_is_read_later(fake, monkeypatch):
    method = fake.method(b"A", b"late")
    fake.blob(8, b"nmethod", method=method, state=-1)
    fake.blob(16, b"vtable chunks", words=0)
    looks = Looks(reader(fake, monkeypatch))
    assert [name for name, _ in looks.names()] == ["vtable chunks"]
    fake.blob(8, b"nmethod", method=method, state=0)
    assert [name for name, _ in looks.names()] == ["vtable chunks", "A.late"]


def functions(looks):
    table = looks.look().table
    return {bytes(name).decode() for name in table.names(range(len(table)))}


def test_methods_that_are_only_interpreted(fake, monkeypatch):
    compiled = fake.method(b"A", b"compiled")
    fake.blob(8, b"nmethod", method=compiled)
    first, second = fake.loader(), fake.loader()
    fake.klass(first, [compiled, fake.method(b"A", b"other")])
    fake.klass(second, [fake.method(b"B", b"run"), fake.somewhere(bytes(64))])
    fake.klass(second, [fake.method(b"Array", b"of")], kind=-1)
    looks = Looks(reader(fake, monkeypatch, with_classes=True))
    assert functions(looks) == {"A.compiled", "A.other", "B.run"}
    fake.klass(first, [fake.method(b"C", b"later")])
    assert functions(looks) == {"A.compiled", "A.other", "B.run", "C.later"}
    assert functions(Looks(reader(fake, monkeypatch))) == {"A.compiled"}


def test_lists_of_classes_that_lead_in_circles(fake, monkeypatch):
    monkeypatch.setattr("prospect.capture.java.jvm.MOST_CLASSES", 50)
    loader = fake.loader()
    method = fake.method(b"A", b"run")
    fake.blob(8, b"nmethod", method=method)
    fake.klass(loader, [method])
    at = fake.memory.number(loader + 8)
    fake.memory.change(at, struct.pack("<Q", at))
    fake.memory.change(loader, struct.pack("<Q", loader))
    looks = Looks(reader(fake, monkeypatch, with_classes=True))
    assert functions(looks) == {"A.run"}
    assert functions(looks) == {"A.run"}


def test_a_heap_that_cannot_be_right(fake, monkeypatch):
    jvm = reader(fake, monkeypatch)
    fake.memory.change(HEAP_AT + 24, struct.pack("<Q", HEAP + (1 << 40)))
    with pytest.raises(UnknownError):
        jvm.look()


def test_a_heap_that_is_not_made_yet(fake, monkeypatch):
    jvm = reader(fake, monkeypatch)
    fake.memory.change(HEAPS_AT, bytes(8))
    assert jvm.look() == 0


def test_a_version_that_is_not_known_yet(fake, monkeypatch):
    fake.memory.change(VERSION_AT, bytes(4))
    monkeypatch.setattr(module, "ProcessMemory", lambda _pid: fake.memory)
    monkeypatch.setattr(module, "read_tables", lambda _memory, _base: fake.tables)
    assert not Jvm(7, 0, lambda _size, _has: True).begin(0)


def test_java_8_is_not_taken_for_java_25(fake, monkeypatch):
    assert reader(fake, monkeypatch).version == fake.version


def test_a_version_that_is_none(fake, monkeypatch):
    fake.memory.change(VERSION_AT, struct.pack("<I", 1 << 20))
    with pytest.raises(UnknownError):
        reader(fake, monkeypatch)


def test_a_method_that_leads_nowhere_gives_the_kind_of_its_code(fake, monkeypatch):
    fake.blob(8, b"nmethod", method=0x1230)
    assert [name for name, _ in Looks(reader(fake, monkeypatch)).names()] == ["nmethod"]


def test_what_has_no_room_is_counted(fake, monkeypatch):
    for segment in (8, 16, 24):
        fake.blob(segment, b"vtable chunks", words=0)
    jvm = reader(fake, monkeypatch, take=lambda _size, has: has < 150)
    jvm.look()
    assert jvm.left_out == 2


def test_a_user_has_room_of_his_own(monkeypatch):
    monkeypatch.setattr("prospect.capture.java.jvm_watcher.MOST_JVM_USER_BYTES", 1000)
    bounds = Bounds()
    assert bounds.take(1, 900, 0)
    assert not bounds.take(1, 200, 0)
    assert bounds.take(2, 200, 0)
    bounds.has_read(1, 100.0)
    assert not bounds.may_read(1)
    assert bounds.may_read(2)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"java/util/Map$Entry", b"java.util.Map$Entry"),
        (b"A$$Lambda$14/0x0000000800c03a18", b"A$$Lambda"),
        (b"a/B$$Lambda+0x000075cac8003200", b"a.B$$Lambda"),
        (b"A$$Lambda$x", b"A$$Lambda$x"),
    ],
)
def test_hidden_classes_have_the_same_name_in_each_run(name, shown):
    assert class_with_dots(name) == shown


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/usr/lib/jvm/a/lib/server/libjvm.so", True),
        (b"/x/libjvm.so (deleted)", True),
        (b"/x/libjvm.so.debug", False),
        (b"/x/mylibjvm.so", False),
    ],
)
def test_the_library_is_known_by_its_name(path, expected):
    assert is_jvm(path) == expected


def test_messages_count_once_they_are_whole():
    fd = os.memfd_create("test")
    writer, reader = MessageWriter(fd), MessageReader(fd)
    writer.add(7, 1, b"abc")
    writer.state({"refused": {7: "why"}})
    one, two = reader.messages()
    assert one == (7, 1, KIND_FILE, b"abc")
    assert two[2] == KIND_STATE
    os.write(fd, struct.pack("=IIII", 7, 1, 0, 10) + b"half")
    assert list(reader.messages()) == []
    os.close(fd)


def test_what_was_read_of_the_messages_takes_no_memory():
    fd = os.memfd_create("test")
    writer, reader = MessageWriter(fd), MessageReader(fd)
    for number in range(100):
        writer.add(7, number, os.urandom(100_000))
        assert [one for _, one, _, _ in reader.messages()] == [number]
    assert os.fstat(fd).st_blocks * 512 < 1_000_000
    os.close(fd)


@pytest.fixture
def session(monkeypatch):
    """Yield a session's Java functions, and the writer of their messages; there is no child."""
    fds = []
    monkeypatch.setattr(
        java_reader, "MessageReader", lambda fd: fds.append(fd) or MessageReader(fd)
    )
    with JavaFunctions() as functions:
        yield functions, MessageWriter(fds[0])


def test_a_jvm_that_has_ended_is_forgotten_after_the_next_part(session):
    functions, writer = session
    for number in range(1000):
        writer.add(number, number, b"x" * 10_000)
        if number:
            writer.end(number, number)
        pids = sorted(one["pid"] for one in functions.files())
        # Its last samples may be in the part after that in which it ended.
        assert pids == sorted({0, max(number - 1, 0), number})


def test_many_jvms_that_end_between_two_parts_are_forgotten_before(session, monkeypatch):
    monkeypatch.setattr(java_reader, "MOST_ENDED_BYTES", 25_000)
    functions, writer = session
    for pid in range(5):
        writer.add(pid, pid, b"x" * 10_000)
        if pid:
            writer.end(pid, pid)
    assert sorted(one["pid"] for one in functions.files()) == [0, 3, 4]
    assert "forgotten early, as there were too many: 2." in functions.limits[-1]


def test_the_room_of_a_jvm_that_has_ended_is_for_others(fake, monkeypatch):
    monkeypatch.setattr(module, "ProcessMemory", lambda _pid: fake.memory)
    monkeypatch.setattr(module, "read_tables", lambda _memory, _base: fake.tables)
    monkeypatch.setattr(jvm_watcher, "jvm_base", lambda _pid: 1)
    monkeypatch.setattr(jvm_watcher, "user_of", lambda _pid: 1)
    monkeypatch.setattr(jvm_watcher.NewProcesses, "look", lambda _self: [])
    monkeypatch.setattr(jvm_watcher, "MOST_JVM_USER_BYTES", 1000)
    running = {}
    monkeypatch.setattr(jvm_watcher, "process_key", lambda pid: running.get(pid, b""))
    fake.blob(8, b"vtable chunks", words=0)
    fd = os.memfd_create("test")
    reader = MessageReader(fd)
    watcher = jvm_watcher._Watcher(MessageWriter(fd), with_classes=False, session_hz=19.0)
    kinds = []
    for pid in range(1, 50):
        running[pid] = b"the first"
        watcher.add(pid)
        watcher.look()
        running[pid] = b"another program"
        watcher.add(pid)
        with monkeypatch.context() as patched:
            patched.setattr(Jvm, "look", unreadable)
            del running[pid]
            watcher._processes[pid].due_s = 0.0
            watcher.look()
        kinds += [kind for one, _, kind, _ in reader.messages() if one == pid]
    assert Counter(kinds) == {KIND_FILE: 49, KIND_END: 98}
    os.close(fd)


@pytest.mark.parametrize(("session_hz", "least_s", "most_s"), [(0.0, 0.0, 0.25), (19.0, 5.0, 6.0)])
def test_a_jvm_that_compiles_nothing_is_looked_at_as_often_as_the_rate_pays_for(
    session_hz, least_s, most_s
):
    fd = os.memfd_create("test")
    watcher = jvm_watcher._Watcher(MessageWriter(fd), with_classes=False, session_hz=session_hz)
    idle = SimpleNamespace(has_begun=True, look=lambda: 0, left_out=0)
    process = jvm_watcher._Process(idle, b"", 1)
    for _ in range(100):
        watcher._look_at(process)
    assert least_s <= process.wait_s <= most_s
    os.close(fd)


def test_the_last_look_takes_a_bounded_time_and_begins_with_the_longest_unread(monkeypatch):
    now_s, looked = [100.0], []
    monkeypatch.setattr(jvm_watcher.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(jvm_watcher.NewProcesses, "look", lambda _self: [])
    fd = os.memfd_create("test")
    watcher = jvm_watcher._Watcher(MessageWriter(fd), with_classes=False, session_hz=0.0)

    def slow(pid):
        looked.append(pid)
        now_s[0] += 0.9
        return 0

    for pid in range(9):
        jvm = SimpleNamespace(has_begun=True, look=partial(slow, pid), left_out=0, uid=1)
        watcher._processes[pid] = jvm_watcher._Process(jvm, b"", pid)
        watcher._processes[pid].due_s = 200.0 - pid
    watcher.look(is_last=True)
    assert looked == [8, 7, 6]
    os.close(fd)


def unreadable(_jvm):
    raise UnreadableError


def test_symbols_of_a_library_in_memory():
    libc = ctypes.CDLL(None)
    address = ctypes.cast(libc.getppid, ctypes.c_void_p).value
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    # Other tests may have mapped the file too: its last begin before the function is the library's.
    begins = [line.split() for line in maps if "libc.so" in line or "libc.musl" in line]
    base = max(
        begin
        for begin in (
            int(words[0].partition("-")[0], 16) for words in begins if int(words[2], 16) == 0
        )
        if begin <= address
    )
    try:
        found = LoadedImage(ProcessMemory(os.getpid()), base).find([b"getppid", b"no_such_name"])
    except UnreadableError:
        pytest.skip("process_vm_readv() is forbidden here")
    assert base + found[b"getppid"][0] == address
    assert b"no_such_name" not in found
