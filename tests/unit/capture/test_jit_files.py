"""Which files of JITs a recorder keeps, and which it does not believe."""

import base64
import os
import signal
import time
import zlib
from pathlib import Path

import pytest

from builders.silent_mount import silent_mount
from prospect.capture.machine import jit_file_holder
from prospect.capture.machine.jit_file_holder import JitFileHolder
from prospect.capture.machine.kept_jit_files import JitFiles
from prospect.files.child import Progress

OWN = os.getpid()


@pytest.fixture
def held(tmp_path):
    files = JitFileHolder(Progress(), own_tmp=os.fsencode(tmp_path))
    yield files
    files.close()


def contents(files):
    return {
        (copy["pid"], copy["kind"]): zlib.decompress(base64.b64decode(copy["zlib"]))
        for copy in files.collect()
    }


def test_a_file_that_was_there_is_read_as_it_is_in_the_end(tmp_path):
    path = tmp_path / f"perf-{OWN}.map"
    path.write_bytes(b"1 1 a\n")
    files = JitFileHolder(Progress(), own_tmp=os.fsencode(tmp_path))
    files.look()
    with path.open("ab") as stream:
        stream.write(b"2 1 b\n")
    assert contents(files) == {(OWN, "map"): b"1 1 a\n2 1 b\n"}
    files.close()


def test_a_map_file_has_the_time_of_its_last_change_on_the_samples_clock(held, tmp_path):
    path = tmp_path / f"perf-{OWN}.map"
    before_ns = time.monotonic_ns()
    path.write_bytes(b"1 1 a\n")
    held.look()
    time.sleep(0.1)
    (copy,) = held.collect()
    tick_ns = 20_000_000
    assert before_ns - tick_ns <= copy["modified_ns"] <= before_ns + 90_000_000


def test_a_deleted_file_is_kept(held, tmp_path):
    path = tmp_path / f"perf-{OWN}.map"
    path.write_bytes(b"1 1 a\n")
    held.look()
    path.unlink()
    assert contents(held) == {(OWN, "map"): b"1 1 a\n"}


def test_a_dump_is_kept_only_where_it_was_deleted(held, tmp_path):
    path = tmp_path / f"jit-{OWN}.dump"
    path.write_bytes(b"dump")
    held.look()
    assert contents(held) == {}
    path.unlink()
    assert contents(held) == {(OWN, "dump"): b"dump"}


@pytest.mark.parametrize("name", ["perf-.map", "perf-1x.map", "perf-1.mapp", "jit-1.map", "other"])
def test_other_names_are_not_looked_at(held, tmp_path, name):
    (tmp_path / name).write_bytes(b"1 1 a\n")
    assert contents(held) == {}


def test_links_fifos_and_directories_are_not_read(held, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "perf-1.map").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "perf-2.map")
    (tmp_path / "perf-3.map").mkdir()
    assert contents(held) == {}


def test_a_file_older_than_its_process_is_another_ones(held, tmp_path):
    path = tmp_path / f"perf-{OWN}.map"
    path.write_bytes(b"1 1 a\n")
    old = time.time() - 10 * 365 * 86400
    os.utime(path, (old, old))
    assert contents(held) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_another_users_file_is_not_believed(held, tmp_path):
    path = tmp_path / f"perf-{OWN}.map"
    path.write_bytes(b"1 1 a\n")
    os.chown(path, 12345, 12345)
    assert contents(held) == {}


def test_what_is_left_out_is_said(held, tmp_path, monkeypatch):
    monkeypatch.setattr(jit_file_holder, "LARGEST_JIT_FILE_BYTES", 3)
    (tmp_path / f"perf-{OWN}.map").write_bytes(b"1 1 a\n")
    assert contents(held) == {}
    assert "not copied" in held.limits[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its root")
def test_the_tmp_of_another_root_is_not_held_open(tmp_path):
    """Its file system can be unmounted, and files that appear in it are found."""
    there = tmp_path / "its-tmp"
    there.mkdir()
    pid = os.fork()
    if not pid:
        os.chroot(tmp_path)
        signal.pause()
        os._exit(0)
    try:
        while Path(f"/proc/{pid}/root").readlink() == Path("/"):
            time.sleep(0.01)
        files = JitFileHolder(Progress(), own_tmp=b"/its-tmp")
        files.look()
        links = [one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        assert there not in links
        (there / f"perf-{pid}.map").write_bytes(b"1 1 a\n")
        files.look()
        assert contents(files) == {(pid, "map"): b"1 1 a\n"}
        files.close()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.timeout(100)
def test_a_tmp_that_does_not_answer_holds_up_the_holder_and_not_the_recorder(tmp_path):
    (tmp_path / "tmp").mkdir()
    with silent_mount(tmp_path / "tmp"):
        files = JitFiles(own_tmp=os.fsencode(tmp_path / "tmp"))
        files.start()
        until = time.monotonic() + 60
        while len(files.pids) == 1 and time.monotonic() < until:
            began = time.monotonic()
            files.look()
            assert time.monotonic() - began < 1
            time.sleep(0.05)
        assert len(files.pids) > 1
        assert files.collect() == []
        files.close()
    assert "did not answer in time" in files.limits[0]


def test_a_child_holds_the_files_until_the_end(tmp_path):
    files = JitFiles(own_tmp=os.fsencode(tmp_path))
    files.start()
    path = tmp_path / f"perf-{OWN}.map"
    path.write_bytes(b"1 1 a\n")
    assert contents(files) == {(OWN, "map"): b"1 1 a\n"}
    files.close()
    assert sum(files.used_s) > 0


def test_a_holder_that_has_told_its_files_is_not_waited_for(tmp_path, monkeypatch):
    serve = jit_file_holder.serve

    def slow(*arguments):
        serve(*arguments)
        time.sleep(60)

    monkeypatch.setattr(jit_file_holder, "serve", slow)
    (tmp_path / f"perf-{OWN}.map").write_bytes(b"1 1 a\n")
    took = []
    for _ in range(3):
        files = JitFiles(own_tmp=os.fsencode(tmp_path))
        files.start()
        files.stop()
        while not files._progress.result_bytes:
            time.sleep(0.01)
        began = time.monotonic()
        assert contents(files) == {(OWN, "map"): b"1 1 a\n"}
        files.close()
        took.append(time.monotonic() - began)
        assert sum(files.used_s) > 0
    assert min(took) < 0.1


def test_a_holder_that_was_killed_is_named(tmp_path):
    files = JitFiles(own_tmp=os.fsencode(tmp_path))
    files.start()
    os.kill(files.pids[0], signal.SIGKILL)
    assert files.collect() == []
    files.close()
    (limit,) = files.limits
    assert limit == (
        "Files with names of JIT code were not kept (their reader failed with status -9)."
    )
