"""Recordings that were not finished: the recorder was killed, or the disk is full."""

from __future__ import annotations

import os
import shlex
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

import prospect as library
from builders.command_line import BURN, PROSPECT, names, run, run_here
from builders.examples import nightly
from builders.perf_tool import events_shown
from builders.waiting import wait_for
from prospect.estimate.accounting.sample_accounting import sample_accounting
from prospect.figures.modes import event_seconds
from prospect.figures.report.report_view import ReportView
from prospect.profile.model import KIND_KERNEL
from prospect.recording.opened_events import filter_obstacle

pytestmark = [pytest.mark.live, pytest.mark.parallel]


# The first sample with a copy of its stack would be too large already.
SMALL = ("--no-cache", "-H2000", "--call-graph", "none")


def test_a_killed_prospect_leaves_a_readable_recording_and_nothing_else(here):
    command = ["sh", "-c", f"echo $$ >pid; touch started; while :; do {BURN}; done"]
    process = subprocess.Popen([*PROSPECT, "-M10", "-f", "out", "--save", "run.data", *command])
    wait_for((here / "started").exists)
    time.sleep(1.0)
    process.kill()
    process.wait(30)
    os.kill(int((here / "pid").read_text()), signal.SIGKILL)
    assert names(here) == ["pid", "run.data", "started"]
    ran = run("report", "-V4", "run.data")
    assert ran.returncode == 0
    assert "Global KERNEL Profile" in ran.stdout
    assert "the recorder was killed before it finished the file" in ran.stdout


def test_a_killed_recording_has_the_times_of_what_was_written(here):
    """The whole machine is sampled, so all CPUs' times add up to the interval, by any clock."""
    command = ["sh", "-c", f"echo $$ >pid; touch started; while :; do {BURN}; done"]
    process = subprocess.Popen(
        [*PROSPECT, "record", "--no-python", "-M10", "-o", "run.data", *command]
    )
    wait_for((here / "started").exists)
    time.sleep(1.5)
    process.kill()
    process.wait(30)
    os.kill(int((here / "pid").read_text()), signal.SIGKILL)
    profile = library.open("run.data")
    (event,) = ReportView(profile).events
    assert (event.event.clocks, event.event.frequency_hz) == (4, 200.0)
    assert profile.run.command[:2] == ("sh", "-c")
    assert profile.run.uname.startswith(f"Linux {os.uname().nodename} {os.uname().release}")
    assert 0 < time.time() - profile.run.started_at < 60
    assert 1.0 < profile.run.wall_seconds < 60
    accounting = sample_accounting(profile)
    assert (abs(accounting.by_cpu.closure_share) < 0.02).all()
    all_s = profile.run.wall_seconds * profile.run.cpus
    sampled_s = float(event_seconds(event.event, profile.hits.count, profile.hits.period).sum())
    missing_s = accounting.unsampled_s + float(accounting.idle_s.sum())
    assert sampled_s + missing_s == pytest.approx(all_s, rel=0.03)
    is_kernel = profile.objects.kind == KIND_KERNEL
    named = [name for name, row in _functions(profile) if is_kernel[row] and name]
    assert len(named) > 2


def test_perf_reads_a_killed_recording_as_if_nothing_stood_before_the_records(here):
    process = subprocess.Popen(
        [*PROSPECT, "record", "--no-python", "-M10", "-o", "run.data", "sleep", "30"]
    )
    wait_for(lambda: Path("run.data").exists() and Path("run.data").stat().st_size > 60_000)
    process.kill()
    process.wait(30)
    content = bytearray(Path("run.data").read_bytes())
    (begin,) = struct.unpack_from("<Q", content, 40)
    (size,) = struct.unpack_from("<I", content, begin - 4)
    struct.pack_into("<Q", content, 40, begin - size)
    Path("without.data").write_bytes(content[: begin - size] + content[begin:])
    told = []
    for name in ("run.data", "without.data"):
        perf = ["perf", "report", "--stdio", "-i", name]
        ran = subprocess.run(perf, capture_output=True, text=True, timeout=120, check=False)
        told.append((ran.returncode, ran.stdout, ran.stderr.replace(name, "")))
    assert told[0] == told[1]


LOOP = """
import os
def looping():
    while True:
        sum(i * i for i in range(1000))
open("pid", "w").write(str(os.getpid()))
looping()
"""


@pytest.mark.skipif(filter_obstacle() != "", reason="needs programs in the kernel")
def test_perf_shows_no_runtimes_frames_of_a_killed_recording(here):
    command = [sys.executable, "-c", LOOP]
    words = [*PROSPECT, "record", "-M", "10", "--call-graph", "none", "-o", "run.data", *command]
    process = subprocess.Popen(words)
    wait_for((here / "pid").exists)
    time.sleep(2)
    process.kill()
    process.wait(30)
    os.kill(int((here / "pid").read_text()), signal.SIGKILL)
    assert b"looping" in run_here("report", "-V2", "run.data").stdout
    # perf shows no samples of a file whose header lacks their size, as perf's own has it then.
    content = bytearray(Path("run.data").read_bytes())
    (begin,) = struct.unpack_from("<Q", content, 40)
    struct.pack_into("<Q", content, 48, len(content) - begin)
    Path("run.data").write_bytes(content)
    assert events_shown("run.data") == {"cpu-clock"}


def _functions(profile):
    return zip(profile.functions.name, profile.functions.object_index.tolist(), strict=True)


def test_a_report_that_finds_no_room_says_so_and_where_the_recording_is_kept(here):
    ran = run("-f", "/dev/full", "--save", "run.data", "true")
    assert ran.returncode == 1
    kept, failed = ran.stderr.splitlines()
    assert kept == "prospect: the recording is kept: prospect report run.data"
    assert failed.startswith("prospect: ")
    assert run_here("report", "run.data").returncode == 0


FULL_DISK = """set -e
mount -t tmpfs -o size=256k none disk
"$@"
"""


@pytest.mark.parametrize(
    "words", [("record", "-o", "disk/r"), *nightly(("--save", "disk/r", "-f", "out"))]
)
def test_a_full_disk_is_status_1_and_its_ticks_are_lost_and_not_idle(here, words):
    (here / "disk").mkdir()
    busy = f"echo $$ >pid; for n in $(seq 20); do {BURN}; done"
    tool = [*PROSPECT, *words, "-H4000", "-M10", "sh", "-c", busy]
    keep = f"status=0; {shlex.join(tool)} || status=$?; cp disk/r r; exit $status"
    line = ["unshare", "--mount", "sh", "-c", FULL_DISK, "sh", "sh", "-c", keep]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 1
    said = ran.stderr if words[0] == "record" else (here / "out").read_text()
    assert "Recorded only the first" in said
    profile = library.open("r")
    assert profile.run.is_cut
    assert any("cut" in warning for warning in ReportView(profile).warnings)
    counts = sample_accounting(profile).by_cpu
    assert counts.lost.sum() > 0
    assert (abs(counts.closure_share) < 0.02).all()


def test_a_full_disk_does_not_hide_the_commands_own_status(here):
    words = ["prlimit", "--fsize=65536", *PROSPECT, *SMALL]
    ran = subprocess.run(
        [*words, "sh", "-c", f"{BURN}; exit 7"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 7


def test_what_a_full_disk_kept_out_of_the_recording_is_said_all_the_same(here):
    words = ["prlimit", "--fsize=65536", *PROSPECT, *SMALL, "sh", "-c", BURN]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 1
    assert "Recorded only the first" in ran.stderr + ran.stdout
