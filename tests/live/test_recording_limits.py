"""What the recorder does where it may not, cannot, or can no longer: less, and it says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import prospect
from builders.another_user import NOBODY, prospect_of_another_user
from builders.recordings import prospect_by_timer
from builders.waiting import wait_until_it_watches
from prospect.abi import constants as abi
from prospect.assembly.tables.clocks import clock_of_id, with_clock_periods
from prospect.errors import RecordingError, UsageError
from prospect.events.decode import decode
from prospect.perfdata.reader import open_recording
from prospect.recording.opened_events import RecordOptions
from prospect.recording.run import record

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("high_rates")]

BUSY = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"
# Another user may not be able to execute this interpreter.
SHELL_BUSY = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done"
SETTINGS = Path("/proc/sys/kernel")


def busy(seconds):
    return (sys.executable, "-c", BUSY.format(seconds))


def read(path):
    damage = []
    with open_recording(str(path)) as recording:
        clock = clock_of_id(recording.info)
        events = decode(recording.blocks(), recording.info.events, damage, clock)
        assert damage == []
        return recording.info, events


def record_to(path, *words, **options):
    with path.open("wb") as file:
        return record(RecordOptions(command=words, **options), file.fileno())


@contextmanager
def setting(name, value):
    before = (SETTINGS / name).read_text()
    (SETTINGS / name).write_text(str(value))
    try:
        yield
    finally:
        (SETTINGS / name).write_text(before)


# Users that all machines have may have locked memory booked on them that earlier versions left.
UNUSED_UID = 61_000 + os.getpid() % 4000


def as_nobody(path, *words, memlock=1 << 20, uid=NOBODY):
    """Record without privilege."""
    line = ["setpriv", f"--reuid={uid}", "--clear-groups", *prospect_of_another_user()]
    line = ["prlimit", f"--memlock={memlock}", *line]
    # Timers: a counter that is to stop at the kernel's door may overshoot it.
    line += ["record", "--no-python", "--clocks", "1", "-H", "1000", "-o", str(path), "--", *words]
    subprocess.run(line, check=True, timeout=60)
    return read(path)


@pytest.fixture
def open_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("open")
    for parent in (directory, *directory.parents[:2]):
        parent.chmod(0o777)
    return directory


@pytest.fixture(scope="module")
def whole(tmp_path_factory, high_rates):
    """A recording of all CPUs, both busy for half a second: its description, and its events."""
    file = tmp_path_factory.mktemp("whole") / "r"
    command = f"for i in 1 2; do {sys.executable} -c '{BUSY.format(0.5)}' & done; wait"
    record_to(file, "sh", "-c", command, frequency_hz=1000, clocks=4, python="never")
    return read(file)


@pytest.mark.parallel
def test_sees_every_process_with_privilege(whole):
    info, events = whole
    snapshot = events.tasks.pid[events.tasks.time_ns == 0]
    assert {1, 2, os.getpid()} <= set(snapshot.tolist())
    assert info.extras["processes"]["2"] == [0, 0, 0, 1]
    assert info.extras["scope"] == "system"
    assert not any("sampled" in limit for limit in info.extras["limits"])


@pytest.mark.parallel
def test_all_time_is_sampled_once_on_each_busy_cpu(whole):
    info, events = whole
    begin, end = info.extras["interval_ns"]
    time_ns = events.samples.time_ns
    assert begin <= time_ns.min()
    assert time_ns.max() <= end
    expected = (end - begin) * 1e-9 * len(info.extras["cpus"])
    # An idle CPU, and a guest whose CPU was taken away, deliver fewer; none delivers more.
    assert len(info.extras["clocks"]) == 4
    assert 0.5 * expected < events.samples.period.sum() * 1e-9 <= 1.01 * expected


@pytest.mark.parallel
def test_bank_of_clocks_is_one_event_with_all_ids(whole):
    info, events = whole
    (event,) = info.events
    clocks = info.extras["clocks"]
    assert sorted(event.ids) == sorted(number for clock in clocks for number in clock["ids"])
    periods = [clock["period_ns"] for clock in clocks]
    assert len(set(periods)) == 4
    # Samples carry no period: readers who know nothing of clocks add up that of all together.
    assert set(np.unique(events.samples.period).tolist()) == {event.attr.sample_period}
    events = with_clock_periods(events, info)
    assert set(np.unique(events.samples.period).tolist()) == set(periods)
    assert sum(1e9 / period for period in periods) == pytest.approx(1000, rel=1e-3)
    for clock in clocks:
        assert clock["cpus"] == info.extras["cpus"]
        # The period that is told is the one that the kernel follows.
        ids = events.samples.period[events.samples.cpu == 0]
        assert np.count_nonzero(ids == clock["period_ns"]) > 10
    assert {str(number) for number in event.ids} == set(info.extras["lost"])


def test_without_privilege_only_the_commands_user_time(open_directory):
    with setting("perf_event_paranoid", 2):
        info, events = as_nobody(open_directory / "r", "sh", "-c", SHELL_BUSY)
    assert info.extras["scope"] == "task"
    assert len(info.extras["limits"]) == 3
    assert len(events.samples) > 10
    assert set(events.samples.mode.tolist()) == {abi.PERF_RECORD_MISC_USER}
    pids = set((events.samples.task & 0xFFFFFFFF).tolist())
    assert pids == {info.extras["command_pid"]}


def test_without_privilege_what_the_command_starts_is_followed(open_directory):
    script = f"({SHELL_BUSY}) & wait; :"
    with setting("perf_event_paranoid", 2):
        info, events = as_nobody(open_directory / "r", "sh", "-c", script)
    pids = set((events.samples.task & 0xFFFFFFFF).tolist())
    assert pids - {info.extras["command_pid"]}


def test_paranoid_1_gives_the_commands_kernel_time(open_directory):
    with setting("perf_event_paranoid", 1):
        info, events = as_nobody(
            open_directory / "r", "dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=4000"
        )
    assert len(info.extras["limits"]) >= 1
    assert info.extras["scope"] == "task"
    assert abi.PERF_RECORD_MISC_KERNEL in events.samples.mode


def test_paranoid_minus_1_gives_the_system_to_everyone(open_directory):
    with setting("perf_event_paranoid", -1):
        info, _ = as_nobody(open_directory / "r", "true")
    assert info.extras["scope"] == "system"
    assert any("mappings" in limit for limit in info.extras["limits"])


def test_small_share_of_locked_memory_gives_small_rings(open_directory):
    with setting("perf_event_paranoid", 2), setting("perf_event_mlock_kb", 70):
        info, events = as_nobody(
            open_directory / "r", "sh", "-c", SHELL_BUSY, memlock=0, uid=UNUSED_UID
        )
    assert info.events[0].attr.wakeup < 256 * 1024
    assert len(events.samples) > 10


def test_recordings_take_no_locked_memory_for_good(open_directory):
    """What the kernel counts for a user has to be what it was, or others soon get no ring."""
    with setting("perf_event_paranoid", 2):
        for _ in range(6):
            as_nobody(open_directory / "r", "true", uid=UNUSED_UID)
        with setting("perf_event_mlock_kb", 70):
            as_nobody(open_directory / "r", "true", memlock=0, uid=UNUSED_UID)


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"frequency_hz": 0}, "at least 1 Hz"),
        ({"frequency_hz": 10**7}, "sysctl kernel.perf_event_max_sample_rate=10000000"),
        ({"flush_centiseconds": 0}, "at least 1/100 s"),
        ({"clocks": 5}, "1 to 4 clocks"),
        ({"periods_ns": (1_000_000, 999)}, "period of 999 ns"),
        ({"overhead_percent": 0.0}, "more than 0"),
        ({"overhead_percent": 1e-9}, "one sample a second takes"),
    ],
)
def test_what_cannot_be_is_refused_before_the_command_runs(tmp_path, options, says):
    with pytest.raises(UsageError, match=says):
        record_to(tmp_path / "r", "touch", str(tmp_path / "ran"), **options)
    assert not (tmp_path / "ran").exists()


# test_sample_accounting has the books of a stopped recorder each time.
@pytest.mark.nightly
def test_stopped_recorder_loses_samples_and_counts_them(tmp_path):
    rate_hz = 20_000
    line = [*prospect_by_timer(ring_bytes=1 << 18), "record", "-H", str(rate_hz), "--no-python"]
    line += ["--clocks=4", "-o"]
    child = subprocess.Popen([*line, str(tmp_path / "r"), *busy(2.5)])
    wait_until_it_watches(child.pid)
    time.sleep(0.3)
    child.send_signal(signal.SIGSTOP)
    time.sleep(1.0)  # the rings hold some tenths of a second
    child.send_signal(signal.SIGCONT)
    assert child.wait(30) == 0
    info, events = read(tmp_path / "r")
    lost = info.extras["lost"]
    assert sum(lost.values()) > 1000
    assert sum(lost.values()) == sum(info.extras["lost_by_cpu"].values())
    # The kernel's LOST records say the same, but for what it lost last.
    assert 0 < events.losses.count.sum() <= 1.01 * sum(lost.values())


@pytest.fixture
def small_disk(tmp_path):
    directory = tmp_path / "small"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], check=True)
    yield directory
    subprocess.run(["umount", directory], check=True)


# Alone: the processes of other tests fill the disk by themselves.
def test_full_disk_ends_the_recording_and_not_the_command(small_disk):
    words = ("sh", "-c", f"{sys.executable} -c '{BUSY.format(1.4)}'; exit 7")
    options = {"frequency_hz": 20_000, "clocks": 4, "flush_centiseconds": 10}
    result = record_to(small_disk / "r", *words, **options)
    assert result.exit_status == 7
    assert any("No space left" in limit for limit in result.limits)
    info, events = read(small_disk / "r")
    assert info.extras["limits"] == list(result.limits)
    begin, end = info.extras["interval_ns"]
    assert end - begin < 1.3e9
    assert len(events.samples) > 1000


@pytest.mark.parallel
def test_disk_without_any_room_is_an_error_before_the_command(small_disk):
    (small_disk / "r").touch()
    with suppress(OSError):
        (small_disk / "filler").write_bytes(bytes(2 << 20))
    with pytest.raises(RecordingError, match="No space left"):
        record_to(small_disk / "r", "touch", str(small_disk.parent / "ran"))
    assert not (small_disk.parent / "ran").exists()


@pytest.mark.parallel
def test_a_recording_outlives_a_report_that_cannot_be_written(tmp_path):
    """The directory of the report goes away while the command runs."""
    (tmp_path / "reports").mkdir()
    report = tmp_path / "reports" / "r"
    line = [sys.executable, "-m", "prospect", "-f", report, "rmdir", tmp_path / "reports"]
    done = subprocess.run(
        line,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode != 0
    assert "cannot write the report" in done.stderr
    (kept,) = tmp_path.glob("prospect-*.data")
    assert f"the recording is kept: prospect report {kept}" in done.stderr
    assert prospect.open(kept).run.command[0] == "rmdir"
