"""How an agent and the pump meet on a target: by a name that others may read."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from prospect.target import joining, relay

AGENT = "def main(held):\n    import os\n    return len(held) + int(os.pread(held[2], 9, 0))\n"


@pytest.fixture
def meeting():
    name = f"prospect-test-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("\0" + name)
        listening.listen()
        listening.settimeout(30)
        yield name, listening


@pytest.fixture
def files():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("an_agent.py", AGENT)
    held = [os.memfd_create("of the pump") for _ in range(4)]
    os.write(held[0], packed.getvalue())
    os.write(held[2], b"30")
    yield held
    for descriptor in held:
        os.close(descriptor)


def test_the_agent_runs_with_what_the_pump_holds(meeting, files, monkeypatch):
    name, listening = meeting
    monkeypatch.setattr(sys, "path", list(sys.path))
    kept = []
    thread = threading.Thread(
        target=lambda: kept.append(relay.met(listening, files[0], tuple(files[1:])))
    )
    thread.start()
    with pytest.raises(SystemExit) as ended:
        joining.join(name, "an_agent")
    thread.join()
    kept[0].close()
    assert ended.value.code == 34


def test_another_user_is_given_nothing(meeting, files, monkeypatch):
    name, listening = meeting
    with joining.connected(name) as stranger:
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
        assert relay.met(listening, files[0], tuple(files[1:])) is None
        assert stranger.recv(1) == b""


def test_another_users_program_is_asked_for_nothing(meeting, monkeypatch):
    name, _ = meeting
    theirs = os.getuid() + 1
    monkeypatch.setattr("os.geteuid", lambda: theirs)
    with pytest.raises(SystemExit, match="another user's program"):
        joining.join(name, "an_agent")


def test_it_ends_with_the_pump(meeting):
    name, listening = meeting

    def end() -> None:
        listening.accept()[0].close()

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(SystemExit) as ended:
        joining.join(name, "an_agent")
    thread.join()
    assert ended.value.code == joining.NOT_STARTED


def test_it_ends_with_its_session_where_there_is_no_pump():
    code = Path(joining.__file__).read_text() + "\njoin('prospect-test-nobody', 'an_agent')\n"
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as waiting:
        waiting.stdout.close()
        assert waiting.wait(30) == joining.NOT_STARTED
