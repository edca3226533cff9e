"""Which events are chosen, against kernels and users that refuse in their own ways."""

from __future__ import annotations

import errno
import math
import os

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture import event_choice, syscalls
from prospect.capture.event_choice import check_rate, choose_events, clock_periods_ns
from prospect.errors import CaptureError, UsageError

PID = 4711
# Linux version → flags and read formats that it is the first to know.
NEWS = {
    (5, 1): (abi.FLAG_KSYMBOL | abi.FLAG_BPF_EVENT, 0),
    (5, 8): (abi.FLAG_TEXT_POKE, 0),
    (5, 12): (abi.FLAG_BUILD_ID, 0),
    (6, 0): (0, abi.PERF_FORMAT_LOST),
}


class Kernel:
    """perf_event_open() of some kernel for some user."""

    def __init__(self, version=(6, 18), paranoid=2, privileged=True, precise=None):
        self.version, self.paranoid, self.privileged = version, paranoid, privileged
        self.precise = precise
        self.opened = []

    def __call__(self, packed, pid, cpu):
        attr = EventAttr.unpack(packed)
        for version, (flags, read_format) in NEWS.items():
            if self.version < version and (attr.flags & flags or attr.read_format & read_format):
                raise OSError(errno.EINVAL, "unknown flag")
        if not self.privileged:
            user_only = bool(attr.flags & abi.FLAG_EXCLUDE_KERNEL)
            if self.paranoid > 2 or (self.paranoid > 1 and not user_only):
                raise OSError(errno.EACCES, "no")
            if self.paranoid > 0 and pid == -1:
                raise OSError(errno.EACCES, "no")
        if attr.type == abi.PERF_TYPE_HARDWARE:
            if self.precise is None:
                raise OSError(errno.ENOENT, "no such event")
            if attr.flags >> 15 & 3 > self.precise:
                raise OSError(errno.EOPNOTSUPP, "not that precise")
        self.opened.append((attr, pid, cpu))
        return os.open(os.devnull, os.O_RDONLY)


@pytest.fixture
def choose(monkeypatch):
    def choose(kernel, **options):
        monkeypatch.setattr(syscalls, "perf_event_open", kernel)
        monkeypatch.setattr(event_choice, "read_setting", lambda _: kernel.paranoid)
        return choose_events(1000, (1_000_000,), PID, 0, **options)

    return choose


def test_virtual_machine_gets_the_timer_with_everything(choose):
    plan = choose(Kernel())
    assert (plan.scope, plan.clock, plan.limits) == ("system", "cpu-clock", ())
    assert plan.attr.sample_period == 1_000_000
    assert not plan.attr.flags & abi.FLAG_FREQ
    for flag in (abi.FLAG_MMAP2, abi.FLAG_COMM_EXEC, abi.FLAG_TASK, abi.FLAG_BUILD_ID):
        assert plan.attr.flags & flag
    assert not plan.attr.flags & abi.FLAG_INHERIT


@pytest.mark.parametrize("precise", [0, 1, 2, 3])
def test_hardware_counter_is_preferred_at_its_best_precision(choose, precise):
    plan = choose(Kernel(precise=precise))
    assert (plan.clock, plan.periods) == ("cycles", (1000,))
    assert plan.attr.frequency_hz == 1000
    assert plan.attr.flags >> 15 & 3 == precise


def test_hardware_counter_that_failed_elsewhere_is_not_tried_again(choose):
    assert choose(Kernel(precise=0), allow_hardware=False).clock == "cpu-clock"


@pytest.mark.parametrize(
    ("version", "lacks", "sentences"),
    [((6, 0), 0, 0), ((5, 15), 1, 1), ((5, 10), 2, 2), ((5, 4), 3, 2), ((4, 18), 4, 3)],
)
def test_older_kernels_lose_only_what_they_lack(choose, version, lacks, sentences):
    plan = choose(Kernel(version))
    known = [
        (flags, read_format)
        for flags, read_format in NEWS.values()
        if plan.attr.flags & flags == flags and plan.attr.read_format & read_format == read_format
    ]
    assert len(known) == len(NEWS) - lacks
    assert len(plan.limits) == sentences
    assert plan.attr.flags & abi.FLAG_MMAP2


@pytest.mark.parametrize(
    ("paranoid", "scope", "kernel", "sentences"),
    [(-1, "system", True, 0), (0, "system", True, 0), (1, "task", True, 1), (2, "task", False, 2)],
)
def test_user_without_privilege_sees_what_paranoid_allows(
    choose, paranoid, scope, kernel, sentences
):
    plan = choose(Kernel(paranoid=paranoid, privileged=False))
    assert plan.scope == scope
    assert bool(plan.attr.flags & abi.FLAG_EXCLUDE_KERNEL) is not kernel
    assert len(plan.limits) == sentences
    if scope == "task":
        assert plan.attr.flags & abi.FLAG_INHERIT
        assert plan.attr.flags & abi.FLAG_ENABLE_ON_EXEC


def test_tries_watch_the_command_where_not_all_may_be_watched(choose):
    kernel = Kernel(paranoid=2, privileged=False)
    choose(kernel)
    assert {(pid, cpu) for _, pid, cpu in kernel.opened} == {(PID, 0)}


def test_paranoid_3_is_told_what_to_do(choose):
    with pytest.raises(CaptureError, match=r"sysctl kernel\.perf_event_paranoid=2"):
        choose(Kernel(paranoid=3, privileged=False))


@pytest.mark.parametrize(
    ("code", "says"), [(errno.ENOSYS, "CONFIG_PERF_EVENTS"), (errno.EPERM, "seccomp")]
)
def test_kernel_that_refuses_everything_is_named(choose, code, says):
    class Refusing(Kernel):
        def __call__(self, *_):
            raise OSError(code, os.strerror(code))

    with pytest.raises(CaptureError, match=says):
        choose(Refusing())


def test_one_event_reports_mappings_for_all_clocks_of_a_cpu(choose):
    plan = choose(Kernel())._replace(periods=(3, 5))
    first, second = plan.clock_attr(0, 64), plan.clock_attr(1, 64)
    assert (first.sample_period, second.sample_period) == (3, 5)
    assert first.flags & abi.FLAG_MMAP2
    for flag in (abi.FLAG_MMAP, abi.FLAG_MMAP2, abi.FLAG_COMM, abi.FLAG_TASK, abi.FLAG_KSYMBOL):
        assert not second.flags & flag
    assert second.flags & abi.FLAG_USE_CLOCKID
    assert first.sample_type == second.sample_type


def test_one_clock_has_the_rate_asked_for():
    assert clock_periods_ns(200, 1) == (5_000_000,)
    assert clock_periods_ns(1, 1) == (1_000_000_000,)


@pytest.mark.parametrize("clocks", [2, 3, 4])
def test_bank_keeps_the_rate_and_shares_no_short_beat(clocks):
    periods = clock_periods_ns(1000, clocks)
    assert sum(1e9 / period for period in periods) == pytest.approx(1000, rel=1e-6)
    for i, first in enumerate(periods):
        for second in periods[i + 1 :]:
            # They meet again after more than 50 periods.
            assert math.lcm(first, second) > 50 * first


@pytest.mark.parametrize(
    ("hz", "clocks", "says"),
    [(0, 1, "at least 1 Hz"), (-5, 1, "at least 1 Hz"), (100, 5, "1 to 4"), (3001, 1, "=3001")],
)
def test_rates_that_cannot_be_are_refused(monkeypatch, hz, clocks, says):
    monkeypatch.setattr(event_choice, "read_setting", lambda _: 3000)
    with pytest.raises(UsageError, match=says):
        check_rate(hz, clocks)


def test_rate_that_the_timer_would_quietly_lower_is_refused(monkeypatch):
    monkeypatch.setattr(event_choice, "read_setting", lambda _: 1_000_000)
    check_rate(100_000, 1)
    with pytest.raises(UsageError, match="lower -H to 100000"):
        check_rate(101_000, 1)
