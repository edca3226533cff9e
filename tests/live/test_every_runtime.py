"""Functions of every runtime appear in tables, flame graphs and all exports, in `top` and stores.

One recording, with waits, has a program of each runtime; a session and a daemon see one more run.
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import prospect
from builders.command_line import run_here, running
from builders.daemon import RunningDaemon
from builders.pprof_schema import pprof_profile
from builders.recordings import PROGRAMS, PROSPECT
from builders.stack_formats import rendered
from prospect.live.session import LiveSession
from prospect.profile.model import KIND_NAMES
from prospect.recording.opened_events import RecordOptions

if TYPE_CHECKING:
    from prospect.profile.model import Profile

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads runtimes on x86-64 only"),
    pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="needs BTF"),
]
# CPU time of each program, of Java's two threads each.
SECONDS = 0.5


class Language(NamedTuple):
    """A program of a runtime, a function of it, and how formats tell its kind.

    Attributes:
        command: of the program, without how long it is to run.
        source, file: last parts of the path of its source and of the object of its functions.
        function, caller: one that takes much time, and one that calls it, also by others.
        kind, otlp, category, mark: what tells its kind in tables, `otlp`, `firefox` and `folded`.
    """

    command: tuple[str, ...]
    source: str
    file: str
    function: str
    caller: str
    kind: str
    otlp: str
    category: str
    mark: str = ""


LANGUAGES = {
    "python": Language(
        ("python3", "python_split.py"),
        *("python_split.py", "python_split.py", "recursion", "spin"),
        *("python", "cpython", "Python"),
    ),
    "ruby": Language(
        ("ruby", "split.rb"),
        *("split.rb", "split.rb", "recursion", "work", "ruby", "ruby", "Ruby"),
    ),
    "php": Language(
        ("php", "split.php"),
        *("split.php", "split.php", "recursion", "work"),
        *("php", "php", "PHP"),
    ),
    "node": Language(
        ("node", "node_split.js"),
        *("node_split.js", "node_split.js", "leaf", "spin"),
        *("javascript", "v8js", "JavaScript"),
    ),
    "java": Language(
        ("java", "-cp", ".", "Methods"),
        *("Methods.java", "[JVM]", "Methods.recursion", "Methods.call"),
        *("jit", "jvm", "Java", "_[j]"),
    ),
    "go": Language(
        ("./goroutines",),
        *("goroutines.go", "goroutines", "main.(*shape).area", "main.descend"),
        *("elf", "native", "User"),
    ),
}


class Seen(NamedTuple):
    """A recording of the programs, the command that runs all, and of which runtimes they are."""

    recording: Path
    line: tuple[str, ...]
    here: set[str]


def build(directory):
    """Copy or build the programs; return the runtimes that are here."""
    for one in LANGUAGES.values():
        if (PROGRAMS / one.file).is_file():
            shutil.copy(PROGRAMS / one.file, directory)
    here = {
        name
        for name in ("python", "ruby", "php", "node")
        if shutil.which(name + "3" * (name == "python"))
    }
    if shutil.which("javac"):
        line = ["javac", "-d", directory, PROGRAMS / "Methods.java"]
        subprocess.run(line, check=True, capture_output=True, timeout=170)
        here.add("java")
    if shutil.which("go"):
        line = ["go", "build", "-ldflags=-s -w", "-o", directory / "goroutines"]
        subprocess.run([*line, PROGRAMS / "goroutines.go"], check=True, timeout=170)
        here.add("go")
    return here


def last_part(path):
    return path.rpartition("/")[2]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runtimes")
    here = build(directory)
    lines = [f"{shlex.join(LANGUAGES[name].command)} {SECONDS}" for name in sorted(here)]
    all_of_them = "sh", "-c", f"cd {shlex.quote(str(directory))}; {' & '.join(lines)} & wait"
    file = directory / "perf.data"
    line = [*PROSPECT, "record", "-H", "400", "--call-graph", "auto,2048", "--off-cpu"]
    line += ["-o", file, *all_of_them]
    subprocess.run(line, check=True, capture_output=True, timeout=200)
    return Seen(file, all_of_them, here)


@pytest.fixture(params=LANGUAGES)
def language(request, seen):
    if request.param not in seen.here:
        pytest.skip(f"no {request.param} is installed")
    return LANGUAGES[request.param]


class Watched(NamedTuple):
    """What a session had in the end, and a daemon's store."""

    shown: Profile
    store: Path


@pytest.fixture(scope="module")
def watched(seen, tmp_path_factory):
    pytest.importorskip("duckdb")
    store = tmp_path_factory.mktemp("daemon") / "s"
    with (
        RunningDaemon(store, load="") as daemon,
        closing(LiveSession(RecordOptions(command=(), frequency_hz=400))) as session,
        running(seen.line, stdout=subprocess.DEVNULL) as programs,
    ):
        until = time.monotonic() + 120
        while programs.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
            session.advance()
        state = session.advance()
        assert daemon.end() == 0
    return Watched(state.profile, store)


@pytest.fixture(scope="module")
def said(seen):
    """Run each command once; return what it writes."""

    @functools.cache
    def of(*words):
        ran = run_here(*(seen.recording if one == "RECORDING" else one for one in words))
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return of


@pytest.fixture(scope="module")
def written(seen):
    """Write each format of the recording once."""
    profile = prospect.open(seen.recording, stacks=True, lines=True)
    return functools.cache(functools.partial(rendered, profile=profile, detail="3", inline=False))


def test_tables(said, language):
    found = rows_of(said("report", "RECORDING", "-m", "0", "--format", "csv"))
    assert (language.function, language.kind, language.file) in found


def rows_of(text):
    """Function, kind and object of each row of a report."""
    rows = csv.DictReader(io.StringIO(text.decode()))
    return {(row["function"], row["object_kind"], last_part(row["object"])) for row in rows}


def test_a_session_shows_them(watched, language):
    functions, objects = watched.shown.functions, watched.shown.objects
    found = {
        (name, KIND_NAMES[objects.kind[row]], last_part(objects.path[row]))
        for name, row in zip(functions.name, functions.object_index.tolist(), strict=True)
    }
    assert (language.function, language.kind, language.file) in found


def test_a_store_of_the_daemon_has_them(watched, said, language):
    words = ("report", "--store", str(watched.store), "-V4", "-m", "0", "-k", "0")
    found = rows_of(said(*words, "--format", "csv"))
    assert (language.function, language.kind, language.file) in found


def test_callers(said, language):
    words = ("--callers-of", language.function, "--share", "0", "--format", "json")
    tree = json.loads(said("calls", "RECORDING", *words))["events"][0]["callers"]
    assert language.caller in {one["name"] for one in tree[1:]}


def test_annotated_sources(said, language):
    # The directory of this test is private: only a person can say that its files may be shown.
    words = ("--source", "--search-dirs", f"/:{PROGRAMS}")
    text = said("annotate", *words, language.function, "RECORDING").decode()
    # A function of one name may be in several languages: each has its file.
    annotated = re.findall(r"^Annotated by prospect: (.*)$", text, re.MULTILINE)
    assert language.source in {last_part(file) for file in annotated}
    assert re.search(rf"^ +- (\S+ )?{re.escape(language.function)}: \d+ sample", text, re.MULTILINE)


def test_differences(said, language):
    words = ("--format", "json", "--rows", "10000")
    rows = json.loads(said("diff", "RECORDING", "RECORDING", *words))["functions"]["rows"]
    # Files of compiled code have other numbers in each run.
    objects = {language.file, "[compiled at run time]"}
    (found,) = (
        one
        for one in rows
        if one["name"] == language.function and last_part(one["object"]) in objects
    )
    assert found["samples_a"] == found["samples_b"] > 0


def test_flame_graphs(written, language):
    # Small ones are left out: the caller is larger.
    picture = written("svg").decode()
    assert re.search(rf"<title>{re.escape(language.caller + language.mark)} \(", picture)


def test_folded_stacks_and_those_of_waits(written, language):
    frame = language.function + language.mark
    lines = [line.rpartition(" ")[0].split(";") for line in written("folded").decode().splitlines()]
    stacks = [line for line in lines if frame in line]
    caller = language.caller + language.mark
    assert any(caller in line[: line.index(frame)] for line in stacks)
    # It lost the CPU to others now and then.
    assert any("schedule_[k]" in line for line in stacks)


def test_pprof(written, language):
    profile = pprof_profile(gzip.decompress(written("pprof")))
    text = profile.string_table
    files = {text[one.filename] for one in profile.function if text[one.name] == language.function}
    assert language.source in {file.rpartition("/")[2] for file in files}


def test_speedscope(written, language):
    frames = json.loads(written("speedscope"))["shared"]["frames"]
    files = {one["file"] for one in frames if one["name"] == language.function}
    assert {last_part(file) for file in files} & {language.file, language.source}


def test_firefox_profiler(written, language):
    found = json.loads(written("firefox"))
    shared, names = found["shared"], [one["name"] for one in found["meta"]["categories"]]
    functions = [shared["stringArray"][row] for row in shared["funcTable"]["name"]]
    frames = shared["frameTable"]
    categories = {
        names[category]
        for function, category in zip(frames["func"], frames["category"], strict=True)
        if functions[function] == language.function
    }
    assert language.category in categories


def test_chrome_trace(written, language):
    frames = json.loads(written("chrome"))["stackFrames"].values()
    found = {one["category"] for one in frames if one["name"] == language.function}
    assert (language.category if language.category != "User" else "user") in found


def test_callgrind(written, language):
    assert re.search(
        rf"^c?fn=\(\d+\) {re.escape(language.function)}$",
        written("callgrind").decode(),
        re.MULTILINE,
    )


def test_otlp(written, language):
    pb2 = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2")
    message = pb2.ProfilesData()
    message.ParseFromString(written("otlp"))
    tables = message.dictionary
    text = tables.string_table
    types = set()
    for location in tables.location_table:
        names = {
            text[tables.function_table[one.function_index].name_strindex] for one in location.lines
        }
        if language.function in names:
            attributes = [tables.attribute_table[row] for row in location.attribute_indices]
            types |= {
                one.value.string_value
                for one in attributes
                if text[one.key_strindex] == "profile.frame.type"
            }
    assert language.otlp in types
