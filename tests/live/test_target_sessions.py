"""Sessions that go on, of a target over a real sshd: live, in a terminal, as a daemon."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import prospect
from builders.command_line import running
from builders.daemon import RunningDaemon
from builders.examples import nightly
from builders.recordings import build_program, hits_by
from builders.ssh_target import PLAIN
from builders.starter import STARTER
from builders.terminal import SCREEN_LEFT, Terminal
from prospect.api.store_part import read_store
from prospect.errors import CaptureError
from prospect.live.session import LiveSession
from prospect.recording.opened_events import RecordOptions
from prospect.target.target_source import source_on

pytestmark = [pytest.mark.live, pytest.mark.parallel]

OPTIONS = RecordOptions(frequency_hz=400, call_graph="fp")
BUSY = "while True: sum(i * i for i in range(100000))"


@pytest.fixture
def session(target, monkeypatch):
    """Begin a session of the target."""
    begun = []

    def begin():
        for name in ("PROSPECT_SSH", "XDG_CACHE_HOME"):
            monkeypatch.setenv(name, target.environment[name])
        begun.append(LiveSession(OPTIONS, source=source_on("there")))
        return begun[0]

    yield begin
    for one in begun:
        one.close()


@pytest.mark.nightly
def test_names_come_while_it_goes_on_and_what_is_saved_has_them(
    target, bare_root, session, tmp_path
):
    program = build_program(bare_root / "opt", "chain", "-Wl,--build-id", "-static")
    one = session()
    with running(["chroot", bare_root, "/opt/chain", "3", "100000"]):
        for _ in range(20):
            time.sleep(0.3)
            state = one.advance()
            found = hits_by(prospect.Profile(**vars(state.profile)), "function")
            if found.get("leaf", 0) > 20:
                break
    assert found.get("leaf", 0) > 20
    assert any(target.cache.glob("prospect/targets/*/*.executable"))
    one.save(str(tmp_path / "saved"))
    program.unlink()
    assert hits_by(prospect.open(tmp_path / "saved"), "function")["leaf"] > 20
    assert one.child_pids == []


def test_a_lost_connection_is_said_after_what_has_come(target, session):
    one = session()
    time.sleep(0.6)
    target.drop_connections()
    time.sleep(0.6)
    assert len(one.advance().profile.samples) > 0
    with pytest.raises(CaptureError, match="the connection to there was lost"):
        one.advance()


@pytest.mark.nightly  # the next test shows one, of a part of its processes
def test_top_shows_another_machine(target, tmp_path):
    with running([sys.executable, "-c", BUSY]) as load:
        options = ("--target", "there", "-H", "100")
        terminal = Terminal(tmp_path, *options, environment=target.environment)
        terminal.until(b"Functions")
        terminal.press("2")
        terminal.until(f"pid {load.pid}".encode())
        terminal.press("q")
        assert terminal.end() == 0
    assert all(part in terminal.seen for part in SCREEN_LEFT)


@pytest.fixture
def elsewhere(target):
    """Let sessions begin among processes with numbers of their own; return what does so here."""
    words = ["unshare", "-pf", "--kill-child", "--mount-proc", "sh", "-c", "echo; exec sleep 600"]
    with running(words, stdout=subprocess.PIPE) as outer:
        outer.stdout.readline()
        (inner,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        enter = ["nsenter", "-t", inner, "-p", "-m"]
        target.begin_sessions_by(f"exec {' '.join(enter)} {PLAIN.removeprefix('exec ')}")
        yield enter


@pytest.mark.parametrize("option", ["-p", *nightly("-t")])
def test_top_follows_whom_it_is_told_of_on_another_machine(target, elsewhere, tmp_path, option):
    """What numbers mean there is known there alone: here they are others', or nobody's."""
    for name in ("starts-late", "spins-for-top"):
        shutil.copy("/bin/sh", tmp_path / name)
    words = [*elsewhere, f"--wd={tmp_path}", sys.executable, "-c"]
    program = f"import os; print(os.getpid(), flush=True)\n{STARTER}"
    other = [*elsewhere, f"--wd={tmp_path}", "./spins-for-top", "-c", "while :; do :; done"]
    with (
        running(other),
        running([*words, program], stdout=subprocess.PIPE) as load,
    ):
        numbers = dict(zip(("-p", "-t"), map(int, load.stdout), strict=False))
        terminal = Terminal(
            *(tmp_path, "--target", "there", "-H", "100", option, str(numbers[option])),
            environment=target.environment,
        )
        kind = {"-p": "process", "-t": "thread"}[option]
        terminal.until(f"{kind} {numbers[option]} (".encode())
        terminal.until(b"starts-late", keys="2")
        terminal.press("s")
        terminal.until(b"Save the recording as")
        terminal.press("\r")
        terminal.until(b"are in prospect-")
        subprocess.run([*elsewhere, "kill", "-9", str(numbers["-p"])], check=True)
        terminal.until(b"ended")
        terminal.press("q")
        assert terminal.end() == 0
    assert b"spins-for-top" not in terminal.seen
    (saved,) = tmp_path.glob("prospect-*")
    processes = prospect.open(saved).processes
    rows = zip(processes.name, processes.is_descendant.tolist(), strict=True)
    wanted = {name for name, is_descendant in rows if is_descendant}
    assert "starts-late" in wanted
    assert "spins-for-top" not in wanted


def test_who_is_not_there_is_said(target, tmp_path):
    options = ("--target", "there", "-p", "4194304")
    terminal = Terminal(tmp_path, *options, environment=target.environment)
    assert terminal.end() == 1
    assert b"prospect: there: there is no process 4194304 (-p)" in terminal.seen


def test_a_daemon_here_keeps_a_store_of_it_and_is_controlled_by_its_name(target, tmp_path):
    pytest.importorskip("duckdb")
    target.environment["XDG_STATE_HOME"] = str(tmp_path)
    with RunningDaemon(
        tmp_path / "s", "--window", "2", "--target", "there", **target.environment
    ) as daemon:
        answer = json.loads(daemon.control("dump", "--format", "json").stdout)
        assert answer["sampling"]
        assert daemon.end() == 0, daemon.said()
        assert "prospect: sampling there into" in daemon.said()
    stored = read_store(str(tmp_path / "s"))
    assert stored.hits.count.sum() >= answer["samples"] > 0
    ran = target.prospect("control", "--target", "there", "status")
    assert ran.returncode == 1
    assert "prospect-targets/there" in ran.stderr
