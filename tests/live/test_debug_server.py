"""Names from debug-file servers: Debian's debuginfod, and servers that mean no good."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from builders.command_line import run_here
from builders.debug_server import dead_server, endless_answer, serving, silent_server
from builders.recordings import build_program, record_without_files
from prospect.elf.image import ElfImage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(not shutil.which("gcc"), reason="builds a small C program"),
]
AS_SERVED = pytest.mark.skipif(not shutil.which("debuginfod"), reason="needs Debian's debuginfod")


@pytest.fixture(scope="module")
def stripped(tmp_path_factory):
    """Record a stripped program; return it, its debug file and the recording."""
    directory = tmp_path_factory.mktemp("stripped")
    program = build_program(directory, "burner", "-g", "-Wl,--build-id")
    debug = directory / "served" / "burner.debug"
    debug.parent.mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    record_without_files(directory / "recording", program, 300)
    return program, debug, directory / "recording"


def build_id_of(path: Path) -> str:
    return ElfImage.parse(path.read_bytes()).build_id.hex()


@contextmanager
def asking(cache: Path, urls: str | None, **more: str) -> Iterator[None]:
    """Ask the servers of `urls` and no proxy, with a cache of one's own.

    What perf keeps below its user's home is of no use here.
    """
    cache.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            patch.delenv(name)
        told = {"HOME": str(cache), "XDG_CACHE_HOME": str(cache), **more}
        if urls is not None:
            told["DEBUGINFOD_URLS"] = urls
        for name, value in told.items():
            patch.setenv(name, value)
        yield


def report(stripped, cache: Path, *options: str, urls: str | None = "", **more: str):
    """Report with a cache of its own; return the JSON document."""
    with asking(cache, urls, **more):
        ran = run_here("report", "-m0", "--format", "json", *options, stripped[2])
    assert (ran.returncode, ran.stderr) == (0, b"")
    return json.loads(ran.stdout)


def sources(document, program):
    """Return where names of the program's functions came from, and the names."""
    (event,) = document["events"]
    rows = [
        row
        for process in event["details"]
        for row in process["functions"]["user"]["rows"]
        if row["object"] == str(program)
    ]
    # A stub of the linkage table has its name in any case; now and then a sample hits one.
    return {row["source"] for row in rows} - {"PLT"}, {row["name"] for row in rows}


def downloads(cache: Path):
    """Return what is kept of servers; nothing may be half written."""
    names = {path.name for path in (cache / "prospect").iterdir()}
    assert not any(name.endswith(".part") for name in names)
    return {name for name in names if name.endswith((".debuginfo", ".executable"))}


@pytest.fixture
def debian_server(stripped, tmp_path):
    """Run debuginfod on the debug file; give its address and what ends it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["debuginfod", "-F", stripped[1].parent, "-p", str(port), "-d", ":memory:"]
    url = f"http://127.0.0.1:{port}"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until_served(f"{url}/buildid/{build_id_of(stripped[1])}/debuginfo")
            yield url, process
        finally:
            process.kill()
            process.wait(20)


def wait_until_served(address):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + 60
    while True:
        try:
            with opener.open(address, timeout=5) as answer:
                answer.read()
                return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@AS_SERVED
def test_names_come_from_debians_server_and_then_from_the_cache(stripped, debian_server, tmp_path):
    program, debug, _ = stripped
    url, process = debian_server
    bare = report(stripped, tmp_path / "bare")
    assert sources(bare, program)[0] == {"NO_NAME_BOUNDS"}
    served = report(stripped, tmp_path / "cache", urls=url)
    names = {"static_spins", "global_spins"}
    assert sources(served, program)[0] == {"DEBUG_SERVER"}
    assert sources(served, program)[1] >= names
    assert f"{build_id_of(debug)}.debuginfo" in downloads(tmp_path / "cache")
    process.kill()
    process.wait(20)
    for urls in (url, ""):
        kept = report(stripped, tmp_path / "cache", urls=urls)
        assert sources(kept, program) == sources(served, program)


@AS_SERVED
def test_what_debians_server_does_not_have_is_said(stripped, debian_server, tmp_path):
    program, debug, _ = stripped
    moved = debug.with_suffix(".away")
    debug.rename(moved)
    try:
        document = report(stripped, tmp_path / "cache", urls=debian_server[0])
    finally:
        moved.rename(debug)
    assert sources(document, program)[0] == {"NO_NAME_BOUNDS"}
    notes = [
        found["note"]
        for event in document["events"]
        for entry in event["symbol_quality"]["sources"]
        for found in entry["objects"]
        if found["object"] == str(program)
    ]
    assert notes == ["no debug-file server has it"]


def test_of_a_program_that_is_gone_the_image_is_fetched_too(stripped, tmp_path):
    program, debug, _ = stripped
    build_id = build_id_of(program)
    files = {
        (build_id, "executable"): program.read_bytes(),
        (build_id, "debuginfo"): debug.read_bytes(),
    }
    away = program.with_suffix(".away")
    program.rename(away)
    try:
        with serving(files) as (url, _):
            document = report(stripped, tmp_path / "cache", urls=url)
    finally:
        away.rename(program)
    assert sources(document, program)[0] == {"DEBUG_SERVER"}
    assert {f"{build_id}.debuginfo", f"{build_id}.executable"} <= downloads(tmp_path / "cache")


@pytest.mark.parametrize(
    ("options", "urls"),
    [
        ((), None),
        pytest.param((), "", marks=pytest.mark.nightly),
        (("--debuginfod", "0"), "URL"),
        (("--no-cache",), "URL"),
    ],
)
def test_nobody_is_asked_unless_the_variable_the_time_and_the_cache_are_there(
    stripped, tmp_path, options, urls
):
    with serving({}) as (url, asked):
        document = report(stripped, tmp_path / "cache", *options, urls=url if urls else urls)
    assert asked == []
    assert sources(document, stripped[0])[0] == {"NO_NAME_BOUNDS"}


def notes_of(document):
    return " ".join(document["notes"])


def test_a_dead_server_is_said(stripped, tmp_path):
    dead = dead_server()
    document = report(stripped, tmp_path / "cache", urls=dead)
    assert f"The debug-file server {dead} was given up: Connection refused." in notes_of(document)
    assert sources(document, stripped[0])[0] == {"NO_NAME_BOUNDS"}


def test_a_silent_server_delays_the_report_by_no_more_than_was_said(stripped, tmp_path):
    with silent_server() as url:
        document = report(stripped, tmp_path / "cache", "--debuginfod", "0.5", urls=url)
    assert "given 0.5 s, in which they did not answer" in notes_of(document)
    assert downloads(tmp_path / "cache") == set()


def test_a_silent_server_can_be_given_up_sooner_than_the_others(stripped, tmp_path):
    program, debug, _ = stripped
    files = {(build_id_of(program), "debuginfo"): debug.read_bytes()}
    with silent_server() as silent, serving(files) as (url, _):
        document = report(
            stripped, tmp_path / "cache", urls=f"{silent} {url}", DEBUGINFOD_TIMEOUT="1"
        )
    assert f"{silent} was given up: it did not answer in time" in notes_of(document)
    assert sources(document, program)[0] == {"DEBUG_SERVER"}


def test_a_server_that_sends_something_else_is_not_believed(stripped, tmp_path):
    program, debug, _ = stripped
    other = bytearray(debug.read_bytes())
    at = bytes(other).index(bytes.fromhex(build_id_of(debug)))
    other[at] ^= 1
    with serving({(build_id_of(program), "debuginfo"): bytes(other)}) as (url, _):
        document = report(stripped, tmp_path / "cache", urls=url)
    assert "it sent another file than was asked for" in notes_of(document)
    assert sources(document, program)[0] == {"NO_NAME_BOUNDS"}
    assert downloads(tmp_path / "cache") == set()


def test_a_server_that_never_stops_sending_is_cut_off(stripped, tmp_path):
    with serving({}, endless_answer) as (url, _):
        document = report(stripped, tmp_path / "cache", urls=url, DEBUGINFOD_MAXSIZE="3000000")
    assert sources(document, stripped[0])[0] == {"NO_NAME_BOUNDS"}
    assert downloads(tmp_path / "cache") == set()


def annotated(recording, cache: Path, urls: str, what: str):
    """Annotate with a cache of its own; return the lines of hit instructions, by file."""
    with asking(cache, urls):
        ran = run_here("annotate", "-m0", "--format", "json", what, recording)
    assert ran.returncode == 0, ran.stderr
    return {
        frame["file"].rpartition("/")[2]
        for event in json.loads(ran.stdout)["events"]
        for function in event["functions"]
        for row in function["instructions"]
        for frame in row["frames"]
    }


@AS_SERVED
def test_lines_of_a_program_that_has_its_symbols_come_from_debians_server(
    stripped, debian_server, tmp_path
):
    pytest.importorskip("symbolic")
    program, debug, recording = stripped
    whole = program.read_bytes()
    with_symbols = tmp_path / "with-symbols"
    # The same build id, symbols, and no debug information.
    built = build_program(tmp_path / "again", "burner", "-g", "-Wl,--build-id")
    subprocess.run(["strip", "-g", "-o", with_symbols, built], check=True)
    assert build_id_of(with_symbols) == build_id_of(debug)
    try:
        program.write_bytes(with_symbols.read_bytes())
        assert annotated(recording, tmp_path / "bare", "", "static_spins") == set()
        url = debian_server[0]
        assert "burner.c" in annotated(recording, tmp_path / "served", url, "static_spins")
    finally:
        program.write_bytes(whole)
