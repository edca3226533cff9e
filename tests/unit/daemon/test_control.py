"""Who may tell a daemon what, and how the two of them hear each other."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from prospect.daemon import control_socket as control_module
from prospect.daemon.control_socket import NAME, ControlSocket, Request, ask
from prospect.errors import StoreError
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
    user_of = control_module._user_of

    def user_once_answered(connection):
        if threading.current_thread() is threading.main_thread():
            answered.wait(10)
        return user_of(connection)

    def refuse(control):
        connection, _ = control._socket.accept()
        Request(connection).answer({"error": "not you"})
        answered.set()

    monkeypatch.setattr(control_module, "_user_of", user_once_answered)
    assert_asked_in_vain(store, "stop", refuse, "not you")


def test_a_file_in_its_place_is_no_socket(store):
    store.write_bytes(NAME, b"")
    with pytest.raises(StoreError, match="not the socket"):
        ask(store, ["status"])
