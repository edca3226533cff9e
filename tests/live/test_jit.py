"""JIT code: each hit has the name of the code that stood there when it was taken."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import prospect
from builders.command_line import run_here
from builders.recordings import build_program, record
from prospect.figures.report.symbol_quality import runtime_hints
from prospect.figures.selection import by_function
from prospect.profile.complete import complete
from prospect.profile.model import KIND_JIT
from prospect.profile.naming import NameSource

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(not shutil.which("gcc"), reason="builds a small C program"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the JIT writes x86-64 code"),
]
HOT_SCRIPT = """
function busyOne(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s }
const end = Date.now() + 400; let t = 0; while (Date.now() < end) t += busyOne(50000)
if (t < 0) console.log(t)
"""
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(scope="module")
def jit(tmp_path_factory) -> Path:
    return build_program(tmp_path_factory.mktemp("jit"), "jit")


def phases(output: bytes) -> list[tuple[str, int, int]]:
    """Read which function ran from when to when."""
    rows = [line.split() for line in output.decode().splitlines()]
    return [(name, int(begin), int(end)) for name, begin, end in rows]


def is_of_command(profile: prospect.Profile) -> np.ndarray:
    """Return bool[p]: COMMAND and its descendants; other tests' programs may run JIT code too.

    All are where a recording does not say who COMMAND is, as one of perf's may not.
    """
    found = profile.processes.is_command | profile.processes.is_descendant
    return found if found.any() else ~found


def names_in(profile: prospect.Profile, begin: int, end: int) -> dict[str, int]:
    """Count the program's samples of JIT code and of anonymous memory in an interval, by name."""
    samples = profile.samples
    process = profile.hits.process_index.take(samples.hit_index)
    is_program = np.array([name == "jit" for name in profile.processes.name], np.bool_)
    is_program &= is_of_command(profile)
    location = profile.hits.location_index.take(samples.hit_index)
    function = profile.locations.function_index.take(location)
    kind = profile.objects.kind.take(profile.functions.object_index.take(function))
    source = profile.functions.source.take(function)
    inside = (
        is_program.take(process)
        & (samples.time_ns >= np.uint64(begin))
        & (samples.time_ns < np.uint64(end))
    )
    inside &= (kind == KIND_JIT) | (source == NameSource.NO_ANONYMOUS)
    names = [profile.functions.name[one] for one in function[inside].tolist()]
    return {name: names.count(name) for name in set(names)}


def jit_functions(profile: prospect.Profile) -> dict[str, NameSource]:
    """Return the source of every name of JIT code that the command's processes were hit in."""
    functions, hits = profile.functions, profile.hits
    rows = hits.location_index[is_of_command(profile).take(hits.process_index)]
    hit = np.unique(profile.locations.function_index.take(rows))
    kind = profile.objects.kind.take(functions.object_index)
    return {
        functions.name[row]: NameSource(functions.source[row])
        for row in hit[kind.take(hit) == KIND_JIT].tolist()
    }


def hints_of(profile: prospect.Profile) -> list[str]:
    """Return what would name the functions of the command's runtimes."""
    return [hint.sentence for hint in runtime_hints(by_function(complete(profile)), "3")]


@pytest.fixture(scope="module")
def dumped(jit, tmp_path_factory):
    """A recording of a program that writes a jitdump file, and what it says of its phases."""
    directory = tmp_path_factory.mktemp("dumped")
    ran = record(directory / "recording", jit, "dump", directory, "0.3")
    return directory / "recording", phases(ran.stdout)


def test_a_jitdump_names_the_code_of_the_time(dumped):
    file, told = dumped
    profile = prospect.open(file)
    assert [name for name, _, _ in told] == ["first", "second", "second", "third"]
    for name, begin, end in told:
        found = names_in(profile, begin, end)
        assert set(found) == {name}
        assert found[name] > 20
    assert set(jit_functions(profile).values()) == {NameSource.JITDUMP}
    mappings = profile.mappings
    is_own = is_of_command(profile).take(mappings.process_index)
    kind = profile.objects.kind.take(mappings.object_index[is_own])
    assert (kind == KIND_JIT).sum() == 1


@AS_ROOT
@pytest.mark.skipif(not Path("/proc/self/timens_offsets").exists(), reason="no time namespaces")
def test_a_jitdump_of_a_time_namespace_names_the_code_of_the_time(jit, tmp_path):
    file = tmp_path / "recording"
    namespace = ["unshare", "--time", "--fork", "--monotonic", "864000"]
    told = phases(record(file, *namespace, jit, "dump", tmp_path, "0.2").stdout)
    profile = prospect.open(file)
    shift = 864000 * 1_000_000_000
    for name, begin, end in told:
        assert set(names_in(profile, begin - shift, end - shift)) == {name}


def test_a_jitdump_gives_lines_and_instructions(dumped):
    file, _ = dumped
    lines = prospect.open(file, lines=True).lines
    assert lines is not None
    assert "made.jit" in lines.files
    assert 9 in lines.line.tolist()
    shown = run_here("annotate", "third", file).stdout.decode()
    assert "dec" in shown
    assert "jne" in shown
    assert "made.jit" in shown


@pytest.mark.skipif(not shutil.which("perf"), reason="compares with perf")
def test_the_same_from_perf_record_and_perf_inject(jit, tmp_path):
    file, injected = tmp_path / "perf.data", tmp_path / "injected"
    command = ["perf", "record", "-k", "mono", "-F", "997", "-e", "cpu-clock", "-o", file]
    output = subprocess.run(
        [*command, jit, "dump", tmp_path, "0.3"], capture_output=True, check=True
    ).stdout
    told = phases(b"\n".join(line for line in output.splitlines() if len(line.split()) == 3))
    profile = prospect.open(file)
    for name, begin, end in told:
        assert set(names_in(profile, begin, end)) == {name}
    subprocess.run(
        ["perf", "inject", "--jit", "-i", file, "-o", injected], capture_output=True, check=True
    )
    functions = prospect.open(injected).functions
    assert {"first", "second", "third"} <= set(functions.name)


def test_without_times_the_last_code_stands_for_all(jit, tmp_path):
    file = tmp_path / "perf.data"
    command = ["perf", "record", "-F", "997", "-e", "cpu-clock", "-o", file]
    if not shutil.which("perf"):
        pytest.skip("needs perf, whose clock is not that of jitdump files")
    subprocess.run([*command, jit, "dump", tmp_path, "0.2"], capture_output=True, check=True)
    profile = prospect.open(file)
    assert any("-k mono" in note for _, note in profile.run.process_notes)
    assert "third" in jit_functions(profile)


def test_a_map_file_is_kept_though_its_process_deletes_it(jit, tmp_path):
    file = tmp_path / "recording"
    script = '"$1" map 0.3 & wait $!; rm "/tmp/perf-$!.map"'
    record(file, "sh", "-c", script, "sh", jit)
    assert not list(Path("/tmp").glob(f"perf-{os.getpid()}.map"))
    profile = prospect.open(file)
    found = jit_functions(profile)
    # The file has no times: "second" and "third" overlap, and "first" was written over.
    assert set(found) == {"second", "third"}
    assert found["third"] == NameSource.MAP_REUSED
    assert found["second"] == NameSource.MAP_REUSED
    assert not names_in(profile, 0, 2**63).get("", 0)


@AS_ROOT
@pytest.mark.skipif(not shutil.which("unshare"), reason="makes namespaces with unshare")
def test_a_container_takes_its_map_files_with_it(jit, tmp_path):
    file = tmp_path / "recording"
    script = 'mount -t tmpfs none /tmp && exec "$0" map 0.5'
    # The program lies outside of /tmp, which the container hides.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        program = shutil.copy(jit, directory)
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
        record(file, *namespaces, "sh", "-c", script, program)
    profile = prospect.open(file)
    assert {"second", "third"} <= set(jit_functions(profile))
    assert not names_in(profile, 0, 2**63).get("", 0)


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node (Debian: nodejs)")
@pytest.mark.parametrize(
    ("option", "source"),
    [
        pytest.param(
            *("--perf-basic-prof", {NameSource.MAP_FILE, NameSource.MAP_REUSED}),
            marks=pytest.mark.nightly,
        ),
        ("--perf-prof", {NameSource.JITDUMP}),
    ],
)
def test_node_functions_are_named(tmp_path, option, source):
    (tmp_path / "hot.js").write_text(HOT_SCRIPT)
    file = tmp_path / "recording"
    record(file, "node", option, "hot.js", cwd=tmp_path)
    profile = prospect.open(file)
    found = {name: where for name, where in jit_functions(profile).items() if "hot.js" in name}
    assert found
    assert set(found.values()) <= source
    if option == "--perf-prof":
        # Node 20 writes few lines that can be true; the function's name has one.
        shown = run_here("annotate", "--source", file).stdout.decode()
        assert f"Annotated by prospect: {tmp_path}/hot.js\n" in shown


@pytest.mark.skipif(not shutil.which("keytool"), reason="needs Java (Debian: default-jre-headless)")
def test_java_methods_are_named(tmp_path):
    file = tmp_path / "recording"
    options = ["-J-XX:+UnlockDiagnosticVMOptions", "-J-XX:+DumpPerfMapAtExit"]
    key = ["-genkeypair", "-alias", "a", "-dname", "CN=a", "-keyalg", "RSA", "-keysize", "2048"]
    store = ["-keystore", tmp_path / "keys", "-storepass", "secret"]
    record(file, "keytool", *options, *key, *store)
    profile = prospect.open(file)
    assert any("java.math." in name for name in jit_functions(profile))
    assert not any("Java methods" in hint for hint in hints_of(profile))


def newer_python() -> str:
    """Return a CPython that has -X perf, empty where there is none."""
    check = "import sys, sysconfig; sys.exit(not sysconfig.get_config_var(sys.argv[1]))"
    for name in (sys.executable, "python3", "python3.14", "python3.13", "python3.12"):
        path = shutil.which(name)
        command = [path, "-c", check, "PY_HAVE_PERF_TRAMPOLINE"]
        if path and not subprocess.run(command, capture_output=True, check=False).returncode:
            return path
    return ""


CALLS = "def deep(n): return n and deep(n - 1)\nfor _ in range(8000): deep(500)\n"


def test_python_functions_are_named(tmp_path):
    python = newer_python()
    if not python:
        pytest.skip("needs CPython 3.12 or later; Debian 12 has 3.11")
    file = tmp_path / "recording"
    record(file, python, "-X", "perf", "-c", CALLS)
    profile = prospect.open(file)
    assert any(name.startswith("py::deep:") for name in jit_functions(profile))


def test_python_without_the_option_is_told_of_it(tmp_path):
    file = tmp_path / "recording"
    record(file, sys.executable, "-c", CALLS)
    profile = prospect.open(file)
    assert any("Python functions" in hint for hint in hints_of(profile))


# By name of the runtime: the language and the file of the page's module, the command, what the busy
# function is called, and the program.
ADVISED = {
    "luajit": (
        *("lua", "jit/perfmap.lua", ["luajit", "-jperfmap", "app"], "lua:app:1"),
        """local function busy(n) local x = 0 for i = 1, n do x = (x * 31 + i) % 1000003 end end
local e = os.clock() + 1
while os.clock() < e do busy(1000000) end
""",
    ),
    "pypy3": (
        *("python", "perfmap.py", ["pypy3", "-m", "perfmap", "app"], "py::busy:app"),
        """import time
def busy(n):
    x = 0
    for i in range(n): x = (x * 31 + i) % 1000003
e = time.process_time() + 1
while time.process_time() < e: busy(1000000)
""",
    ),
}


@pytest.mark.parametrize("runtime", ADVISED)
def test_the_advice_for_a_runtime_gives_it_names(tmp_path, monkeypatch, runtime):
    language, module, command, name, program = ADVISED[runtime]
    if not shutil.which(runtime):
        pytest.skip(f"no {runtime} is installed")
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "jit.md").read_text()
    place = tmp_path / module
    place.parent.mkdir(exist_ok=True)
    place.write_text(page.partition(f"```{language}\n")[2].partition("```")[0])
    (tmp_path / "app").write_text(program)
    file = tmp_path / "recording"
    record(file, runtime, "app")
    assert any("perfmap" in hint for hint in hints_of(prospect.open(file)))
    record(file, *command)
    profile = prospect.open(file)
    assert jit_functions(profile)[name] == NameSource.MAP_FILE
    assert not any("perfmap" in hint for hint in hints_of(profile))


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node (Debian: nodejs)")
def test_node_that_was_not_read_is_told_of_it(tmp_path):
    file = tmp_path / "recording"
    (tmp_path / "hot.js").write_text(HOT_SCRIPT)
    record(file, "node", "hot.js", cwd=tmp_path)
    profile = prospect.open(file)
    assert any("record without --no-python" in hint for hint in hints_of(profile))
