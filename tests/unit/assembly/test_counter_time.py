"""Samples of counters whose period ramps up: shares are of cycles, and times are of no more."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import prospect
from builders.ramping import CPUS, NAMES, SPEED_HZ, ramping
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.assembly.tables.run_facts import counter_time, counts_cycles
from prospect.cli.main import main
from prospect.events.record_columns import Samples

_INSTRUCTIONS = 1


@pytest.fixture
def in_file(tmp_path):
    def write(made):
        path = tmp_path / "perf.data"
        path.write_bytes(made.data)
        return path

    return write


def seconds_by_name(path):
    table = prospect.open(path).processes_table(detail="4")
    return dict(zip(table["process"].tolist(), table["user_seconds"].tolist(), strict=True))


@pytest.mark.skipif(shutil.which("perf") is None, reason="there is no perf")
@pytest.mark.parametrize(("name", "config"), [("cycles", 0), ("instructions", _INSTRUCTIONS)])
def test_shares_are_those_of_perf_report(in_file, capfd, name, config):
    path = in_file(ramping(seconds=0.3, name=name, config=config))
    shown = subprocess.run(
        [
            "perf",
            "report",
            "-i",
            path,
            "--stdio",
            "-F",
            "overhead,sample,comm",
            "--sort",
            "comm",
            "-t",
            ";",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    by_perf = {
        comm: (float(share), int(hits))
        for share, hits, comm in re.findall(r"([\d.]+)% *; *(\d+) *; *(\w+)", shown)
    }
    assert by_perf.keys() == set(NAMES.values())
    assert main(["report", "-V4", "-m0", "-k0", str(path)]) == 0
    text = capfd.readouterr().out
    profile = prospect.open(path)
    period = dict.fromkeys(NAMES.values(), 0)
    for process, amount in zip(profile.hits.process_index, profile.hits.period, strict=True):
        period[profile.processes.name[process]] += int(amount)
    ours = sorted(NAMES.values(), key=lambda each: -period[each])
    assert ours == sorted(by_perf, key=lambda each: -by_perf[each][0])
    summary = text[text.index("Analyzed - Sorted by") : text.index("Details of")]
    rows = re.findall(r"^ *(?:\d=? +)?(\w+) +\d+ +(\d+) ", summary, re.MULTILINE)
    ranked = [(each, hits) for each, hits in rows if each in by_perf]
    assert [each for each, _ in ranked] == ours
    for each, hits in ranked:
        share, counted = by_perf[each]
        assert int(hits) == counted
        assert 100 * period[each] / sum(period.values()) == pytest.approx(share, abs=0.006)


def test_a_ramp_is_no_time_and_no_more_is_printed_than_there_was(in_file, capfd):
    made = ramping(seconds=0.3)
    path = in_file(made)
    found = seconds_by_name(path)
    hits = prospect.open(path).run.statistics["samples"]
    assert hits / 4000 > 2 * 0.3 * CPUS  # what hits by the rate would say
    assert sum(found.values()) <= 0.3 * CPUS
    assert found["alpha"] == pytest.approx(made.truth_s["alpha"], abs=0.03)
    assert found["alpha"] > found["beta"] > found["starter"]
    assert main(["report", "-V4", str(path)]) == 0
    assert "times take 2000 million a second (± " in capfd.readouterr().out


def test_while_a_recording_is_all_ramp_the_time_is_that_of_all_cpus_at_most(in_file):
    found = seconds_by_name(in_file(ramping(seconds=0.0025)))
    assert 0 < sum(found.values()) <= 0.0025 * CPUS


def test_error_bars_hold_the_truth(in_file, capfd):
    held = total = 0
    for seed in range(40):
        made = ramping(seed, 0.1)
        path = in_file(made)
        assert main(["report", "--format", "json", "-V4", "-m0", "-k0", str(path)]) == 0
        document = json.loads(capfd.readouterr().out)
        for process in document["events"][0]["processes"]:
            user = process["user"]
            if process["name"] in ("alpha", "beta"):
                total += 1
                held += abs(user["seconds"] - made.truth_s[process["name"]]) <= user["half_width_s"]
    assert total == 80
    assert held >= 0.9 * total


def test_what_is_no_cycle_is_no_time_and_still_weighs(in_file, capfd):
    path = in_file(ramping(seconds=0.1, name="instructions", config=_INSTRUCTIONS))
    profile = prospect.open(path)
    event = profile.run.events[0]
    assert (event.seconds_per_period, event.seconds_per_hit) == (0.0, 0.0)
    assert event.weighs_periods
    assert main(["report", "-V4", str(path)]) == 0
    text = capfd.readouterr().out
    assert "sorted by their periods" in text
    assert "Sorted by User Periods" in text


def samples_of(period, time_ns, cpu=0):
    count = len(period)
    return Samples(
        ip=np.zeros(count, np.uint64),
        task=np.zeros(count, np.uint64),
        time_ns=np.array(time_ns, np.uint64),
        mode=np.zeros(count, np.uint8),
        cpu=np.full(count, cpu, np.uint16),
        period=np.array(period, np.uint64),
        event=np.broadcast_to(np.uint16(0), (count,)),
        clock=np.broadcast_to(np.uint8(0), (count,)),
    )


def described(name="cycles", kind=abi.PERF_TYPE_HARDWARE, config=0, rate_hz=1000):
    attr = EventAttr(
        type=kind, config=config, flags=abi.FLAG_FREQ if rate_hz else 0, sample_period=rate_hz
    )
    return EventDescription(attr, name=name)


def test_times_when_a_cpu_was_idle_do_not_make_it_slow():
    period = np.where(np.arange(400) % 2, 1_000_000, 1_100_000)
    gap_ns = period // 2 + np.where(np.arange(400) % 10, 0, 50_000_000)
    found = counter_time(
        samples_of(period, np.cumsum(gap_ns)), 0, described(), by_cpu=True, most_s=1e3
    )
    assert found.units_per_s == pytest.approx(SPEED_HZ)
    assert found.relative_error < 0.01


def test_with_few_samples_the_longest_periods_are_of_the_rate_that_was_asked_for():
    found = counter_time(
        samples_of([1, 1, 50, 2_000_000, 2_000_000], [0] * 5), 0, described(), by_cpu=True, most_s=0
    )
    assert found == (True, 2e9, 1.0)


@pytest.mark.parametrize(
    ("name", "kind", "config", "is_time"),
    [
        ("cycles", abi.PERF_TYPE_HARDWARE, 0, True),
        ("e", abi.PERF_TYPE_HARDWARE, 4 << 32, True),  # of one kind of a hybrid machine's cores
        ("e", abi.PERF_TYPE_HARDWARE, 9, True),
        ("instructions", abi.PERF_TYPE_HARDWARE, 1, False),
        ("cpu_core/cycles/P", 10, 0x3C, True),
        ("armv8_pmuv3_0/cpu_cycles/", 8, 0x11, True),
        ("cycles:ppp", abi.PERF_TYPE_RAW, 0x3C, True),
        ("stalled-cycles-frontend", abi.PERF_TYPE_RAW, 1, False),
        ("page-faults", abi.PERF_TYPE_SOFTWARE, 2, False),
        ("sched:sched_stat_runtime", abi.PERF_TYPE_TRACEPOINT, 300, False),
    ],
)
def test_only_cycles_are_time(name, kind, config, is_time):
    assert counts_cycles(described(name, kind, config)) == is_time


def test_equal_periods_are_weighed_by_nobody():
    same = samples_of([5, 5, 5], [1, 2, 3])
    assert not counter_time(same, 0, described(), by_cpu=True, most_s=1.0).periods_vary
