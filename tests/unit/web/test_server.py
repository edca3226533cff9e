"""The server's bounds: what arrives too slowly, is too large or too many is turned away."""

import os
import socket
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders.another_user import WHO, python_of_another_user
from prospect.web import server as server_module
from prospect.web.server import LoopbackServer
from prospect.web.site import Answer

REQUEST = b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def answers():
    return []


@pytest.fixture
def port(answers):
    def answer(target, headers):
        answers.append((target, dict(headers)))
        return Answer(200, "text/plain", b"hello")

    with LoopbackServer(SimpleNamespace(answer=answer), 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def received(connection):
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def said(port, request):
    with connected(port) as connection:
        connection.sendall(request)
        return received(connection)


def test_it_is_on_the_loopback_interface_alone(port):
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    listening = [line.split()[1] for line in lines if line.split()[3] == "0A"]
    assert [name for name in listening if name.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


def test_a_port_is_one_servers(port):
    with pytest.raises(OSError, match="in use"):
        LoopbackServer(SimpleNamespace(), port)


def test_a_request_is_answered_with_what_browsers_are_to_know(port, answers):
    head, _, body = said(port, REQUEST).partition(b"\r\n\r\n")
    assert body == b"hello"
    assert head.startswith(b"HTTP/1.0 200 ")
    for line in (
        b"Cache-Control: no-store",
        b"Referrer-Policy: no-referrer",
        b"X-Content-Type-Options: nosniff",
        b"Cross-Origin-Resource-Policy: same-origin",
        b"Content-Length: 5",
    ):
        assert line in head
    assert b"Access-Control" not in head
    assert b"Python" not in head
    assert answers == [("/x", {"Host": "127.0.0.1"})]


def test_head_has_no_body(port):
    head, _, body = said(port, REQUEST.replace(b"GET", b"HEAD")).partition(b"\r\n\r\n")
    assert b"Content-Length: 5" in head
    assert body == b""


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"OPTIONS", b"TRACE", b"<b>"])
def test_other_methods_are_not_known(port, answers, method):
    found = said(port, REQUEST.replace(b"GET", method))
    assert found.startswith(b"HTTP/1.0 501 ")
    assert method not in found.partition(b"\r\n")[2]
    assert answers == []


@pytest.mark.parametrize(
    "request_",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/x\r\n\r\n",
        bytes(99) + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_is_not_answered_as_one(port, answers, request_):
    assert b" 200 " not in said(port, request_).partition(b"\r\n")[0]
    assert answers == []
    assert said(port, REQUEST).endswith(b"hello")


def test_a_request_that_is_too_large_is_refused(port, answers):
    found = said(port, b"GET /" + b"x" * (1 << 16) + b" HTTP/1.1\r\n\r\n")
    assert found in (b"HTTP/1.0 431 Request Header Fields Too Large\r\n\r\n", b"")
    assert answers == []
    assert said(port, REQUEST).endswith(b"hello")


def test_a_request_that_arrives_too_slowly_is_given_up(port, answers, monkeypatch):
    monkeypatch.setattr(server_module, "ARRIVAL_S", 0.3)
    with connected(port) as connection:
        for byte in REQUEST[:-4]:
            try:
                connection.sendall(bytes([byte]))
            except OSError:
                break
            time.sleep(0.02)
        assert received(connection) == b""
    assert answers == []


def test_connections_that_say_nothing_make_room_for_new_ones(port):
    silent = [connected(port) for _ in range(3 * server_module.MOST_CONNECTIONS)]
    try:
        assert said(port, REQUEST).endswith(b"hello")
        assert received(silent[0]) == b""
    finally:
        for connection in silent:
            connection.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="connects as another user")
def test_connections_of_another_user_take_no_room_from_this_one(port, monkeypatch):
    monkeypatch.setattr(server_module, "ARRIVAL_S", 60.0)  # longer than the other takes to start
    with connected(port) as own:
        own.sendall(REQUEST[:10])
        holding = f"""
import socket, sys
held = [socket.create_connection(("127.0.0.1", {port})) for _ in range(100)]
print("held", flush=True)
sys.stdin.read()
"""
        with subprocess.Popen(
            [python_of_another_user(), "-c", holding],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **WHO,
        ) as other:
            assert other.stdout.readline() == b"held\n"
            assert said(port, REQUEST).endswith(b"hello")
            # The oldest of all, but the only one of its user.
            own.sendall(REQUEST[10:])
            assert received(own).endswith(b"hello")


def test_where_all_are_being_answered_no_more_are_taken(monkeypatch):
    monkeypatch.setattr(server_module, "MOST_CONNECTIONS", 2)
    is_over, begun = threading.Event(), threading.Semaphore(0)

    def answer(target, headers):
        del target, headers
        begun.release()
        is_over.wait(20)
        return Answer(200, "text/plain", b"hello")

    with LoopbackServer(SimpleNamespace(answer=answer), 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with connected(server.server_port) as first, connected(server.server_port) as second:
            for connection in (first, second):
                connection.sendall(REQUEST)
                assert begun.acquire(timeout=20)
            assert said(server.server_port, b"").startswith(b"HTTP/1.0 503 ")
            is_over.set()
            assert all(received(one).endswith(b"hello") for one in (first, second))
        server.shutdown()
        thread.join()


def test_where_no_thread_can_be_had_a_connection_is_refused_and_takes_no_room(port, monkeypatch):
    start = threading.Thread.start

    def start_no_other(thread):
        if thread._target.__name__ == "process_request_thread":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", start_no_other)
        for _ in range(2 * server_module.MOST_CONNECTIONS):
            assert said(port, b"").startswith(b"HTTP/1.0 503 ")
    assert said(port, REQUEST).endswith(b"hello")
