"""`prospect view` on a real recording: what it serves, to whom, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from builders.recordings import PROSPECT, record

pytest.importorskip("symbolic")
pytest.importorskip("iced_x86")
pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(not shutil.which("gcc"), reason="builds a small C program"),
]

# Half of its time is in the C library, whose file is large enough to be mapped while it is read.
SOURCE = """\
#include <stdio.h>
#include <stdlib.h>
static int numbers[200000];
__attribute__((noinline)) int compared(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}
int main(void) {
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 200000; i++)
            numbers[i] = rand();
        qsort(numbers, 200000, sizeof(int), compared);
    }
    return numbers[0] == -1;
}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a directory with the program `sorts` and a recording of it, with stacks."""
    directory = tmp_path_factory.mktemp("view")
    (directory / "sorts.c").write_text(SOURCE)
    compiled = ["gcc", "-g", "-O1", "-fno-omit-frame-pointer", "-o", "sorts", "sorts.c"]
    subprocess.run(compiled, cwd=directory, check=True)
    options = ("--call-graph", "dwarf")
    record(directory / "sorts.data", *options, directory / "sorts", frequency_hz=1000)
    return directory


class Viewer:
    """A running `prospect view`."""

    def __init__(self, process, line):
        self.process = process
        self.line = line
        self.address = next(word for word in line.split() if word.startswith("http://"))
        _, _, host, self.token, _ = self.address.split("/")
        self.port = int(host.rpartition(":")[2])

    def get(self, name, token=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", f"/{token or self.token}/{name}")
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def block(self):
        """Return the names and events of the pictures."""
        _, data = self.get("data/stacks")
        first = 4 + int.from_bytes(data[:4], "little")
        header = json.loads(data[4:first])
        place = header["frame_object"]
        column = np.frombuffer(data, f"<{place['type']}", place["length"], first + place["at"])
        return {**header, "frame_object": column.tolist()}

    def code(self, name):
        frame = self.block()["labels"].index(name)
        status, body = self.get(f"code?event=0&frame={frame}")
        assert status == 200
        return json.loads(body)

    def hits(self, name, selection=""):
        frame = self.block()["labels"].index(name)
        status, body = self.get(f"samples?event=0&frame={frame}{selection}")
        assert status == 200
        return sum(json.loads(body)["samples"])

    def end(self, number):
        self.process.send_signal(number)
        rest = self.process.communicate(timeout=60)[1]
        return self.process.returncode, rest


@contextmanager
def viewing(*arguments, **keywords):
    line = [*PROSPECT, "view", *map(str, arguments)]
    process = subprocess.Popen(
        line, stderr=subprocess.PIPE, text=True, **{"stdin": subprocess.DEVNULL, **keywords}
    )
    try:
        said = process.stderr.readline()
        assert "http://" in said, said
        yield Viewer(process, said)
    finally:
        process.kill()
        process.communicate()


def test_a_recording_is_served_and_its_code_comes_on_demand(recorded):
    whole = recorded / "moved.data"
    shutil.copy(recorded / "sorts.data", whole)
    with viewing(whole) as viewer:
        whole.unlink()  # it was read
        assert viewer.line.startswith("prospect: look at http://127.0.0.1:")
        assert len(viewer.token) >= 43
        assert viewer.get("")[1].startswith(b"<!DOCTYPE html>")
        assert viewer.get("", token="x" * 43)[0] == 404
        report = json.loads(viewer.get("data/report")[1])
        expected = {
            row["name"]: row["samples"]
            for process in report["events"][0]["details"]
            for row in process["functions"]["user"]["rows"]
        }
        code = viewer.code("compared")
        (function,) = code["functions"]
        assert function["samples"] >= expected["compared"] > 0
        assert sum(row["samples"] for row in function["instructions"]) > 0
        assert viewer.hits("compared") == function["samples"]
        assert 0 < viewer.hits("compared", "&scope=command") <= function["samples"]
        assert viewer.hits("compared", "&end_ns=0") == 0
        (source,) = code["source"]["functions"]
        lines = [fields[5:] for fields in source["instructions"] if fields and len(fields) > 5]
        assert {line for _, line, _ in lines} <= {4, 5, 6, 7}
        assert any(text and "x > y" in text for *_, text in lines)
        _, part = viewer.get("part?event=0&scope=command")
        assert int.from_bytes(part[:4], "little") < len(part)


def test_no_program_is_kept_from_being_changed_meanwhile(recorded):
    # A perf that records the whole system meanwhile keeps a copy in the home of its user.
    home = {**os.environ, "HOME": str(recorded)}
    with viewing(recorded / "sorts.data", env=home) as viewer:
        block = viewer.block()
        paths = [block["objects"][row] for row in block["frame_object"]]
        large = [frame for frame, path in enumerate(paths) if "/libc.so" in path][:3]
        assert large
        (before,) = viewer.code("compared")["functions"]
        for frame in large:
            assert viewer.get(f"code?event=0&frame={frame}")[0] == 200
        maps = Path(f"/proc/{viewer.process.pid}/maps").read_text()
        assert "/sorts\n" not in maps
        holders = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        leased = [words for words in holders if words[1] == "LEASE"]
        of_viewer = [words[5] for words in leased if words[4] == str(viewer.process.pid)]
        # The recording itself is no program: a large one stays mapped.
        recording = (recorded / "sorts.data").stat().st_ino
        assert [place for place in of_viewer if not place.endswith(f":{recording}")] == []
        shutil.move(recorded / "sorts", recorded / "gone")
        try:
            (function,) = viewer.code("compared")["functions"]
        finally:
            shutil.move(recorded / "gone", recorded / "sorts")
        assert function["instructions"] == before["instructions"]  # the recording has a copy


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_its_port(recorded, number):
    with viewing(recorded / "sorts.data") as viewer:
        waiting = socket.create_connection(("127.0.0.1", viewer.port))
        with waiting:
            time.sleep(0.05)  # accepted, and silent
            assert viewer.end(number) == (0, "")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", viewer.port))


def test_a_signal_that_was_ignored_before_stays_so(recorded):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with viewing(recorded / "sorts.data", preexec_fn=ignore) as viewer:
        viewer.process.send_signal(signal.SIGHUP)
        assert viewer.get("")[0] == 200
        assert viewer.end(signal.SIGTERM) == (0, "")


def test_a_port_can_be_chosen_and_only_once(recorded):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with viewing("--port", port, recorded / "sorts.data") as viewer:
        assert viewer.port == port
        line = [*PROSPECT, "view", "--port", str(port), str(recorded / "sorts.data")]
        ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 1
        assert ran.stderr == f"prospect: --port {port}: Address already in use\n"


def test_standard_input_and_options_of_the_report_are_taken(recorded):
    arguments = ("-V4", "-m0", "--syntax", "intel", "-")
    with (recorded / "sorts.data").open("rb") as file, viewing(*arguments, stdin=file) as viewer:
        report = json.loads(viewer.get("data/report")[1])
        assert report["options"]["detail"] == "4"


def test_the_browser_is_opened_for_a_user_and_not_for_root(recorded, tmp_path):
    arguments = ["--open", str(recorded / "sorts.data")]
    if os.geteuid() == 0:
        line = [*PROSPECT, "view", *arguments]
        ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 2
        assert ran.stderr.startswith("prospect: --open: not as root")
        return
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o700)
    with viewing(*arguments, env={**os.environ, "BROWSER": f"{browser} %s"}) as viewer:
        assert viewer.token not in opened.read_text()
