"""Files are known by what they held when they were mapped, and no neighbour is harmed by it."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import prospect
from builders.examples import nightly
from builders.recordings import PROSPECT, hits_by, record
from builders.waiting import wait_for
from prospect.capture.machine.mapped_file_reader import Mounts
from prospect.capture.machine.mapping_records import MappingRecord
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")

SOURCE = """
volatile unsigned long sink;
__attribute__((noinline)) void NAME(void) {
    for (unsigned long i = 0; i < 80000000ul; i++) sink += i + NUMBER;
}
int main(void) { NAME(); return 0; }
"""
CLOCK = ("-e", "cpu-clock")


def program(directory, name):
    path = directory / name
    # A build id is made of the code, and not of the names.
    code = [f"-DNAME={name}", f"-DNUMBER={sum(name.encode())}"]
    command = ["gcc", "-O1", "-Wl,--build-id", *code, "-x", "c", "-o", path, "-"]
    subprocess.run(command, input=SOURCE, text=True, check=True, timeout=60)
    return path


def test_a_user_finds_libraries_below_the_root_of_a_process(tmp_path, monkeypatch):
    """Only root may open /proc/PID/map_files."""
    library = tmp_path / "usr/only-here.so"
    library.parent.mkdir()
    library.write_bytes(b"a library")
    status = library.stat()
    pid = os.fork()
    if not pid:
        os.chroot(tmp_path)
        signal.pause()
        os._exit(0)
    try:
        device = os.major(status.st_dev), os.minor(status.st_dev)
        name = b"/usr/only-here.so"
        mapping = MappingRecord((*device, status.st_ino), pid, 0x1000, 0x2000, name, 1)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        until = time.monotonic() + 5
        while (fd := Mounts().open_mapped(mapping)) < 0 and time.monotonic() < until:
            time.sleep(0.01)
        assert os.fstat(fd).st_ino == status.st_ino
        os.close(fd)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def start(*words):
    """Start a recorder, and wait until its command runs."""
    words = [*map(str, words)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(0.7)
    return process


def names_in(file, *paths):
    """Return the functions that have hits in some objects."""
    found = hits_by(prospect.open(file, use_cache=False), "object", "function")
    return {function for path, function in found if path in map(str, paths)}


@pytest.mark.parallel
@needs_perf
@pytest.mark.parametrize("is_ours_first", [True, *nightly(False)])
def test_ours_and_perfs_recording_stand_beside_each_other(tmp_path, is_ours_first):
    one = program(tmp_path, "one")
    ours = (*PROSPECT, "record", "--no-python", "-H", "1000", "-o", tmp_path / "ours")
    perfs = ("perf", "record", "-a", *CLOCK, "-o", tmp_path / "perfs", "--")
    first, second = (ours, perfs) if is_ours_first else (perfs, ours)
    running = start(*first, "sh", "-c", f"sleep 0.8; {one}; sleep 0.6; true")
    subprocess.run([*map(str, second), one], capture_output=True, check=True, timeout=60)
    _, said = running.communicate(timeout=60)
    assert (running.returncode, "assertion" in said) == (0, False)
    for file in ("ours", "perfs"):
        assert "one" in names_in(tmp_path / file, one)


@needs_perf
def test_a_neighbour_that_asks_for_build_ids_spoils_no_recording_of_ours(tmp_path):
    one = program(tmp_path, "one")
    ours = (*PROSPECT, "record", "--no-python", "-H", "1000", "-o", tmp_path / "ours")
    running = start(*ours, "sh", "-c", f"sleep 1; {one}; true")
    perf = ("perf", "record", "-a", "--buildid-mmap", *CLOCK, "-o", tmp_path / "perfs")
    subprocess.run([*perf, "sleep", "1"], capture_output=True, check=True, timeout=60)
    running.communicate(timeout=60)
    assert "one" in names_in(tmp_path / "ours", one)
    shown = subprocess.run(
        ["perf", "report", "--stdio", "-g", "none", "-i", tmp_path / "ours"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "assertion failed" not in shown.stderr
    assert any("one" in line.split()[-1:] for line in shown.stdout.splitlines())


@pytest.mark.nightly  # of ours, beside the same, each time
@needs_perf
def test_a_recording_of_perfs_beside_one_that_asks_is_named(tmp_path):
    """perf itself does not survive it, but what it wrote until then is read."""
    one = program(tmp_path, "one")
    asking = start(
        "perf", "record", "-a", "--buildid-mmap", *CLOCK, "-o", tmp_path / "a", "sleep", 1.5
    )
    beside = ["perf", "record", *CLOCK, "-o", tmp_path / "b", one]
    subprocess.run(beside, capture_output=True, check=False, timeout=60)
    asking.communicate(timeout=60)
    assert "one" in names_in(tmp_path / "b", one)


@pytest.mark.parallel
def test_a_program_that_is_written_anew_between_two_runs_is_two(tmp_path):
    one, two, app = (*(program(tmp_path, name) for name in ("one", "two")), tmp_path / "app")
    app.touch(mode=0o755)  # one inode for both
    script = f"cat {one} > {app}; {app}; sleep 0.1; cat {two} > {app}; {app}"
    record(tmp_path / "r", "sh", "-c", script)
    profile = prospect.open(tmp_path / "r")
    hits = hits_by(profile, "function", object=str(app))
    second, first = hits.pop("two"), sum(hits.values())
    # The first is gone, so that its hits have no name, or its own where perf has kept a copy.
    assert min(first, second) > 50
    assert 0.5 < first / second < 2


@pytest.mark.parallel
def test_a_program_that_is_put_back_after_the_recording_is_named(tmp_path):
    one = program(tmp_path, "one")
    record(tmp_path / "r", one)
    shutil.copy(one, tmp_path / "copy")
    (tmp_path / "copy").replace(one)
    assert "one" in names_in(tmp_path / "r", one)


@pytest.mark.parallel
def test_the_readers_own_time_is_prospects(tmp_path):
    record(tmp_path / "r", sys.executable, "-c", "")
    with open_recording(str(tmp_path / "r")) as opened:
        extras = opened.info.extras
    assert len(extras["recorder_pids"]) == 3
    columns = extras["mapped_files"]
    assert len({len(column) for column in columns.values()}) == 1
    assert len(columns["inode"]) > 3
    # The kernel takes some 20 ms to forget what the holder of JIT files watched. Nobody waits.
    pids = extras["recorder_pids"]
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


_ON_FUSE = """
import ctypes, os, sys, time
from prospect.capture.machine.mapped_file_reader import FileReader
from prospect.capture.machine.mapping_records import MappingRecord
from prospect.capture.machine.read_files import ReadFiles
place = sys.argv[1].encode()
fuse = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % fuse
if libc.mount(b"held", place, b"fuse", 0, options):
    sys.exit(77)
with open("/proc/self/mountinfo", "rb") as mounts:
    (line,) = [line for line in mounts if place in line]
major, minor = map(int, line.split()[2].split(b":"))
found = ReadFiles()
for device in ((major, minor), (8, 1), (0, 999999)):
    one = MappingRecord((*device, 5), os.getpid(), 0x1000, 0x2000, place + b"/program", 0)
    FileReader(found).look(iter([one]))
print(found.counts().late)
libc.umount2(place, 2)
"""


@pytest.mark.parallel
def test_nothing_is_opened_on_a_file_system_whose_server_does_not_answer(tmp_path):
    if not Path("/dev/fuse").exists():
        pytest.skip("no FUSE here")
    (tmp_path / "held").mkdir()
    line = [PROSPECT[0], "-c", _ON_FUSE, tmp_path / "held"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    try:
        said, _ = process.communicate(timeout=20)
    finally:
        process.kill()  # its end answers whoever waits
        ctypes.CDLL(None).umount2(os.fsencode(tmp_path / "held"), 2)
    if process.returncode == 77:
        pytest.skip("a FUSE file system cannot be mounted here")
    assert said == "3\n"
