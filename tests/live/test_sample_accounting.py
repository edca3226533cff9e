"""The books of real runs: every tick of every CPU is accounted for, whatever the machine does.

Other load of the machine may be there; it makes no difference to whether books balance.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import prospect
from builders.another_user import WHO, prospect_of_another_user
from builders.command_line import running
from builders.examples import nightly
from builders.recordings import prospect_by_timer
from builders.waiting import wait_until_it_watches
from prospect.estimate.accounting.sample_accounting import sample_accounting
from prospect.estimate.finished_report import Report

pytestmark = pytest.mark.live

ONLINE = Path("/sys/devices/system/cpu/cpu1/online")
MOST_SAMPLES = Path("/proc/sys/kernel/perf_event_max_sample_rate")
MOST_PERCENT = Path("/proc/sys/kernel/perf_cpu_time_max_percent")
BURN = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"
# Where little memory may be locked, rings are as small; they are full after a quarter of a second.
SMALL_RING_BYTES = 64 * 1024
LARGEST_ERROR = 0.01


def recorder(file, *words, rate_hz=1500, ring_bytes=None):
    line = [*prospect_by_timer(ring_bytes), "record", "-H", str(rate_hz), "-o", str(file)]
    return subprocess.Popen([*line, "--", *words], stdin=subprocess.DEVNULL)


def profile_of(file, *words):
    assert recorder(file, *words).wait(60) == 0
    return prospect.open(file)


def burners(count, seconds):
    """Return a command that keeps so many processes busy."""
    one = f"'{sys.executable}' -c '{BURN.format(seconds)}'"
    return "bash", "-c", f"for i in $(seq {count}); do {one} & done; wait"


def sample_accounting_of(profile):
    """Return the accounting of a recording and assert that it balances."""
    accounting = sample_accounting(profile)
    counts = accounting.by_cpu
    assert accounting.unclocked == 0
    assert (counts.expected > 0).all()
    assert (np.abs(counts.closure_share) < LARGEST_ERROR).all(), counts
    return accounting


def accounted(profile):
    (event,) = Report(profile).events
    return {row.name: row for row in event.accounting}


def test_books_of_a_recorder_in_a_time_namespace_balance(tmp_path):
    enter = ["unshare", "--time", "--fork", "--monotonic", "864000"]
    if subprocess.run([*enter, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no time namespaces here")
    line = [*enter, *prospect_by_timer(), "record", "-H", "999", "-o", str(tmp_path / "r")]
    subprocess.run([*line, "sleep", "0.3"], check=True, timeout=60, stdin=subprocess.DEVNULL)
    profile = prospect.open(tmp_path / "r")
    counts = sample_accounting_of(profile).by_cpu
    assert counts.busy.sum() < 0.5 * counts.expected.sum()
    assert profile.samples.time_ns.min() >= profile.run.begin_ns
    assert abs(profile.run.started_at - time.time()) < 100


def test_books_of_an_idle_machine_balance(tmp_path):
    profile = profile_of(tmp_path / "r", "sleep", "0.5")
    accounting = sample_accounting_of(profile)
    idle = accounted(profile)["Idle (process zero)"]
    assert idle.sampled_s == pytest.approx(idle.accounted_s, abs=0.02 * 3 + 0.05)
    assert accounting.by_cpu.lost.sum() == 0


@pytest.mark.parallel
def test_books_of_a_busy_machine_balance(tmp_path):
    profile = profile_of(tmp_path / "r", *burners(os.cpu_count(), 0.6))
    counts = sample_accounting_of(profile).by_cpu
    assert (counts.recorded > 0.5 * counts.expected).all()


def test_books_balance_where_periods_are_of_some_ten_microseconds(tmp_path):
    # One on each CPU: the scheduler would put both on one while the other serves timers.
    busy = f"taskset -c $i '{sys.executable}' -c '{BURN.format(0.5)}'"
    cpus = " ".join(map(str, sorted(os.sched_getaffinity(0))))
    command = "bash", "-c", f"for i in {cpus}; do {busy} & done; wait"
    rate_hz = min(100_000, int(MOST_SAMPLES.read_text()))
    found = []
    # A host that takes the CPU meanwhile makes time that is neither used nor idle: the quietest of
    # a few recordings tells.
    while not found or (len(found) < 5 and found[-1].accounted_steal_s.sum() > 0.03):
        assert recorder(tmp_path / "r", *command, rate_hz=rate_hz).wait(60) == 0
        found.append(sample_accounting_of(prospect.open(tmp_path / "r")))
    accounting = min(found, key=lambda one: one.accounted_steal_s.sum())
    # No more of it is idle than the kernel says, in hundredths of a second.
    most_s = accounting.accounted_idle_s + 0.02
    assert (accounting.idle_s <= most_s).all(), (accounting.idle_s, most_s)
    counts = accounting.by_cpu
    # At such a rate the kernel may stop the timers, and a reader that is late loses samples. One
    # CPU may be idle while the other, which serves the recorder, still works.
    found = counts.recorded + counts.throttled + counts.lost
    assert (found > 0.5 * (counts.expected - counts.idle)).all(), counts


@pytest.mark.parallel
def test_books_of_an_overloaded_machine_balance(tmp_path):
    profile = profile_of(tmp_path / "r", *burners(4 * os.cpu_count(), 0.6))
    sample_accounting_of(profile)
    assert accounted(profile)["COMMAND and descendants, together"].agrees


@pytest.mark.skipif(not shutil.which("chrt"), reason="needs util-linux")
@pytest.mark.parametrize("cpus", [*nightly("0"), "0-1023"], ids=["one", "all"])
def test_books_balance_beside_a_real_time_load_that_leaves_the_recorder_no_cpu(tmp_path, cpus):
    """SCHED_FIFO runs before the recorder; the kernel's own limit leaves others 5 % of a CPU."""
    count = 1 if cpus == "0" else os.cpu_count()
    load = ["taskset", "-c", cpus, "chrt", "-f", "50", *burners(count, 1.0)]
    if subprocess.run([*load[:6], "true"], check=False, capture_output=True).returncode:
        pytest.skip("no real-time scheduling here")
    began_s = time.monotonic()
    child = recorder(tmp_path / "r", *load, rate_hz=4000, ring_bytes=SMALL_RING_BYTES)
    assert child.wait(60) == 0
    assert time.monotonic() - began_s < 30
    profile = prospect.open(tmp_path / "r")
    counts = sample_accounting_of(profile).by_cpu
    assert (counts.recorded + counts.lost > 0.5 * counts.expected)[:count].all()
    assert int(counts.lost.sum()) <= int(profile.clocks.lost.sum())


@pytest.mark.skipif(not shutil.which("perf"), reason="perf is not installed")
def test_books_balance_beside_perf_that_samples_the_same_cpus(tmp_path):
    beside = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", "4000", "-o", tmp_path / "p"]
    with running(beside, stderr=subprocess.DEVNULL) as perf:
        wait_until_it_watches(perf.pid)
        counts = sample_accounting_of(
            profile_of(tmp_path / "r", *burners(os.cpu_count(), 0.5))
        ).by_cpu
        assert perf.poll() is None
        perf.terminate()
    assert (counts.recorded + counts.lost > 0.5 * counts.expected).all()


@pytest.mark.parallel
def test_books_of_a_machine_that_only_forks_balance(tmp_path):
    loop = "for n in $(seq 300); do /bin/true; done"
    profile = profile_of(tmp_path / "r", "bash", "-c", f"for i in 1 2 3; do ({loop}) & done; wait")
    sample_accounting_of(profile)


@pytest.mark.parallel
def test_losses_of_a_stopped_reader_are_counted_and_the_books_balance(tmp_path):
    child = recorder(
        tmp_path / "r", *burners(os.cpu_count(), 1.2), rate_hz=4000, ring_bytes=SMALL_RING_BYTES
    )
    wait_until_it_watches(child.pid)
    time.sleep(0.2)
    child.send_signal(signal.SIGSTOP)
    time.sleep(0.7)
    child.send_signal(signal.SIGCONT)
    assert child.wait(30) == 0
    profile = prospect.open(tmp_path / "r")
    counts = sample_accounting_of(profile).by_cpu
    assert (counts.lost > 500).all()
    assert int(counts.lost.sum()) <= int(profile.clocks.lost.sum())
    # What is not lost is there or missing; a machine as busy as this one misses little.
    assert (counts.recorded + counts.lost > 0.5 * counts.expected).all()


@pytest.mark.nightly  # test_daemon_faults does the same to a daemon's books each time
@pytest.mark.skipif(not ONLINE.exists(), reason="this machine's CPUs cannot be taken off line")
def test_books_balance_with_a_cpu_off_line_for_a_while(tmp_path):
    child = recorder(tmp_path / "r", *burners(os.cpu_count(), 1.4))
    try:
        wait_until_it_watches(child.pid)
        time.sleep(0.2)
        ONLINE.write_text("0")
        time.sleep(0.3)
    finally:
        ONLINE.write_text("1")
    assert child.wait(30) == 0
    profile = prospect.open(tmp_path / "r")
    accounting = sample_accounting_of(profile)
    there, gone = accounting.by_cpu.expected.tolist()
    assert gone < 0.95 * there
    assert (profile.clocks.cpu == 1).sum() == 2 * (profile.clocks.cpu == 0).sum()


def test_throttled_clocks_are_told_from_missing_ticks(tmp_path):
    rate, percent = MOST_SAMPLES.read_text(), MOST_PERCENT.read_text()
    child = recorder(tmp_path / "r", *burners(os.cpu_count(), 0.8))
    try:
        wait_until_it_watches(child.pid)
        time.sleep(0.2)
        MOST_PERCENT.write_text("25")  # with 0 and 100 the kernel takes no rate
        MOST_SAMPLES.write_text("250")  # one sample a tick is too much, now
        time.sleep(0.3)
    finally:
        MOST_SAMPLES.write_text(rate)
        MOST_PERCENT.write_text(percent)
    assert child.wait(30) == 0
    profile = prospect.open(tmp_path / "r")
    counts = sample_accounting_of(profile).by_cpu
    assert len(profile.clock_stops) > 0
    assert counts.throttled.sum() > 0


@pytest.mark.parallel
def test_hardware_counter_or_task_clock_has_no_sample_accounting_and_says_so(tmp_path):
    line = [*prospect_of_another_user(), "record", "-o", str(tmp_path / "r"), "true"]
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:3]:  # a worker's own directory is one of them
        if parent.name.startswith(("pytest", "popen")):
            parent.chmod(0o755)
    subprocess.run(line, check=True, timeout=60, **WHO)
    profile = prospect.open(tmp_path / "r")
    assert not profile.run.system_wide
    assert "missing ticks are unknown" in profile.report()
