"""A file system that does not answer, in somebody's own mounts, holds up no recording."""

import os
import subprocess
import sys
import time

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


@pytest.mark.timeout(200)
@pytest.mark.parametrize("program", [HOLDS, HOLDS_AS_USER], ids=["root", "user"])
def test_a_mount_over_tmp_that_does_not_answer_holds_up_no_recording(tmp_path, program):
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        if holder.stdout.readline() != b"ready\n":
            pytest.skip("FUSE cannot be mounted here")
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
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
