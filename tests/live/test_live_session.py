"""A session that goes on: what it shows is what its saved recording says, and it leaves nothing."""

from __future__ import annotations

import gc
import os
import select
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import prospect
from builders.command_line import running
from builders.ended_main_thread import process_without_main_thread
from builders.examples import nightly
from builders.recordings import hits_by
from prospect.capture.events import event_choice
from prospect.errors import CaptureError, RecordingError
from prospect.estimate.finished_report import Report
from prospect.live.record_limiters import Bounds
from prospect.live.session import LiveSession
from prospect.perfdata.reader import open_recording
from prospect.profile.model import BIRTH_PREEXISTING
from prospect.recording.opened_events import RecordOptions
from prospect.records import replace

pytestmark = pytest.mark.live

CPU_1 = Path("/sys/devices/system/cpu/cpu1/online")
OPTIONS = RecordOptions(command=(), frequency_hz=400, call_graph="fp")
# Programs that begin, fork, exec and end: some for each line that it is given and repeats.
# However busy the machine is, each part of the session has as many.
LOAD = (
    "import subprocess, sys\n"
    "for line in sys.stdin:\n"
    "    for _ in range(6):\n"
    "        subprocess.run([sys.executable, '-c', 'sum(i * i for i in range(300000))'])\n"
    "    print(line, end='', flush=True)\n"
)
PARTS = 6


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """The states of a session, the recording that was saved right after, and its load's pid."""
    file = tmp_path_factory.mktemp("live") / "saved.data"
    session = LiveSession(OPTIONS)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with running([sys.executable, "-c", LOAD], **pipes) as load:
        states = []
        for _ in range(PARTS):
            load.stdin.write(b"\n")
            load.stdin.flush()
            assert load.stdout.readline() == b"\n"
            states.append(session.advance())
        sentence = session.save(str(file))
    session.close()
    return states, file, sentence, load.pid


def open_files():
    """What this process has open, as far as it is still there when one looks."""
    gc.collect()
    return {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.exists()}


@pytest.mark.parallel
def test_the_figures_are_those_of_the_saved_recording(watched):
    states, file, sentence, load = watched
    shown, saved = states[-1].profile, prospect.open(file, stacks=True)
    assert str(file) in sentence
    assert len(shown.samples) == len(saved.samples)
    assert shown.run.begin_ns == saved.run.begin_ns
    assert shown.run.end_ns == saved.run.end_ns
    columns = ("pid", "thread", "mode", "function", "object")
    # Of the load alone: files of other programs may be gone before the recording is read.
    children = shown.processes.pid[shown.processes.parent_pid == load].tolist()
    live, whole = (
        {key: hits for key, hits in hits_by(one, *columns).items() if key[0] in {load, *children}}
        for one in (prospect.Profile(**vars(shown)), saved)
    )
    assert sum(whole.values()) > 50
    # Sorted by time, a recording knows a process from its fork on; see `live.session`.
    differ = sum(abs(live.get(key, 0) - whole.get(key, 0)) for key in live.keys() | whole.keys())
    assert differ <= max(4, 0.01 * sum(whole.values()))
    births = shown.processes.birth[shown.processes.parent_pid == load]
    assert np.count_nonzero(births != BIRTH_PREEXISTING) > 5


@pytest.mark.parallel
def test_error_bars_shrink_as_it_runs(watched):
    def relative_error(state):
        view = Report(state.profile, "4")
        totals = view.events[0].estimates.totals
        return float(np.nansum(totals.half_width_s) / np.nansum(totals.seconds))

    states, *_ = watched
    assert len(states[-1].profile.clocks) == len(states[0].profile.clocks)
    # An error is estimated: that of a short part may be small by chance.
    first, second = np.reshape([relative_error(state) for state in states], (2, -1))
    assert second.mean() < first.mean()


@pytest.mark.parallel
def test_stacks_reach_from_the_kernel_to_the_program(watched):
    profile = watched[0][-1].profile
    assert profile.stacks is not None
    assert (profile.stacks.caller_index < np.arange(len(profile.stacks))).all()
    own = profile.stacks.location_index[profile.samples.stack_index]
    assert np.array_equal(own, profile.hits.location_index[profile.samples.hit_index])
    assert profile.stacks.depth.max() > 5


# Alone: what a sample costs cannot be measured on a machine with much else on it.
def test_its_cost_is_known():
    with closing(LiveSession(replace(OPTIONS, use_cache=False))) as session:
        session.advance()
        subprocess.run([sys.executable, "-c", "sum(i * i for i in range(3000000))"], check=True)
        state = session.advance()
    assert 0 < state.own_cpu_percent < 100
    assert 0 < state.sampling_cpu_percent < 50 * (os.cpu_count() or 1)
    assert state.kept_s == pytest.approx(state.profile.run.wall_seconds)


# Alone: of a few hundred samples of a machine with much else on it some are of nameless processes.
def test_only_the_latest_samples_are_remembered_and_clear_forgets_all(tmp_path):
    session = LiveSession(OPTIONS, bounds=Bounds(most_samples=200, spool_bytes=1 << 17))
    try:
        for _ in range(8):
            sum(i * i for i in range(1_000_000))
            time.sleep(0.1)
            state = session.advance()
        assert len(state.profile.samples) > 0
        assert state.profile.run.begin_ns > session.began_ns
        assert (state.profile.samples.time_ns >= state.profile.run.begin_ns - 10**6).all()
        session.save(str(tmp_path / "some"))
        saved = prospect.open(tmp_path / "some")
        assert saved.run.begin_ns > session.began_ns
        assert saved.run.damage == ()
        assert not [name for name in saved.processes.name if name.startswith(":")]
        session.clear()
        cleared = session.advance().profile.run
        assert cleared.begin_ns >= state.profile.run.end_ns
        session.save(str(tmp_path / "cleared"))
        assert prospect.open(tmp_path / "cleared").run.begin_ns == cleared.begin_ns
    finally:
        session.close()


@pytest.mark.nightly  # test_daemon_faults does the same to a daemon, which is such a session
@pytest.mark.skipif(not CPU_1.exists(), reason="this machine's CPUs cannot be taken off line")
def test_a_cpu_that_goes_and_comes_back_is_followed(tmp_path):
    """CPU 1 has samples before and after, and the figures still are those of what is saved."""
    session = LiveSession(OPTIONS)
    burn = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    loads = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(2)]
    counts = []
    try:
        for is_online in ("1", "0", "1", "1"):  # the first look at it follows it
            CPU_1.write_text(is_online)
            time.sleep(0.5)
            state = session.advance()
            counts.append(np.bincount(state.profile.samples.cpu, minlength=2).tolist())
        session.save(str(tmp_path / "saved"))
    finally:
        CPU_1.write_text("1")
        session.close()
        for load in loads:
            load.kill()
            load.wait()
    (_, there), (first, gone), _, (_, back) = counts
    assert 0 < there <= gone < back
    assert first > gone
    with open_recording(str(tmp_path / "saved")) as recording:
        changes = recording.info.extras["cpu_changes"]
    assert [change[1:] for change in changes] == [[1, "offline"], [1, "online"]]
    saved = prospect.open(tmp_path / "saved")
    assert np.bincount(saved.samples.cpu, minlength=2).tolist() == counts[-1]


@pytest.mark.parallel
@pytest.mark.parametrize("attaches", [True, *nightly(False)])
def test_a_process_whose_main_thread_has_ended_has_names(attaches):
    with process_without_main_thread(busy=True) as pid:
        session = LiveSession(replace(OPTIONS, pids=(pid,) if attaches else ()))
        time.sleep(0.6)
        profile = session.advance().profile
        session.close()
    is_of_it = profile.processes.pid.take(profile.hits.process_index) == pid
    function = profile.locations.function_index.take(profile.hits.location_index[is_of_it])
    names = [profile.functions.name[one] for one in function.tolist()]
    assert profile.hits.count[is_of_it].sum() > 20
    assert not any("no mapping" in name for name in names)


@pytest.mark.parallel
def test_a_session_leaves_no_thread_and_no_file_open():
    files, threads = open_files(), threading.active_count()
    session = LiveSession(OPTIONS)
    session.advance()
    session.close()
    del session  # the kernel's names are mapped as long as it is there
    assert open_files() <= files
    assert threading.active_count() == threads


@pytest.mark.parallel
def test_what_nobody_asks_for_fills_no_memory(monkeypatch):
    monkeypatch.setattr("prospect.live.record_limiters.RecordLimiter.most_bytes", 1 << 12)
    session = LiveSession(replace(OPTIONS, frequency_hz=4000))
    full = os.eventfd(1)  # as if a ring were half full, always
    try:
        session.advance()
        session._source._poll.register(full, select.POLLIN)
        end_s = time.monotonic() + 20
        while session._source._drained.size_bytes <= 1 << 12 and time.monotonic() < end_s:
            sum(i * i for i in range(100_000))
        most = session._source._drained.size_bytes
        sum(i * i for i in range(2_000_000))
        assert session._source._drained.size_bytes == most > 1 << 12
        assert len(session.advance().profile.samples) > 0
    finally:
        session.close()
        os.close(full)


@pytest.mark.parallel
def test_a_place_that_cannot_be_written_is_one_line_and_the_session_goes_on():
    session = LiveSession(OPTIONS)
    try:
        session.advance()
        with pytest.raises(RecordingError, match="no-such-directory"):
            session.save("/no-such-directory/file")
        assert session.advance().profile.run.wall_seconds > 0
    finally:
        session.close()


@pytest.mark.parallel
def test_who_may_not_sample_the_system_is_told_what_to_do(monkeypatch):
    scopes = event_choice._scopes()
    monkeypatch.setattr(event_choice, "_scopes", lambda: scopes[1:])
    before = open_files()
    with pytest.raises(CaptureError, match="perf_event_paranoid"):
        LiveSession(OPTIONS)
    assert open_files() <= before
