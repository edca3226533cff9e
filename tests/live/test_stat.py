"""`prospect stat` on the running kernel: known numbers are found, as `perf stat` finds them."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

import prospect
from builders.another_user import WHO, prospect_of_another_user
from builders.command_line import running
from builders.examples import nightly
from builders.recordings import PROSPECT, build_program
from builders.waiting import wait_until_it_watches

pytestmark = [pytest.mark.live, pytest.mark.parallel]

PAGES, SLEEPS, CALLS = 3000, 25, 700
NEEDS_PERF = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")


@pytest.fixture(scope="module")
def chores(tmp_path_factory):
    """Build without a dynamic linker, whose faults would come on top."""
    return build_program(tmp_path_factory.mktemp("bin"), "chores", "-static")


def stat(*words, status=0):
    """Run `prospect stat --format json`; return its document."""
    line = [*PROSPECT, "stat", "--format", "json", *map(str, words)]
    ran = subprocess.run(line, capture_output=True, timeout=60, check=False)
    assert ran.returncode == status, ran.stderr
    assert ran.stderr == b""
    return json.loads(ran.stdout)


def counts(document):
    return {event["name"]: event["count"]["value"] for event in document["events"]}


def perf_counts(events, *words):
    """Return what `perf stat` counts."""
    line = ["perf", "stat", "-x", ";", "-e", events, *map(str, words)]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    rows = [row.split(";") for row in ran.stderr.splitlines() if row.count(";") > 2]
    return {row[2]: float(row[0]) for row in rows}


def fewest(count_once):
    """Return the least of some counts: the kernel adds a fault now and then."""
    return min(count_once() for _ in range(4))


def test_page_faults_are_those_of_the_program(chores):
    few, many = (
        fewest(lambda n=n: counts(stat("--event", "faults:u", chores, n, 0, 0))["faults:u"])
        for n in (1, 1 + PAGES)
    )
    # Both may have a fault or two of their start more in one run than in another.
    assert abs(many - few - PAGES) <= 3


@NEEDS_PERF
def test_faults_equal_those_of_perf_stat(chores):
    event, words = "page-faults:u", (chores, PAGES, 0, 0, 2)
    ours = fewest(lambda: counts(stat("--event", event, *words))[event])
    assert abs(ours - fewest(lambda: perf_counts(event, *words)[event])) <= 3


@NEEDS_PERF
def test_switches_agree_with_perf_stat(chores):
    words = (chores, 0, SLEEPS, 0)
    for found in (
        counts(stat("--event", "context-switches", *words)),
        perf_counts("context-switches", *words),
    ):
        # A sleep is a switch; whoever shares the CPU may add some.
        assert SLEEPS <= found["context-switches"] < 20 * SLEEPS


def test_the_command_alone_or_with_its_children(chores):
    alone = counts(stat("-V", "2", "--event", "faults", chores, PAGES, 0, 0, 3))["faults"]
    family = counts(stat("-V", "3", "--event", "faults", chores, PAGES, 0, 0, 3))["faults"]
    assert PAGES < alone < 2 * PAGES
    assert 4 * PAGES < family < 5 * PAGES


def test_calls_of_a_function_are_exact(chores):
    probe = f"{chores}:one_call"
    document = stat("--event", f"{probe},{probe}%return", chores, 0, 0, CALLS, 1)
    assert set(counts(document).values()) == {2 * CALLS}
    (limit,) = document["limits"]
    assert "every process that runs their file" in limit
    alone = stat("-V", "2", "--event", probe, chores, 0, 0, CALLS, 1)
    assert counts(alone) == {probe: CALLS}


def test_a_filter_leaves_out_the_rest(chores):
    point = "sched:sched_process_fork"
    events = [f"{point}", f"{point}/filter=child_pid==1,name=none/"]
    document = stat("--event", events[0], "--event", events[1], chores, 0, 0, 0, 4)
    assert counts(document) == {point: 4, "none": 0}


def test_its_status_and_its_files_are_the_commands():
    script = "read line; echo out $line; echo err >&2; exit 7"
    line = [*PROSPECT, "stat", "-f", os.devnull, "sh", "-c", script]
    ran = subprocess.run(line, input=b"in\n", capture_output=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, b"out in\n", b"err\n")
    assert stat("sh", "-c", "exit 3", status=3)["exit_status"] == 3
    assert stat("sh", "-c", "kill -9 $$", status=137)["exit_status"] == 137


def test_parts_sum_to_the_whole(chores):
    document = stat("--interval", "0.05", "--event", "faults,cs,task-clock", chores, 100, 60, 0)
    run = document["each_run"][0]
    assert len(run["intervals"]) >= 2
    assert run["intervals"][-1]["end_s"] == run["elapsed_s"]
    for row, whole in enumerate(run["counts"]):
        parts = [interval["counts"][row]["value"] for interval in run["intervals"]]
        assert sum(parts) == whole["value"]
    for before, after in zip(run["intervals"], run["intervals"][1:], strict=False):
        assert before["end_s"] == after["begin_s"]


@pytest.mark.parametrize("form", ["text", *nightly("csv")])
def test_intervals_are_shown_as_they_end(form):
    line = [*PROSPECT, "stat", "--format", form, "--interval", "0.1", "--event", "cs"]
    with running([*line, "sleep", "30"], stdout=subprocess.PIPE, text=True) as ran:
        lines = [ran.stdout.readline() for _ in range(3)]
        assert ran.poll() is None
        ran.send_signal(signal.SIGTERM)
        rest = ran.stdout.read()
        assert ran.wait(20) == 128 + signal.SIGTERM
    assert all("cs" in line for line in lines[1:])
    assert ("Counts of 'sleep 30'" in rest) == (form == "text")


def test_runs_have_a_mean_and_an_interval(chores):
    document = stat("--repeat", "3", "--event", "faults", chores, PAGES, 0, 0)
    runs = [run["counts"][0]["value"] for run in document["each_run"]]
    assert len(runs) == 3
    (event,) = document["events"]
    assert event["count"]["value"] == pytest.approx(sum(runs) / 3)
    assert event["count"]["half"] >= 0.0


def test_a_process_that_runs_already(chores):
    with running([chores, "0", "1000", "0"]) as program:
        document = stat("-p", program.pid, "--event", "cs", "sleep", "0.3")
        first = counts(document)["cs"]
        document = stat("--pid", program.pid, "--event", "cs")
        program.wait(30)
    assert first > 1
    assert document["exit_status"] == 0
    assert str(program.pid) in document["target"]


def test_a_process_of_more_threads_than_files_may_be_open(tmp_path):
    def counted(soft, hard):
        words = ["-p", str(crowd.pid), "--event", "faults", "sh", "-c", "ulimit -n"]
        return subprocess.run(
            [*PROSPECT, "stat", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        )

    program = build_program(tmp_path, "crowd", "-pthread")
    with running([program, 1000], stdout=subprocess.PIPE) as crowd:
        assert crowd.stdout.readline() == b"1000\n"
        refused = counted(300, 600)
        said = r"prospect: faults: too many open files: raise the limit with `ulimit -n (\d+)`\n"
        enough = re.fullmatch(said, refused.stderr)
        assert enough, refused.stderr
        ran = counted(300, int(enough[1]))
        assert (ran.returncode, ran.stdout.splitlines()[0]) == (0, "300"), ran.stderr


def test_cpus_and_the_system():
    spin = """
import mmap, os
os.sched_setaffinity(0, {0})
pages = [mmap.mmap(-1, 4096) for _ in range(300)]
for page in pages:
    page[0] = 1
sum(range(3000000))
"""
    one = stat("--cpu", "0", "--event", "cpu-clock,faults", sys.executable, "-c", spin)
    whole = stat("-V", "4", "--event", "cpu-clock", sys.executable, "-c", spin)
    watched_s = one["elapsed_s"]["value"]
    assert counts(one)["cpu-clock"] / 1e9 == pytest.approx(watched_s, rel=0.2)
    online = os.sysconf("SC_NPROCESSORS_ONLN")
    watched_s = online * whole["elapsed_s"]["value"]
    assert counts(whole)["cpu-clock"] / 1e9 == pytest.approx(watched_s, rel=0.3)
    assert counts(one)["faults"] >= 300


def test_a_signal_ends_the_watching_of_a_system():
    line = [*PROSPECT, "stat", "-V", "4", "--event", "cs", "--format", "csv"]
    with running(line, stdout=subprocess.PIPE, text=True) as ran:
        wait_until_it_watches(ran.pid)  # a signal before that ends it as any program
        time.sleep(0.3)
        ran.send_signal(signal.SIGINT)
        out = ran.stdout.read()
        assert ran.wait(20) == 0
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["event"] == "cs"
    assert float(row["count"]) > 0


def test_hardware_counters_share_and_say_so(chores):
    check = subprocess.run(
        [*PROSPECT, "list", "--check", "--format", "json", "instructions"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    if not json.loads(check.stdout)["events"][0]["check"]["can_count"]:
        pytest.skip("this machine has no hardware counters")
    document = stat("--event", "cycles,instructions,branches", chores, 0, 0, 2_000_000)
    found = counts(document)
    assert all(0 <= event["running_share"] <= 1 for event in document["events"])
    # The loop calls: at least a branch and four more instructions each time.
    assert found["instructions"] > 5 * 2_000_000
    assert found["branches"] > 2_000_000
    group = stat("--event", "{cycles,instructions}:u", chores, 0, 0, 2_000_000)
    cycles, instructions = group["each_run"][0]["counts"]
    assert cycles["running_ns"] == instructions["running_ns"]


def test_events_of_a_group_are_counted_at_the_same_times(chores):
    document = stat("--event", "{page-faults,context-switches,cpu-clock},faults", chores, 0, 0, 9)
    assert [event["group"] for event in document["events"]] == [0, 0, 0, None]
    (run,) = document["each_run"]
    times = {(count["enabled_ns"], count["running_ns"]) for count in run["counts"][:3]}
    ((enabled_ns, running_ns),) = times
    assert enabled_ns == running_ns > 0
    assert run["counts"][0]["count"] == run["counts"][3]["count"] > 0


def as_nobody(*words):
    return subprocess.run(
        [*prospect_of_another_user(), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
        **WHO,
    )


@pytest.mark.parametrize("answer", ["EPERM", *nightly("ENOSYS")])
@pytest.mark.parametrize(
    "words", [["stat"], *nightly(["stat", "--event", "faults"]), ["record", "-o", "r"]]
)
def test_a_seccomp_profile_is_named_where_it_is_the_entry_reason(tmp_path, answer, words):
    number = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
    filtered = [
        (0x20, 0, 0, 0),  # load the number of the system call
        (0x15, 0, 1, number),
        (0x06, 0, 0, 0x50000 | getattr(errno, answer)),  # SECCOMP_RET_ERRNO
        (0x06, 0, 0, 0x7FFF0000),  # SECCOMP_RET_ALLOW
    ]
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in filtered)
    start = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None)
code = ctypes.create_string_buffer({code!r})
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
program = Program({len(filtered)}, ctypes.addressof(code))
assert not libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
assert not libc.prctl(22, 2, ctypes.byref(program))  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
os.execv(sys.executable, sys.argv[1:])
"""
    ran = subprocess.run(
        [sys.executable, "-c", start, *PROSPECT, *words, "touch", "started"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert re.fullmatch(r"prospect: .*a seccomp profile.* forbids perf_event_open.*\n", ran.stderr)
    assert "user" not in ran.stderr
    assert not (tmp_path / "started").exists()


def test_a_user_counts_user_space():
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) != 2:
        pytest.skip("the expectations are those of kernel.perf_event_paranoid 2")
    ran = as_nobody("stat", "--format", "json", "--event", "instructions,faults", "sleep", "0")
    if "Error" in ran.stderr:
        pytest.skip("needs an environment that other users can read")
    if "does not have it" not in ran.stderr:
        names = [event["name"] for event in json.loads(ran.stdout)["events"]]
        assert names == ["instructions:u", "faults:u"]
    ran = as_nobody("stat", "-V", "4", "--event", "cs", "sleep", "0")
    assert ran.returncode == 1
    assert "run as root" in ran.stderr


def test_the_python_interface(chores):
    words = [str(chores), str(PAGES), "0", "0"]
    found = prospect.count(words, events=["faults", "cs"], repeat=2)
    assert [event.name for event in found.events] == ["faults", "cs"]
    assert all(run.counts[0].estimate > PAGES for run in found.runs)
    assert ">faults</td>" in found._repr_html_()
    with pytest.raises(prospect.errors.UsageError, match="nothing to count"):
        prospect.count()


@pytest.mark.parametrize("words", [*nightly([]), ["--interval", "0.05"]])
@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_a_terminal_obeys_no_name_of_an_event(form, words):
    name = "é\x9b31m\u202e"
    event = f"sched:sched_process_fork/name={name}/"
    line = [*PROSPECT, "stat", "--format", form, *words, "--event", event, "sleep", "0.2"]
    controller, terminal = pty.openpty()
    subprocess.run(line, stdout=terminal, timeout=60, check=True)
    os.close(terminal)
    pieces = []
    with contextlib.suppress(OSError):  # the terminal has no writer left
        while piece := os.read(controller, 1 << 16):
            pieces.append(piece)
    os.close(controller)
    shown = b"".join(pieces).decode().replace("\r\n", "\n")
    assert "é" in shown
    assert shown.replace("\n", "").isprintable()
    if form == "json":
        assert name in counts(json.loads(shown))
    else:
        assert "\\x9b31m\\u202e" in shown
