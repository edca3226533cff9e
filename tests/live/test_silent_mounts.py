"""A file system that does not answer, in somebody's own mounts, holds up no recording."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders.recordings import PROSPECT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root looks into others' mounts")

# Mounts a FUSE file system that any user may look into over its own /tmp, and never answers.
HOLDS = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
assert not libc.unshare(0x20000)  # CLONE_NEWNS
assert not libc.mount(b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
server = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={server},rootmode=41777,user_id=4242,group_id=4242,allow_other".encode()
assert not libc.mount(b"silent", b"/tmp", b"fuse", 0, options)
os.setresgid(4242, 4242, 4242)
os.setresuid(4242, 4242, 4242)
print("ready", flush=True)
time.sleep(600)
"""

# The same by any user, in a user namespace of its own.
HOLDS_AS_USER = """
import ctypes, os, stat, sys, tempfile, time
libc = ctypes.CDLL(None, use_errno=True)
# Elsewhere every user may open /dev/fuse.
directory = tempfile.mkdtemp()
os.chmod(directory, 0o711)
os.mknod(directory + "/fuse", stat.S_IFCHR | 0o666, os.stat("/dev/fuse").st_rdev)
os.chmod(directory + "/fuse", 0o666)
os.chown(directory, 65534, 65534)
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
libc.prctl(4, 1)  # PR_SET_DUMPABLE, so that the maps below are its own
assert not libc.unshare(0x10020000)  # CLONE_NEWUSER | CLONE_NEWNS
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write("0 65534 1")
open("/proc/self/gid_map", "w").write("0 65534 1")
assert not libc.mount(b"none", b"/", None, 0x44000, None)
server = os.open(directory + "/fuse", os.O_RDWR)
os.unlink(directory + "/fuse")
os.rmdir(directory)
options = f"fd={server},rootmode=41777,user_id=0,group_id=0,allow_other".encode()
assert not libc.mount(b"silent", b"/tmp", b"fuse", 0, options)
print("ready", flush=True)
time.sleep(600)
"""


# An autofs over its own /tmp, whose daemon never mounts what it is asked for.
HOLDS_AUTOFS = (
    HOLDS.partition("server =")[0]
    + """
questions, told = os.pipe()
daemon = os.fork()
if not daemon:
    os.setsid()
    libc.prctl(1, 9)  # PR_SET_PDEATHSIG
    time.sleep(600)
options = f"fd={told},pgrp={daemon},minproto=5,maxproto=5,indirect".encode()
while os.getpgid(daemon) != daemon:
    time.sleep(0.01)
assert not libc.mount(b"silent", b"/tmp", b"autofs", 0, options)
print("ready", flush=True)
time.sleep(600)
"""
)

# Runs a program of this Python environment, which may lie below /tmp, whose own /tmp does not
# answer: the environment is seen at another place as well. Tells its process id.
RUNS = (
    HOLDS.partition("server =")[0]
    + """
import subprocess
seen_at, python, *words = sys.argv[1:]
assert not libc.mount(sys.prefix.encode(), seen_at.encode(), None, 0x1000, None)  # MS_BIND
os.chdir("/")
"""
    + HOLDS[HOLDS.index("server =") : HOLDS.index("os.setresgid")]
    + """
command = subprocess.Popen([os.path.join(seen_at, python), *words])
print("ready", command.pid, flush=True)
time.sleep(600)
"""
)


@contextmanager
def holding(program, *words):
    """Run a program that holds such a mount, and give what it says."""
    line = [sys.executable, "-c", program, *map(str, words)]
    holder = subprocess.Popen(line, stdout=subprocess.PIPE)
    try:
        said = holder.stdout.readline().decode().split()
        if not said:
            pytest.skip("neither FUSE nor autofs can be mounted here")
        yield said
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "program", [HOLDS, HOLDS_AS_USER, HOLDS_AUTOFS], ids=["root", "user", "autofs"]
)
def test_a_mount_over_tmp_that_does_not_answer_holds_up_no_recording(tmp_path, program):
    with holding(program):
        line = [*PROSPECT, "record", "-o", tmp_path / "r", "sleep", "0.2"]
        began_s = time.monotonic()
        recorder = subprocess.Popen(line)
        try:
            assert recorder.wait(timeout=60) == 0
        finally:
            recorder.kill()
        assert time.monotonic() - began_s < 60
        line = [*PROSPECT, "report", "--no-cache", tmp_path / "r"]
        subprocess.run(line, stdout=subprocess.DEVNULL, timeout=60, check=True)


# Alone: the recorder's children look into the /tmp of every process, those of other tests too.
@pytest.mark.skipif(
    Path(sys.executable).resolve().is_relative_to("/tmp"),
    reason="the interpreter lies below /tmp, and could not start where that does not answer",
)
@pytest.mark.live
@pytest.mark.timeout(200)
def test_a_recorder_killed_while_a_child_waits_for_a_mount_leaves_nothing():
    mounts = Path("/proc/self/mountinfo").read_bytes()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # not below the mount
        directory, seen_at = Path(name, "recording"), Path(name, "environment")
        directory.mkdir()
        seen_at.mkdir()
        python = os.path.relpath(sys.executable, sys.prefix)
        # By its path: a PATH through /tmp would hold COMMAND itself up.
        command = [shutil.which("sleep", path="/usr/bin:/bin"), "60"]
        words = ["-m", "prospect", "record", "-o", directory / "r", *command]
        with holding(RUNS, seen_at, python, *words) as (_, recorder):
            try:
                until = time.monotonic() + 60
                while not any(map(_waits_for_mount, children := _children(recorder))):
                    assert time.monotonic() < until
                    assert _is_alive(recorder)
                    time.sleep(0.01)
                time.sleep(1)  # COMMAND and the other children may start meanwhile
                children = {*children, *_children(recorder)}
            finally:
                os.kill(int(recorder), signal.SIGKILL)
            while left := list(filter(_is_alive, children)):
                # COMMAND is not Prospect's to end.
                for child in left:
                    if _read(child, "comm") == b"sleep\n":
                        os.kill(int(child), signal.SIGKILL)
                assert time.monotonic() < until
                time.sleep(0.01)
            assert not _is_alive(recorder)
        assert [path.name for path in directory.iterdir()] == ["r"]
        assert Path("/proc/self/mountinfo").read_bytes() == mounts


def _read(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _children(pid):
    return _read(f"{pid}/task/{pid}", "children").decode().split()


def _waits_for_mount(pid):
    return b"fuse" in _read(pid, "stack")


def _is_alive(pid):
    """Return whether a process runs; only an init that does not reap keeps a dead one listed."""
    state = _read(pid, "stat").rpartition(b")")[2].split()
    return bool(state) and state[0] not in (b"Z", b"X")
