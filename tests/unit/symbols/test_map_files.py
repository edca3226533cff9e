import os
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from builders.examples import nightly
from prospect.files.budget import CostlyError
from prospect.profile.model import KIND_ANON
from prospect.profile.naming import NameSource
from prospect.symbols.jit import map_files
from prospect.symbols.jit.map_files import find_map_file, life_at, parse_map_file
from prospect.symbols.live_process import LiveProcess
from prospect.symbols.naming_options import MapCopy, SymbolOptions
from prospect.symbols.objects import Missing, ObjectKey
from prospect.symbols.symbolizer import Symbolizer
from prospect.symbols.table import SymbolTable


def name_at(table: SymbolTable, address: int) -> bytes | None:
    row = int(table.lookup(np.array([address], np.uint64))[0])
    return table.name(row) if row >= 0 else None


def test_a_line_is_start_size_and_a_name_with_spaces() -> None:
    table = parse_map_file(b"7f0000001000 20 LazyCompile:~sum of /app/x y.js:1:2\n")
    assert name_at(table, 0x7F000000101F) == b"LazyCompile:~sum of /app/x y.js:1:2"
    assert name_at(table, 0x7F0000001020) is None
    assert table.source.tolist() == [NameSource.MAP_FILE]


def test_numbers_may_have_a_prefix_and_capitals() -> None:
    assert name_at(parse_map_file(b"0x1F00 0X10 name"), 0x1F0F) == b"name"


def test_a_later_line_replaces_an_earlier_one() -> None:
    table = parse_map_file(b"1000 100 old\n1000 100 new\n")
    assert name_at(table, 0x1080) == b"new"
    assert len(table) == 1


def test_code_that_was_partly_written_over_keeps_its_name_where_it_was_not() -> None:
    table = parse_map_file(b"1000 100 old\n1080 10 new\n")
    assert [name_at(table, at) for at in (0x1000, 0x1080, 0x10FF)] == [b"old", b"new", b"old"]


@pytest.mark.parametrize(
    "line",
    [b"", b"1000", b"1000 20", b"1000 20 ", b"g000 20 x", b"1000 -1 x", b" 1000 20 x", b"1000 0 x"],
)
def test_junk_lines_are_skipped(line: bytes) -> None:
    table = parse_map_file(line + b"\n2000 10 good\n")
    assert [table.name(row) for row in range(len(table))] == [b"good"]


def test_a_size_beyond_all_addresses_is_cut() -> None:
    table = parse_map_file(b"ffffffffffffff00 ffffffffffffffff name\n")
    assert name_at(table, 2**64 - 2) == b"name"


def test_a_hostile_name_is_kept_as_bytes_and_cut_at_the_longest() -> None:
    table = parse_map_file(b"1000 10 \x1b[2J\xff" + b"x" * (1 << 20) + b"\n")
    assert table.name(0).startswith(b"\x1b[2J\xff")
    assert len(table.name(0)) <= 1 << 16


def test_more_lines_than_any_jit_writes_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_files, "MOST_MAP_LINES", 2)
    assert len(parse_map_file(b"1000 10 a\n2000 10 b\n")) == 2
    with pytest.raises(CostlyError, match="more than 2 lines"):
        parse_map_file(b"1000 10 a\n2000 10 b\n3000 10 c\n")


S = 1_000_000_000


@pytest.mark.parametrize(
    ("modified_ns", "starts", "life"),
    [
        (9 * S, [5 * S, 0], 0),
        (4 * S, [5 * S, 0], 1),
        # Times of files are those of the last tick.
        (5 * S - 4_000_000, [5 * S, 0], 0),
        (4 * S, [9 * S, 5 * S, 3 * S], 2),
        (1 * S, [9 * S, 5 * S], 0),
        (0, [5 * S, 0], 0),
        (1 * S, [], 0),
    ],
)
def test_a_map_file_is_of_the_program_that_wrote_to_it_last(
    modified_ns: int, starts: list[int], life: int
) -> None:
    assert life_at(modified_ns, starts) == life


def names_by_life(copies: list[MapCopy], starts: list[int]) -> tuple[list[str], set[str]]:
    """Name one address in memory of two programs of a process; return names and notes."""
    options = SymbolOptions(use_cache=False, jit_maps={7: copies}, starts_of=lambda _: starts)
    symbolizer = Symbolizer(options)
    names = []
    for life in (0, 1):
        key = ObjectKey(b"//anon", kind=KIND_ANON, life=life)
        found = symbolizer.resolve(key, [7], np.array([0x1000], np.uint64)).named
        names.append(found.name[0] if found.name else "")
    return names, {note for _, note in symbolizer.process_notes}


def test_after_an_exec_the_program_before_it_has_no_names() -> None:
    names, notes = names_by_life([MapCopy(8 * S, b"1000 10 f\n")], [5 * S, 0])
    assert names == ["f", ""]
    (note,) = notes
    assert note.endswith("was not used: a program that the same process ran later wrote it")


def test_a_program_that_wrote_no_map_file_has_no_names_of_the_one_before() -> None:
    names, notes = names_by_life([MapCopy(3 * S, b"1000 10 f\n")], [5 * S, 0])
    assert names == ["", "f"]
    (note,) = notes
    assert "that the same process ran before" in note


def test_each_program_has_its_own_map_file_where_both_were_kept() -> None:
    copies = [MapCopy(3 * S, b"1000 10 old\n"), MapCopy(8 * S, b"1000 10 new\n")]
    assert names_by_life(copies, [5 * S, 0]) == (["new", "old"], set())


class TestWhichFilesAreBelieved:
    """Files in /tmp under process ids that no process can have."""

    PID = 2**30

    @pytest.fixture
    def path(self) -> Path:
        path = Path(f"/tmp/perf-{self.PID}.map")
        yield path
        path.unlink(missing_ok=True)

    def process(self, **changes: object) -> LiveProcess:
        facts = {"pid": 1, "own_pid": self.PID, "owner": os.geteuid(), "started_at": 0.0}
        return LiveProcess(**(facts | {"has_other_root": False} | changes))

    def test_our_own_file_of_a_process_that_is_gone(self, path: Path) -> None:
        path.write_bytes(b"1000 10 f\n")
        found = find_map_file(self.PID, None)
        assert not isinstance(found, Missing)
        assert bytes(found.data) == b"1000 10 f\n"

    def test_the_file_is_sought_under_the_innermost_pid(self, path: Path) -> None:
        path.write_bytes(b"1 1 a\n")
        assert not isinstance(find_map_file(7, self.process()), Missing)

    def test_no_file_is_nothing_to_speak_of(self) -> None:
        assert find_map_file(self.PID, None) == Missing(NameSource.NO_ANONYMOUS, "")

    def test_a_link_is_not_followed(self, path: Path, tmp_path: Path) -> None:
        (tmp_path / "target").write_bytes(b"1000 10 f\n")
        path.symlink_to(tmp_path / "target")
        assert "not a regular file" in find_map_file(self.PID, None).note

    def test_a_fifo_is_refused_and_not_waited_for(self, path: Path) -> None:
        os.mkfifo(path)
        assert "not a regular file" in find_map_file(self.PID, None).note

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_a_file_of_another_user_is_refused(self, path: Path) -> None:
        path.write_bytes(b"1000 10 f\n")
        os.chown(path, 65534, 65534)
        assert "belongs to another user" in find_map_file(self.PID, None).note
        assert "belongs to another user" in find_map_file(1, self.process()).note
        assert not isinstance(find_map_file(1, self.process(owner=65534)), Missing)

    def test_a_file_older_than_the_process_is_of_another_one(self, path: Path) -> None:
        path.write_bytes(b"1000 10 f\n")
        later = self.process(started_at=path.stat().st_mtime + 10)
        assert "older than the process" in find_map_file(1, later).note

    def test_a_file_has_the_time_of_the_tick_before_the_process_began(self, path: Path) -> None:
        path.write_bytes(b"1000 10 f\n")
        process = self.process(started_at=path.stat().st_mtime + 0.009)
        assert not isinstance(find_map_file(1, process), Missing)

    @pytest.mark.skipif(os.geteuid() != 0, reason="root may read a file of any size of its own")
    def test_a_huge_file_of_another_user_is_refused(self, path: Path) -> None:
        path.write_bytes(b"1 1 a\n")
        os.truncate(path, 1 << 40)
        os.chown(path, 65534, 65534)
        assert "not a regular file of at most" in find_map_file(1, self.process(owner=65534)).note


class TestReuse:
    def sources(self, text):
        table = parse_map_file(text)
        names = [name.decode() for name in table.names(range(len(table)))]
        return {(name, NameSource(one)) for name, one in zip(names, table.source, strict=True)}

    def test_an_address_of_two_names_is_told(self):
        found = self.sources(b"1000 10 old\n2000 10 other\n1000 10 new\n")
        assert found == {("new", NameSource.MAP_REUSED), ("other", NameSource.MAP_FILE)}

    def test_a_repeated_line_is_not(self):
        assert self.sources(b"1000 10 one\n1000 10 one\n") == {("one", NameSource.MAP_FILE)}

    def test_what_was_not_written_over_is_certain(self):
        found = self.sources(b"1000 100 old\n1080 10 new\n1100 10 behind\n")
        assert found == {
            ("old", NameSource.MAP_FILE),
            ("new", NameSource.MAP_REUSED),
            ("behind", NameSource.MAP_FILE),
        }


def test_a_file_that_a_later_process_of_the_number_wrote(tmp_path, monkeypatch):
    path = tmp_path / "later.map"
    path.write_bytes(b"1000 10 name\n")
    monkeypatch.setattr(map_files, "map_path", lambda _: bytes(path))
    # The recorded process is gone; its number is now that of this one, which began before the file.
    found = find_map_file(os.getpid(), None)
    assert isinstance(found, Missing)
    assert "a later process" in found.note


def _dense_files():
    chance = random.Random(1)
    lines = [b"%x 1 a\n" % (2 * row) for row in range(200_000)]
    chance.shuffle(lines)
    gaps = b"".join(lines)
    twice = b"".join(b"%x 1 %x\n" % (chance.randrange(1 << 16), row) for row in range(200_000))
    return {
        "gaps": gaps,
        "comb": b"0 ffffffff a\n" + gaps,
        "twice": twice,
        "same": b"1 1 a\n" * 200_000,
        "spaces": b" " * (8 << 20),
        "lines": b"\n" * (4 << 20),
    }


@pytest.mark.parametrize("kind", ["gaps", "comb", *nightly("twice", "same", "spaces", "lines")])
def test_a_dense_file_takes_no_more_than_is_charged(kind):
    text = _dense_files()[kind]
    parse_map_file(b"1 1 a\n")
    tracemalloc.start()
    table = parse_map_file(text)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    most_peak, most_kept = map_files.map_file_costs(len(text), text.count(b"\n"))
    assert peak + len(text) <= most_peak
    assert kept <= most_kept
    assert len(table) or kind in {"spaces", "lines"}


def test_blocks_and_lines_longer_than_one_change_nothing(monkeypatch):
    text = b"".join(b"%x 10 name%d\n" % (64 * row, row) for row in range(1000))
    text += b"fff000 10 long" + b"g" * 1000 + b"\nfffff0 10 last"
    whole = parse_map_file(text)
    monkeypatch.setattr(map_files, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(map_files, "_BLOCK_ROWS", 7)
    cut = parse_map_file(text)
    assert cut.start.tolist() == whole.start.tolist()
    assert cut.end.tolist() == whole.end.tolist()
    rows = [*range(1000), 1001]
    assert cut.names(rows) == whole.names(rows)
    assert cut.name(1000) == whole.name(1000)[: 100 - len(b"fff000 10 ")]


def test_a_file_that_takes_too_long_is_given_up_between_blocks(monkeypatch):
    seconds = iter([0.0, 1.0, 9.0])
    monkeypatch.setattr(map_files.time, "thread_time", lambda: next(seconds))
    monkeypatch.setattr(map_files, "_BLOCK_BYTES", 16)
    with pytest.raises(CostlyError, match="more time"):
        parse_map_file(b"1000 10 name\n" * 8)


def test_trampolines_of_cpython_are_known_by_their_names():
    text = b"1000 10 py::work:/a.py\n2000 10 JS:*py::work\n"
    symbolizer = Symbolizer(SymbolOptions(use_cache=False, jit_maps={7: [MapCopy(0, text)]}))
    key = ObjectKey(b"//anon", kind=KIND_ANON)
    at = np.array([0x1000, 0x100F, 0x1010, 0x2000], np.uint64)
    assert symbolizer.are_trampolines(key, [7], at).tolist() == [True, True, False, False]
    assert symbolizer.are_trampolines(key, [8], at).tolist() == [False] * 4


def test_of_what_was_given_up_the_report_says_why(monkeypatch):
    monkeypatch.setattr(map_files, "MOST_MAP_LINES", 1)
    text = b"1000 10 a\n2000 10 b\n"
    symbolizer = Symbolizer(SymbolOptions(use_cache=False, jit_maps={7: [MapCopy(0, text)]}))
    key = ObjectKey(b"//anon", kind=KIND_ANON)
    symbolizer.resolve(key, [7], np.array([0x1000], np.uint64))
    ((pid, note),) = symbolizer.process_notes
    assert pid == 7
    assert "/tmp/perf-7.map was not used: it has more than 1 lines" in note
