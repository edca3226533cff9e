import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from builders.silent_mount import overlay_mount, silent_autofs, silent_mount
from prospect.files import untrusted_open
from prospect.files.mounts import is_local
from prospect.files.opener import Opener
from prospect.files.rights import EVERYBODY, speaks_for
from prospect.files.untrusted_open import OpenFile, open_named
from prospect.profile.naming import NameSource

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root has others' rights to give")
STRANGER = 4242
ANOTHER = 4343


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that everybody may reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


def content(path: Path, named_by: int) -> bytes | NameSource:
    file = open_named(os.fsencode(path), named_by)
    return bytes(file.data) if isinstance(file, OpenFile) else file


@AS_ROOT
def test_a_strangers_names_are_read_with_the_strangers_rights(open_path: Path) -> None:
    secret, own, public = (open_path / name for name in ("secret", "own", "public"))
    for path, mode, owner in ((secret, 0o600, 0), (own, 0o600, STRANGER), (public, 0o644, 0)):
        path.write_text(path.name)
        path.chmod(mode)
        os.chown(path, owner, owner)
    assert content(secret, STRANGER) == NameSource.NO_PERMISSION
    assert content(secret, EVERYBODY) == NameSource.NO_PERMISSION
    assert content(own, STRANGER) == b"own"
    assert content(own, ANOTHER) == NameSource.NO_PERMISSION
    assert content(public, STRANGER) == b"public"
    assert content(secret, 0) == b"secret"
    assert content(own, 0) == b"own"


@AS_ROOT
def test_no_right_of_a_stranger_stays(open_path: Path) -> None:
    (open_path / "secret").write_text("x")
    (open_path / "secret").chmod(0o600)
    assert content(open_path / "secret", STRANGER) == NameSource.NO_PERMISSION
    assert isinstance(untrusted_open.open_link(b"/proc/%d/exe" % os.getpid()), OpenFile)
    assert os.geteuid() == os.getuid() == 0


@AS_ROOT
def test_a_link_is_followed_only_where_nobody_else_could_have_put_it(open_path: Path) -> None:
    (open_path / "target").write_text("target")
    closed, shared, sticky = (open_path / name for name in ("closed", "shared", "sticky"))
    for directory, mode in ((closed, 0o755), (shared, 0o777), (sticky, 0o1777)):
        directory.mkdir()
        directory.chmod(mode)
        for name, owner in (("ours", 0), ("theirs", STRANGER)):
            (directory / name).symlink_to("../target")
            os.chown(directory / name, owner, owner, follow_symlinks=False)
    for named_by, names in ((0, {"ours"}), (STRANGER, {"ours", "theirs"}), (ANOTHER, {"ours"})):
        for directory in (closed, sticky):
            for name in ("ours", "theirs"):
                expected = b"target" if name in names else NameSource.NO_ELF
                assert content(directory / name, named_by) == expected
        assert content(shared / "ours", named_by) == NameSource.NO_ELF


@AS_ROOT
def test_a_link_that_is_swapped_in_time_leads_to_no_secret(open_path: Path) -> None:
    secret, harmless = open_path / "secret", open_path / "harmless"
    secret.write_text("secret")
    secret.chmod(0o600)
    place = open_path / "place"
    place.mkdir()
    os.chown(place, STRANGER, STRANGER)
    harmless.write_text("harmless")
    harmless.chmod(0o644)
    ends = threading.Event()

    def swap() -> None:
        while not ends.is_set():
            for make in (
                lambda: os.link(harmless, place / "x"),
                lambda: (place / "x").symlink_to(secret),
            ):
                make()
                (place / "x").unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        seen = {content(place / "x", named_by) for _ in range(500) for named_by in (0, STRANGER)}
    finally:
        ends.set()
        swapper.join()
    assert b"secret" not in seen


def test_dots_and_links_of_our_own_lead_where_they_say(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "file").write_text("file")
    (tmp_path / "link").symlink_to("a/../file")
    (tmp_path / "whole").symlink_to(tmp_path / "link")
    (tmp_path / "circle").symlink_to("circle")
    us = os.geteuid()
    for name in ("a/../file", "./a/.././file", "link", "whole"):
        assert content(tmp_path / name, us) == b"file"
    assert content(tmp_path / "circle", us) == NameSource.NO_ELF
    assert content(tmp_path / "none", us) == NameSource.NO_FILE
    assert open_named(b"relative", us) == NameSource.NO_FILE
    assert open_named(b"/nul\0", us) == NameSource.NO_FILE
    assert open_named(b"/x" * 9000, us, root=b"/proc/self/root") == NameSource.NO_FILE


@AS_ROOT
@pytest.mark.timeout(60)
@pytest.mark.parametrize("mounted", [silent_mount, silent_autofs])
def test_a_file_system_that_does_not_answer_costs_two_seconds_once(
    open_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mounted: Callable[[Path], AbstractContextManager[Path]],
) -> None:
    point = open_path / "silent"
    point.mkdir()
    for named_by in (STRANGER, 0):
        with mounted(point):
            untrusted_open._opener.close()
            monkeypatch.setattr(untrusted_open, "_opener", Opener())
            began_s = time.monotonic()
            for number in range(100):
                found = open_named(os.fsencode(point / f"{number}" / "x.c"), named_by)
                assert found == NameSource.NO_ANSWER
            assert time.monotonic() - began_s < 10
            # What lies elsewhere is still read.
            assert content(Path("/etc/passwd"), 0)
            assert content(Path("/etc/passwd"), ANOTHER)
            untrusted_open._opener.close()


@AS_ROOT
@pytest.mark.timeout(60)
@pytest.mark.parametrize("takes", [False, True])
def test_a_mount_made_or_moved_a_moment_ago_holds_up_nobody_either(
    open_path: Path, monkeypatch: pytest.MonkeyPatch, *, takes: bool
) -> None:
    (open_path / "b" / "silent").mkdir(parents=True)
    monkeypatch.setattr(untrusted_open, "_opener", Opener())
    assert content(Path("/etc/passwd"), 0)
    with silent_mount(open_path / "b" / "silent", takes=takes):
        assert content(Path("/etc/passwd"), 0)
        # Nothing tells of a mount that it goes by another name now.
        (open_path / "b").rename(open_path / "a")
        found = content(open_path / "a" / "silent" / "x", 0)
        (open_path / "a").rename(open_path / "b")
        untrusted_open._opener.close()
        assert found == NameSource.NO_ANSWER


@AS_ROOT
@pytest.mark.timeout(60)
def test_an_overlay_over_what_does_not_answer_holds_up_nobody(
    open_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("below", "beside", "point", "other")
    below, beside, point, other = (open_path / name for name in names)
    for directory in (below, beside, point, other):
        directory.mkdir()
    (beside / "x").write_text("x")
    monkeypatch.setattr(untrusted_open, "_opener", Opener())
    with overlay_mount(point, beside, other):
        assert content(point / "x", 0) == b"x"
        assert is_local(point.stat().st_dev)
    with silent_mount(below, takes=True), overlay_mount(point, below, beside):
        assert not is_local(point.stat().st_dev)
        assert content(point / "x", 0) == NameSource.NO_ANSWER
        untrusted_open._opener.close()


@AS_ROOT
def test_a_file_of_a_file_system_that_is_no_disk_is_handed_over_as_memory() -> None:
    file = open_named(b"/proc/self/comm", STRANGER)
    assert isinstance(file, OpenFile)
    assert file.root == untrusted_open.OWN_ROOT


@pytest.mark.parametrize(
    ("mode", "owner", "group", "speaker"),
    [
        (0o644, 1000, 1000, 1000),
        (0o664, 1000, 1000, 1000),
        (0o664, 1000, 50, EVERYBODY),
        (0o666, 0, 0, EVERYBODY),
        (0o775, 0, 0, 0),
    ],
)
def test_what_others_may_write_speaks_for_nobody(
    mode: int, owner: int, group: int, speaker: int
) -> None:
    status = os.stat_result((mode, 0, 0, 1, owner, group, 0, 0, 0, 0))
    assert speaks_for(status) == speaker
