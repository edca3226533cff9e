"""What each command loads: modules are most of the time until it does anything.

The bounds leave room for a module or two. Whoever must load more raises one, and says why.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from builders.perfdata import USUAL, FileBuilder, RecordBuilder
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription

LOADED = """
import sys
bare = set(sys.modules)
sys.argv = ["prospect", *{words!r}]
from prospect.__main__ import run as main
{body}
print(*sorted(set(sys.modules) - bare), file=sys.stderr)
"""
TOO_HEAVY_BEFORE_EXEC = {
    "argparse",
    "contextlib",
    "dataclasses",
    "enum",
    "functools",
    "getopt",
    "inspect",
    "json",
    "logging",
    "numpy",
    "pathlib",
    "random",
    "re",
    "shutil",
    "subprocess",
    "tempfile",
    "threading",
    "typing",
}

# Of call stacks, mangled names, images without a table in the cache, other tools, code and source
# lines, waits, comparisons; or slow to load.
UNASKED = {
    "_hashlib",
    "capstone",
    "fnmatch",
    "hashlib",
    "heapq",
    "iced_x86",
    "lzma",
    "numpy.ma",
    "numpy.random",
    "pathlib",
    "prospect.analysis.other_tools",
    "prospect.assembly.code",
    "prospect.assembly.stacks.stack_forest",
    "prospect.disasm",
    "prospect.estimate.compare",
    "prospect.estimate.call_figures",
    "prospect.estimate.annotate.event_lines",
    "prospect.figures.report.disassembly_choice",
    "prospect.figures.function_choice",
    "prospect.figures.calls.calls_view",
    "prospect.figures.report.event_figures",
    "prospect.figures.report.waiting",
    "prospect.figures.stacks.frames",
    "prospect.lines",
    "prospect.perfdata.writer",
    "prospect.perfdata.stream",
    "prospect.perfdata.tracing_data",
    "prospect.render.html",
    "prospect.render.json",
    "prospect.symbols.demangling.cxx_names",
    "prospect.symbols.demangling.rust_names",
    "prospect.symbols.images.image_symbols",
    "prospect.symbols.jit.jitdump",
    "prospect.unwind",
    "signal",
    "statistics",
    "symbolic",
    "threading",
    "zstandard",
}


@pytest.mark.parametrize(
    "name", ["analysis", "annotate", "archive", "calls", "diff", "report", "top", "view"]
)
def test_numpy_waits_for_its_environment(name):
    script = f"import sys, prospect.cli.{name}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def recorded():
    """Return a recording of one program with some samples of a timer."""
    attr = EventAttr(
        type=abi.PERF_TYPE_SOFTWARE,
        sample_type=USUAL,
        sample_period=1_000_000,
        flags=abi.FLAG_SAMPLE_ID_ALL,
    )
    build = RecordBuilder(USUAL)
    records = [
        build.comm(5, 5, "work", is_exec=True, time=1, id=1),
        build.mmap2(5, 5, 0x1000, 0x2000, "/none/work", time=2, id=1),
        *(
            build.sample(ip=0x1010, pid=5, tid=5, id=1, time=10_000_000 * at, period=1_000_000)
            for at in range(1, 40)
        ),
    ]
    return FileBuilder([EventDescription(attr, (1,), "cpu-clock")], records).file()


def loaded(*words, body="main()"):
    ran = subprocess.run(
        [sys.executable, "-I", "-c", LOADED.format(words=words, body=body)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    return ran.stderr.splitlines()[-1].split()


def test_little_is_loaded_before_the_command_runs():
    modules = loaded("true", body="import prospect.cli.main, prospect.cli.record")
    assert len(modules) <= 63, modules
    assert TOO_HEAVY_BEFORE_EXEC.isdisjoint(modules)


@pytest.mark.live
def test_nothing_more_is_loaded_between_there_and_the_start(tmp_path):
    """What is imported within functions counts as well."""
    body = """
import os
from prospect.capture.loop.command import Command
def release(command):
    print(*sorted(set(sys.modules) - bare), file=sys.stderr, flush=True)
    os._exit(0)
Command.release = release
main()
"""
    modules = loaded("true", body=body)
    # Python 3.12 has one more of its own behind `ctypes`.
    assert len(modules) <= 57 + (sys.version_info >= (3, 12)), modules
    assert TOO_HEAVY_BEFORE_EXEC.isdisjoint(modules)


# The tables of options are two of these: shared ones, and the registry that names the formats; what
# reads their values is one, and the list of dimensions another.
@pytest.mark.parametrize(
    ("words", "most"),
    [(("--version",), 28), (("--help",), 48), (("completion", "bash"), 44)],
)
def test_what_only_says_something_loads_little(words, most):
    modules = loaded(*words)
    assert len(modules) <= most, modules


def test_a_flat_report_loads_what_it_shows(tmp_path):
    recording = tmp_path / "perf.data"
    recording.write_bytes(recorded())
    modules = loaded("report", str(recording))
    assert UNASKED.isdisjoint(modules), UNASKED.intersection(modules)
    ours = [name for name in modules if name.startswith("prospect")]
    assert len(ours) <= 211, ours


@pytest.mark.parametrize(("watch", "is_taken_apart"), [("None", False), ("print", True)])
def test_the_interpreter_is_taken_apart_at_the_end_only_for_who_watches_it(watch, is_taken_apart):
    program = f"""
import atexit, sys
from prospect.__main__ import main
sys.argv = ["prospect", "--version"]
atexit.register(lambda: print("taken apart"))
sys.setprofile({watch} and (lambda *_: None))
sys.exit(main())
"""
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.startswith("prospect ")
    assert ("taken apart" in ran.stdout) == is_taken_apart


@pytest.mark.live
def test_a_plain_recording_loads_nothing_heavy_to_its_end(tmp_path):
    for _ in range(2):  # a user's first recording measures the cost of a sample, and keeps it
        modules = loaded("record", "-o", str(tmp_path / "perf.data"), "true")
    assert TOO_HEAVY_BEFORE_EXEC.isdisjoint(modules)
    # Another process of the machine may begin to run Python meanwhile, and is looked at then.
    # binascii is loaded if the reader of memory maps is in time for so short a command.
    at_times = ("prospect.capture.runtimes", "binascii")
    plain = [name for name in modules if not name.startswith(at_times)]
    assert len(plain) <= 100, plain
