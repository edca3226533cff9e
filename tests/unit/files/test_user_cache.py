"""Where the cache lies, and that nothing of anybody else's is read there."""

from __future__ import annotations

import os
import stat

import pytest

from prospect.files.user_cache import cache_path, is_own, read_own


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/prospect"),
        ({"XDG_CACHE_HOME": "x", "HOME": "/h"}, "/h/.cache/prospect"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h/"}, "/h/.cache/prospect"),
        ({"XDG_CACHE_HOME": "/"}, "/prospect"),
        ({"HOME": "h"}, ""),
        ({"HOME": ""}, ""),
        ({}, ""),
        ({"HOME": "/h", "PROSPECT_NO_CACHE": "1"}, ""),
    ],
)
def test_place_follows_the_environment(environment, path):
    assert cache_path(environment) == path


@pytest.mark.skipif(os.geteuid() != 0, reason="what sudo may leave as HOME")
def test_root_has_none_where_another_user_could_put_a_link(tmp_path):
    home, roots = tmp_path / "home", tmp_path / "roots"
    home.mkdir()
    (roots / "prospect").mkdir(parents=True, mode=0o700)
    assert cache_path({"HOME": str(home)})
    (home / ".cache").symlink_to(roots)
    assert cache_path({"HOME": str(home)})  # root's own link
    os.chown(home / ".cache", 1234, 1234, follow_symlinks=False)
    assert not cache_path({"HOME": str(home)})
    (home / ".cache").unlink()
    os.chown(home, 1234, 1234)
    for variables in ({"HOME": home}, {"XDG_CACHE_HOME": home / "cache"}):
        assert not cache_path({name: str(path) for name, path in variables.items()})
    (roots / "link").symlink_to(home)
    assert not cache_path({"XDG_CACHE_HOME": str(roots / "link")})
    os.chown(home, 0, 0)
    for mode, is_used in ((0o777, False), (0o1777, True), (0o755, True)):
        home.chmod(mode)
        assert bool(cache_path({"HOME": str(home)})) == is_used


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / "prospect"
    directory.mkdir(0o700)
    (directory / "file").write_bytes(b"content")
    (directory / "file").chmod(0o600)
    return directory


def test_own_file_is_read_up_to_a_size(directory):
    assert read_own(str(directory), "file", 100) == b"content"
    assert read_own(str(directory), "file", 4) == b"cont"


def test_what_is_not_there_is_empty(directory):
    assert read_own(str(directory), "other", 100) == b""
    assert read_own(str(directory / "none"), "file", 100) == b""
    assert read_own("", "file", 100) == b""


@pytest.mark.parametrize("which", ["file", "directory"])
def test_what_others_can_write_is_as_good_as_absent(directory, which):
    (directory / "file" if which == "file" else directory).chmod(0o722)
    assert read_own(str(directory), "file", 100) == b""


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_other_kinds_of_files_are_not_read_and_not_waited_for(directory, make):
    make(directory / "odd", 0o600)
    assert read_own(str(directory), "odd", 100) == b""


def test_link_is_not_followed(directory):
    (directory / "link").symlink_to("file")
    assert read_own(str(directory), "link", 100) == b""
    (directory.parent / "linked").symlink_to("prospect")
    assert read_own(str(directory.parent / "linked"), "file", 100) == b""


def test_another_users_file_is_not_own(directory, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not is_own((directory / "file").stat(), stat.S_IFREG)
