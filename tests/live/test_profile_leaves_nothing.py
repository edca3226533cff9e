"""After success, failure and kill -9 no process, mount or file is there that was not before."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from builders.examples import nightly
from builders.recordings import PROSPECT
from builders.waiting import wait_for

pytestmark = pytest.mark.live

CASES = {
    "success": (("-f", "report"), ("true",), 0),
    "failure": (("-f", "report"), ("false",), 1),
    "no command": (("-f", "report"), ("no-such-command",), 127),
    "no room": (("-f", "/dev/full"), ("true",), 1),
    "no option": (("-H", "0"), ("true",), 2),
    "child killed": (("-f", "report"), ("sh", "-c", "kill -9 $$"), 137),
}


@pytest.fixture
def traces(tmp_path, monkeypatch):
    """Give a place for temporary files, and a check that nothing stays of a session."""
    scratch, home, here = (tmp_path / name for name in ("scratch", "home", "here"))
    for directory in (scratch, home, here):
        directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.chdir(here)
    shared = Path("/dev/shm"), Path("/var/tmp")
    before = mounts(), [set(directory.iterdir()) for directory in shared]

    def check(session, files=frozenset({"report"})):
        # A grandchild that was orphaned as it ended is init's to reap, which takes a moment.
        deadline = time.monotonic() + 5
        while in_session(session) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert in_session(session) == []
        assert mounts() == before[0]
        assert [set(directory.iterdir()) for directory in shared] == before[1]
        assert list(scratch.iterdir()) == []
        assert {path.name for path in here.iterdir()} <= files
        kept = {path.relative_to(home).parts[:2] for path in home.rglob("*") if path.is_file()}
        assert kept <= {(".cache", "prospect")}, "only the documented cache"

    return check


def mounts():
    return Path("/proc/self/mounts").read_text()


def in_session(session):
    """Return the processes of a session, zombies included."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_bytes()
        except OSError:
            continue
        if int(text.rpartition(b")")[2].split()[3]) == session:
            found.append(text)
    return found


DAILY = ("success", "no room", "child killed")


@pytest.mark.parametrize("case", [*DAILY, *nightly(*(one for one in CASES if one not in DAILY))])
def test_nothing_is_left_behind(traces, case):
    options, command, status = CASES[case]
    process = subprocess.Popen(
        [*PROSPECT, "-V4", *options, *command], start_new_session=True, stderr=subprocess.DEVNULL
    )
    assert process.wait(60) == status
    # Where the report has no room its recording is kept, and nothing else.
    kept = list(Path(os.environ["TMPDIR"]).glob("prospect-*.data"))
    assert len(kept) == (case == "no room")
    for path in kept:
        path.unlink()
    traces(process.pid)


def test_nothing_is_left_behind_by_kill_9_but_the_command_that_it_ran(traces):
    process = subprocess.Popen(
        [*PROSPECT, "-V4", "-f", "report", "sh", "-c", "echo $$ >pid; exec sleep 60"],
        start_new_session=True,
    )
    wait_for(lambda: Path("pid").exists() and Path("pid").read_text().endswith("\n"))
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    os.kill(int(Path("pid").read_text()), signal.SIGKILL)
    wait_for(lambda: not in_session(process.pid))
    traces(process.pid, {"pid"})
