"""What happens to the store under a running daemon, each fault really injected."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from builders.daemon import RunningDaemon, children_of, status, until
from builders.examples import nightly
from prospect.api.store_part import read_store
from prospect.store.directory import StoreDirectory
from prospect.store.retention import remove

pytest.importorskip("duckdb")
pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes file systems"),
]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, which is soon full."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m,mode=0700", "prospect-test", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def failing_disk(tmp_path):
    """A file system on a disk, and a file that makes the kernel take it for damaged."""
    image, disk = tmp_path / "image", tmp_path / "disk"
    disk.mkdir()
    image.touch()
    os.truncate(image, 32 << 20)
    commands = (
        ["mkfs.ext4", "-q", "-F", str(image)],
        ["mount", "-o", "loop,errors=remount-ro", str(image), str(disk)],
    )
    for words in commands:
        if not shutil.which(words[0]) or subprocess.run(words, check=False).returncode:
            pytest.skip("no disk can be made of a file here")
    device = next(
        line.split()[0]
        for line in Path("/proc/mounts").read_text().splitlines()
        if line.split()[1] == str(disk)
    )
    yield disk, Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error")
    subprocess.run(["umount", "-l", str(disk)], check=True)


def dump_until(daemon, wanted, *, most=200):
    """End windows until the status is as wanted; return it."""
    for _ in range(most):
        if wanted(state := daemon.ask("dump")):
            break
    return state


def free_bytes(disk):
    there = os.statvfs(disk)
    return there.f_bavail * there.f_frsize


def leave_room_for_windows(daemon, disk, count):
    """Fill a disk but for so many windows; how large these are depends on what the machine does."""
    sizes = []
    for number in range(1, 4):
        before = free_bytes(disk)
        dump_until(daemon, lambda told, number=number: told["windows"] >= number)
        sizes.append(before - free_bytes(disk))
    with (disk / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, free_bytes(disk) - count * max(sizes))


@pytest.mark.nightly
def test_on_a_full_disk_the_oldest_windows_make_room(small_disk, tmp_path):
    with RunningDaemon(small_disk / "s", "--separate", "thread", log=tmp_path / "log") as daemon:
        leave_room_for_windows(daemon, small_disk, 5)
        full = dump_until(daemon, lambda told: told["dropped_for_room"] > 2)
        assert full["dropped_for_room"] > 2
        assert full["windows_lost"] == 0
        assert "the disk is full; the oldest windows make room" in daemon.said()
        # Somebody else takes all of it, and more than windows could make room for.
        ballast = small_disk / "ballast"
        with StoreDirectory(str(small_disk / "s")) as store:
            for segment in store.segments():
                remove(store, segment)
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={ballast}", "bs=4k"], check=False, capture_output=True
        )
        told = dump_until(daemon, lambda told: told["windows_lost"] > 1)
        assert told["windows_lost"] > 1
        assert "No space left" in told["complaint"]
        ballast.unlink()
        told = dump_until(daemon, lambda told: not told["complaint"])
        assert not told["complaint"]
        assert "windows are written again" in daemon.said()
        assert daemon.end() == 0
    found = read_store(str(small_disk / "s"))
    assert found.hits.count.sum() > 0
    checked = subprocess.run(
        [sys.executable, "-m", "prospect", "store", "check", "--store", str(small_disk / "s")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "full disk" in checked.stdout


@pytest.mark.nightly
def test_a_disk_that_becomes_read_only_costs_windows_and_is_said(failing_disk):
    disk, trigger = failing_disk
    with RunningDaemon(disk / "s", log=disk.parent / "log") as daemon:
        dump_until(daemon, lambda told: told["windows"] > 0)
        kept = read_store(str(disk / "s")).hits.count.sum()
        if not trigger.exists():
            pytest.skip("this kernel does not let anybody damage a file system")
        trigger.write_text("1")
        told = dump_until(daemon, lambda told: told["windows_lost"] > 1)
        assert told["windows_lost"] > 1
        assert told["complaint"] == "Read-only file system"
        assert told["sampling"]
        assert daemon.said().count("a window is lost") == 1
        # What is there is there, also for who asks now.
        assert read_store(str(disk / "s")).hits.count.sum() >= kept
        daemon.end()
    again = subprocess.run(
        [sys.executable, "-m", "prospect", "daemon", "--store", str(disk / "s")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert again.returncode == 1
    assert again.stderr.count("\n") == 1
    assert "Read-only file system" in again.stderr


@pytest.mark.parametrize(
    "becomes",
    [
        "nothing",
        *nightly("a link", "another directory"),
    ],
)
def test_a_store_that_is_not_there_any_more_ends_it(tmp_path, becomes):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    with RunningDaemon(tmp_path / "s", "--window", "2") as daemon:
        daemon.ask("dump")
        if becomes == "nothing":
            shutil.rmtree(tmp_path / "s", ignore_errors=True)
            shutil.rmtree(tmp_path / "s", ignore_errors=True)  # it may just have written
        else:
            (tmp_path / "s").rename(tmp_path / "moved")
        if becomes == "a link":
            (tmp_path / "s").symlink_to(elsewhere)
        elif becomes == "another directory":
            (tmp_path / "s").mkdir(mode=0o700)
        assert daemon.process.wait(60) == 1
        assert "removed or replaced" in daemon.said()
    assert list(elsewhere.iterdir()) == []


def writers_of(daemon):
    """Return the processes of a daemon that write windows, or wait for one."""
    found = []
    for pid in children_of(daemon.process.pid):
        with suppress(OSError):
            if b"store_work\0write\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def begin_dump(daemon):
    """Ask for a window; return who asks, and the processes that write it from now on."""
    held = writers_of(daemon)
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    before = status(daemon)["samples"]
    words = [sys.executable, "-m", "prospect", "control", "dump", "--store", str(daemon.store)]
    asks = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: status(daemon)["samples"], lambda samples: samples > before)
    writing = until(lambda: writers_of(daemon), bool)
    for pid in held:
        os.kill(pid, signal.SIGCONT)
    return asks, writing


# Every day the daemon itself is killed while it writes.
@pytest.mark.nightly
def test_a_killed_process_that_writes_costs_its_window_alone(tmp_path):
    with RunningDaemon(tmp_path / "s", "--window", "600") as daemon:
        daemon.ask("dump")
        for round_ in range(4):
            asks, writing = begin_dump(daemon)
            time.sleep(0.07 * round_)  # at another place each time
            for pid in writing:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            asks.wait()
        told = status(daemon)
        assert told["windows"] + told["windows_lost"] == 5
        assert told["windows_lost"] >= 1
        daemon.ask("dump")
        assert status(daemon)["windows"] == told["windows"] + 1
        assert daemon.end() == 0
    with StoreDirectory(str(tmp_path / "s")) as store:
        numbers = [one.first for one in store.segments()]
    assert len(set(numbers)) == len(numbers) == told["windows"] + 2
    assert read_store(str(tmp_path / "s")).hits.count.sum() > 0


def test_a_daemon_killed_while_it_writes_loses_a_window_at_most(tmp_path):
    rounds = 2
    for round_ in range(rounds):
        with RunningDaemon(tmp_path / "s", "--window", "600") as daemon:
            daemon.ask("dump")
            asks, writing = begin_dump(daemon)
            time.sleep(0.15 * round_)  # at another place each time
            daemon.process.kill()
            daemon.process.wait()
            asks.wait()
            # Nobody writes to the store of the next one.
            for pid in writing:
                assert not until(partial(is_alive, pid), lambda alive: not alive)
    with StoreDirectory(str(tmp_path / "s")) as store:
        numbers = [one.first for one in store.segments()]
    assert rounds <= len(numbers) <= 2 * rounds
    assert len(set(numbers)) == len(numbers)
    assert read_store(str(tmp_path / "s")).hits.count.sum() > 0


def is_alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
