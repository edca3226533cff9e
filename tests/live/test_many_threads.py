"""Fifty thousand threads of another user: a recording and counters cope, or say why not."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
from pathlib import Path

import pytest

import prospect
from builders.command_line import run, running
from builders.recordings import build_program
from prospect.estimate.accounting.sample_accounting import sample_accounting

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.geteuid() != 0, reason="raises how many processes there may be"),
]

STRANGER = 23001
THREADS = 50_000
# Of this machine, for all its users.
MOST_PIDS = Path("/proc/sys/kernel/pid_max")


@pytest.fixture(scope="module")
def crowd():
    """Run a program of that many threads, or of as many as there may be."""
    most = MOST_PIDS.read_text()
    MOST_PIDS.write_text(str(max(int(most), 2 * THREADS)))
    try:
        with tempfile.TemporaryDirectory() as directory:
            Path(directory).chmod(0o711)
            words = [build_program(Path(directory), "crowd", "-pthread"), THREADS]
            who = {"user": STRANGER, "group": STRANGER, "extra_groups": []}
            with running(words, stdout=subprocess.PIPE, **who) as process:
                count = int(process.stdout.readline())
                if count < 10_000:
                    pytest.skip(f"no more than {count} threads here")
                yield process.pid, count
    finally:
        MOST_PIDS.write_text(most)


def test_threads_of_others_hold_up_no_recording_and_the_sample_accounting_closes(crowd, tmp_path):
    ran = run("record", "-H", "999", "-o", f"{tmp_path}/r", "sh", "-c", "sleep 0.2; echo done")
    assert (ran.returncode, ran.stdout) == (0, "done\n")
    profile = prospect.open(tmp_path / "r")
    assert crowd[0] in profile.processes.pid.tolist()
    assert (abs(sample_accounting(profile).by_cpu.closure_share) < 0.01).all()


def test_a_process_of_more_threads_than_files_is_refused_in_one_line(crowd):
    pid, count = crowd
    ran = run("stat", "-p", str(pid), "--event", "faults", "true")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most > count:
        assert ran.returncode == 0
    else:
        said = r"prospect: faults: too many open files: raise the limit with `ulimit -n \d+`\n"
        assert ran.returncode == 1
        assert re.fullmatch(said, ran.stderr), ran.stderr
