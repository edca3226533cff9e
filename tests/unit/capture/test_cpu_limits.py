"""What is read of control groups with a CPU limit."""

from __future__ import annotations

import pytest

from prospect.capture.machine import map_reader
from prospect.capture.machine.map_reader import CpuLimits, CpuStat, cpu_stat

VERSION_1 = "nr_periods {}\nnr_throttled {}\nthrottled_time {}\nnr_bursts 0\nburst_time 0\n"
VERSION_2 = (
    "usage_usec 1000\nuser_usec 600\nsystem_usec 400\nnr_periods {}\nnr_throttled {}\n"
    "throttled_usec {}\nnr_bursts 0\nburst_usec 0\n"
)


def test_both_versions_are_read_in_nanoseconds():
    assert cpu_stat(VERSION_1.format(45, 41, 2_940_000_000).encode()) == CpuStat(
        45, 41, 2_940_000_000
    )
    assert cpu_stat(VERSION_2.format(45, 41, 2_940_000).encode()) == CpuStat(45, 41, 2_940_000_000)


@pytest.mark.parametrize("text", [b"", b"usage_usec 1\n", b"nr_periods x\nthrottled_time 1\n"])
def test_a_group_without_counters_is_none(text):
    assert cpu_stat(text) is None


@pytest.fixture(params=["v1", "v2", "in a container"])
def machine(request, tmp_path):
    """Give what writes a process's group and a group's counters, in each hierarchy."""
    point = tmp_path / "groups"
    root = "/box" if request.param == "in a container" else "/"
    kind = "cgroup2 cgroup2 rw" if request.param == "v2" else "cgroup cgroup rw,cpu,cpuacct"
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text(
        f"30 25 0:26 / {tmp_path}/other rw - cgroup cgroup rw,cpuset\n"
        f"31 25 0:27 {root} {point} rw,nosuid shared:4 - {kind}\n"
    )

    class Machine:
        proc = str(tmp_path)

        @staticmethod
        def join(pid, path):
            (tmp_path / str(pid)).mkdir(exist_ok=True)
            lines = (
                f"0::{path}\n"
                if request.param == "v2"
                else f"3:cpuset:/\n2:cpuacct,cpu:{root.rstrip('/')}{path}\n"
            )
            (tmp_path / f"{pid}/cgroup").write_text(lines)

        @staticmethod
        def count(path, periods, throttled, milliseconds):
            form, unit = (VERSION_2, 10**3) if request.param == "v2" else (VERSION_1, 10**6)
            (point / path[1:]).mkdir(parents=True, exist_ok=True)
            (point / path[1:] / "cpu.stat").write_text(
                form.format(periods, throttled, unit * milliseconds)
            )

        @staticmethod
        def remove(path):
            (point / path[1:] / "cpu.stat").unlink()

    return Machine


def test_what_a_group_and_its_parents_gained_is_counted_once(machine):
    for path in ("/", "/a", "/a/b"):
        machine.count(path, 100, 10, 7)
    machine.join(5, "/a/b")
    machine.join(6, "/a/b")
    limits = CpuLimits(machine.proc)
    limits.see([5, 6])
    machine.count("/a/b", 145, 51, 2947)
    machine.count("/a", 110, 11, 8)
    limits.see([6])
    assert sorted(limits.finish()) == [
        ("/a", 10, 1, 1_000_000, [5, 6]),
        ("/a/b", 45, 41, 2_940_000_000, [5, 6]),
    ]


def test_a_group_that_is_joined_later_counts_from_then(machine):
    machine.count("/late", 100, 100, 100)
    machine.join(5, "/")
    limits = CpuLimits(machine.proc)
    limits.see([5, 404])
    machine.join(5, "/late")
    limits.see([5])
    machine.count("/late", 103, 102, 150)
    assert limits.finish() == [("/late", 3, 2, 50_000_000, [5])]


def test_a_group_that_is_removed_keeps_what_was_read_last(machine, monkeypatch):
    now_ns = [10**9]
    monkeypatch.setattr(map_reader, "monotonic_ns", lambda: now_ns[0])
    machine.count("/gone", 1, 0, 0)
    machine.join(5, "/gone")
    limits = CpuLimits(machine.proc)
    limits.see([5])
    machine.count("/gone", 11, 10, 90)
    limits.look()
    machine.count("/gone", 12, 11, 99)
    limits.look()  # too early
    assert limits.wait_ms() == 1001
    machine.remove("/gone")
    now_ns[0] += 10**9
    limits.look()
    assert limits.finish() == [("/gone", 10, 10, 90_000_000, [5])]


def test_where_no_limit_applies_nothing_is_looked_at_again(machine):
    machine.count("/free", 0, 0, 0)
    machine.join(5, "/free")
    limits = CpuLimits(machine.proc)
    limits.see([5])
    assert limits.wait_ms() is None
    assert limits.finish() == []


def test_a_machine_without_groups_has_none(tmp_path):
    limits = CpuLimits(str(tmp_path))
    limits.see([1])
    assert limits.finish() == []
