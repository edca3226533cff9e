"""jitdump files: what they say, in either byte order, and what damaged ones do not do."""

import numpy as np
import pytest
from tests.builders.jitdump import DumpBuilder

from prospect.symbols.jit.jit_code import number_generations
from prospect.symbols.jit.jitdump import parse_jitdump
from prospect.symbols.jit.map_files import dump_pid, find_dump

CODE = bytes(range(16))


def code_of(builder):
    dump = parse_jitdump(builder.view())
    assert dump is not None
    return number_generations(b"/tmp/jit-7.dump", dump)


def name_at(code, svma):
    row = int(code.table.lookup(np.array([svma], np.uint64))[0])
    return code.table.name(row) if row >= 0 else b""


@pytest.mark.parametrize("order", "<>")
def test_a_load_has_name_time_and_code(order):
    dump = parse_jitdump(DumpBuilder(order=order).load(5, 0x1000, CODE, b"one").view())
    assert (dump.pid, dump.machine, dump.is_cpu_time, dump.damage) == (7, 62, False, "")
    assert dump.time_ns.tolist() == [5]
    assert dump.address.tolist() == [0x1000]
    code = number_generations(b"", dump)
    assert name_at(code, 0x100F) == b"one"
    assert bytes(code.code_at(0x1004, 100)) == CODE[4:]
    assert bytes(code.code_at(0x1010, 100)) == b""


def test_the_processors_own_time_is_told():
    assert parse_jitdump(DumpBuilder(flags=1).view()).is_cpu_time


def test_code_over_code_has_addresses_of_its_own():
    builder = DumpBuilder().load(1, 0x1000, CODE, b"old").load(2, 0x1008, CODE, b"new")
    code = code_of(builder.load(3, 0x1018, CODE, b"behind"))
    assert len(set((code.svma >> np.uint64(48)).tolist())) == 2
    names = [name_at(code, int(svma) + 8) for svma in code.svma]
    assert names == [b"old", b"new", b"behind"]
    assert (code.svma & np.uint64((1 << 48) - 1)).tolist() == [0x1000, 0x1008, 0x1018]


def test_a_move_is_of_the_last_load_with_its_index():
    dump = parse_jitdump(
        DumpBuilder()
        .load(1, 0x1000, CODE, b"a")
        .load(2, 0x2000, CODE, b"b")
        .move(3, 1, 0x2000, 0x3000, 16)
        .move(4, 99, 0, 0x4000, 16)
        .view()
    )
    assert dump.moved.tolist() == [1]
    assert dump.moved_to.tolist() == [0x3000]
    assert dump.moved_ns.tolist() == [3]


@pytest.mark.parametrize("order", "<>")
def test_lines_are_those_before_the_next_load(order):
    entries = [(0x1000, 3, b"a.js"), (0x1008, 4, b"\xff")]
    builder = DumpBuilder(order=order).lines(0x1000, entries).load(1, 0x1000, CODE, b"one")
    code = code_of(builder.load(2, 0x2000, CODE, b"two"))
    asked = np.array([0x1000, 0x1007, 0x100F, 0x2000, 0x9000], np.uint64)
    assert code.lines_of(asked) == [("a.js", 3), ("a.js", 3), ("a.js", 4), ("", 0), ("", 0)]


def test_lines_behind_an_elf_header_are_shifted():
    entries = [(0x1040, 3, b"a.js"), (0x1048, 4, b"a.js")]
    code = code_of(DumpBuilder().lines(0x1000, entries).load(1, 0x1000, CODE, b"one"))
    assert code.lines_of(np.array([0x1007, 0x1008], np.uint64)) == [("a.js", 3), ("a.js", 4)]


def test_impossible_lines_are_left_out():
    entries = [(0x1000, 3, b"a.js"), (0x77777777, 4, b"a.js")]
    code = code_of(DumpBuilder().lines(0x1000, entries).load(1, 0x1000, CODE, b"one"))
    assert code.lines_of(np.array([0x1000], np.uint64)) == [("", 0)]


# Node 20 writes freed memory in place of the name of a file.
@pytest.mark.parametrize("file", [b"\x01\x90", b"\xe8\xba", b"a\x80b"])
@pytest.mark.parametrize(
    ("name", "place"),
    [
        (b"JS:* /app/work.js:12:34", ("/app/work.js", 12)),
        (b"JS:*work /app/my work.js:7:1", ("/app/my work.js", 7)),
        (b"JS:~ file:///app/work.mjs:3:4", ("/app/work.mjs", 3)),
        (b"JS:^next node:internal/util:598:30", ("node:internal/util", 598)),
        (b"JS:*work", ("", 0)),
        (b"JS:* /app/work.js:99999999999:1", ("", 0)),
        (b"BytecodeHandler:Wide /app/work.js:1:2", ("", 0)),
    ],
)
def test_the_line_in_the_name_takes_the_place_of_impossible_ones(name, place, file):
    builder = DumpBuilder().lines(0x1000, [(0x1000, 3, file)]).load(1, 0x1000, CODE, name)
    code = code_of(builder.load(2, 0x2000, CODE, name))
    assert code.lines_of(np.array([0x1000, 0x2008], np.uint64)) == [place, place]


def test_code_ahead_of_the_first_line_entry_has_the_line_of_its_function():
    builder = DumpBuilder().lines(0x1000, [(0x1008, 5, b"/app/a.js")])
    code = code_of(builder.load(1, 0x1000, CODE, b"JS:* /app/a.js:3:1"))
    asked = np.array([0x1000, 0x1008], np.uint64)
    assert code.lines_of(asked) == [("/app/a.js", 3), ("/app/a.js", 5)]


def test_more_lines_than_there_are():
    builder = DumpBuilder().lines(0x1000, [(0x1000, 3, b"a.js")], count=1 << 60)
    code = code_of(builder.load(1, 0x1000, CODE, b"one"))
    assert code.lines_of(np.array([0x1000], np.uint64)) in ([("a.js", 3)], [("", 0)])


@pytest.mark.parametrize("size", [0, 15, 1 << 31])
def test_what_follows_a_damaged_record_is_left_out(size):
    builder = DumpBuilder().load(1, 0x1000, CODE, b"one").record(0, 2, b"", size)
    dump = parse_jitdump(builder.load(3, 0x2000, CODE, b"two").view())
    assert len(dump) == 1
    assert "not whole" in dump.damage


def test_a_load_may_not_claim_more_code_than_it_has():
    dump = parse_jitdump(DumpBuilder().load(1, 0x1000, CODE, b"one", size=1 << 40).view())
    assert len(dump) == 0


def test_a_load_over_the_end_of_memory_is_none():
    assert len(parse_jitdump(DumpBuilder().load(1, 2**64 - 8, CODE, b"one").view())) == 0


def test_what_is_no_dump():
    assert parse_jitdump(memoryview(b"")) is None
    assert parse_jitdump(memoryview(bytes(64))) is None


def test_any_cut_gives_a_dump_or_none():
    builder = DumpBuilder().lines(0x1000, [(0x1000, 3, b"a")]).load(1, 0x1000, CODE, b"one")
    content = builder.move(2, 0, 0x1000, 0x2000, 16).content
    for end in range(len(content)):
        dump = parse_jitdump(memoryview(content)[:end])
        assert dump is None or len(dump) <= 1


def test_any_bytes_give_a_dump():
    random = np.random.default_rng(11)
    for _ in range(300):
        noise = random.integers(0, 256, 400, np.uint8)
        noise[::3] = 0
        dump = parse_jitdump(memoryview(DumpBuilder().content + noise.tobytes()))
        code = number_generations(b"", dump)
        assert len(code.lines_of(code.svma)) == len(dump)


@pytest.mark.parametrize(
    ("path", "pid"),
    [
        (b"/tmp/jit-12.dump", 12),
        (b"jit-12.dump", 12),
        (b"/a/jit-12.dump (deleted)", 12),
        (b"/tmp/jit-12.dumps", 0),
        (b"/tmp/xjit-12.dump", 0),
        (b"/tmp/jit-.dump", 0),
    ],
)
def test_names_of_dumps(path, pid):
    assert dump_pid(path) == pid


class TestFindDump:
    def test_a_dump_of_another_process_is_refused(self, tmp_path):
        path = tmp_path / "jit-8.dump"
        path.write_bytes(DumpBuilder(pid=7).content)
        assert "process 7 wrote it" in find_dump(bytes(path), None, None)

    def test_a_copy_comes_first(self, tmp_path):
        path = bytes(tmp_path / "jit-7.dump")
        found = find_dump(path, None, DumpBuilder().load(1, 0x1000, CODE, b"one").content)
        assert len(found.dump) == 1
        assert "is gone" in find_dump(path, None, None)

    def test_a_link_is_not_followed(self, tmp_path):
        (tmp_path / "secret").write_bytes(DumpBuilder().content)
        (tmp_path / "jit-7.dump").symlink_to(tmp_path / "secret")
        assert "was not used" in find_dump(bytes(tmp_path / "jit-7.dump"), None, None)
