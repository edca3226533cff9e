"""`prospect top` in a terminal of its own: it comes up, saves, and leaves all as it was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builders.another_user import NOBODY, WHO, python_of_another_user
from builders.command_line import running
from builders.examples import nightly
from builders.starter import STARTER
from builders.terminal import SCREEN_LEFT, Terminal
from prospect.analysis.reading import read_profile
from prospect.options import NamingOptions

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="samples the whole system"),
]

_PROMPT_S = 5.0


@pytest.fixture
def spinning(tmp_path_factory):
    """Run a program of a name of its own that takes a CPU as long as the test lasts."""
    path = tmp_path_factory.mktemp("program") / "spins-for-top"
    shutil.copy("/bin/sh", path)
    with running([path, "-c", "while :; do :; done"]) as program:
        yield program.pid


@pytest.mark.parallel
def test_it_shows_a_busy_process_saves_what_it_saw_and_leaves(spinning, tmp_path):
    terminal = Terminal(tmp_path, "-H", "100", "--clocks", "2", "--no-cache")
    terminal.until(b"Functions")
    terminal.press("2")
    terminal.until(f"pid {spinning}".encode())
    terminal.press("s")
    terminal.until(b"Save the recording as")
    terminal.press("\r")
    terminal.until(b"are in prospect-")
    # Keys of a terminal that is not in UTF-8 do no harm; what is read with them is lost.
    terminal.press(b"\xe4\xff")
    terminal.until(b"Program, or the kernel", keys="3")
    terminal.press("q")
    assert terminal.end() == 0
    assert all(part in terminal.seen for part in SCREEN_LEFT)
    (saved,) = tmp_path.iterdir()
    profile = read_profile(str(saved), NamingOptions())
    assert spinning in profile.processes.pid.tolist()


@pytest.mark.parallel
@pytest.mark.parametrize(
    "number",
    [
        *(signal.SIGTERM, signal.SIGINT, signal.SIGUSR1),
        *nightly(signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM),
    ],
)
def test_a_signal_ends_it_in_good_order(number, tmp_path):
    terminal = Terminal(tmp_path)
    terminal.until(b"Functions")
    os.kill(terminal.pid, number)
    assert terminal.end() == 128 + number
    assert all(part in terminal.seen for part in SCREEN_LEFT)
    assert b"Traceback" not in terminal.seen
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def renames(tmp_path_factory):
    program = tmp_path_factory.mktemp("program") / "renames"
    source = Path(__file__).parent / "programs" / "renames.c"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, source], check=True)
    return program


@pytest.fixture
def renaming(renames):
    """Run a program whose threads rename themselves for as long as the test lasts."""
    with running([renames, "3"]) as program:
        yield program.pid


@pytest.mark.parametrize("end", ["q", *nightly(signal.SIGTERM, signal.SIGQUIT)])
def test_a_flood_of_names_holds_up_neither_figures_nor_keys_nor_signals(renaming, end, tmp_path):
    """On an idle machine it ends within 0.2 s; nobody knows what else runs beside this test."""
    terminal = Terminal(tmp_path, "-H", "100")
    terminal.until(b"Functions")
    terminal.press("2")
    terminal.until(f"pid {renaming}".encode())
    terminal.until(b"Program, or the kernel", keys="3")
    begin_s = time.monotonic()
    if end == "q":
        terminal.press("q")
    else:
        os.kill(terminal.pid, end)
    status = terminal.end()
    assert time.monotonic() - begin_s < _PROMPT_S
    assert status == (0 if end == "q" else 128 + end)
    assert all(part in terminal.seen for part in SCREEN_LEFT)
    assert b"Traceback" not in terminal.seen


@pytest.mark.parallel
def test_it_is_stopped_and_goes_on(tmp_path):
    terminal = Terminal(tmp_path)
    terminal.until(b"Functions")
    terminal.press("\x1a")
    assert os.WIFSTOPPED(os.waitpid(terminal.pid, os.WUNTRACED)[1])
    terminal.seen = b""
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.until(b"Functions")
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.parallel
def test_with_switches_it_says_where_a_thread_waits(tmp_path):
    terminal = Terminal(tmp_path, "-H", "100", "--off-cpu", "--no-cache")
    terminal.until(b"Functions")
    terminal.press("5")
    terminal.until(b"% blocked")
    terminal.press("\r")
    terminal.until(b"Where it waits")
    terminal.press("q")
    assert terminal.end() == 0
    assert b"Traceback" not in terminal.seen


@pytest.mark.parallel
def test_what_cannot_be_recorded_is_said_before_a_screen_opens(tmp_path):
    terminal = Terminal(tmp_path, "-H", "999999999")
    assert terminal.end() == 2
    assert b"kernel.perf_event_max_sample_rate" in terminal.seen
    assert b"\x1b[?1049h" not in terminal.seen


@pytest.fixture
def threaded(tmp_path):
    """Run a program with a thread that spins, and one that starts a process."""
    shutil.copy("/bin/sh", tmp_path / "starts-late")
    words = [sys.executable, "-c", STARTER]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, cwd=tmp_path, start_new_session=True
    ) as program:
        yield program.pid, int(program.stdout.readline())
        os.killpg(program.pid, signal.SIGKILL)


@pytest.mark.parallel
def test_a_process_is_followed_with_what_it_starts_and_nobody_else(spinning, threaded, tmp_path):
    pid, _ = threaded
    terminal = Terminal(tmp_path, "-p", str(pid), "-H", "100", "--no-cache")
    terminal.until(f"process {pid} (".encode())
    terminal.until(b"starts-late", keys="2")
    terminal.press("s")
    terminal.until(b"Save the recording as")
    terminal.press("\r")
    terminal.until(b"are in prospect-")
    os.killpg(pid, signal.SIGKILL)
    terminal.until(b"ended")
    terminal.press("q")
    assert terminal.end() == 0
    assert b"spins-for-top" not in terminal.seen
    (saved,) = tmp_path.glob("prospect-*")
    processes = read_profile(str(saved), NamingOptions()).processes
    wanted = {processes.name[row] for row in processes.is_descendant.nonzero()[0].tolist()}
    assert "starts-late" in wanted
    assert "spins-for-top" not in wanted
    assert spinning in processes.pid.tolist()


@pytest.mark.parallel
@pytest.mark.nightly
def test_a_thread_is_followed_with_what_it_starts_and_not_its_siblings(threaded, tmp_path):
    pid, tid = threaded
    terminal = Terminal(tmp_path, "-t", str(tid), "-H", "100", "--no-cache")
    terminal.until(f"thread {tid} (".encode())
    terminal.until(b"starts-late", keys="2")
    terminal.press("s")
    terminal.until(b"Save the recording as")
    terminal.press("\r")
    terminal.until(b"are in prospect-")
    terminal.press("q")
    assert terminal.end() == 0
    (saved,) = tmp_path.glob("prospect-*")
    profile = read_profile(str(saved), NamingOptions())
    owners = profile.processes.pid[profile.hits.process_index].tolist()
    hits = sum(
        count
        for owner, count in zip(owners, profile.hits.count.tolist(), strict=True)
        if owner == pid
    )
    assert hits < 0.2 * profile.hits.count.sum()
    assert not profile.run.system_wide


@pytest.mark.parallel
def test_an_ordinary_user_follows_processes_of_his_own_and_is_told_of_others(spinning, tmp_path):
    level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    python_of_another_user()
    if level not in (1, 2):
        pytest.skip("ordinary users may profile nothing here, or everything")
    with running(["sh", "-c", "while :; do :; done"], cwd="/", **WHO) as own:
        terminal = Terminal("/", "-p", str(own.pid), "--no-cache", user=NOBODY)
        terminal.until(f"process {own.pid} (sh)".encode())
        terminal.until(f"pid {own.pid}".encode(), keys="2")
        terminal.press("q")
        status = terminal.end()
        terminal = Terminal("/", "-p", str(spinning), user=NOBODY)
        refused = terminal.end()
    assert (status, refused) == (0, 1)
    assert f"process {spinning} is not yours to profile".encode() in terminal.seen
    assert b"Traceback" not in terminal.seen
