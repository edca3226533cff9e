"""Whose a store is, what becomes of its files, and who may write."""

from __future__ import annotations

import json
import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from builders.command_line import names
from prospect.errors import StoreError
from prospect.store.directory import VERSION, StoreDirectory
from prospect.store.retention import clean, remove
from prospect.store.segments import KINDS, MINUTE, NAME_KINDS, SAMPLES, Segment

AT = 1_795_356_300


def segment(number=0):
    return Segment(MINUTE, AT, AT + 60, "current", number, number)


def put(store, one, kinds=KINDS):
    for kind in kinds:
        store.write_bytes(one.path(kind), b"x")


def test_a_new_store_is_ours_alone(tmp_path):
    path = tmp_path / "store"
    with StoreDirectory(str(path), create=True) as store:
        put(store, segment())
        assert store.segments() == [segment()]
        assert store.size_bytes(segment()) == len(KINDS)
    for file in [path, *path.rglob("*")]:
        mode = stat.S_IMODE(file.stat().st_mode)
        assert mode == (0o700 if file.is_dir() else 0o600), file
    with StoreDirectory(str(path)) as again:
        assert again.made_at > 0


def test_what_is_no_store_is_left_alone(tmp_path):
    (tmp_path / "letter").write_text("mine")
    with pytest.raises(StoreError, match="neither a store nor empty"):
        StoreDirectory(str(tmp_path), create=True)
    with pytest.raises(StoreError, match="prospect daemon --store"):
        StoreDirectory(str(tmp_path / "none"))
    with pytest.raises(StoreError, match="no store"):
        StoreDirectory(str(tmp_path))
    assert names(tmp_path) == ["letter"]


def test_a_link_to_a_store_is_none(tmp_path):
    StoreDirectory(str(tmp_path / "store"), create=True).close()
    (tmp_path / "link").symlink_to("store")
    with pytest.raises(StoreError, match="no link"):
        StoreDirectory(str(tmp_path / "link"), create=True)


def test_a_store_that_others_may_write_to_is_refused(tmp_path):
    path = tmp_path / "store"
    StoreDirectory(str(path), create=True).close()
    path.chmod(0o777)
    with pytest.raises(StoreError, match="chmod 700"):
        StoreDirectory(str(path))


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")
def test_a_store_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "store"
    StoreDirectory(str(path), create=True).close()
    os.chown(path, 65534, 65534)
    with pytest.raises(StoreError, match="belongs to user 65534"):
        StoreDirectory(str(path))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (json.dumps({"version": VERSION + 1}), "update it"),
        ("{}", "damaged"),
        ("[]", "damaged"),
        ("\0", "damaged"),
        ("", "damaged"),
        ("[" * 4000, "damaged"),
    ],
)
def test_a_newer_or_damaged_format_is_refused(tmp_path, text, complaint):
    path = tmp_path / "store"
    StoreDirectory(str(path), create=True).close()
    (path / "format.json").write_text(text)
    for create in (False, True):
        with pytest.raises(StoreError, match=complaint):
            StoreDirectory(str(path), create=create)


def test_when_it_was_made_may_be_a_number_that_no_float_has(tmp_path):
    path = tmp_path / "store"
    StoreDirectory(str(path), create=True).close()
    (path / "format.json").write_text(f'{{"version": {VERSION}, "made": 1{"0" * 400}}}')
    with closing(StoreDirectory(str(path))) as store:
        assert store.made_at == 0.0


def test_one_writer_at_a_time(tmp_path):
    path = str(tmp_path / "store")
    with StoreDirectory(path, create=True) as store, StoreDirectory(path) as other:
        store.lock()
        with pytest.raises(StoreError, match="another process writes"):
            other.lock()
        store.close()
        other.lock()


def test_a_store_that_was_moved_knows_it(tmp_path):
    path = tmp_path / "store"
    with StoreDirectory(str(path), create=True) as store:
        assert store.is_in_place()
        path.rename(tmp_path / "moved")
        assert not store.is_in_place()
        path.symlink_to("moved")
        assert not store.is_in_place()
        # What is written goes to what was opened, wherever the path leads now.
        put(store, segment())
    assert (tmp_path / "moved" / segment().path(SAMPLES)).exists()


def test_links_below_a_store_are_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    with StoreDirectory(str(elsewhere), create=True) as store:
        put(store, segment())
    path = tmp_path / "store"
    StoreDirectory(str(path), create=True).close()
    (path / "minute").symlink_to(elsewhere / "minute")
    with StoreDirectory(str(path)) as store:
        assert store.segments() == []
    (path / "minute").unlink()
    directory = path / segment().directory
    directory.mkdir(parents=True)
    directory.joinpath(f"{segment().stem}.samples.parquet").symlink_to(
        elsewhere / segment().path(SAMPLES)
    )
    with StoreDirectory(str(path)) as store:
        assert store.segments() == []


@pytest.mark.parametrize("written", range(len(KINDS)))
def test_a_segment_is_there_once_its_last_file_is(tmp_path, written):
    with StoreDirectory(str(tmp_path / "store"), create=True) as store:
        put(store, segment(1))
        put(store, segment(2), KINDS[:written])
        part = tmp_path / "store" / (segment(2).path(KINDS[written]) + ".0.part")
        part.write_bytes(b"PAR1")
        assert store.segments() == [segment(1)]
        # Other windows of the hour may refer to names that are whole.
        names_written = set(KINDS[:written]) & set(NAME_KINDS)
        assert clean(store) == written + 1 - len(names_written)
        assert store.segments() == [segment(1)]
        assert not part.exists()
        remove(store, segment(1))
        assert clean(store) == 0
        assert not list((tmp_path / "store").rglob("*.parquet"))


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    with StoreDirectory(str(tmp_path / "store"), create=True) as store:

        def fail(part):
            Path(part).write_bytes(b"half")
            raise OSError(28, "No space left on device")

        with pytest.raises(OSError, match="No space"):
            store.write("minute/x", fail)
        assert names(tmp_path / "store" / "minute") == []


def test_a_removed_segment_takes_its_empty_directories_along(tmp_path):
    with StoreDirectory(str(tmp_path / "store"), create=True) as store:
        put(store, segment(1))
        put(store, segment(2))
        remove(store, segment(1))
        assert store.segments() == [segment(2)]
        remove(store, segment(2))
        assert names(tmp_path / "store") == ["format.json"]
