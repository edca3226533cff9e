"""The command line on the real kernel: COMMAND as under time(1), the report whole, nothing left."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

import prospect as library
from builders.waiting import wait_for
from prospect.estimate.ledger.ledger import tick_ledger
from prospect.figures.portions import event_seconds
from prospect.figures.report.view import report_view
from prospect.perfdata.reader import open_recording
from prospect.profile.model import KIND_KERNEL

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


def on_a_terminal(*arguments) -> bytes:
    """Run with a terminal as standard output, and return what it is sent."""
    master, slave = pty.openpty()
    with subprocess.Popen([*PROSPECT, *arguments], stdout=slave, stderr=subprocess.DEVNULL):
        os.close(slave)
        shown = b""
        try:
            while part := os.read(master, 1 << 16):
                shown += part
        except OSError:  # EIO: nobody has it open any more
            pass
    os.close(master)
    return shown


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


@pytest.mark.parametrize("kilobytes", [30_000, 60_000, 120_000])
def test_little_address_space_is_one_line(here, kilobytes):
    limited = f"ulimit -v {kilobytes}; exec {sys.executable} -m prospect -f out true"
    ran = subprocess.run(["sh", "-c", limited], capture_output=True, check=False, timeout=120)
    assert b"Traceback" not in ran.stderr
    if ran.returncode:
        assert ran.stderr.startswith((b"prospect: ", b"OpenBLAS"))
    for path in re.findall(rb"the recording is kept: prospect report (.+)", ran.stderr):
        Path(os.fsdecode(path)).unlink()


@pytest.mark.parametrize("inside", ["prospect.cli.main", "prospect.cli.commands", "enum"])
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


def test_csv_on_a_terminal_is_without_its_escapes(here):
    program = here / "a\x1b[2Jb\u202ec"
    program.write_bytes(Path("/bin/sh").resolve().read_bytes())
    program.chmod(0o755)
    run("record", "-o", "r", f"./{program.name}", "-c", BURN)
    shown = on_a_terminal("report", "--format", "csv", "-m", "0", "-k", "0", "r")
    assert b"a\\x1b[2Jb\\u202ec" in shown
    assert b"\x1b" not in shown
    assert "\u202e".encode() not in shown


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
    assert "the recorder was killed before it finished the file" in ran.stdout


def test_a_killed_recording_has_the_times_of_what_was_written(here):
    """The whole machine is sampled, so all CPUs' times add up to the interval, by any clock."""
    command = ["sh", "-c", f"echo $$ >pid; touch started; while :; do {BURN}; done"]
    process = subprocess.Popen([*PROSPECT, "record", "-M10", "-o", "run.data", *command])
    wait_for((here / "started").exists)
    time.sleep(1.5)
    process.kill()
    process.wait(30)
    os.kill(int((here / "pid").read_text()), signal.SIGKILL)
    profile = library.open("run.data", use_cache=False)
    (event,) = report_view(profile).events
    assert (event.event.clocks, event.event.frequency_hz) == (4, 200.0)
    assert profile.run.command[:2] == ("sh", "-c")
    assert profile.run.uname.startswith(f"Linux {os.uname().nodename} {os.uname().release}")
    assert 0 < time.time() - profile.run.started_at < 60
    assert 1.0 < profile.run.wall_seconds < 60
    ledger = tick_ledger(profile)
    assert (abs(ledger.by_cpu.closure_share) < 0.02).all()
    all_s = profile.run.wall_seconds * profile.run.cpus
    sampled_s = float(event_seconds(event.event, profile.hits.count, profile.hits.period).sum())
    missing_s = ledger.unsampled_s + float(ledger.idle_s.sum())
    assert sampled_s + missing_s == pytest.approx(all_s, rel=0.03)
    is_kernel = profile.objects.kind == KIND_KERNEL
    named = [name for name, row in _functions(profile) if is_kernel[row] and name]
    assert len(named) > 5


def test_perf_reads_a_killed_recording_as_if_nothing_stood_before_the_records(here):
    process = subprocess.Popen([*PROSPECT, "record", "-M10", "-o", "run.data", "sleep", "30"])
    wait_for(lambda: Path("run.data").exists() and Path("run.data").stat().st_size > 60_000)
    process.kill()
    process.wait(30)
    content = bytearray(Path("run.data").read_bytes())
    (begin,) = struct.unpack_from("<Q", content, 40)
    (size,) = struct.unpack_from("<I", content, begin - 4)
    struct.pack_into("<Q", content, 40, begin - size)
    Path("without.data").write_bytes(content[: begin - size] + content[begin:])
    told = []
    for name in ("run.data", "without.data"):
        perf = ["perf", "report", "--stdio", "-i", name]
        ran = subprocess.run(perf, capture_output=True, text=True, timeout=120, check=False)
        told.append((ran.returncode, ran.stdout, ran.stderr.replace(name, "")))
    assert told[0] == told[1]


def _functions(profile):
    return zip(profile.functions.name, profile.functions.object_index.tolist(), strict=True)


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


def test_a_report_that_finds_no_room_says_so_and_where_the_recording_is_kept(here):
    ran = run("-f", "/dev/full", "--save", "run.data", "true")
    assert ran.returncode == 1
    kept, failed = ran.stderr.splitlines()
    assert kept == "prospect: the recording is kept: prospect report run.data"
    assert failed.startswith("prospect: ")
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
    with pytest.raises(library.errors.UsageError):
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


FULL_DISK = """set -e
mount -t tmpfs -o size=256k none disk
"$@"
"""


@pytest.mark.parametrize("words", [("record", "-o", "disk/r"), ("--save", "disk/r", "-f", "out")])
def test_a_full_disk_is_status_1_and_its_ticks_are_lost_and_not_idle(here, words):
    (here / "disk").mkdir()
    busy = f"echo $$ >pid; for n in $(seq 20); do {BURN}; done"
    tool = [*PROSPECT, *words, "-H4000", "-M10", "sh", "-c", busy]
    keep = f"status=0; {shlex.join(tool)} || status=$?; cp disk/r r; exit $status"
    line = ["unshare", "--mount", "sh", "-c", FULL_DISK, "sh", "sh", "-c", keep]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 1
    said = ran.stderr if words[0] == "record" else (here / "out").read_text()
    assert "Recorded only the first" in said
    profile = library.open("r", use_cache=False)
    assert profile.run.is_cut
    assert any("cut" in warning for warning in report_view(profile).warnings)
    counts = tick_ledger(profile).by_cpu
    assert counts.lost.sum() > 0
    assert (abs(counts.closure_share) < 0.02).all()


def test_a_full_disk_does_not_hide_the_commands_own_status(here):
    words = ["prlimit", "--fsize=16384", *PROSPECT, "--no-cache", "-H2000"]
    ran = subprocess.run(
        [*words, "sh", "-c", f"{BURN}; exit 7"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 7


def test_what_a_full_disk_kept_out_of_the_recording_is_said_all_the_same(here):
    words = ["prlimit", "--fsize=16384", *PROSPECT, "--no-cache", "-H2000", "sh", "-c", BURN]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 1
    assert "Recorded only the first" in ran.stderr + ran.stdout
