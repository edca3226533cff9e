"""The figures of a daemon's status as metrics for Prometheus: a file, or a page of its own server.

The file is for node_exporter's textfile collector, which reads each ``*.prom`` of a directory.
The page is ``/metrics`` on an address that the user gives.
Source: the text format 0.0.4 of Prometheus, "Exposition formats"; RFC 9112.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prospect.daemon.daemon_limits import (
    LARGEST_HEAD_BYTES,
    MOST_NAME,
    MOST_SCRAPES_WAITING,
    SCRAPE_S,
)
from prospect.errors import StoreError, UsageError
from prospect.files.rights import is_trusted
from prospect.light import Descriptor
from prospect.symbols.cache_directory import new_file, part_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READABLE = 0o644  # node_exporter is another user
_COUNTER, _GAUGE = "counter", "gauge"
# The metric, its type, the key of the status, and its description.
METRICS = (
    ("sampling", _GAUGE, "sampling", "Whether the system is being sampled."),
    ("samples_total", _COUNTER, "samples", "Samples taken."),
    ("lost_samples_total", _COUNTER, "lost", "Samples that the kernel could not deliver."),
    ("windows_total", _COUNTER, "windows", "Windows written to the store."),
    ("lost_windows_total", _COUNTER, "windows_lost", "Windows that could not be written."),
    (
        "dropped_segments_total",
        _COUNTER,
        "dropped_for_room",
        "Old segments removed because the disk was full.",
    ),
    (
        "newest_window_timestamp_seconds",
        _GAUGE,
        "newest_s",
        "When the newest window in the store ended, since 1970; 0 for none.",
    ),
    (
        "objects_without_names",
        _GAUGE,
        "objects_without_names",
        "Objects hit in the last window whose functions have no names.",
    ),
    ("cpu_seconds_total", _COUNTER, "cpu_s", "CPU time of the daemon and its processes."),
    (
        "cpu_percent",
        _GAUGE,
        "cpu_percent",
        "CPU time over the last minutes, in percent of the machine's.",
    ),
    ("cpu_limit_percent", _GAUGE, "cpu_limit_percent", "The limit of cpu_percent."),
    ("memory_bytes", _GAUGE, "memory_bytes", "Memory of the daemon."),
    ("memory_limit_bytes", _GAUGE, "memory_limit_bytes", "The limit of memory_bytes."),
    ("goes_without", _GAUGE, "steps", "Steps that the daemon has taken to stay within its limits."),
    ("start_time_seconds", _GAUGE, "began_s", "When the daemon started, since 1970."),
)
# Metrics of a daemon that sends finished hours.
_SHIPPING = (
    ("ship_sent_bytes_total", _COUNTER, "ship_sent_bytes", "Bytes sent to the target."),
    ("ship_waiting_bytes", _GAUGE, "ship_waiting_bytes", "Bytes of finished hours that wait."),
    (
        "ship_waiting_seconds",
        _GAUGE,
        "ship_waiting_s",
        "Age of the oldest finished window that waits; 0 for none.",
    ),
    (
        "ship_lost_windows_total",
        _COUNTER,
        "ship_lost_windows",
        "Windows removed before they could be sent.",
    ),
)
_PUSHING = (
    ("pushed_windows_total", _COUNTER, "push_windows", "Windows that the collector has taken."),
    ("push_waiting_windows", _GAUGE, "push_waiting", "Windows that wait for the collector."),
    (
        "push_lost_windows_total",
        _COUNTER,
        "push_lost",
        "Windows that the collector did not take in time.",
    ),
)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def metrics_text(figures: Mapping[str, Any]) -> str:
    """Return figures of a daemon's status as metrics, all with the store's path as a label."""
    store = _label(str(figures["store"]))
    info = f'store="{store}",version="{_label(figures["version"])}"'
    info += f',session="{_label(figures["session"])}"'
    lines = [
        "# HELP prospect_info The daemon.",
        f"# TYPE prospect_info {_GAUGE}",
        f"prospect_info{{{info}}} 1",
    ]
    shipping = _SHIPPING if figures.get("ship") else ()
    pushing = _PUSHING if figures.get("push") else ()
    for name, kind, key, help_ in (*METRICS, *shipping, *pushing):
        lines += [
            f"# HELP prospect_{name} {help_}",
            f"# TYPE prospect_{name} {kind}",
            f'prospect_{name}{{store="{store}"}} {_value(figures[key])}',
        ]
    return "\n".join(lines) + "\n"


def write_metrics(path: str, text: str) -> None:
    """Replace a file: write it under a name that cannot be guessed, then rename it.

    Readers never see half of it, and other users with write access to the directory cannot prevent
    it. The directory may not be a link. This replaces a regular file, and anything that an
    untrusted user put there, but no link, pipe or device of root or of this user.

    Raises:
        StoreError: it cannot be written.
    """
    folder, name = os.path.split(path)
    try:
        with Descriptor(os.open(folder or ".", _DIRECTORY)) as directory:
            _check_replaceable(directory, name)
            with new_file(directory, name, f".{name[:MOST_NAME]}.{part_name()}") as descriptor:
                with os.fdopen(descriptor, "wb", closefd=False) as file:
                    file.write(text.encode(errors="backslashreplace"))
                os.fchmod(descriptor, _READABLE)
    except OSError as error:
        raise StoreError(f"{path}: the metrics cannot be written: {error.strerror}") from None


def _check_replaceable(directory: int, name: str) -> None:
    if not name:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    with suppress(FileNotFoundError):
        there = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(there.st_mode) and is_trusted(there.st_uid):
            raise OSError(errno.EINVAL, "it is not a regular file")


def _label(text: str) -> str:
    return text.translate(_ESCAPES)


def _value(figure: float) -> str:
    return str(int(figure)) if figure == int(figure) else f"{figure:.6f}"


class MetricsServer:
    """Answers GET requests with the latest metrics, in a thread.

    It serves one connection at a time, for `SCRAPE_S` at most, so clients can delay each other but
    cost the daemon next to nothing.
    """

    def __init__(self, url: str) -> None:
        """Begin to listen.

        Raises:
            UsageError: the URL names no address, or the address is not available.
        """
        host, port = address_of(url)
        self.text = b""
        try:
            family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._socket = socket.create_server(
                place[:2], family=family, backlog=MOST_SCRAPES_WAITING
            )
        except OSError as error:
            raise UsageError(f"--metrics {url}: {error.strerror}") from None
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        with suppress(OSError):  # this wakes the thread
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                time.sleep(SCRAPE_S)  # no free descriptors, or the client is gone
                continue
            with connection, suppress(OSError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        end_s = time.monotonic() + SCRAPE_S
        head = b""
        while b"\r\n\r\n" not in head and len(head) < LARGEST_HEAD_BYTES:
            connection.settimeout(max(end_s - time.monotonic(), 0.001))
            piece = connection.recv(LARGEST_HEAD_BYTES)
            if not piece:
                return
            head += piece
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            status, body = b"405 Method Not Allowed", b""
        elif path == b"/metrics":
            status, body = b"200 OK", self.text
        else:
            status, body = b"404 Not Found", b""
        lines = (
            b"HTTP/1.1 " + status,
            b"Content-Type: text/plain; version=0.0.4; charset=utf-8",
            b"Content-Length: %d" % len(body),
            b"Connection: close",
            b"",
            body if method == b"GET" else b"",
        )
        connection.settimeout(max(end_s - time.monotonic(), 0.001))
        connection.sendall(b"\r\n".join(lines))


def is_address(metrics: str) -> bool:
    """Return whether the daemon serves metrics instead of writing them to a file."""
    return metrics.startswith("http://")


def address_of(url: str) -> tuple[str, int]:
    """Return the host and port of ``http://HOST:PORT``, with or without ``/metrics``.

    Raises:
        UsageError: it is no such URL.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.path not in ("", "/", "/metrics") or parts.query:
        raise UsageError("give --metrics a file, or an address such as http://127.0.0.1:9464")
    return host, port
