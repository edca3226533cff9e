"""Time of a path that a CPU limit or the host of a virtual machine took, of a known whole."""

import pytest

from builders.critical_paths import CHILD, MAIN, OTHER, path_of, profile_of
from prospect.estimate.finished_report import Report
from prospect.estimate.wall_account import HOST, NOBODY, QUOTA
from prospect.profile.model import PATH_RAN, PATH_WAITED
from prospect.profile.run_info import Throttled
from prospect.render.text.wall import wall_summary

FOR_A_CPU = "waiting for a CPU"


def account_of(profile):
    with Report(profile) as report:
        return report.wall


def stopped(waits_ms, had, **group):
    """The account of a command that waits for CPUs between its turns, with a limited group."""
    pieces = [
        one for ms in waits_ms for one in ((PATH_RAN, MAIN, 4, -1), (PATH_WAITED, MAIN, ms, -1))
    ]
    facts = {"periods": 9, "throttled": 2, "seconds": 0.18, "pids": (MAIN,)} | group
    return account_of(profile_of(path_of(pieces, had), throttled=(Throttled("/box", **facts),)))


def times(account):
    return {(row.program, row.what): row.seconds for row in account.rows if row.state == FOR_A_CPU}


def test_the_longest_waits_of_a_limited_group_are_the_quotas():
    had = [(1, 0, 90), (3, OTHER, 20), (5, 0, 60), (5, OTHER, 30)]
    account = stopped([90, 20, 90], had)
    assert times(account) == {
        ("shell", QUOTA): pytest.approx(0.18),
        ("shell", ""): pytest.approx(0.02),
    }
    # Whatever ran on the CPU meanwhile did not take it from the thread.
    assert [(one.program, one.seconds) for one in account.takers] == [
        (QUOTA, pytest.approx(0.18)),
        ("server", pytest.approx(0.02)),
    ]
    assert sum(row.seconds for row in account.rows) == pytest.approx(account.seconds)
    assert list(wall_summary(account, 79)) == [
        "Wall:   0.212 s: cgroup quota 0.180, waiting for a CPU 0.020 (server had it),",
        "        shell running 0.012",
    ]


def test_no_more_than_the_kernel_counted_is_the_quotas():
    account = stopped([90, 20, 90], [(1, 0, 90), (3, OTHER, 20), (5, 0, 90)], seconds=0.1)
    assert times(account)["shell", QUOTA] == pytest.approx(0.1)
    assert {one.program: one.seconds for one in account.takers} == {
        QUOTA: pytest.approx(0.1),
        NOBODY: pytest.approx(0.08),
        "server": pytest.approx(0.02),
    }


@pytest.mark.parametrize("differs", [{"pids": (OTHER,)}, {"seconds": 0.0}])
def test_waits_of_other_groups_are_not(differs):
    account = stopped([90, 20], [(1, 0, 90), (3, OTHER, 20)], **differs)
    assert times(account) == {("shell", ""): pytest.approx(0.11)}


def test_of_a_large_group_only_some_processes_are_recorded():
    account = stopped([90, 20], [(1, 0, 90), (3, OTHER, 20)], pids=tuple(range(100, 164)))
    assert times(account)["shell", QUOTA] == pytest.approx(0.11)


def test_a_group_within_a_limited_one_is_counted_once():
    path = path_of([(PATH_WAITED, MAIN, 90, -1), (PATH_RAN, MAIN, 10, -1)], [(0, 0, 90)])
    groups = tuple(Throttled(name, 9, 2, 0.09, (MAIN,)) for name in ("/a", "/a/b"))
    account = account_of(profile_of(path, throttled=groups))
    assert times(account) == {("shell", QUOTA): pytest.approx(0.09)}


def test_the_host_takes_its_part_of_the_time_on_each_cpu():
    path = path_of([(PATH_RAN, MAIN, 100, -1), (PATH_RAN, CHILD, 100, -1)])
    path.cpu[1] = 1
    samples = [(at, MAIN, "f") for at in range(0, 100, 10)]
    seconds = {"user_s": 0.6, "system_s": 0.2, "steal_s": 0.2, "idle_s": 5.0, "iowait_s": 1.0}
    stolen = {0: seconds, 1: seconds | {"steal_s": 0.0}}
    account = account_of(profile_of(path, samples, cpu_accounting=stolen))
    rows = {(row.program, row.what): row for row in account.rows}
    assert rows["shell", HOST].seconds == pytest.approx(0.02)
    assert rows["shell", HOST].half_width_s == pytest.approx(0.02)
    assert rows["shell", "f"].seconds == pytest.approx(0.08)
    assert ("child", HOST) not in rows
    assert sum(row.seconds for row in account.rows) == pytest.approx(account.seconds)
    assert [(one.program, one.seconds) for one in account.takers] == [(HOST, pytest.approx(0.02))]
