"""Who may tell a daemon what, and how the two of them hear each other."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from builders.status import FIGURES
from prospect.cli.control import run
from prospect.daemon import control_socket as control_module
from prospect.daemon.control_socket import NAME, ControlSocket, NoAnswerError, Request, ask
from prospect.daemon.status import STATUS, keep_status, kept_status, note_alive
from prospect.errors import StoreError
from prospect.options import Settings
from prospect.store.directory import StoreDirectory


@pytest.fixture
def store(tmp_path):
    # A path that is longer than the address of a socket may be.
    path = tmp_path / ("x" * 120)
    with StoreDirectory(str(path), create=True) as made:
        yield made


def answering(control, told):
    """Answer one request, in the background."""
    heard = []

    def serve():
        request = control.accept()
        if request:
            heard.append(request.words)
            request.answer(told)

    thread = threading.Thread(target=serve)
    thread.start()
    return heard, thread


def assert_asked_in_vain(store, word, answer, complaint):
    """Ask while `answer` stands for the daemon, given its socket."""
    with ControlSocket(store) as control:
        thread = threading.Thread(target=answer, args=(control,))
        thread.start()
        with pytest.raises(StoreError, match=complaint):
            ask(store, [word])
        thread.join()


def test_words_arrive_and_so_does_the_answer(store):
    with ControlSocket(store) as control:
        heard, thread = answering(control, {"samples": 3})
        assert ask(store, ["session", "before"]) == {"samples": 3}
        thread.join()
        assert heard == [["session", "before"]]
        mode = os.stat(NAME, dir_fd=store.descriptor).st_mode
        assert stat.S_IMODE(mode) == 0o600
    with pytest.raises(StoreError, match="no daemon writes"):
        ask(store, ["status"])


def test_a_refusal_is_an_error(store):
    with ControlSocket(store) as control:
        _, thread = answering(control, {"error": "no such request"})
        with pytest.raises(StoreError, match="no such request"):
            ask(store, ["nonsense"])
        thread.join()


def test_an_answer_that_is_nested_too_deep_is_none(store):
    def answer(control):
        connection, _ = control._socket.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"[" * 100000 + b"\n")

    assert_asked_in_vain(store, "status", answer, "the daemon does not answer")


def test_a_socket_that_a_killed_daemon_left_is_replaced(store):
    left = ControlSocket(store)
    left._socket.close()
    with pytest.raises(StoreError, match="no daemon writes"):
        ask(store, ["status"])
    with ControlSocket(store) as control:
        _, thread = answering(control, {})
        assert ask(store, ["status"]) == {}
        thread.join()


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"\n", b"{}\n", b"[1]\n", b"\xff\n", b'["status"]'),
        *(b"[" * 9000 + b"\n", b"[" * 4000 + b"\n"),
    ],
)
def test_what_is_no_request_is_dropped(store, line):
    with ControlSocket(store) as control:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(store.root + NAME)
        connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)
        assert control.accept() is None
        connection.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_other_users_are_refused(store):
    with ControlSocket(store) as control:
        ours, theirs = socket.socketpair()
        ours.close()
        theirs.close()
        child = os.fork()
        if not child:
            try:
                connection = socket.socket(socket.AF_UNIX)
                here = os.open(store.root, os.O_RDONLY)
                os.fchmod(here, 0o755)
                Path(store.root, NAME).chmod(0o666)
                os.setresuid(65534, 65534, 65534)
                connection.connect(f"/proc/self/fd/{here}/{NAME}")
                with suppress(BrokenPipeError):  # the refusal may come first
                    connection.sendall(b'["stop"]\n')
                told = json.loads(connection.recv(4096))
                os._exit(0 if "user 65534 may not" in told["error"] else 1)
            except Exception:  # noqa: BLE001 - a child of a test ends here, whatever happens
                os._exit(2)
        assert control.accept() is None
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a socket away")
def test_a_socket_of_somebody_else_is_not_asked(store):
    with ControlSocket(store):
        os.chown(NAME, 65534, 65534, dir_fd=store.descriptor)
        with pytest.raises(StoreError, match="not the socket of a Prospect daemon"):
            ask(store, ["status"])


def test_a_refusal_that_comes_before_the_question_has_gone_is_heard(store, monkeypatch):
    answered = threading.Event()
    peer_of = control_module._peer_of

    def peer_once_answered(connection):
        if threading.current_thread() is threading.main_thread():
            answered.wait(10)
        return peer_of(connection)

    def refuse(control):
        connection, _ = control._socket.accept()
        Request(connection).answer({"error": "not you"})
        answered.set()

    monkeypatch.setattr(control_module, "_peer_of", peer_once_answered)
    assert_asked_in_vain(store, "stop", refuse, "not you")


def test_a_file_in_its_place_is_no_socket(store):
    store.write_bytes(NAME, b"")
    with pytest.raises(StoreError, match="not the socket"):
        ask(store, ["status"])


@pytest.fixture
def stopped(store):
    """Start a process that listens for a store, holds its lock, and is stopped."""
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        store.lock()
        with ControlSocket(store):
            os.write(tell, b"1")
            os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.read(ready, 1)
    os.waitpid(child, os.WUNTRACED)
    yield child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(tell)


def test_a_stopped_daemon_is_called_that_at_once(store, stopped):
    for word in ("status", "dump"):
        with pytest.raises(NoAnswerError, match=f"is stopped; kill -CONT {stopped} resumes it"):
            ask(store, [word])


def test_of_a_daemon_that_does_not_answer_the_last_status_is_shown(store, stopped, capfd):
    assert stopped
    keep_status(store, FIGURES)
    os.utime(STATUS, (1, 1_700_000_000), dir_fd=store.descriptor)
    assert run(Settings(store=store.path), ["status"], ()) == 0
    shown = capfd.readouterr().out
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_700_000_000))
    assert f"since {since}: the daemon is stopped" in shown.splitlines()[0]
    assert "17, 2 lost" in shown
    note_alive(store)
    assert kept_status(store)["alive_s"] > 1_700_000_000


def test_a_daemon_that_is_busy_does_not_let_the_status_wait(store, monkeypatch):
    monkeypatch.setattr(control_module, "STATUS_S", 0.1)
    with ControlSocket(store), pytest.raises(NoAnswerError, match="is busy"):
        ask(store, ["status"])


def test_damage_in_the_kept_status_is_no_status(store):
    for text in (b"{", b"[]", b"{}", b"[" * 60000):
        store.write_bytes(STATUS, text)
        assert kept_status(store) is None


def test_a_socket_that_was_removed_is_made_again(store, tmp_path):
    with ControlSocket(store) as control:
        os.unlink(NAME, dir_fd=store.descriptor)
        store.lock()
        removed = pytest.raises(NoAnswerError, match="its socket 'control' was removed")
        with StoreDirectory(store.path) as another, removed:
            ask(another, ["status"])
        control.keep()
        _, thread = answering(control, {"samples": 3})
        assert ask(store, ["status"]) == {"samples": 3}
        thread.join()
        inode = os.stat(NAME, dir_fd=store.descriptor).st_ino
        control.keep()
        assert os.stat(NAME, dir_fd=store.descriptor).st_ino == inode


def test_who_asks_for_a_target_is_told_the_command_of_a_target(tmp_path):
    with pytest.raises(StoreError, match="prospect daemon --target board makes one"):
        StoreDirectory(str(tmp_path / "none"), target="board")
    with (
        StoreDirectory(str(tmp_path / "s"), create=True, target="board") as store,
        pytest.raises(StoreError, match=r"start one: prospect daemon --target board$"),
    ):
        ask(store, ["status"])
