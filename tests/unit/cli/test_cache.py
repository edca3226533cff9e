"""``prospect cache``: shows what is kept, and removes it."""

from __future__ import annotations

import json
import os
import time

import pytest

from builders.json_schema import document_errors
from prospect.cli.cache import run
from prospect.cli.commands import CACHE
from prospect.cli.main import main
from prospect.cli.option_parser import parse
from prospect.errors import SymbolError

FILES = {
    "a.symbols": 1 << 20,
    "b.symbols": 1 << 20,
    "c.lines": 10,
    "0123.debuginfo": 3 << 20,
    "0123.executable": 5,
    "4567-debuginfo-89.absent": 0,
    "x.part": 7,
    "unknown": 1,
}
KINDS = {
    "symbol tables": 2,
    "line tables": 1,
    "debug files from servers": 1,
    "programs from servers": 1,
    "files that servers lack": 1,
    "unfinished files": 1,
    "other files": 1,
}


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PROSPECT_NO_CACHE", raising=False)
    kept = tmp_path / "prospect"
    kept.mkdir(mode=0o700)
    for name, size in FILES.items():
        (kept / name).write_bytes(bytes(size))
    os.utime(kept / "b.symbols", (86400 * 365,) * 2)
    return kept


def answer(capfd, *options):
    settings, words = parse(CACHE, options)
    assert words == []
    assert run(settings, [], ()) == 0
    out, error = capfd.readouterr()
    assert error == ""
    return out


def test_each_kind_is_counted(directory, capfd):
    document = json.loads(answer(capfd, "--format", "json"))
    assert document["schema"] == "prospect-cache/1"
    assert document_errors(document) == []
    assert document["directory"] == str(directory)
    assert {row["kind"]: row["files"] for row in document["kinds"]} == KINDS
    tables = document["kinds"][0]
    assert tables["size_bytes"] == 2 << 20
    assert tables["oldest_s"] == 86400 * 365
    assert not document["removed"]
    assert len(list(directory.iterdir())) == len(FILES)


def test_the_table_says_where_it_is_how_much_there_is_and_since_when(directory, capfd):
    lines = answer(capfd).splitlines()
    assert lines[0] == str(directory)
    day = time.strftime("%Y-%m-%d", time.localtime(86400 * 365))
    assert next(line for line in lines if "symbol tables" in line).split() == [
        *("symbol", "tables", "2", "2.0", day)
    ]
    assert next(line for line in lines if line.startswith("  all")).split() == ["all", "8", "5.0"]
    assert any("1024 MiB" in line for line in lines)


def test_what_is_removed_is_said(directory, capfd):
    assert answer(capfd, "--clear") == f"Removed 8 files, 5.0 MiB, from {directory}\n"
    assert list(directory.iterdir()) == []
    assert json.loads(answer(capfd, "--clear", "--format", "json"))["removed"]


def test_only_files_are_removed(directory, capfd, tmp_path):
    (directory / "folder").mkdir()
    (directory / "link").symlink_to(tmp_path)
    answer(capfd, "--clear")
    assert sorted(path.name for path in directory.iterdir()) == ["folder", "link"]


def test_a_cache_that_was_never_made_is_empty(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert json.loads(answer(capfd, "--format", "json"))["kinds"] == []
    assert "Removed 0 files" in answer(capfd, "--clear")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PROSPECT_NO_CACHE", "1", "PROSPECT_NO_CACHE is set"),
        ("HOME", "", "HOME is not set"),
        ("HOME", "h", "HOME is not an absolute path"),
    ],
)
def test_where_nothing_is_kept_it_says_why(monkeypatch, name, value, says):
    for variable in ("XDG_CACHE_HOME", "PROSPECT_NO_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, value)
    with pytest.raises(SymbolError, match=says):
        answer(None)


@pytest.mark.skipif(os.geteuid() != 0, reason="what sudo may leave as HOME")
def test_another_users_link_removes_nothing_of_roots(directory, tmp_path, monkeypatch, capfd):
    home = tmp_path / "home"
    home.mkdir()
    (home / ".cache").symlink_to(directory.parent)
    os.chown(home, 1234, 1234)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(home))
    assert main(["cache", "--clear"]) == 1
    assert f"HOME is {home}, which others can change" in capfd.readouterr().err
    assert len(list(directory.iterdir())) == len(FILES)


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_what_others_can_write_to_is_neither_shown_nor_removed(directory, mode, capfd):
    directory.chmod(mode)
    assert main(["cache", "--clear"]) == 1
    assert "is not used" in capfd.readouterr().err
    assert len(list(directory.iterdir())) == len(FILES)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_the_cache_of_another_user_is_left_alone(directory, capfd):
    os.chown(directory, 1234, 1234)
    assert main(["cache", "--clear"]) == 1
    assert "belongs to someone else" in capfd.readouterr().err
    assert len(list(directory.iterdir())) == len(FILES)
