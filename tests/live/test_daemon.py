"""The daemon on the running kernel: what it stores, how it is told things, and how it ends."""

from __future__ import annotations

import csv
import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

import prospect
from builders.command_line import run, run_here, running
from builders.daemon import RunningDaemon, children_of, status, until
from builders.stored import Writer, by_function
from prospect.api.store_part import read_store
from prospect.daemon.daemon_rights import KEPT
from prospect.errors import StoreError
from prospect.live.session import LiveSession
from prospect.profile.naming import NameSource
from prospect.recording.opened_events import RecordOptions
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine
from prospect.store.windows import Span, window_of

pytest.importorskip("duckdb")
pytestmark = pytest.mark.live

WINDOWS = 3
LOAD = (
    "import subprocess, sys\n"
    "while True:\n"
    "    subprocess.run([sys.executable, '-c', 'sum(i * i for i in range(300000))'])\n"
)


def reported(*words):
    """Return the hits of each function in a whole report."""
    out = run_here("report", *words, "-V4", "-m", "0", "-k", "0", "--format", "csv").stdout
    hits = Counter()
    for row in csv.DictReader(out.decode().splitlines()):
        hits[row["function"], row["object"], row["mode"]] += int(row["samples"])
    return hits


def test_a_store_and_a_recording_of_one_span_have_the_same_hits_by_function(tmp_path):
    session = LiveSession(RecordOptions(frequency_hz=400, call_graph="fp"))
    with (
        StoreDirectory(str(tmp_path / "s"), create=True) as store,
        running([sys.executable, "-c", LOAD]),
    ):
        store.lock()
        engine = Engine(store)
        writer = Writer(store, engine)
        samples, at_us = 0, 1_795_356_300 * 10**6
        for _ in range(WINDOWS):
            time.sleep(0.4)
            profile = session.take().profile
            samples += len(profile.samples)
            writer.add(window_of(profile, Span(at_us, at_us + 10**6)))
            at_us += 10**6
        session.save(str(tmp_path / "saved"))
        session.close()
        engine.close()
    stored = read_store(str(tmp_path / "s"), stacks=True)
    saved = prospect.open(tmp_path / "saved", stacks=True)
    assert int(stored.hits.count.sum()) == samples == len(saved.samples)
    theirs, ours = by_function(saved), by_function(stored)
    # Sorted by time, a recording knows a process from its fork on; see `live.session`.
    differ = sum(abs(ours[key] - theirs[key]) for key in ours.keys() | theirs.keys())
    assert differ <= max(4, 0.01 * samples)
    assert int(stored.hits.period.sum()) == int(saved.hits.period.sum())
    # Whichever process it was, the function is the same: by function the two reports are equal.
    of_store = reported("--store", str(tmp_path / "s"))
    assert of_store == reported(str(tmp_path / "saved"))
    assert sum(of_store.values()) == samples
    assert stored.stacks.depth.max() > 5


def check_rights(daemon):
    """Check that it, and all that works for it, has kept the rights that it needs and no other."""
    pids = [daemon.process.pid, *children_of(daemon.process.pid)]
    assert len(pids) > 1  # what finds Python's frames
    wanted = sum(1 << number for number in KEPT.values())
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            said = dict(line.split(":\t") for line in (task / "status").read_text().splitlines())
            for which in ("CapPrm", "CapEff", "CapBnd"):
                assert int(said[which], 16) & ~wanted == 0, (which, said[which])
            assert int(said["CapEff"], 16) & 1 << KEPT["CAP_PERFMON"]
            assert said["NoNewPrivs"] == "1"


@pytest.mark.parallel
def test_it_samples_all_with_few_rights_until_it_is_told_to_end_and_writes_the_last_window(
    tmp_path,
):
    with RunningDaemon(tmp_path / "s") as daemon:
        daemon.ask("dump")
        first = status(daemon)
        time.sleep(0.8)
        check_rights(daemon)
        assert daemon.end() == 0
        assert daemon.said().startswith("prospect: sampling into")
    stored = read_store(str(tmp_path / "s"))
    assert first["windows"] >= 1
    assert 0 < first["samples"] < stored.hits.count.sum()
    assert first["lost"] == 0
    assert first["memory_bytes"] < 150e6
    assert not (tmp_path / "s" / "control").exists()
    # The load and the daemon have one name, and are two rows.
    names = [stored.processes.name[row] for row in stored.hits.process_index.tolist()]
    interpreter = Path(sys.executable).name
    assert sum(stored.hits.count[[name == interpreter for name in names]]) > 50
    # With the rights that are left it sees everything.
    assert any(name.startswith("<genexpr>") for name in stored.functions.name)
    assert int(NameSource.KALLSYMS) in stored.functions.source.tolist()
    for file in (tmp_path / "s").rglob("*"):
        assert not file.stat().st_mode & 0o077, file


@pytest.mark.parallel
def test_control_stops_starts_forgets_and_begins_sessions(tmp_path):
    with RunningDaemon(tmp_path / "s") as daemon:
        assert "sampling   199 Hz" in daemon.control("session", "before").stdout
        assert daemon.control("stop").returncode == 0
        stopped = status(daemon)
        assert not stopped["sampling"]
        time.sleep(0.3)
        assert status(daemon)["samples"] == stopped["samples"]
        assert daemon.control("start").returncode == 0
        time.sleep(0.4)
        daemon.ask("dump")
        assert status(daemon)["samples"] > stopped["samples"]
        assert read_store(str(tmp_path / "s"), ["session:before"]).hits.count.sum() > 0
        assert "removed" in daemon.control("reset").stdout
        refused = daemon.control("session", "../x")
        assert refused.returncode == 1
        assert "at most 32 letters" in refused.stderr
        unnamed = daemon.control("session")
        assert unnamed.returncode == 2
        assert "prospect control session NAME" in unnamed.stderr
        assert daemon.end(signal.SIGINT) == 0
        assert "SIGINT: the daemon writes the last window, and ends" in daemon.said()
    assert read_store(str(tmp_path / "s"), ["session:current"]).hits.count.sum() > 0


@pytest.mark.parallel
def test_after_a_kill_nothing_counts_twice_and_the_next_goes_on(tmp_path):
    with RunningDaemon(tmp_path / "s") as daemon:
        daemon.ask("dump")
        daemon.process.kill()
        daemon.process.wait()
        before = read_store(str(tmp_path / "s")).hits.count.sum()
        assert "no daemon writes" in daemon.control("status").stderr
        with RunningDaemon(tmp_path / "s") as again:
            other = subprocess.run(
                [sys.executable, "-m", "prospect", "daemon", "--store", str(tmp_path / "s")],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert other.returncode == 1
            assert "another process writes to this store" in other.stderr
            again.ask("dump")
            assert read_store(str(tmp_path / "s")).hits.count.sum() > before
            numbers = [one.first for one in StoreDirectory(str(tmp_path / "s")).segments()]
            assert len(set(numbers)) == len(numbers)


@pytest.mark.parallel
def test_settings_are_read_again(tmp_path):
    with RunningDaemon(tmp_path / "s") as daemon:
        daemon.ask("dump")
        options = tmp_path / "s" / "options"
        options.touch(0o600)
        options.write_text("-H 47 --separate process  # finer\n")
        daemon.process.send_signal(signal.SIGHUP)
        for _ in range(100):
            if status(daemon)["frequency_hz"] == 47:
                break
            time.sleep(0.1)
        assert status(daemon)["separate"] == ["process"]
        options.write_text("--nonsense\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.ask("dump")
        assert status(daemon)["frequency_hz"] == 47
        assert "the settings are as they were" in daemon.said()
        found = set()
        for _ in range(20):  # on a busy machine it may have no turn within a window
            time.sleep(0.2)
            daemon.ask("dump")
            with suppress(StoreError):  # nothing matches yet
                part = read_store(str(tmp_path / "s"), [f"tgid:{daemon.load.pid}"])
                found = set(part.processes.pid.tolist())
                break
        assert found == {daemon.load.pid}


@pytest.mark.parallel
def test_new_settings_cost_no_sample_of_the_window_under_way_and_metrics_follow(tmp_path):
    metrics = tmp_path / "prospect.prom"
    with RunningDaemon(tmp_path / "s", "--window", "3600", "--metrics", str(metrics)) as daemon:
        time.sleep(2)
        assert "prospect_samples_total{" in metrics.read_text()
        (tmp_path / "s" / "options").touch(0o600)
        with socket.create_server(("127.0.0.1", 0)) as free:
            page = f"http://127.0.0.1:{free.getsockname()[1]}"
        (tmp_path / "s" / "options").write_text(f"--separate process --metrics {page}\n")
        daemon.process.send_signal(signal.SIGHUP)
        for _ in range(600):
            told = status(daemon)
            if told["windows"] == 1:
                break
            time.sleep(0.1)
        assert told["separate"] == ["process"]
        with urlopen(f"{page}/metrics") as answer:
            assert f'\nprospect_samples_total{{store="{tmp_path}/s"}} {told["samples"]}\n' in (
                answer.read().decode()
            )
        assert daemon.end() == 0
    with StoreDirectory(str(tmp_path / "s")) as store:
        before, after = sorted(store.segments())
    # The window that was under way is in the store, and the next one begins where it ended.
    assert told["samples"] > 199
    assert after.begin_s - before.end_s <= 5
    assert after.first == before.last + 1
    assert after.begin_s >= before.end_s - 1  # whole seconds around each
    kept = int(read_store(str(tmp_path / "s")).hits.count.sum())
    assert kept >= told["samples"]


@pytest.mark.parallel
@pytest.mark.nightly  # test_daemon_store_faults removes it each day
def test_a_store_that_is_removed_ends_it(tmp_path):
    with RunningDaemon(tmp_path / "s", "--window", "2") as daemon:
        (tmp_path / "s").rename(tmp_path / "moved")
        assert daemon.process.wait(60) == 1
        assert "removed or replaced" in daemon.said()


@pytest.mark.parallel
def test_a_service_manager_hears_of_it(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(60)
        told = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
        with RunningDaemon(tmp_path / "s", "--window", "2", **told) as daemon:
            assert heard.recv(100) == b"READY=1"
            assert heard.recv(100) == b"WATCHDOG=1"
            assert daemon.end() == 0
        words = []
        heard.settimeout(0.1)
        try:
            while True:
                words.append(heard.recv(100))
        except TimeoutError:
            assert words[-1] == b"STOPPING=1"


@pytest.mark.parallel
@pytest.mark.nightly
def test_what_is_kept_apart_is_chosen_and_shown_side_by_side(tmp_path):
    store = tmp_path / "s"
    with RunningDaemon(
        store, "--separate", "library,process,thread,cpu", "--window", "600"
    ) as daemon:
        time.sleep(2)
        daemon.ask("dump")
        assert "samples in a library are kept by program anyway" in daemon.said()
        assert status(daemon)["separate"] == ["process", "thread", "cpu"]
        load = daemon.load.pid
        assert daemon.end() == 0

    def hits(*words):
        ran = run("report", "--store", str(store), *words, "--format", "json", "-V4")
        (event,) = json.loads(ran.stdout)["tables"]
        return {one["class"]: one["samples"] for one in event["classes"]}

    of_load = sum(hits(f"tgid:{load}", "--columns", "cpu").values())
    assert of_load > 50
    assert list(hits(f"tid:{load}", "--columns", "thread").values()) == [of_load]
    assert list(hits(f"tid:{load}", "cpu:0-1023", "--columns", "process").values()) == [of_load]
    by_program = hits("lib-image:*", "--columns", "program")
    assert len(by_program) > 1


@pytest.mark.parallel
def test_a_daemon_above_its_limits_goes_without_and_says_so(tmp_path):
    words = ("-H", "29", "--memory-limit", "1M", "--cpu-limit", "90%", "--call-graph", "auto")
    with RunningDaemon(tmp_path / "s", *words) as daemon:
        found = until(lambda: daemon.ask("dump"), lambda one: len(one["goes_without"]) >= 4)
        assert found["goes_without"][0] == "callers by frame pointers only"
        assert (found["memory_limit_bytes"], found["cpu_limit_percent"]) == (1 << 20, 90.0)
        # A fork of the daemon would keep pages that the daemon gives back.
        children = [
            Path(f"/proc/{pid}/cmdline").read_text() for pid in children_of(daemon.process.pid)
        ]
        assert any("\0prospect.capture.java.jvm_watcher\0" in words for words in children)
        shown = daemon.control("status").stdout
        assert "windows have callers by frame pointers only; names of few new files;" in shown
        daemon.control("dump")
        assert daemon.end() == 0
    assert "to stay within its limits, windows have callers by frame pointers only" in daemon.said()
    limits = " ".join(read_store(str(tmp_path / "s")).run.limits)
    assert "Limits of the daemon: windows with names of few new files: " in limits
    assert "Limits of the daemon: windows with callers by frame pointers only: " in limits
