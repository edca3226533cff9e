"""What happens to a machine that a daemon samples for months, each fault really injected."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from builders.command_line import run, running
from builders.daemon import BUSY, HALF_BUSY, RunningDaemon, status, until
from builders.stored import by_function
from builders.waiting import cpu_seconds, wait_for
from prospect.api.store_part import read_store
from prospect.daemon.daemon_options import DaemonOptions
from prospect.daemon.sampling import Sampling
from prospect.daemon.window_writing import StoreWriting
from prospect.live import source
from prospect.store.directory import StoreDirectory
from prospect.store.retention import Keep

pytest.importorskip("duckdb")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="the whole system is root's to sample"),
]
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="builds small C programs")

CPU_1 = Path("/sys/devices/system/cpu/cpu1/online")
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
HOUR_S = 3600
TICKS = ("expected", "recorded", "lost", "throttled", "idle", "missing")
BOOKS = (
    "SELECT sum(expected) AS expected, sum(recorded) AS recorded, sum(lost) AS lost,"
    " sum(throttled) AS throttled, sum(idle) AS idle, sum(missing) AS missing"
    " FROM coverage WHERE cpu >= 0"
)
SPIN = """
__attribute__((noinline)) void NAME(void)
{ for (volatile int i = 0; i < 1000000; i++); }
int main(void) { for (;;) NAME(); }
"""
STORM = """
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
    long count = 0;
    for (time_t end = time(0) + 2; time(0) < end; count++) {
        int pid = vfork();
        if (!pid) _exit(0);
        if (pid > 0) waitpid(pid, 0, 0);
    }
    printf("%ld\\n", count);
}
"""


def accounting(store):
    """Return the sums of the books; they balance within 1 %, and what a grid's ends may leave."""
    out = run("sql", BOOKS, "--store", str(store), "--format", "json").stdout
    (sums,) = json.loads(out)
    accounted = sum(value for name, value in sums.items() if name != "expected")
    assert abs(accounted - sums["expected"]) <= 0.01 * sums["expected"] + 16, sums
    return sums


def built(path, text):
    source = path.parent / f"{path.name}.c"
    source.write_text(text)
    subprocess.run(["gcc", "-O1", "-o", str(path), str(source)], check=True)
    return path


@pytest.mark.nightly
@pytest.mark.parallel
def test_a_daemon_that_stood_still_counts_what_it_lost(tmp_path):
    with RunningDaemon(tmp_path / "s", "-H", "4999", load=BUSY) as daemon:
        before = status(daemon)
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(8)  # its buffers hold some 4 s of samples
        shown = daemon.control("status").stdout.splitlines()
        assert shown[0].startswith("  no answer  since "), shown
        assert "the daemon is stopped; kill -CONT" in shown[0]
        daemon.process.send_signal(signal.SIGCONT)
        daemon.control("dump")
        time.sleep(1)
        daemon.control("dump")
        after = status(daemon)
        assert after["samples"] > before["samples"]
        assert after["windows_lost"] == 0
        assert daemon.end() == 0
    sums = accounting(tmp_path / "s")
    assert sums["lost"] >= after["lost"] > 0  # more may be lost behind the status
    # The load ran all the time: what is not there was lost, and is counted as that.
    assert sums["recorded"] + sums["lost"] + sums["throttled"] + sums["missing"] > 3 * 4000


@pytest.mark.parallel
def test_a_window_that_ends_long_after_its_buffers_were_read_counts_no_tick_twice(monkeypatch):
    real, sums = source._mark, []

    def late(*facts):
        time.sleep(0.3)
        return real(*facts)

    with running([sys.executable, "-c", BUSY]):
        monkeypatch.setattr(source, "_mark", late)
        with Sampling(DaemonOptions(frequency_hz=199, window_s=60.0)) as sampling:
            for _ in range(2):
                time.sleep(0.2)
                window, _ = sampling.take()
                table = window.tables["coverage"]
                is_clock = np.asarray(table["cpu"]) >= 0
                counts = {name: int(np.asarray(table[name])[is_clock].sum()) for name in TICKS}
                sums.append(counts)
    for counts in sums:
        accounted = sum(counts.values()) - counts["expected"]
        assert abs(accounted - counts["expected"]) <= 0.005 * counts["expected"] + 8, sums


@pytest.mark.skipif(not CPU_1.exists(), reason="this machine's CPUs cannot be taken off line")
@pytest.mark.nightly
def test_a_cpu_that_goes_and_comes_back_is_sampled_again(tmp_path):
    seen = []
    with RunningDaemon(tmp_path / "s", "--separate", "cpu", load=BUSY) as daemon:
        with running([sys.executable, "-c", BUSY]):
            try:
                for is_online in ("1", "0", "1"):
                    CPU_1.write_text(is_online)
                    daemon.ask("session", f"on{len(seen)}")
                    time.sleep(0.7)
                    daemon.ask("dump")
                    seen.append(is_online)
            finally:
                CPU_1.write_text("1")
        assert daemon.end() == 0
    hits = [
        read_store(str(tmp_path / "s"), [f"session:on{place}", "cpu:0-1"]).hits.count.sum()
        for place in range(3)
    ]
    assert min(hits) > 100
    for place in (0, 2):
        on_1 = read_store(str(tmp_path / "s"), [f"session:on{place}", "cpu:1"])
        assert on_1.hits.count.sum() > 50
    accounting(tmp_path / "s")


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("steps_s", "says"),
    [
        ((HOUR_S,), "Nothing was measured"),
        pytest.param((-HOUR_S,), "", marks=pytest.mark.nightly),
        pytest.param((HOUR_S, -HOUR_S), "", marks=pytest.mark.nightly),
        pytest.param(  # it slept: CLOCK_MONOTONIC stood still
            (8 * HOUR_S,), "Nothing was measured", marks=pytest.mark.nightly
        ),
    ],
)
def test_clocks_that_are_set_cost_no_window_and_count_none_twice(
    tmp_path, monkeypatch, steps_s, says
):
    real, offset_s, said, samples = time.time, [0.0], [], 0
    monkeypatch.setattr(time, "time", lambda: real() + offset_s[0])
    load = subprocess.Popen([sys.executable, "-c", HALF_BUSY])
    try:
        with (
            StoreDirectory(str(tmp_path / "s"), create=True) as store,
            Sampling(DaemonOptions(frequency_hz=199, window_s=60.0)) as sampling,
        ):
            store.lock()
            writing = StoreWriting(store, Keep(), said.append)
            for step_s in (0, *steps_s, 0):
                time.sleep(0.2)
                before_s = sampling.due_s()
                offset_s[0] += step_s  # within a window, as clocks are set
                assert abs(sampling.due_s() - before_s) < 5
                time.sleep(0.4)
                window, _ = sampling.take()
                samples += int(window.tables["samples"]["n"].sum())
                assert 0.5 < (window.span.end_us - window.span.begin_us) / 1e6 < 30
                writing.add(window)
                while writing.answer_fd >= 0:
                    select.select([writing.answer_fd], [], [], 60)
                    writing.finish()
    finally:
        load.kill()
        load.wait()
        writing.close()
    assert (writing.windows, said) == (2 + len(steps_s), [])
    found = read_store(str(tmp_path / "s"))
    assert found.hits.count.sum() == samples > 100
    assert any(says in limit for limit in found.run.limits)
    assert sum(by_function(found).values()) == samples


@needs_gcc
@pytest.mark.nightly
def test_ten_thousand_processes_a_second_do_not_fill_its_memory(tmp_path):
    storm = built(tmp_path / "storm", STORM)
    with RunningDaemon(tmp_path / "s", "--window", "1") as daemon:
        daemon.load.kill()
        many = [subprocess.Popen([str(storm)], stdout=subprocess.PIPE) for _ in range(2)]
        made = sum(int(one.communicate()[0]) for one in many)
        told = until(lambda: status(daemon), lambda said: said["windows"] >= 4)
        assert made > 3000  # in more than a second, whatever else runs here
        assert told["windows"] >= 4
        assert told["windows_lost"] == 0
        assert told["memory_bytes"] < 150e6
        assert daemon.end() == 0
    found = read_store(str(tmp_path / "s"), ["comm:storm"])
    assert found.hits.count.sum() > 100
    accounting(tmp_path / "s")


@pytest.mark.skipif(not LAST_PID.exists(), reason="this kernel lets nobody choose a pid")
def test_a_number_that_was_given_again_is_another_process(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for link in (first, second):
        shutil.copy(shutil.which("sh"), link)
    loop = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
    with RunningDaemon(tmp_path / "s", "--separate", "process", "--window", "600") as daemon:
        for _ in range(50):
            one = subprocess.Popen([str(first), "-c", loop])
            one.wait()
            LAST_PID.write_text(str(one.pid - 1))
            other = subprocess.Popen([str(second), "-c", loop])
            other.wait()
            if one.pid == other.pid:
                break
        assert one.pid == other.pid
        assert daemon.end() == 0
    found = read_store(str(tmp_path / "s"), [f"tgid:{one.pid}"])
    named = dict(zip(found.processes.name, found.processes.start_ns.tolist(), strict=True))
    assert named.keys() >= {"first", "second"}
    assert named["first"] < named["second"]


@pytest.mark.parallel
@needs_gcc
def test_a_program_that_is_replaced_while_it_runs_keeps_its_names(tmp_path):
    built(tmp_path / "old", SPIN.replace("NAME", "before_the_deploy"))
    built(tmp_path / "new", SPIN.replace("NAME", "after_the_deploy"))
    program = tmp_path / "service"
    (tmp_path / "old").rename(program)
    with RunningDaemon(tmp_path / "s", "--window", "2", "-H", "499") as daemon:
        daemon.load.kill()
        with running([program]) as first:
            time.sleep(0.3)
            (tmp_path / "new").rename(program)
            with running([program]) as second:
                # A window ends while both run: nobody has the file of one that has ended.
                assert daemon.control("dump").returncode == 0
                for pid in (first.pid, second.pid):
                    wait_for(lambda pid=pid: cpu_seconds(pid) > 0.4)
        assert daemon.end() == 0
    hits = {key[4]: count for key, count in by_function(read_store(str(tmp_path / "s"))).items()}
    assert hits["before_the_deploy"] > 100
    assert hits["after_the_deploy"] > 100


@pytest.mark.parallel
def test_a_service_that_comes_and_goes_is_still_known(tmp_path):
    roots = [
        Path(line.split()[1])
        for line in Path("/proc/mounts").read_text().splitlines()
        if line.split()[2] == "cgroup2"
    ]
    if not roots:
        pytest.skip("there is no hierarchy of version 2")
    group = roots[0] / "prospect-comes.service"
    script = f"echo $$ > {group}/cgroup.procs; ulimit -t 1; while :; do :; done"
    with RunningDaemon(tmp_path / "s", "--window", "2") as daemon:
        time.sleep(0.5)
        group.mkdir()
        try:
            if not (group / "cgroup.procs").exists():
                pytest.skip("control groups cannot be made here")
            subprocess.run(["sh", "-c", script], check=False)
        finally:
            with suppress(OSError):
                group.rmdir()
        assert not group.exists()
        assert daemon.end() == 0
    found = read_store(str(tmp_path / "s"), ["service:prospect-comes.service"])
    assert found.hits.count.sum() > 20  # of 199
    assert {"sh"} <= set(found.processes.name)
