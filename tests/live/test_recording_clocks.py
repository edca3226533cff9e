"""The clocks of a recording: their grids, their phases, CPUs that go and come, counters' rates."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from builders.examples import nightly
from builders.waiting import wait_until_it_watches
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.assembly.tables.clocks import clock_of_id
from prospect.capture.events.clock_bank import clock_periods_ns
from prospect.capture.events.event_choice import CLOCK_HARDWARE, choose_events
from prospect.capture.events.sample_cost import measure_sample_cost
from prospect.capture.kernel import perf_syscalls
from prospect.events.decode import decode
from prospect.perfdata.reader import open_recording
from prospect.recording.opened_events import RecordOptions
from prospect.recording.run import record

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("high_rates")]

# Each CPU is kept busy: an idle one delivers fewer ticks.
SPIN = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def busy(seconds):
    spin = f"'{sys.executable}' -c '{SPIN.format(seconds)}'"
    return "sh", "-c", f"for cpu in $(seq {os.cpu_count()}); do {spin} & done; wait"


def record_to(path, *words, **options):
    with path.open("wb") as file:
        record(RecordOptions(command=words, **options), file.fileno())
    return read(path)


def read(path):
    damage = []
    with open_recording(str(path)) as recording:
        info = recording.info
        events = decode(recording.blocks(), info.events, damage, clock_of_id(info))
        assert damage == []
        return info.extras, events


def phases(samples, clock, cpu, period_ns):
    """Return where in its period a clock's grid lies on a CPU, and its ticks."""
    rows = (samples.clock == clock) & (samples.cpu == cpu)
    phase = samples.time_ns[rows] % np.uint64(period_ns)
    # A tick is never early; one that was held up is late, so the earliest tenth tells the grid.
    angle = np.angle(np.exp(2j * np.pi * phase / period_ns).mean())
    around = (phase / period_ns - angle / (2 * np.pi) + 0.5) % 1.0
    return (np.quantile(around, 0.1) - 0.5 + angle / (2 * np.pi)) % 1.0, int(rows.sum())


@pytest.mark.parametrize("clocks", [1, *nightly(2), 4])
def test_every_clock_keeps_its_grid_on_every_cpu(tmp_path, clocks):
    extras, events = record_to(tmp_path / "r", *busy(0.4), frequency_hz=800, clocks=clocks)
    assert extras["clock"] == "cpu-clock"
    assert len(extras["clocks"]) == clocks
    assert bool(any("--clocks 1" in limit for limit in extras["limits"])) == (clocks == 1)
    begin, end = extras["interval_ns"]
    for position, clock in enumerate(extras["clocks"]):
        for cpu in extras["cpus"]:
            period_ns = clock["period_ns"]
            phase, ticks = phases(events.samples, position, cpu, period_ns)
            assert 0.3 < ticks * period_ns / (end - begin) < 1.01
            rows = (events.samples.clock == position) & (events.samples.cpu == cpu)
            late = (events.samples.time_ns[rows] / period_ns - phase + 0.02) % 1.0
            assert np.quantile(late, 0.8) < 0.2


def test_two_clocks_of_one_period_are_half_a_period_apart(tmp_path):
    period_ns = 2_000_000
    apart = []
    for attempt in range(5):  # whoever is kept waiting between the two starts them further apart
        path = tmp_path / f"r{attempt}"
        extras, events = record_to(path, *busy(0.15), periods_ns=(period_ns, period_ns))
        assert extras["frequency_hz"] == 1000
        assert [clock["period_ns"] for clock in extras["clocks"]] == [period_ns, period_ns]
        for cpu in extras["cpus"]:
            first, _ = phases(events.samples, 0, cpu, period_ns)
            second, _ = phases(events.samples, 1, cpu, period_ns)
            apart.append((second - first) % 1.0)
    assert 0.3 < np.median(apart) < 0.7


@pytest.mark.parametrize("rate_hz", [*nightly(1), 20_000])
def test_slow_and_fast_banks_work(tmp_path, rate_hz):
    extras, events = record_to(
        tmp_path / "r", sys.executable, "-c", SPIN.format(0.3), frequency_hz=rate_hz, clocks=4
    )
    begin, end = extras["interval_ns"]
    most = sum(1e9 / clock["period_ns"] for clock in extras["clocks"]) * len(extras["cpus"])
    taken = len(events.samples)
    assert taken <= most * (end - begin) * 1e-9 + 4 * len(extras["cpus"])
    assert taken > 1000 or rate_hz == 1


def test_kernel_samples_have_the_kernels_chain_and_user_samples_an_empty_one(tmp_path):
    script = "import os\nfor i in range(100000): os.stat('/')"
    _, events = record_to(tmp_path / "r", sys.executable, "-c", script, frequency_hz=4000, clocks=4)
    samples = events.samples
    lengths = np.diff(samples.chain_start)
    in_kernel = samples.mode == abi.PERF_RECORD_MISC_KERNEL
    in_user = samples.mode == abi.PERF_RECORD_MISC_USER
    assert in_kernel.sum() > 50
    assert in_user.sum() > 50
    assert (lengths[in_user] == 0).all()
    assert np.median(lengths[in_kernel]) >= 4


def test_counter_takes_another_rate_while_it_runs():
    """On any event that the kernel keeps at a rate by itself; a timer would not."""
    attr = EventAttr(
        config=abi.PERF_COUNT_SW_PAGE_FAULTS,
        sample_period=1000,
        sample_type=abi.PERF_SAMPLE_IP,
        flags=abi.FLAG_FREQ | abi.FLAG_DISABLED,
    )
    fd = perf_syscalls.perf_event_open(attr.pack(), -1, 0)
    try:
        perf_syscalls.enable_event(fd)
        perf_syscalls.set_period(fd, 1234)
        with pytest.raises(OSError, match="Invalid argument"):
            perf_syscalls.set_period(fd, 1 << 40)
    finally:
        os.close(fd)


def has_counter():
    try:
        plan = choose_events(100, clock_periods_ns(100, 1), os.getpid(), 0)
    except Exception:  # noqa: BLE001 - no events at all: the live tests are not for this machine
        return False
    return plan.clock == CLOCK_HARDWARE


@pytest.mark.skipif(not has_counter(), reason="this machine has no hardware counter")
def test_rate_of_a_hardware_counter_moves_around_the_one_asked_for(tmp_path):
    extras, events = record_to(tmp_path / "r", *busy(2.0), frequency_hz=500, clocks=0)
    assert extras["clock"] == "cycles"
    samples = events.samples
    begin, end = extras["interval_ns"]
    for cpu in extras["cpus"]:
        at = np.sort(samples.time_ns[samples.cpu == cpu])
        counts, _ = np.histogram(at, bins=np.arange(begin, end, 200_000_000, np.uint64))
        # A steady rate of 500 Hz would give 100 in each fifth of a second, and a few off.
        assert counts[2:-1].std() > 8
        assert 60 < counts[2:-1].mean() < 140


def test_cost_of_a_sample_is_measured_and_told(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    tries = (record_to(tmp_path / "r", "true", clocks=4)[0] for _ in range(5))
    # A machine that is busy with much else may leave nothing certain.
    extras = next(extras for extras in tries if "sample_cost_ns" in extras)
    # Microseconds: an interrupt of a timer, in a virtual machine a few more.
    assert 100 < extras["sample_cost_ns"] < 200_000
    assert extras["sample_cost_spread_ns"] >= 0
    assert 100 < extras["kernel_sample_cost_ns"] < 400_000


def test_measuring_the_cost_leaves_the_thread_where_it_was():
    plan = choose_events(100, clock_periods_ns(100, 4), os.getpid(), 0, allow_hardware=False)
    affinity = os.sched_getaffinity(0)
    begin_s = time.thread_time()
    measure_sample_cost(plan)
    assert time.thread_time() - begin_s < 0.2
    assert os.sched_getaffinity(0) == affinity


def test_overhead_chooses_the_rate(tmp_path):
    few, _ = record_to(tmp_path / "r", "true", clocks=4, overhead_percent=0.2)
    many, _ = record_to(tmp_path / "r", "true", clocks=4, overhead_percent=2.0)
    assert 1 <= few["frequency_hz"] < many["frequency_hz"]
    for extras in (few, many):
        total = sum(1e9 / clock["period_ns"] for clock in extras["clocks"])
        assert total == pytest.approx(extras["frequency_hz"], rel=1e-3)


ONLINE = Path("/sys/devices/system/cpu/cpu1/online")
needs_hotplug = pytest.mark.skipif(
    not ONLINE.exists(), reason="this machine's CPUs cannot be taken off line"
)


def record_with_cpu_1_away(path, *options):
    """Record 1.3 busy seconds; CPU 1 is away for a third of a second of them.

    Returns:
        When it went and came by the recording, [from, to] of when it did, and its samples' times.
    """
    line = [sys.executable, "-m", "prospect", "record", "-H", "1000", "--clocks", "4", *options]
    child = subprocess.Popen([*line, "-o", str(path), *busy(1.3)])
    moments = []
    try:
        wait_until_it_watches(child.pid)
        time.sleep(0.2)
        moments.append(time.monotonic_ns())
        ONLINE.write_text("0")
        moments.append(time.monotonic_ns())
        time.sleep(0.3)
    finally:
        moments.append(time.monotonic_ns())
        ONLINE.write_text("1")
        moments.append(time.monotonic_ns())
    assert child.wait(10) == 0
    extras, events = read(path)
    changes = [(cpu, what) for _, cpu, what in extras["cpu_changes"]]
    assert changes == [(1, "offline"), (1, "online")]
    for clock in extras["clocks"]:
        assert sorted(clock["cpus"]) == sorted([*extras["cpus"], 1])
        assert len(clock["ids"]) == len(clock["cpus"])
    offline_ns, online_ns = (time_ns for time_ns, _, _ in extras["cpu_changes"])
    on_cpu_1 = events.samples.time_ns[events.samples.cpu == 1].astype(np.int64)
    assert not ((on_cpu_1 > offline_ns) & (on_cpu_1 < online_ns)).any()
    # Busy until the kernel began to empty it: taking its events away is among the last steps.
    assert moments[0] - on_cpu_1[on_cpu_1 <= offline_ns].max() < 100_000_000
    return (offline_ns, online_ns), moments, on_cpu_1


@needs_hotplug
def test_cpu_that_goes_and_comes_back_is_followed(tmp_path):
    changes_ns, moments, on_cpu_1 = record_with_cpu_1_away(tmp_path / "r", "-M", "10")
    assert moments[0] <= changes_ns[0] <= changes_ns[1]
    assert moments[2] <= changes_ns[1]
    assert len(on_cpu_1) > 300
    assert (on_cpu_1 > changes_ns[1]).any()


@pytest.mark.nightly  # the other way to notice it: the test above, each time
@needs_hotplug
def test_cpu_that_was_away_between_two_looks_is_noticed_too(tmp_path):
    changes_ns, moments, _ = record_with_cpu_1_away(tmp_path / "r", "-M", "120")
    assert moments[0] <= changes_ns[0] <= changes_ns[1]
    # Its events can be opened again only once somebody looks.
    assert moments[2] < changes_ns[1]
