"""COMMAND as under time(1): its status, its signals, its input and output, and what ends it."""

from __future__ import annotations

import os
import pty
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from builders.command_line import BURN, PROSPECT, names, run, run_here
from builders.examples import nightly
from builders.waiting import wait_for

pytestmark = [pytest.mark.live, pytest.mark.parallel]


@pytest.mark.parametrize("status", [*nightly(0, 1, 255), 7])
def test_the_exit_status_is_the_commands(here, status):
    assert run("-f", "out", "sh", "-c", f"exit {status}").returncode == status
    assert names(here) == ["out"]


@pytest.mark.parametrize("number", [*nightly(signal.SIGKILL, signal.SIGPIPE), signal.SIGSEGV])
def test_a_command_that_a_signal_ended_is_told_as_a_shell_does(here, number):
    ran = run("-f", "out", "sh", "-c", f"kill -{int(number)} $$")
    assert ran.returncode == 128 + number
    assert "Statistics of Run" in (here / "out").read_text()


def test_a_file_that_is_not_executable_is_126(here):
    (here / "script").write_text("true\n")
    assert run("./script").returncode == 126
    (here / "script").chmod(0o755)
    assert run("-f", "out", "./script").returncode == 0


@pytest.mark.parametrize(
    ("first", "missing"),
    [("#!/no/such/interp -x", "/no/such/interp"), ("#! /bin/sh\r", "/bin/sh\\r")],
)
def test_a_script_without_its_interpreter_says_which_is_missing(here, first, missing):
    script = here / "script"
    script.write_bytes(f"{first}\necho\n".encode())
    script.chmod(0o755)
    ran = run("./script")
    assert ran.returncode == 126
    assert ran.stderr == (
        f"prospect: ./script: cannot run it: its first line asks for {missing}, which does not"
        " exist\n"
    )


@pytest.mark.parametrize("kilobytes", [*nightly(30_000, 120_000), 60_000])
def test_little_address_space_is_one_line(here, kilobytes):
    limited = f"ulimit -v {kilobytes}; exec {sys.executable} -m prospect -f out true"
    ran = subprocess.run(["sh", "-c", limited], capture_output=True, check=False, timeout=120)
    assert b"Traceback" not in ran.stderr
    if ran.returncode:
        assert ran.stderr.startswith((b"prospect: ", b"OpenBLAS"))
    for path in re.findall(rb"the recording is kept: prospect report (.+)", ran.stderr):
        Path(os.fsdecode(path)).unlink()


@pytest.mark.parametrize("words", [[], *nightly(["record"]), ["record", "--count-syscalls"]])
def test_a_limit_of_open_files_is_one_line_with_one_that_is_enough(here, words):
    def limited(files):
        line = [*PROSPECT, *words, "-f" if not words else "-o", "out", "true"]
        limit = (files, files)
        ran = subprocess.run(
            line,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit),
        )
        return ran.returncode, ran.stderr

    for files in (13, 24):
        status, said = limited(files)
        assert status == 1
        (enough,) = re.fullmatch(
            r"prospect: .*: raise the limit with `ulimit -n (\d+)`\n", said
        ).groups()
        assert limited(int(enough))[0] == 0


@pytest.mark.parametrize("error", ["SystemError", *nightly("MemoryError", "ImportError")])
def test_an_import_that_fails_for_address_space_is_one_line(here, error):
    """Out of memory, the interpreter may lose the MemoryError and say SystemError."""
    failing = (
        "import resource, runpy, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'prospect.cli.report':\n"
        f"            raise {error}('error return without exception set')\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.modules['resource'] = None  # nor is there room for any other\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "sys.argv = ['prospect', 'report', 'perf.data']\n"
        "runpy.run_module('prospect', run_name='__main__', alter_sys=True)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", failing], capture_output=True, check=False, timeout=60
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"prospect: ")
    assert ran.stderr.count(b"\n") == 1


def test_no_memory_for_the_line_that_says_so_is_one_line(here):
    failing = (
        "import os, sys\n"
        "from prospect import __main__ as entry\n"
        "def read(*_):\n"
        "    raise MemoryError\n"
        "os.read = read\n"
        "sys.modules['prospect.cli.main'] = None  # ImportError\n"
        "sys.exit(entry.main())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", failing], capture_output=True, check=False, timeout=60
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"prospect: no memory is left")
    assert ran.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "inside", ["prospect.cli.commands", *nightly("prospect.cli.main", "enum"), "gc"]
)
def test_control_c_while_the_command_line_is_imported_is_no_traceback(here, inside):
    """SIGINT as soon as a module of the command line begins to be imported."""
    at_import = (
        "import os, runpy, signal, sys\n"
        f"sys.modules.pop({inside!r}, None)\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {inside!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['prospect', 'report', '--help']\n"
        "runpy.run_module('prospect', run_name='__main__', alter_sys=True)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", at_import], capture_output=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (130, b"")


def test_control_c_that_a_library_takes_for_its_own_fault_is_no_traceback(here):
    """As numpy does, while it loads its compiled part."""
    failing = (
        "import runpy, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'prospect.cli.report':\n"
        "            try:\n"
        "                raise KeyboardInterrupt\n"
        "            except KeyboardInterrupt as error:\n"
        "                raise ImportError('the C extensions failed') from error\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['prospect', 'report', 'perf.data']\n"
        "runpy.run_module('prospect', run_name='__main__', alter_sys=True)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", failing], capture_output=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (130, b"")


def test_input_output_and_errors_are_the_commands_own(here):
    ran = run("-f", "out", "sh", "-c", "cat; echo wrong >&2", input="some\ninput")
    assert (ran.stdout, ran.stderr) == ("some\ninput", "wrong\n")


def test_the_report_follows_the_commands_output(here):
    ran = run("echo", "first")
    assert ran.stdout.startswith("first\necho first\n")
    assert ran.stderr == ""
    assert names(here) == []


def test_a_closed_standard_output_is_not_taken_for_the_recording(here):
    ran = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m prospect -f out --save run.data echo lost >&-"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ran.returncode != 0
    assert "Time: echo lost" in (here / "out").read_text()
    assert run_here("report", "run.data").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, *nightly(signal.SIGTERM, signal.SIGHUP)])
def test_a_signal_ends_the_interval_and_the_report_is_there(here, number):
    process = subprocess.Popen(
        [*PROSPECT, "-f", "out", "sh", "-c", "touch started; sleep 60"], start_new_session=True
    )
    wait_for((here / "started").exists)
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert "Statistics of Run" in (here / "out").read_text()
    assert names(here) == ["out", "started"]


def test_control_c_on_a_terminal_ends_the_command_and_gives_the_report(here):
    child, terminal = pty.fork()
    if child == 0:
        os.execv(PROSPECT[0], [*PROSPECT, "-f", "out", "sh", "-c", "touch started; sleep 60"])
    wait_for((here / "started").exists)
    os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    os.close(terminal)
    assert "Statistics of Run" in (here / "out").read_text()


def test_a_command_that_cannot_start_leaves_files_as_they_were(here):
    (here / "perf.data").write_text("earlier recording")
    (here / "out").write_text("earlier report")
    assert run("record", "nonsense").returncode == 127
    assert run("-f", "out", "--save", "perf.data", "nonsense").returncode == 127
    assert names(here) == ["out", "perf.data"]
    assert (here / "perf.data").read_text() == "earlier recording"
    assert (here / "out").read_text() == "earlier report"


def test_a_reader_that_goes_away_ends_it_quietly(here):
    process = subprocess.Popen(
        [*PROSPECT, "sh", "-c", BURN], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(60) == 128 + signal.SIGPIPE


def test_a_program_named_like_a_subcommand_is_profiled_behind_two_dashes(here, monkeypatch):
    (here / "report").write_text("#!/bin/sh\necho this one\n")
    (here / "report").chmod(0o755)
    monkeypatch.setenv("PATH", f"{here}:{os.environ['PATH']}")
    ran = run("--", "report")
    assert ran.stdout.startswith("this one\nreport\n")
