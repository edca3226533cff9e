"""--count-syscalls on the running kernel: exact, by process, and nothing is left behind."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import prospect
from builders.examples import nightly
from builders.recordings import PROSPECT, build_program, run_as_another_user
from builders.waiting import wait_for
from prospect.abi import bpf as abi
from prospect.abi.syscall_names import NO_SUCH_NAME
from prospect.capture.counting import syscall_counts
from prospect.figures.report.syscalls import syscall_figures
from prospect.profile.complete import complete

pytestmark = pytest.mark.live

GETPPID_32 = """
.globl _start
_start: mov $50, %ebx
1:      mov $64, %eax
        int $0x80
        dec %ebx
        jnz 1b
        mov $1, %eax
        int $0x80
"""
_BPF_PROG_GET_NEXT_ID, _BPF_PROG_GET_FD_BY_ID, _BPF_OBJ_GET_INFO_BY_FD = 11, 13, 15


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Build the program without a dynamic linker, whose calls would come on top."""
    return build_program(tmp_path_factory.mktemp("bin"), "calls", "-static", "-pthread")


@pytest.fixture
def counted(tmp_path):
    """Record a command with --count-syscalls, and read what became of it."""

    def counted(*command, before=(), **options):
        words = [str(word) for word in command]
        line = [*before, *PROSPECT, "record", "--no-python", "-o", str(tmp_path / "r")]
        line += ["--count-syscalls", *words]
        subprocess.run(line, check=True, capture_output=True, timeout=200, **options)
        profile = prospect.open(tmp_path / "r")
        assert profile.syscalls is not None
        assert profile.syscalls.dropped == 0
        return profile

    return counted


def calls_of(profile, row):
    """Return name → (calls, unfinished, time_ns) of a process row."""
    table = profile.syscalls
    return {
        table.names[table.name_index[at]]: (
            int(table.calls[at]),
            int(table.unfinished[at]),
            int(table.time_ns[at]),
        )
        for at in np.flatnonzero(table.process_index == row).tolist()
    }


def command_row(profile):
    (row,) = np.flatnonzero(profile.processes.is_command).tolist()
    return row


@pytest.mark.parallel
def test_every_call_of_a_program_is_counted_and_timed(calls, counted):
    profile = counted(calls, "plain", 1000)
    found = calls_of(profile, command_row(profile))
    expected = {"getppid": 1000, "read": 2000, "write": 3000, "nanosleep": 5, "exit_group": 1}
    assert {name: found[name][0] for name in expected} == expected
    unfinished = {name: row[1] for name, row in found.items() if row[1]}
    assert unfinished == {"exit_group": 1}
    assert found["nanosleep"][2] >= 5 * 20_000_000
    assert 0 < found["getppid"][2] < 1_000_000_000


@pytest.mark.parallel
def test_counts_are_those_of_strace(calls, counted, tmp_path):
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("strace is not installed")
    command = [str(calls), "plain", "10"]
    summary = tmp_path / "summary"
    subprocess.run([strace, "-f", "-c", "-U", "calls,name", "-o", summary, *command], check=True)
    truth = {
        name: int(count)
        for count, name in re.findall(r"^ *(\d+) (\w+)$", summary.read_text(), re.MULTILINE)
    }
    del truth["total"]
    profile = counted(*command)
    found = {name: row[0] for name, row in calls_of(profile, command_row(profile)).items()}
    # strace begins before the exec, and does not show the call that has no end.
    assert truth.pop("execve") == 1
    assert found.pop("exit_group") == 1
    assert found == truth


@pytest.mark.parallel
def test_counts_are_those_of_perf(calls, counted):
    perf = shutil.which("perf")
    if not perf:
        pytest.skip("perf is not installed")
    command = [str(calls), "plain", "100"]
    line = [perf, "stat", "-x,", "-e", "raw_syscalls:sys_enter", *command]
    stat = subprocess.run(line, capture_output=True, text=True, check=False)
    told = re.search(r"^(\d+),,raw_syscalls:sys_enter", stat.stderr, re.MULTILINE)
    if not told:
        pytest.skip("perf cannot count here")
    profile = counted(*command)
    assert sum(row[0] for row in calls_of(profile, command_row(profile)).values()) == int(told[1])


def test_threads_at_once_lose_no_call(calls, counted):
    profile = counted(calls, "threads", 300_000)
    assert calls_of(profile, command_row(profile))["getppid"][:2] == (600_000, 0)


@pytest.mark.parallel
def test_children_have_their_own_counts(calls, counted):
    profile = counted(calls, "forks", 20)
    children = np.flatnonzero(profile.processes.is_descendant & ~profile.processes.is_command)
    assert len(children) == 20
    for row in children.tolist():
        assert calls_of(profile, row)["getppid"][0] == 3
    assert "getppid" not in calls_of(profile, command_row(profile))


@pytest.mark.parametrize("many", [2000, *nightly(10_000)])
def test_many_processes_lose_no_call(calls, counted, many):
    profile = counted(calls, "forks", many)
    children = np.flatnonzero(profile.processes.is_descendant & ~profile.processes.is_command)
    assert len(children) == many
    table = profile.syscalls
    is_getppid = table.name_index == table.names.index("getppid")
    is_getppid &= table.process_index >= 0  # others' may be of processes that nobody knows
    counts = np.bincount(
        table.process_index[is_getppid], table.calls[is_getppid], len(profile.processes)
    )
    assert (counts[children] == 3).all()


def test_a_pid_that_is_used_again_is_another_process(calls, counted):
    if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
        pytest.skip("the kernel does not let pids be chosen")
    profile = counted(calls, "reuse")
    asked = [
        (profile.processes.pid[row], calls_of(profile, row)["getppid"][0])
        for row in np.flatnonzero(profile.processes.is_descendant).tolist()
        if "getppid" in calls_of(profile, row)
    ]
    assert [count for _, count in asked] == [3, 7]
    assert asked[0][0] == asked[1][0]


@pytest.mark.parallel
def test_programs_of_one_process_are_apart(calls, counted):
    profile = counted("sh", "-c", f"exec {calls} plain 10")
    named = {
        profile.processes.name[row]: calls_of(profile, row)
        for row in np.flatnonzero(profile.processes.is_command).tolist()
    }
    assert set(named) == {"sh", "calls"}
    assert "getppid" not in named["sh"] or named["sh"]["getppid"][0] == 1  # the shell's own $PPID
    assert named["calls"]["getppid"][0] == 10
    assert named["calls"]["read"][0] == 20
    assert named["sh"]["execve"][0] >= 1
    assert "execve" not in named["calls"]


@pytest.mark.parallel
def test_an_exec_by_another_thread_goes_on_as_the_new_program(calls, counted):
    profile = counted(calls, "leader")
    rows = np.flatnonzero(profile.processes.is_command).tolist()
    assert [calls_of(profile, row).get("getppid", (0,))[0] for row in rows] == [0, 10]
    assert calls_of(profile, rows[0])["execve"][:2] == (1, 0)


@pytest.mark.parallel
def test_a_thread_that_is_killed_in_a_call_has_ended_it(calls, counted):
    profile = counted(calls, "killed")
    found = calls_of(profile, command_row(profile))
    # On its way out it passes the end of the call.
    assert found["read"][:2] == (1, 0)
    assert found["read"][2] >= 50_000_000
    assert found["exit_group"][:2] == (1, 1)


@pytest.mark.parallel
def test_a_call_under_way_at_the_end_is_unfinished(counted):
    profile = counted("sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $! >&2; sleep 0.3")
    try:
        named = profile.processes.name
        rows = np.flatnonzero(profile.processes.is_descendant & ~profile.processes.is_command)
        sleeping = [
            calls_of(profile, row)["clock_nanosleep"] for row in rows if named[row] == "sleep"
        ]
        assert sorted(row[:2] for row in sleeping) == [(1, 0), (1, 1)]
    finally:
        for row in rows:
            if named[row] == "sleep" and calls_of(profile, row)["clock_nanosleep"][1]:
                os.kill(int(profile.processes.pid[row]), signal.SIGKILL)


@pytest.mark.parallel
def test_a_32_bit_program_has_the_names_of_its_own_numbers(counted, tmp_path):
    (tmp_path / "asks.s").write_text(GETPPID_32)
    line = ["gcc", "-m32", "-nostdlib", "-static", "-o", tmp_path / "asks", tmp_path / "asks.s"]
    if subprocess.run(line, capture_output=True, check=False).returncode:
        pytest.skip("the compiler makes no 32-bit programs")
    profile = counted(tmp_path / "asks")
    row = command_row(profile)
    found = calls_of(profile, row)
    assert {name: count for name, (count, *_) in found.items()} == {"getppid": 50, "exit": 1}
    table = profile.syscalls
    assert table.is_compat[table.process_index == row].all()
    assert not table.is_compat[table.process_index != row].any()
    system = syscall_figures(complete(profile), 0).system
    assert system.compat_calls[system.name.index("getppid")] == 50


@pytest.mark.parallel
def test_numbers_that_no_kernel_has_are_one_row(calls, counted):
    profile = counted(calls, "odd")
    found = calls_of(profile, command_row(profile))
    odd = {name: row[:2] for name, row in found.items() if not name.isidentifier() or "4" in name}
    assert odd.pop("prlimit64", None)
    assert odd == {"syscall_400": (2, 0), NO_SUCH_NAME: (3, 0)}


@pytest.mark.parallel
def test_a_full_table_says_so(calls, monkeypatch):
    monkeypatch.setattr(syscall_counts, "_room", lambda *_: (8, abi.BPF_F_NO_PREALLOC))
    profile = prospect.record([str(calls), "plain", "1000"], count_syscalls=True)
    table = profile.syscalls
    assert table.dropped > 1000
    assert any(limit.startswith(f"{table.dropped} system calls") for limit in profile.run.limits)


@pytest.mark.parallel
def test_in_another_pid_namespace_processes_are_found_all_the_same(calls, counted):
    unshare = shutil.which("unshare")
    if not unshare:
        pytest.skip("unshare is not installed")
    before = [unshare, "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no pid namespace can be made here")
    profile = counted(calls, "plain", 50, before=before)
    assert calls_of(profile, command_row(profile))["getppid"][0] == 50
    assert any("other pid namespaces" in limit for limit in profile.run.limits)


@pytest.mark.parallel
@pytest.mark.parametrize("detail", [*nightly("-V2"), "-V4"])
def test_profiling_counts_too(calls, detail, tmp_path):
    report, saved = tmp_path / "report", tmp_path / "saved"
    line = [
        *PROSPECT,
        detail,
        "--count-syscalls",
        "-f",
        report,
        "--save",
        saved,
        calls,
        "plain",
        "7",
    ]
    subprocess.run(line, check=True, capture_output=True, timeout=60)
    profile = prospect.open(saved)
    assert calls_of(profile, command_row(profile))["getppid"][0] == 7
    assert profile.syscalls.cost_ns > 0


@pytest.mark.parallel
def test_the_python_interface_counts_too(calls):
    profile = prospect.record([str(calls), "plain", "7"], count_syscalls=True)
    assert calls_of(profile, command_row(profile))["getppid"][0] == 7
    assert prospect.record("true").syscalls is None


@pytest.mark.parallel
def test_the_recorders_own_calls_are_told_apart(calls, counted):
    profile = counted(calls, "plain", 7)
    figures = syscall_figures(complete(profile), 0)
    own = np.flatnonzero(profile.processes.is_recorder).tolist()
    counts = [row[0] for process in own for row in calls_of(profile, process).values()]
    assert figures.recorder_calls == sum(counts) > 0


@pytest.mark.parallel
def test_a_user_who_may_not_count_is_told_so_before_anything_runs(tmp_path):
    ran = run_as_another_user(tmp_path, "record", "-o", "r", "--count-syscalls", "touch", "started")
    assert ran.returncode == 1
    assert ran.stderr.startswith("prospect: ")
    assert ran.stderr.count("\n") == 1
    assert "CAP_" in ran.stderr
    assert not (tmp_path / "started").exists()


def programs_of_prospect():
    """Return the ids of the BPF programs that bear our name."""
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    syscall = ctypes.CDLL(None, use_errno=True).syscall

    def bpf(command, attr):
        buffer = ctypes.create_string_buffer(attr, len(attr))
        return syscall(number, command, buffer, len(attr)), buffer.raw

    found, at = set(), 0
    while True:
        status, attr = bpf(_BPF_PROG_GET_NEXT_ID, struct.pack("=III", at, 0, 0))
        if status < 0:
            return found
        at = struct.unpack_from("=I", attr, 4)[0]
        fd, _ = bpf(_BPF_PROG_GET_FD_BY_ID, struct.pack("=III", at, 0, 0))
        if fd >= 0:
            info = ctypes.create_string_buffer(232)
            bpf(_BPF_OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, 232, ctypes.addressof(info)))
            os.close(fd)
            if info.raw[64:80].startswith(b"prospect_"):
                found.add(at)


@pytest.mark.parametrize("end", ["killed", *nightly("done")])
def test_nothing_is_mounted_and_nothing_left_behind(end, tmp_path):
    before = programs_of_prospect()
    mounts = Path("/proc/self/mountinfo").read_text()
    script = "echo $$ >pid; exec sleep 30" if end == "killed" else "echo $$ >pid; sleep 0.3"
    process = subprocess.Popen(
        [*PROSPECT, "record", "-o", "r", "--count-syscalls", "sh", "-c", script],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    pid = tmp_path / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
    assert len(programs_of_prospect() - before) == 2
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert Path(f"/proc/{process.pid}/mountinfo").read_text() == mounts
    if end == "killed":
        process.send_signal(signal.SIGKILL)
        os.kill(int(pid.read_text()), signal.SIGKILL)
    process.wait(20)
    wait_for(lambda: not programs_of_prospect() - before)
    assert Path("/proc/self/mountinfo").read_text() == mounts


@pytest.mark.parallel
def test_nothing_of_it_is_imported_unless_asked_for():
    script = (
        "import sys, prospect.cli.record;"
        "print([name for name in sys.modules if 'bpf' in name or 'syscall_counts' in name])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parallel
def test_the_report_shows_the_calls_of_all_processes(counted, calls, tmp_path):
    profile = counted("/bin/sh", "-c", "sleep 0.05; sleep 0.05")
    everything = {"user_threshold_s": 0.0, "kernel_threshold_s": 0.0}
    report = prospect.Profile.report(profile, detail="4", **everything)
    of_all = report.split("System Calls, All Processes")[1].split("Extrapolated Summary")[0]
    (calls_of_all,) = re.findall(
        r" (\d+) +[0-9.]+ +[0-9.]+  clock_nanosleep$", of_all, re.MULTILINE
    )
    assert int(calls_of_all) >= 2


@pytest.mark.parallel
def test_processes_without_a_hit_are_listed_and_the_total_is_their_sum(counted, tmp_path):
    """Of 20 programs that do nothing, hardly one has a hit; all have their calls."""
    counted("sh", "-c", "i=0; while [ $i -lt 20 ]; do i=$((i+1)); /bin/true; done")
    report = prospect.open(tmp_path / "r").report(
        detail="3", user_threshold_s=0.0, kernel_threshold_s=0.0
    )
    parts, _, total = report.partition("System Calls, the Command and Its Descendants")
    row = re.compile(r" (\d+) +[\d.]+ +(?:[\d.]+|-) +execve$", re.MULTILINE)
    assert sum(map(int, row.findall(parts))) == int(row.findall(total)[0]) >= 20
    assert len(re.findall(r"Began by exec", parts)) == 21
    calls = re.findall(r"^ *\d+% +\d+ +[\d.]+ +\S+ +(\d+) ", total, re.MULTILINE)
    (summed,) = re.findall(r" (\d+) +total$", total.split("Symbol quality")[0], re.MULTILINE)
    assert sum(map(int, calls)) == int(summed)


@pytest.mark.parallel
def test_calls_that_are_many_are_shown_however_little_time_they_take(counted):
    profile = counted("dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=5000")
    report = profile.report(detail="2", kernel_threshold_s=1000.0)
    shown = report.split("System Calls of the Process")[1].split("Left out")[0]
    assert {"read", "write"} <= set(re.findall(r" +\d+\.\d+  (\w+)$", shown, re.MULTILINE))
    assert "execve" not in shown
