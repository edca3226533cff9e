"""The command line on the real kernel: COMMAND as under time(1), the report whole, nothing left."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import prospect as library
from builders.waiting import wait_for
from prospect.perfdata.reader import open_recording

pytestmark = pytest.mark.live

PROSPECT = [sys.executable, "-m", "prospect"]
NOBODY = 65534
BURN = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"


def run(*arguments, **keywords):
    return subprocess.run(
        [*PROSPECT, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **keywords,
    )


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in an empty directory; recordings without a name go to another."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    yield directory
    assert names(scratch) == []


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_the_exit_status_is_the_commands(here, status):
    assert run("-f", "out", "sh", "-c", f"exit {status}").returncode == status
    assert names(here) == ["out"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE])
def test_a_command_that_a_signal_ended_is_told_as_a_shell_does(here, number):
    ran = run("-f", "out", "sh", "-c", f"kill -{int(number)} $$")
    assert ran.returncode == 128 + number
    assert "Statistics of Run" in (here / "out").read_text()


def test_a_file_that_is_not_executable_is_126(here):
    (here / "script").write_text("true\n")
    assert run("./script").returncode == 126
    (here / "script").chmod(0o755)
    assert run("-f", "out", "./script").returncode == 0


def test_input_output_and_errors_are_the_commands_own(here):
    ran = run("-f", "out", "sh", "-c", "cat; echo wrong >&2", input="some\ninput")
    assert (ran.stdout, ran.stderr) == ("some\ninput", "wrong\n")


def test_the_report_follows_the_commands_output(here):
    ran = run("echo", "first")
    assert ran.stdout.startswith("first\nTime: echo first\n")
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
    assert run("report", "run.data").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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


def test_a_killed_prospect_leaves_a_readable_recording_and_nothing_else(here):
    command = ["sh", "-c", f"echo $$ >pid; touch started; while :; do {BURN}; done"]
    process = subprocess.Popen([*PROSPECT, "-M10", "-f", "out", "--save", "run.data", *command])
    wait_for((here / "started").exists)
    time.sleep(1.0)
    process.kill()
    process.wait(30)
    os.kill(int((here / "pid").read_text()), signal.SIGKILL)
    assert names(here) == ["pid", "run.data", "started"]
    ran = run("report", "-V4", "run.data")
    assert ran.returncode == 0
    assert "Global KERNEL Profile" in ran.stdout


def test_a_saved_recording_is_private_and_reported_again_as_it_was(here):
    ran = run("--save", "run.data", "-f", "out", "sh", "-c", BURN)
    assert ran.returncode == 0
    assert (here / "run.data").stat().st_mode & 0o777 == 0o600
    assert run("report", "run.data").stdout == (here / "out").read_text()
    with (here / "run.data").open("rb") as recording:
        assert "Time: sh -c" in run("report", "-", stdin=recording).stdout


def test_record_and_report_meet_in_perf_data(here):
    assert run("record", "sh", "-c", f"{BURN}; exit 3").returncode == 3
    assert run("record", "-H", "50", "-M", "10", "true").returncode == 0
    assert names(here) == ["perf.data", "perf.data.old"]
    assert "Time: true" in run("report").stdout
    assert "Time: sh -c" in run("report", "perf.data.old").stdout


def test_a_command_that_cannot_start_leaves_files_as_they_were(here):
    (here / "perf.data").write_text("earlier recording")
    (here / "out").write_text("earlier report")
    assert run("record", "nonsense").returncode == 127
    assert run("-f", "out", "--save", "perf.data", "nonsense").returncode == 127
    assert names(here) == ["out", "perf.data"]
    assert (here / "perf.data").read_text() == "earlier recording"
    assert (here / "out").read_text() == "earlier report"


def test_a_report_that_finds_no_room_is_one_line_and_the_recording_is_kept(here):
    ran = run("-f", "/dev/full", "--save", "run.data", "true")
    assert ran.returncode == 1
    assert ran.stderr.startswith("prospect: ")
    assert ran.stderr.count("\n") == 1
    assert run("report", "run.data").returncode == 0


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
    assert ran.stdout.startswith("this one\nTime: report\n")


def test_details_widen_from_the_command_to_the_system(here):
    run("--save", "run.data", "-H1000", "-f", "out", "sh", "-c", f"{BURN}; sh -c '{BURN}'; true")

    def sections(detail):
        text = run("report", "-V", detail, "-m0", "-k0", "run.data").stdout
        return text.count("Birth by ")

    assert 0 < sections("2") < sections("3") < sections("4")
    assert sections("k") == 0


def test_the_recording_page_describes_every_key_of_our_section(here):
    run("record", "-H50", "--count-syscalls", "true")
    page = (Path(__file__).parent.parent.parent / "docs" / "recording.md").read_text()
    page = page.partition("`syscalls` holds")[0]
    with open_recording("perf.data") as recording:
        keys = set(recording.info.extras)
    described = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    # Copies of map files are there only if some process had one, counts of calls if asked for.
    assert keys | {"jit_files", "calls"} == described


def test_each_format_is_written(here):
    document = json.loads(run("--format", "json", "true").stdout)
    assert document["run"]["command"] == ["true"]
    assert run("--format", "csv", "true").stdout.count(",") > 10


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_a_terminal_gets_colour_unless_unwanted_and_a_pipe_none(here, variables, is_coloured):
    run("--save", "run.data", "-f", "out", "true")
    master, slave = pty.openpty()
    environment = os.environ | variables
    subprocess.run([*PROSPECT, "report", "run.data"], stdout=slave, check=True, env=environment)
    os.close(slave)
    assert (b"\x1b[" in os.read(master, 1 << 16)) == is_coloured
    os.close(master)
    assert "\x1b" not in run("report", "run.data").stdout


def test_the_cache_is_left_alone_where_asked(here, monkeypatch):
    cache = here / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    run("--no-cache", "-f", "out", "sh", "-c", BURN)
    assert not cache.exists()


def test_the_python_interface_records(here, capfd):
    profile = library.record(["sh", "-c", f"echo own; {BURN}"], frequency_hz=1000, save="run.data")
    assert capfd.readouterr().out == "own\n"
    assert profile.run.command[0] == "sh"
    hits = int(profile.hits_table()["hits"].sum())
    assert hits > 0
    assert library.open("run.data").hits.count.sum() == hits
    with pytest.raises(library.api.UsageError):
        library.record([])


def is_readable_by_others() -> bool:
    try:
        imports = [sys.executable, "-c", "import prospect, numpy"]
        subprocess.run(imports, user=NOBODY, group=NOBODY, check=True, cwd="/")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def test_an_ordinary_user_profiles_user_space_and_is_told_what_is_missing(here):
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    if os.geteuid() or not is_readable_by_others():
        pytest.skip("needs root, and an environment that other users can read")
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) != 2:
        pytest.skip("the expectations are those of kernel.perf_event_paranoid 2")
    here.chmod(0o777)
    Path(os.environ["TMPDIR"]).chmod(0o777)
    for directory in (here.parent, *here.parent.parents[:2]):
        directory.chmod(0o755)
    ran = run("-H1000", "-f", "out", "sh", "-c", BURN, **who)
    assert (ran.returncode, ran.stderr) == (0, "")
    text = (here / "out").read_text()
    assert "No kernel time was sampled" in text
    assert "Only COMMAND and what it started were sampled" in text
    assert run("doctor", **who).returncode == 1


def test_what_a_full_disk_kept_out_of_the_recording_is_said_all_the_same(here):
    words = ["prlimit", "--fsize=16384", *PROSPECT, "--no-cache", "-H2000", "sh", "-c", BURN]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0
    assert "Recorded only the first" in ran.stderr + ran.stdout
