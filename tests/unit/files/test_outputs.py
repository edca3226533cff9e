"""Files of recordings and reports: private, whole or absent, never somebody else's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from prospect.errors import RecordingError, RenderError
from prospect.files.outputs import RecordingFile, ReportFile

_NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


def withdraw(path: str) -> None:
    file = RecordingFile(path)
    file.withdraw()
    file.close()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def write_report(path, text: bytes = b"new"):
    target = ReportFile(str(path))
    try:
        target.put(lambda out: out.write(text))
    finally:
        target.close()


@pytest.fixture
def shared(tmp_path):
    """Return a directory like /tmp: everyone can write, nobody can remove another's file."""
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


def test_a_report_appears_when_it_is_committed(tmp_path):
    target = ReportFile(str(tmp_path / "out"))
    assert names(tmp_path) == []
    target.put(lambda out: out.write(b"report"))
    target.close()
    assert (tmp_path / "out").read_bytes() == b"report"
    assert names(tmp_path) == ["out"]


def test_an_abandoned_report_leaves_the_earlier_one(tmp_path):
    (tmp_path / "out").write_text("earlier")
    target = ReportFile(str(tmp_path / "out"))

    def stop_half_way(out):
        out.write(b"half a rep")
        raise RenderError("stopped")

    with pytest.raises(RenderError, match="stopped"):
        target.put(stop_half_way)
    target.close()
    assert (tmp_path / "out").read_text() == "earlier"
    assert names(tmp_path) == ["out"]


def test_a_file_system_without_unnamed_files_is_served(tmp_path, monkeypatch):
    real = os.open

    def without_tmpfile(path, flags, *rest, **keywords):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return real(path, flags, *rest, **keywords)

    monkeypatch.setattr(os, "open", without_tmpfile)
    write_report(tmp_path / "out")
    ReportFile(str(tmp_path / "abandoned")).close()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    RecordingFile("").close()
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text() == "new"


def test_a_new_report_keeps_the_mode_of_the_old(tmp_path):
    (tmp_path / "out").write_text("a longer earlier report")
    (tmp_path / "out").chmod(0o640)
    write_report(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


@needs_root
def test_a_new_report_keeps_the_owner_of_the_old(tmp_path):
    (tmp_path / "out").write_text("earlier")
    os.chown(tmp_path / "out", _NOBODY, _NOBODY)
    write_report(tmp_path / "out")
    assert (tmp_path / "out").stat().st_uid == _NOBODY


def test_other_names_of_a_report_show_the_new_one(tmp_path):
    (tmp_path / "out").write_text("a longer earlier report")
    os.link(tmp_path / "out", tmp_path / "also")
    (tmp_path / "link").symlink_to("out")
    write_report(tmp_path / "link")
    assert (tmp_path / "also").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


def test_a_pipe_is_written_as_it_is(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    write_report(tmp_path / "fifo")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    write_report("/dev/null")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize("name", ["missing/out", "directory", "directory/", "file/out", "\0"])
def test_an_impossible_report_is_refused_at_once(tmp_path, name):
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(RenderError, match="cannot write the report to"):
        ReportFile(f"{tmp_path}/{name}")


@needs_root
@pytest.mark.parametrize("kind", ["file", "link", "fifo"])
def test_a_trap_in_a_shared_directory_is_refused(tmp_path, shared, kind):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    trap = shared / "out"
    if kind == "file":
        trap.write_text("")
    elif kind == "link":
        trap.symlink_to(victim)
    else:
        os.mkfifo(trap)
    os.lchown(trap, _NOBODY, _NOBODY)
    with pytest.raises(RenderError, match="belongs to user 65534"):
        ReportFile(str(trap))
    assert victim.read_text() == "precious"


def test_a_saved_recording_is_private_and_keeps_the_earlier_as_old(tmp_path):
    path = tmp_path / "perf.data"
    path.write_text("earlier")
    RecordingFile(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (tmp_path / "perf.data.old").read_text() == "earlier"


def test_a_withdrawn_recording_gives_the_earlier_its_name_back(tmp_path):
    path = tmp_path / "perf.data"
    path.write_text("earlier")
    withdraw(str(path))
    assert path.read_text() == "earlier"
    path.unlink()
    withdraw(str(path))
    assert names(tmp_path) == []


def test_a_recording_never_follows_a_link(shared, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (shared / "perf.data").symlink_to(victim)
    RecordingFile(str(shared / "perf.data")).close()
    assert victim.read_text() == "precious"
    assert not (shared / "perf.data").is_symlink()


@pytest.mark.parametrize("name", ["missing/perf.data", "directory", "-", "\0"])
def test_an_impossible_recording_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    with pytest.raises(RecordingError):
        RecordingFile(name)
    assert names(tmp_path) == ["directory"]


def test_a_device_or_a_pipe_is_never_renamed_for_a_recording(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("fifo", "null"):
        with pytest.raises(RecordingError, match="not a regular file"):
            RecordingFile(str(tmp_path / name))
    assert names(tmp_path) == ["fifo", "null"]
    # A name of no device: a regression must not take a real one away.
    with pytest.raises(RecordingError, match="not a regular file"):
        RecordingFile("/dev/../dev/prospect-no-such-device")


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no shared memory")
def test_shared_memory_takes_reports_and_recordings_as_any_directory(request):
    path = Path("/dev/shm", f"prospect-test-{os.getpid()}")
    request.addfinalizer(lambda: path.unlink(missing_ok=True))
    write_report(path)
    assert path.read_bytes() == b"new"
    path.unlink()
    RecordingFile(str(path)).close()
    assert path.exists()


def test_a_scratch_recording_has_no_name(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    file = RecordingFile("")
    assert os.fstat(file.descriptor).st_nlink == 0
    assert stat.S_IMODE(os.fstat(file.descriptor).st_mode) == 0o600
    file.withdraw()
    file.close()


def test_a_bad_tmpdir_does_not_stop_a_recording(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    RecordingFile("").close()


def test_a_full_disk_is_an_error_of_ours():
    target = ReportFile("/dev/full")
    with pytest.raises(RenderError, match="'/dev/full': No space left"):
        target.put(lambda out: out.write(b"few"))
    target.close()


@needs_root
@pytest.mark.parametrize("caller", [{}, {"SUDO_UID": "4242", "SUDO_GID": "4242"}])
def test_what_root_makes_is_private_and_for_whoever_called_sudo(tmp_path, monkeypatch, caller):
    for name, value in caller.items():
        monkeypatch.setenv(name, value)
    write_report(tmp_path / "out")
    status = (tmp_path / "out").stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_uid == status.st_gid == int(caller.get("SUDO_UID", 0))
    # Sharing it is a person's word, which the next report keeps.
    (tmp_path / "out").chmod(0o644)
    write_report(tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o644


def test_names_that_can_be_guessed_are_in_nobodys_way(tmp_path):
    for number in (os.getpid(), *range(1, 100)):
        (tmp_path / f".out.{number}").write_text("in the way")
    before = names(tmp_path)
    write_report(tmp_path / "out")
    assert names(tmp_path) == sorted([*before, "out"])


@pytest.mark.parametrize("has_unnamed", [True, False])
def test_a_recording_without_a_name_is_kept_where_it_is_said(tmp_path, monkeypatch, has_unnamed):
    real = os.open

    def without_tmpfile(path, flags, *rest, **keywords):
        if flags & os.O_TMPFILE == os.O_TMPFILE and not has_unnamed:
            raise OSError(95, "Operation not supported")
        return real(path, flags, *rest, **keywords)

    monkeypatch.setattr(os, "open", without_tmpfile)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    file = RecordingFile("")
    os.write(file.descriptor, b"what was recorded")
    path = Path(file.keep())
    file.close()
    assert path.parent == tmp_path
    assert path.read_bytes() == b"what was recorded"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
