"""Any bytes to a daemon are a request or refused; any answer is read, or is one of our errors."""

from __future__ import annotations

import json
import random
import socket
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from builders.examples import examples
from fuzz.changes import changed, changed_json
from prospect.daemon.control_socket import NAME, ControlSocket, ask
from prospect.errors import StoreError
from prospect.store.directory import StoreDirectory

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = (["status"], ["session", "before"], ["dump"], ["stop"])


def _line(draw: random.Random, said: object) -> bytes:
    said = changed_json(said, draw) if draw.randrange(2) else said
    line = json.dumps(said).encode() + b"\n"
    if not draw.randrange(8):
        line = b"[" * draw.randrange(1, 4000) + line
    return changed(line, draw) if draw.randrange(2) else line


def test_any_request_is_words_or_none(tmp_path: Path) -> None:
    draw = random.Random("requests")
    kinds = set()
    with (
        StoreDirectory(str(tmp_path / "s"), create=True) as store,
        closing(ControlSocket(store)) as control,
    ):
        for _ in range(examples(400)):
            with closing(socket.socket(socket.AF_UNIX)) as client:
                client.connect(store.root + NAME)
                with suppress(OSError):
                    client.sendall(_line(draw, draw.choice(REQUESTS)))
                client.shutdown(socket.SHUT_WR)
                request = control.accept()
                kinds.add(request is None)
                if request is not None:
                    assert all(isinstance(word, str) for word in request.words)
                    request.answer({})
    assert kinds == {True, False}


def test_any_answer_is_one_or_an_error_of_ours(tmp_path: Path) -> None:
    draw = random.Random("answers")
    with (
        StoreDirectory(str(tmp_path / "s"), create=True) as store,
        closing(socket.socket(socket.AF_UNIX)) as server,
    ):
        server.bind(store.root + NAME)
        server.listen()
        for _ in range(examples(400)):
            said = {"samples": 1, "store": "x", draw.choice(("error", "why")): "it is full"}
            answering = threading.Thread(target=_answer, args=(server, _line(draw, said)))
            answering.start()
            with suppress(StoreError):
                assert isinstance(ask(store, ["status"]), dict)
            answering.join()


def _answer(server: socket.socket, line: bytes) -> None:
    connection, _ = server.accept()
    with closing(connection), suppress(OSError):
        connection.recv(100)
        connection.sendall(line)
