"""The command line on the real kernel: recordings and reports, whole, and nothing left."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

import prospect as library
from builders.another_user import WHO
from builders.command_line import BURN, PROSPECT, names, run, run_here
from prospect.perfdata.reader import open_recording

pytestmark = [pytest.mark.live, pytest.mark.parallel]


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


def test_csv_on_a_terminal_is_without_its_escapes(here):
    program = here / "a\x1b[2Jb\u202ec"
    program.write_bytes(Path("/bin/sh").resolve().read_bytes())
    program.chmod(0o755)
    run("record", "-o", "r", f"./{program.name}", "-c", BURN)
    shown = on_a_terminal("report", "--format", "csv", "-m", "0", "-k", "0", "r")
    assert b"a\\x1b[2Jb\\u202ec" in shown
    assert b"\x1b" not in shown
    assert "\u202e".encode() not in shown


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
    assert b"Time: true" in run_here("report").stdout
    assert b"Time: sh -c" in run_here("report", "perf.data.old").stdout


def test_details_widen_from_the_command_to_the_system(here):
    run("--save", "run.data", "-H1000", "-f", "out", "sh", "-c", f"{BURN}; sh -c '{BURN}'; true")

    def sections(detail):
        text = run_here("report", "-V", detail, "-m0", "-k0", "run.data").stdout.decode()
        return text.count("Began by ")

    assert 0 < sections("2") < sections("3") < sections("4")
    assert sections("k") == 0


def test_the_recording_page_describes_every_key_of_our_section(here):
    run("record", "-H50", "--count-syscalls", "true")
    page = (Path(__file__).parent.parent.parent / "docs" / "recording.md").read_text()
    page = page.partition("`syscalls` holds")[0]
    with open_recording("perf.data") as recording:
        keys = set(recording.info.extras)
    described = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    # Copies of map files and facts of containers are there only if some process had one, counts of
    # calls if asked for, maps of processes that lived long enough, costs if the machine let them be
    # measured, and what reading Python functions cost if some Python ran; a CPU limit, waits from
    # before, the threads that --wall followed and the group of a process whose maps were read
    # likewise. Only sessions end while samples are taken.
    sometimes = {"jit_files", "calls", "memory_maps", "dropped_share", "containers"}
    sometimes |= {"throttled", "calls_before", "groups", "followed_threads", "buffers_read_ns"}
    sometimes |= {"sample_cost_ns", "sample_cost_spread_ns", "kernel_sample_cost_ns"}
    assert keys | sometimes == described


def test_each_format_is_written(here):
    document = json.loads(run("--format", "json", "true").stdout)
    assert document["run"]["command"] == ["true"]
    assert run("--format", "csv", "true").stdout.count(",") > 10


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        pytest.param({"TERM": "dumb"}, False, marks=pytest.mark.nightly),
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
    hits = int(profile.hits_table(detail="4")["samples"].sum())
    assert hits > 0
    assert library.open("run.data").hits.count.sum() == hits
    with pytest.raises(library.errors.UsageError):
        library.record([])


def test_an_ordinary_user_profiles_user_space_and_is_told_what_is_missing(here):
    if os.geteuid():
        pytest.skip("needs root")
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) != 2:
        pytest.skip("the expectations are those of kernel.perf_event_paranoid 2")
    here.chmod(0o777)
    Path(os.environ["TMPDIR"]).chmod(0o777)
    for directory in (here.parent, *here.parent.parents[:2]):
        directory.chmod(0o755)
    ran = run("-H1000", "-f", "out", "sh", "-c", BURN, **WHO)
    assert (ran.returncode, ran.stderr) == (0, "")
    text = (here / "out").read_text()
    assert "No kernel time was sampled" in text
    assert "Only COMMAND and its descendants were sampled" in text
    assert run("doctor", **WHO).returncode == 1
