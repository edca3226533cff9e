"""Asks a container runtime, over its socket, and a kubelet for their containers, by id.

A runtime answers the Container Runtime Interface: a call of gRPC, that is one request of HTTP/2 and
one message of Protocol Buffers each way. The answer's headers are not needed, so they are not
decoded. The trusted owner must own the socket and the process that answers. A kubelet answers JSON
on its read-only port, on this machine only, if the user asks for that.

Both answers are bounded in bytes and time. A failure is an empty answer: names then come from the
disk, or are ids.

Source: RFC 9113 (HTTP/2), RFC 7541 (HPACK), "gRPC over HTTP2" (grpc); ``api.proto`` of
``k8s.io/cri-api`` ``runtime/v1``, Kubernetes 1.29; core/v1 ``PodList``.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import time
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from prospect.capture.capture_limits import LARGEST_ANSWER_BYTES, LONGEST_ANSWER_S
from prospect.columns.protobuf_fields import fields
from prospect.errors import RecordingError
from prospect.files.walk import walk
from prospect.light import Descriptor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    # pod, namespace, container, image
    Names = tuple[str, str, str, str]


_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GO_AWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM = _ACK = 1
_END_HEADERS = 4
_PADDED = 8
_INITIAL_WINDOW = 4  # a setting
_STREAM = 1
_FRAME_HEAD = struct.Struct(">BHBBI")
_LARGEST_FRAME = 1 << 14
_MESSAGE_HEAD_BYTES = 5  # whether the message is packed, and its length
_LIST = b"/runtime.v1.RuntimeService/ListContainers"
_PEER = struct.Struct("iII")
# Numbers of fields.
_CONTAINERS = 1
_ID, _METADATA, _IMAGE, _LABELS = 1, 3, 4, 8
_FIRST, _SECOND = 1, 2
_HTTP_OK = 200


def containers_of_runtime(sockets: Sequence[str], root: str, owner: int) -> dict[str, Names]:
    """Return the containers of the first runtime that answers.

    Args:
        sockets: paths of runtimes' sockets, below `root`.
        owner: the user who must own the socket and the process that answers.
    """
    for path in sockets:
        with suppress(OSError, RecordingError):
            return dict(_listed(_call(path, root, owner)))
    return {}


def containers_of_kubelet(url: str) -> dict[str, Names]:
    """Return the containers of a kubelet, whose URL is such as ``http://127.0.0.1:10255/pods``."""
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - only where it is asked

    parts = urlsplit(url)
    found: dict[str, Names] = {}
    with suppress(OSError, ValueError, HTTPException, RecursionError):
        if not is_kubelet(url):
            return found
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=LONGEST_ANSWER_S)
        try:
            connection.request("GET", parts.path or "/pods")
            answer = connection.getresponse()
            text = answer.read(LARGEST_ANSWER_BYTES + 1)
        finally:
            connection.close()
        if answer.status == _HTTP_OK and len(text) <= LARGEST_ANSWER_BYTES:
            found.update(_of_pods(json.loads(text)))
    return found


def is_kubelet(url: str) -> bool:
    """Return whether a URL can be that of a kubelet on this machine."""
    try:
        parts = urlsplit(url)
        is_here = ip_address(parts.hostname or "").is_loopback and parts.port != 0
    except ValueError:
        return False
    return is_here and parts.scheme == "http" and not (parts.query or parts.username)


def _of_pods(answer: object) -> Iterator[tuple[str, Names]]:
    for pod in _list(_value(answer, "items")):
        about, status = _value(pod, "metadata"), _value(pod, "status")
        for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
            for one in _list(_value(status, kind)):
                identity = str(_value(one, "containerID")).rpartition("//")[2]
                name, namespace = str(_value(about, "name")), str(_value(about, "namespace"))
                container, image = str(_value(one, "name")), str(_value(one, "image"))
                yield identity, (name, namespace, container, image)


def _value(of: object, name: str) -> object:
    return of.get(name) if isinstance(of, dict) else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _listed(message: bytes) -> Iterator[tuple[str, Names]]:
    """Read a ``ListContainersResponse``."""
    for number, _, _, container in fields(message):
        if number != _CONTAINERS:
            continue
        parts: dict[int, bytes] = {}
        labels: dict[str, str] = {}
        for part, _, _, data in fields(container):
            if part == _LABELS:
                entry = _texts(data)
                labels[entry.get(_FIRST, "")] = entry.get(_SECOND, "")
            else:
                parts[part] = data
        pod, namespace = (
            labels.get(f"io.kubernetes.pod.{key}", "") for key in ("name", "namespace")
        )
        name, image = (_texts(parts.get(part, b"")).get(_FIRST, "") for part in (_METADATA, _IMAGE))
        yield parts.get(_ID, b"").decode(errors="replace"), (pod, namespace, name, image)


def _texts(message: bytes) -> dict[int, str]:
    return {number: data.decode(errors="replace") for number, _, _, data in fields(message) if data}


def _call(path: str, root: str, owner: int) -> bytes:
    """Return a runtime's answer to an empty message."""
    with Descriptor(walk(path.encode(), {owner}, root=root.encode(), follow_last=False)) as place:
        facts = os.fstat(place)
        if not stat.S_ISSOCK(facts.st_mode) or facts.st_uid != owner:
            raise OSError(f"{path}: not a socket of its owner")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with connection:
            connection.settimeout(LONGEST_ANSWER_S)
            connection.connect(f"/proc/self/fd/{place}")
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            if _PEER.unpack(peer)[1] != owner:
                raise OSError(f"{path}: another user answers")
            return _Answer(connection).read()


class _Answer:
    """One call over a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until = time.monotonic() + LONGEST_ANSWER_S
        window = struct.pack(">HI", _INITIAL_WINDOW, LARGEST_ANSWER_BYTES)
        connection.sendall(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, window)
            + _frame(_WINDOW, 0, 0, struct.pack(">I", LARGEST_ANSWER_BYTES))
            + _frame(_HEADERS, _END_HEADERS, _STREAM, _request_head())
            + _frame(_DATA, _END_STREAM, _STREAM, bytes(_MESSAGE_HEAD_BYTES))
        )

    def read(self) -> bytes:
        """Return the message.

        Raises:
            OSError: it is incomplete, too large or late.
        """
        data = b""
        size = LARGEST_ANSWER_BYTES
        while len(data) < size:
            kind, flags, stream, body = self._next()
            if kind == _SETTINGS and not flags & _ACK:
                self._connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))
            elif kind == _PING and not flags & _ACK:
                self._connection.sendall(_frame(_PING, _ACK, 0, body))
            elif kind in (_RESET, _GO_AWAY):
                break
            elif stream == _STREAM:
                if kind == _DATA:
                    data += body[1 : len(body) - body[0]] if flags & _PADDED and body else body
                if len(data) >= _MESSAGE_HEAD_BYTES:
                    size = _MESSAGE_HEAD_BYTES + int.from_bytes(data[1:_MESSAGE_HEAD_BYTES], "big")
                if flags & _END_STREAM or size > LARGEST_ANSWER_BYTES or data[:1] > b"\0":
                    break
        if len(data) < _MESSAGE_HEAD_BYTES or len(data) != size or data[0]:
            raise OSError("no answer")
        return data[_MESSAGE_HEAD_BYTES:]

    def _next(self) -> tuple[int, int, int, bytes]:
        high, low, kind, flags, stream = _FRAME_HEAD.unpack(self._bytes(_FRAME_HEAD.size))
        size = high << 16 | low
        if size > _LARGEST_FRAME:  # the settings allow no larger one
            raise OSError("not an answer")
        return kind, flags, stream & 0x7FFFFFFF, self._bytes(size)

    def _bytes(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            left_s = self._until - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._connection.settimeout(left_s)
            if not (more := self._connection.recv(count - len(data))):
                raise OSError("cut off")
            data += more
        return data


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return _FRAME_HEAD.pack(len(body) >> 16, len(body) & 0xFFFF, kind, flags, stream) + body


def _request_head() -> bytes:
    """Return the request's head: names from HPACK's table, literal values, none to be indexed."""
    post, http = b"\x83", b"\x86"

    def text(value: bytes) -> bytes:
        return bytes([len(value)]) + value

    return (
        post
        + http
        + (b"\x04" + text(_LIST))  # :path
        + (b"\x01" + text(b"localhost"))  # :authority
        + (b"\x0f\x10" + text(b"application/grpc"))  # content-type
        + (b"\0" + text(b"te") + text(b"trailers"))
    )
