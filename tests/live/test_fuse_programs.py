"""Programs on FUSE file systems, as of AppImages and containers without root, have names."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import prospect
from builders.another_user import NOBODY, WHO, python_of_another_user
from builders.recordings import (
    PROSPECT,
    build_program,
    hits_by,
    record,
    run_as_another_user,
)
from builders.silent_mount import FUSE_PATH, serving_mount
from builders.waiting import wait_for
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
SPINS = ("static_spins", "global_spins")
AS_NOBODY = f"""
import os, sys
os.setgroups([])
os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
os.execv(sys.argv[1], sys.argv[1:])
"""
# A user, as root of a namespace of its own, serves a program there, runs it and unmounts it.
WITHOUT_ROOT = """
import ctypes, os, subprocess, sys, threading
sys.path.insert(0, sys.argv[1])
from builders.silent_mount import serve_program
device, program, point = sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
user, group = os.getuid(), os.getgid()
libc.prctl(4, 1)  # PR_SET_DUMPABLE, so that the maps below are its own
assert not libc.unshare(0x10020000)  # CLONE_NEWUSER | CLONE_NEWNS
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write(f"0 {user} 1")
open("/proc/self/gid_map", "w").write(f"0 {group} 1")
server = os.open(device, os.O_RDWR)
options = f"fd={server},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
assert not libc.mount(b"served", point.encode(), b"fuse", 0, options)
content = open(program, "rb").read()
if not os.fork():
    serve_program(server, threading.Event(), content)  # until it is unmounted
    os._exit(0)
os.close(server)
subprocess.run([point + "/passing", "300"], check=True)
assert not libc.umount2(point.encode(), 0)
"""


@pytest.fixture
def place(monkeypatch):
    """A directory that everybody can enter."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        # perf may have kept copies of binaries in the usual home.
        monkeypatch.setenv("HOME", directory + "/home")
        yield Path(directory)


@pytest.fixture
def content(place):
    """A program."""
    return build_program(place, "burner", "-static").read_bytes()


@pytest.fixture
def point(place):
    directory = place / "mounted"
    directory.mkdir()
    return directory


def counts(file):
    """Return the burner's samples by function."""
    profile = prospect.open(file, use_cache=False)
    found = hits_by(profile, "function", detail="3", process="passing", mode="user")
    assert sum(found.values()) > 50, found
    return found


def check_named(file):
    """Assert that all of the burner's samples have a name, most in its functions."""
    found = counts(file)
    assert "" not in found, found
    assert sum(found.get(name, 0) for name in SPINS) > 0.4 * sum(found.values()), found


def test_a_program_on_fuse_is_named_and_its_file_system_can_be_unmounted(place, content, point):
    # On a busy machine the child may still read.
    script = '"$1/passing" 300 && until umount "$1"; do sleep 0.05; done'
    with serving_mount(point, content):
        record(place / "r", "sh", "-c", script, "sh", point)
    check_named(place / "r")


@pytest.mark.skipif(
    not (shutil.which("mksquashfs") and shutil.which("squashfuse") and shutil.which("fusermount3")),
    reason="needs squashfs-tools, squashfuse and fuse3",
)
def test_an_appimage_is_named(place, content, point):
    packed = place / "packed"
    packed.mkdir()
    (packed / "passing").write_bytes(content)
    (packed / "passing").chmod(0o755)
    image = place / "image"
    pack = ["mksquashfs", packed, image, "-quiet"]
    subprocess.run([*map(str, pack)], check=True, capture_output=True, timeout=60)
    script = 'squashfuse "$1" "$2" && "$2/passing" 300; fusermount3 -u "$2"'
    record(place / "r", "sh", "-c", script, "sh", image, point)
    check_named(place / "r")


def test_a_program_on_a_file_system_that_only_another_user_may_look_into_is_named(
    place, content, point
):
    with serving_mount(point, content, NOBODY):
        assert not os.access(point / "passing", os.F_OK)
        record(place / "r", sys.executable, "-c", AS_NOBODY, point / "passing", 300)
    check_named(place / "r")


@pytest.fixture
def without_root(place, point):
    """The words of a command that serves and runs a program in a user namespace of its own."""
    device = place / "fuse"
    # Elsewhere every user may open /dev/fuse.
    os.mknod(device, stat.S_IFCHR | 0o666, Path(FUSE_PATH).stat().st_rdev)
    device.chmod(0o666)
    (place / "burner").chmod(0o755)
    os.chown(point, NOBODY, NOBODY)
    words = ["-c", WITHOUT_ROOT, Path(__file__).parents[1], device, place / "burner", point]
    return [*map(str, words)]


@pytest.mark.usefixtures("content")
def test_a_program_in_a_container_without_root_is_named_for_root(place, without_root):
    file = place / "r"
    python = python_of_another_user()
    tried = subprocess.run([python, *without_root], capture_output=True, check=False, **WHO)
    if tried.returncode:
        pytest.skip(f"it cannot run here: {tried.stderr[-200:]!r}")
    record(file, sys.executable, "-c", AS_NOBODY, python, *without_root)
    check_named(file)


@pytest.mark.usefixtures("content")
def test_a_program_in_a_container_without_root_is_named_for_its_user(place, without_root):
    python = python_of_another_user()
    words = ["record", "--no-python", "-H", "2000", "-o", "r", python, *without_root]
    done = run_as_another_user(place, *words)
    if "Permission denied" in done.stderr or "AssertionError" in done.stderr:
        pytest.skip(f"it cannot run here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    check_named(place / "r")


def state_of(pid):
    """Return the state of a process as proc(5) names it, "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.mark.timeout(100)
def test_a_server_that_does_not_answer_holds_up_no_recording(place, content, point):
    file = place / "r"
    with serving_mount(point, content, opens=1):
        began = time.monotonic()
        words = [*PROSPECT, "record", "-H", 1000, "-o", file, point / "passing", 300]
        done = subprocess.run([*map(str, words)], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert time.monotonic() - began < 20
        with open_recording(str(file)) as recording:
            pids = recording.info.extras["recorder_pids"]
            assert recording.info.images == ()
        # It cannot be killed as long as the server lives, but may have to wait for a CPU first.
        stuck = wait_for(lambda: [pid for pid in pids if state_of(pid) == "D"])
        assert len(stuck) == 1
        held = {link.readlink().name for link in Path(f"/proc/{stuck[0]}/fd").iterdir()}
        assert not {"r", "anon_inode:[perf_event]"} & held
    wait_for(lambda: state_of(stuck[0]) in {"", "Z"})
    assert not set(SPINS) & set(counts(file))


def test_a_program_that_is_said_to_be_too_large_is_not_copied(place, content, point):
    with serving_mount(point, content, size=10 << 30):
        record(place / "r", point / "passing", 300)
    with open_recording(str(place / "r")) as recording:
        assert recording.info.images == ()
    assert not set(SPINS) & set(counts(place / "r"))
