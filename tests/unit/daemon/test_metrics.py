"""Metrics of a daemon: the file that node_exporter reads, and what is never written to."""

from __future__ import annotations

import os
import re
import socket
import urllib.error
from contextlib import closing
from urllib.request import urlopen

import pytest

from prospect.daemon.metrics import MetricsServer, metrics_text, write_metrics
from prospect.errors import StoreError, UsageError

FIGURES = {
    "store": '/tmp/a "store"\\of\nmine',
    "version": "1.0",
    "session": "current",
    "sampling": True,
    "samples": 12345678901,
    "lost": 3,
    "windows": 5,
    "windows_lost": 0,
    "dropped_for_room": 0,
    "newest_s": 1_795_356_300,
    "objects_without_names": 2,
    "cpu_s": 1.25,
    "cpu_percent": 0.31,
    "cpu_limit_percent": 0.5,
    "memory_bytes": 70_000_000,
    "memory_limit_bytes": 200_000_000,
    "steps": 2,
    "began_s": 1_795_350_000.5,
}
# Prometheus' text format: a name, labels whose values have their quotes escaped, a number.
SAMPLE = re.compile(r'[a-z_]+\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="[^"]*")*\} [0-9.]+')


def test_each_line_is_what_prometheus_reads():
    text = metrics_text(FIGURES)
    assert text.endswith("\n")
    named, said = set(), {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            assert line.split()[3] in ("counter", "gauge")
            named.add(line.split()[2])
        elif not line.startswith("# HELP "):
            assert SAMPLE.fullmatch(line), line
            said[line.partition("{")[0]] = line.rpartition(" ")[2]
    assert said.keys() == named
    assert said["prospect_samples_total"] == "12345678901"
    assert said["prospect_sampling"] == "1"
    assert said["prospect_cpu_seconds_total"] == "1.250000"
    assert said["prospect_newest_window_timestamp_seconds"] == "1795356300"
    assert r'store="/tmp/a \"store\"\\of\nmine"' in text


def test_a_file_is_replaced_and_others_may_read_it(tmp_path):
    path = tmp_path / "prospect.prom"
    before = os.umask(0o077)
    try:
        write_metrics(str(path), "one 1\n")
        with path.open() as reader:
            write_metrics(str(path), "two 2\n")
            assert reader.read() == "one 1\n"  # nobody sees half of one and half of the other
    finally:
        os.umask(before)
    assert path.read_text() == "two 2\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [one.name for one in tmp_path.iterdir()] == ["prospect.prom"]


def test_no_link_is_followed_and_no_device_replaced(tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    link = tmp_path / "link.prom"
    link.symlink_to(other)
    with pytest.raises(StoreError, match="not a regular file"):
        write_metrics(str(link), "x 1\n")
    os.mkfifo(tmp_path / "pipe.prom")
    with pytest.raises(StoreError, match="not a regular file"):
        write_metrics(str(tmp_path / "pipe.prom"), "x 1\n")
    write_metrics(str(tmp_path / "new.prom"), "x 1\n")
    assert other.read_text() == "mine"
    (tmp_path / "folder").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="cannot be written"):
        write_metrics(str(tmp_path / "folder" / "new.prom"), "x 1\n")
    with pytest.raises(StoreError, match="Is a directory"):
        write_metrics(f"{tmp_path}/", "x 1\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of strangers")
def test_a_stranger_who_may_write_to_the_directory_is_not_in_the_way(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (shared / "p.prom").symlink_to(secret)
    (shared / ".p.prom.part").mkdir()
    for name in ("p.prom", ".p.prom.part"):
        os.chown(shared / name, 4242, 4242, follow_symlinks=False)
    for text in ("one 1\n", "two 2\n"):
        write_metrics(str(shared / "p.prom"), text)
        assert (shared / "p.prom").read_text() == text
    assert not (shared / "p.prom").is_symlink()
    assert secret.read_text() == "mine"
    assert sorted(one.name for one in shared.iterdir()) == [".p.prom.part", "p.prom"]


@pytest.fixture
def address():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_a_page_has_the_metrics_that_were_given_last(address):
    with closing(MetricsServer(address)) as server:
        for text in (b"one 1\n", b"two 2\n"):
            server.text = text
            with urlopen(f"{address}/metrics") as answer:
                assert answer.read() == text
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urlopen(f"{address}/status")
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urlopen(f"{address}/metrics", data=b"")
        with pytest.raises(UsageError, match="in use"):
            MetricsServer(address)
    with pytest.raises(urllib.error.URLError, match="refused"):
        urlopen(f"{address}/metrics")


def test_clients_that_say_nothing_or_too_much_keep_nobody_out(address, monkeypatch):
    monkeypatch.setattr("prospect.daemon.metrics.SCRAPE_S", 0.1)
    with closing(MetricsServer(f"{address}/metrics")) as server:
        server.text = b"one 1\n"
        place = server._socket.getsockname()
        with socket.create_connection(place), socket.create_connection(place) as loud:
            loud.sendall(b"GET /" + b"x" * (1 << 15))
            with urlopen(f"{address}/metrics") as answer:
                assert answer.read() == b"one 1\n"


@pytest.mark.parametrize(
    "url", ["http://", "http://127.0.0.1", "http://127.0.0.1:x", "http://h:1/status", "http://h:0"]
)
def test_an_address_has_a_host_and_a_port(url):
    with pytest.raises(UsageError, match="an address such as"):
        MetricsServer(url)
