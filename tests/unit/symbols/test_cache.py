import hashlib
import os
import shutil

import numpy as np
import pytest

from builders.eh_frame import frame_sections
from builders.elf import Section, Symbol, code, elf_file
from builders.go_table import GoFunction, go_image
from prospect.elf.image import ElfImage
from prospect.files.rights import EVERYBODY
from prospect.profile.naming import NameSource
from prospect.records import field_names
from prospect.symbols.images.image_symbols import read_symbol_table
from prospect.symbols.table import SymbolTable, build_symbol_table
from prospect.symbols.table_cache import (
    _MAGIC,
    FRAMES_SUFFIX,
    LINES_SUFFIX,
    FileIdentity,
    SymbolCache,
    cache_key,
)

FILE = FileIdentity(device=1, inode=2, modified_ns=3, owner=0)


@pytest.fixture
def cache(tmp_path):
    return SymbolCache(tmp_path / "prospect")


def stripped_table():
    exported = [Symbol("f", 0x1000, 16), Symbol("_f", 0x1000, 16), Symbol("g", 0x1100, 16)]
    return read_symbol_table(ElfImage.parse(elf_file(sections=[code()], dynamic_symbols=exported)))


def bounded_table():
    sections = [code(), *frame_sections([(0x1020, 16), (0x1040, 16)])]
    exported = [Symbol("f", 0x1000, 16), Symbol("g", 0x1100, 16)]
    return read_symbol_table(ElfImage.parse(elf_file(sections=sections, dynamic_symbols=exported)))


def go_table():
    functions = [GoFunction("main.main"), GoFunction("main.work.func1", 96)]
    return read_symbol_table(ElfImage.parse(go_image(functions)))


def crowded_table():
    """Two names with more functions between them than anybody looks through."""
    sections = [code(), *frame_sections([(0x1020 + 4 * row, 4) for row in range(501)])]
    exported = [Symbol("f", 0x1000, 16), Symbol("g", 0x1F00, 16)]
    return read_symbol_table(ElfImage.parse(elf_file(sections=sections, dynamic_symbols=exported)))


def table_with_lengths():
    return build_symbol_table(
        strings=b"one two",
        start=np.array([1, 2, 2], np.uint64),
        end=np.array([2, 3, 3], np.uint64),
        limit=np.zeros(3, np.uint64),
        name_start=np.array([0, 4, 0]),
        name_length=np.array([3, 3, 3]),
        is_global=np.array([True, False, True]),
        source=np.full(3, NameSource.MAP_FILE, np.uint8),
    )


def empty_table():
    return read_symbol_table(ElfImage.parse(elf_file()))


def same(left, right):
    for name in field_names(SymbolTable):
        one, other = getattr(left, name), getattr(right, name)
        if name == "strings":
            assert bytes(one) == bytes(other)
        elif one is None:
            assert other is None
        else:
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()
    rows = range(len(left))
    assert left.names(rows) == right.names(rows)
    assert [left.alias_names(r) for r in rows] == [right.alias_names(r) for r in rows]


def test_version_of_kept_tables_is_that_of_the_rules_that_made_them():
    """Who changes what a table says of an image changes the version, or old tables stay in use."""
    digest = hashlib.blake2b(digest_size=8)
    for table in (stripped_table(), bounded_table(), crowded_table(), go_table()):
        for name in field_names(SymbolTable):
            column = getattr(table, name)
            digest.update(b"" if column is None else bytes(column))
    assert (_MAGIC[-1], digest.hexdigest()) == (5, "8fbddf580de0e153")


@pytest.mark.parametrize("make", [stripped_table, bounded_table, table_with_lengths, empty_table])
def test_what_was_stored_is_loaded(cache, make):
    table = make()
    cache.store("key", table)
    same(cache.load("key"), table)


def test_a_loaded_table_is_looked_up_as_the_stored_one(cache):
    table = stripped_table()
    cache.store("key", table)
    address = np.arange(0xFF0, 0x2010, dtype=np.uint64)
    assert cache.load("key").lookup(address).tolist() == table.lookup(address).tolist()


def test_nothing_is_loaded_under_another_key(cache):
    cache.store("key", stripped_table())
    assert cache.load("other") is None
    (entry,) = cache.directory.iterdir()
    cache.store("other", empty_table())
    other = next(path for path in cache.directory.iterdir() if path != entry)
    shutil.copy(entry, other)
    assert cache.load("other") is None


def test_only_the_owner_can_read_what_is_stored(cache):
    cache.store("key", stripped_table())
    (entry,) = cache.directory.iterdir()
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    assert entry.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("position", [0, 8, 24, 40, 48, 52])
def test_an_entry_with_a_damaged_header_is_ignored(cache, position):
    cache.store("key", stripped_table())
    (entry,) = cache.directory.iterdir()
    data = bytearray(entry.read_bytes())
    data[position] ^= 1
    entry.write_bytes(data)
    assert cache.load("key") is None


@pytest.mark.parametrize("size", [0, 10, 60, 100, -1])
def test_an_entry_that_was_cut_off_is_ignored(cache, size):
    cache.store("key", stripped_table())
    (entry,) = cache.directory.iterdir()
    entry.write_bytes(entry.read_bytes()[:size])
    assert cache.load("key") is None


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_entry_that_others_can_write_is_ignored(cache, mode):
    cache.store("key", stripped_table())
    (entry,) = cache.directory.iterdir()
    entry.chmod(mode)
    assert cache.load("key") is None


def test_an_entry_that_is_a_link_or_a_fifo_is_ignored(cache, tmp_path):
    cache.store("key", stripped_table())
    (entry,) = cache.directory.iterdir()
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert cache.load("key") is None
    entry.unlink()
    os.mkfifo(entry)
    assert cache.load("key") is None


def test_a_directory_that_others_can_write_or_that_is_a_link_is_not_used(cache, tmp_path):
    cache.store("key", stripped_table())
    cache.directory.chmod(0o770)
    assert cache.load("key") is None
    cache.directory.chmod(0o700)
    cache.directory.rename(tmp_path / "elsewhere")
    cache.directory.symlink_to(tmp_path / "elsewhere")
    assert cache.load("key") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_what_belongs_to_another_user_is_not_used(cache):
    cache.store("key", stripped_table())
    (entry,) = cache.directory.iterdir()
    os.chown(entry, 1234, 1234)
    assert cache.load("key") is None
    os.chown(entry, 0, 0)
    os.chown(cache.directory, 1234, 1234)
    assert cache.load("key") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_nothing_is_left_in_the_home_of_another_user(tmp_path):
    os.chown(tmp_path, 1234, 1234)
    assert SymbolCache.of_user({"HOME": str(tmp_path)}) is None
    SymbolCache(tmp_path / ".cache" / "prospect").store("key", stripped_table())
    assert list(tmp_path.iterdir()) == []


def test_failing_to_store_is_silent(tmp_path):
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file" / "prospect", tmp_path / "a" / "b" / "prospect"):
        SymbolCache(directory).store("key", stripped_table())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_oldest_entries_make_room(tmp_path):
    table = stripped_table()
    cache = SymbolCache(tmp_path / "prospect", most_bytes=4096)
    for number in range(20):
        cache.store(str(number), table)
        for path in cache.directory.iterdir():
            status = path.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))
    assert sum(path.stat().st_size for path in cache.directory.iterdir()) <= 4096
    assert cache.load("19") is not None
    assert cache.load("0") is None


def test_an_entry_that_was_used_today_is_not_the_next_to_go(tmp_path):
    table = stripped_table()
    cache = SymbolCache(tmp_path / "prospect")
    names = ("used", "unused", "a", "b", "c")
    for name in names:
        cache.store(name, table)
    for number, path in enumerate(sorted(cache.directory.iterdir())):
        os.utime(path, (100 + number, 100 + number))
    for name in names:
        if name != "unused":
            assert cache.load(name) is not None
    room_for_five = 11 * path.stat().st_size // 2
    SymbolCache(cache.directory, room_for_five).store("new", table)
    assert cache.load("unused") is None
    assert all(cache.load(name) is not None for name in ("used", "new"))


def test_files_of_another_kind_are_not_removed_to_make_room(tmp_path):
    cache = SymbolCache(tmp_path / "prospect", most_bytes=4096)
    cache.store("first", stripped_table())
    other = cache.directory / "0123.debuginfo"
    other.write_bytes(bytes(100000))
    os.utime(other, (1, 1))
    for number in range(20):
        cache.store(str(number), stripped_table())
    assert other.exists()


def test_what_a_killed_run_left_half_written_goes_after_a_day(tmp_path):
    cache = SymbolCache(tmp_path / "prospect")
    cache.store("first", stripped_table())
    old, new = cache.directory / "old.part", cache.directory / "new.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.store("second", stripped_table())
    assert (old.exists(), new.exists()) == (False, True)


def test_a_table_that_would_fill_the_cache_is_not_stored(tmp_path):
    cache = SymbolCache(tmp_path / "prospect", most_bytes=512)
    cache.store("key", stripped_table())
    assert not cache.directory.exists()


def test_the_place_follows_the_environment(tmp_path):
    given = SymbolCache.of_user({"XDG_CACHE_HOME": "/x", "HOME": "/h"})
    assert str(given.directory) == "/x/prospect"
    assert str(SymbolCache.of_user({"HOME": "/h"}).directory) == "/h/.cache/prospect"
    relative = SymbolCache.of_user({"XDG_CACHE_HOME": "x", "HOME": "/h"})
    assert str(relative.directory) == "/h/.cache/prospect"
    assert SymbolCache.of_user({}) is None
    assert SymbolCache.of_user({"HOME": "/h", "PROSPECT_NO_CACHE": "1"}) is None


def test_a_missing_cache_directory_is_made_in_an_own_home(tmp_path):
    SymbolCache.of_user({"HOME": str(tmp_path)}).store("key", stripped_table())
    assert (tmp_path / ".cache" / "prospect").is_dir()


def image(build_id=None, *sections):
    return ElfImage.parse(elf_file(sections=[code(), *sections], build_id=build_id))


def test_the_key_tells_apart_what_makes_another_table():
    one, other = bytes(20), bytes(range(20))
    padding = Section("more", bytes(64))
    received = FILE._replace(owner=EVERYBODY)
    keys = {
        cache_key((FILE, image(one))),
        cache_key((FILE, image(other))),
        cache_key((FILE, image(one, padding))),  # the same build, not stripped
        cache_key((FILE._replace(owner=1000), image(one))),
        cache_key((FILE, image(one)), (FILE, image(one))),
        cache_key((FILE, image(one)), (FILE, image(one, padding))),
        cache_key((FILE, image(one)), (received, image(one))),  # from a server, not a package
        cache_key((FILE, image())),
        cache_key((FILE._replace(inode=9), image())),
        cache_key((FILE._replace(device=9), image())),
        cache_key((FILE._replace(modified_ns=9), image())),
    }
    assert len(keys) == 11


def test_a_build_id_makes_the_place_of_the_file_irrelevant():
    moved = FILE._replace(device=9, inode=9, modified_ns=9)
    assert cache_key((FILE, image(bytes(20)))) == cache_key((moved, image(bytes(20))))


def test_files_that_came_from_elsewhere_share_no_table():
    received, program = FILE._replace(owner=EVERYBODY), image(bytes(20))
    other = received._replace(inode=9)
    assert cache_key((received, program)) != cache_key((other, program))
    # Of an archive there is no file at all.
    in_archive = received._replace(device=-1)
    assert cache_key((in_archive, program)) is None
    assert cache_key((FILE, program), (in_archive, program)) is None


def test_frame_rows_and_line_tables_are_told_apart(cache):
    cache.store_bytes("key", FRAMES_SUFFIX, b"the rows of frames")
    assert cache.load_bytes("key", LINES_SUFFIX) is None
    cache.store_bytes("key", LINES_SUFFIX, b"the lines")
    assert bytes(cache.load_bytes("key", FRAMES_SUFFIX)) == b"the rows of frames"
    assert bytes(cache.load_bytes("key", LINES_SUFFIX)) == b"the lines"
    assert cache.load_bytes("another", FRAMES_SUFFIX) is None
    for path in cache.directory.glob("*.frames"):
        path.write_bytes(path.read_bytes()[:-1])
    assert cache.load_bytes("key", FRAMES_SUFFIX) is None
