"""Which events are chosen, against kernels and users that refuse in their own ways."""

from __future__ import annotations

import errno
import os

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.events import event_choice
from prospect.capture.events.event_choice import EVERY_TASK, choose_events
from prospect.capture.events.recorded_callers import CallGraph
from prospect.capture.kernel import perf_syscalls
from prospect.errors import CaptureError

PID = 4711
PERIODS_NS = (4_300_000, 3_900_000, 3_700_000)
# Linux version → flags and read formats that it is the first to know.
NEWS = {
    (5, 1): (abi.FLAG_KSYMBOL | abi.FLAG_BPF_EVENT, 0),
    (5, 7): (abi.FLAG_CGROUP, 0),
    (5, 8): (abi.FLAG_TEXT_POKE, 0),
    (6, 0): (0, abi.PERF_FORMAT_LOST),
}


class Kernel:
    """perf_event_open() of some kernel for some user."""

    def __init__(
        self,
        version=(6, 18),
        *,
        paranoid=2,
        privileged=True,
        precise=None,
        chain_error=0,
        stack_error=0,
        branch_error=errno.EOPNOTSUPP,
        group_error=0,
    ):
        self.version, self.paranoid, self.privileged = version, paranoid, privileged
        self.precise = precise
        self.refused = {
            abi.PERF_SAMPLE_CALLCHAIN: chain_error,
            abi.PERF_SAMPLE_STACK_USER: stack_error,
            abi.PERF_SAMPLE_BRANCH_STACK: branch_error,
            abi.PERF_SAMPLE_CGROUP: group_error,
        }
        self.opened = []

    def __call__(self, packed, pid, cpu, flags=0):  # noqa: C901 - a line for each refusal
        if flags:
            raise OSError(errno.EINVAL, "unknown flags")
        attr = EventAttr.unpack(packed)
        for version, (new_flags, read_format) in NEWS.items():
            if self.version < version and (
                attr.flags & new_flags or attr.read_format & read_format
            ):
                raise OSError(errno.EINVAL, "unknown flag")
        for kind, error in self.refused.items():
            if error and attr.sample_type & kind:
                raise OSError(error, "not in a sample")
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
        monkeypatch.setattr(perf_syscalls, "perf_event_open", kernel)
        monkeypatch.setattr(event_choice, "read_setting", lambda _: kernel.paranoid)
        pid = options.pop("pid", PID)
        return choose_events(1000, PERIODS_NS, pid, 0, **options)

    return choose


def test_virtual_machine_gets_the_timer_with_everything(choose):
    plan = choose(Kernel())
    assert (plan.scope, plan.clock, plan.limits) == ("system", "cpu-clock", ())
    assert (plan.attr.sample_period, plan.periods) == (PERIODS_NS[0], PERIODS_NS)
    assert plan.periods_ns == PERIODS_NS
    assert plan.redraw_interval_ns == 0
    assert not plan.attr.flags & abi.FLAG_FREQ
    for flag in (abi.FLAG_MMAP2, abi.FLAG_COMM_EXEC, abi.FLAG_TASK, abi.FLAG_TEXT_POKE):
        assert plan.attr.flags & flag
    # Asking for them does harm to other recorders on this machine.
    assert not plan.attr.flags & abi.FLAG_BUILD_ID
    assert not plan.attr.flags & abi.FLAG_INHERIT


@pytest.mark.parametrize("precise", [0, 1, 2, 3])
def test_hardware_counter_is_preferred_at_its_best_precision(choose, precise):
    plan = choose(Kernel(precise=precise))
    assert (plan.clock, plan.periods, plan.limits) == ("cycles", (1000,), ())
    assert plan.periods_ns == (1_000_000,)
    assert plan.redraw_interval_ns == 100_000_000
    assert plan.attr.frequency_hz == 1000
    assert plan.attr.flags >> 15 & 3 == precise


def test_hardware_counter_that_failed_elsewhere_is_not_tried_again(choose):
    assert choose(Kernel(precise=0), allow_hardware=False).clock == "cpu-clock"


@pytest.mark.parametrize(
    ("version", "lacks", "sentences"),
    [((6, 0), 0, 0), ((5, 15), 1, 1), ((5, 10), 1, 1), ((5, 4), 3, 1), ((4, 18), 4, 2)],
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
    names_groups = bool(plan.attr.flags & abi.FLAG_CGROUP)
    assert bool(plan.attr.sample_type & abi.PERF_SAMPLE_CGROUP) == names_groups


def test_a_recent_kernel_without_control_groups_loses_nothing_else(choose):
    plan = choose(Kernel(group_error=errno.EINVAL))
    assert not plan.attr.flags & abi.FLAG_CGROUP
    assert not plan.attr.sample_type & abi.PERF_SAMPLE_CGROUP
    assert plan.attr.flags & abi.FLAG_TEXT_POKE
    assert plan.attr.read_format & abi.PERF_FORMAT_LOST
    assert plan.limits == ()


@pytest.mark.parametrize(
    ("paranoid", "scope", "kernel", "sentences"),
    [(-1, "system", True, 0), (0, "system", True, 0), (1, "task", True, 2), (2, "task", False, 3)],
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
        assert plan.periods == (1_000_000,)
        assert "assume independent samples" in plan.limits[-1]


def test_what_runs_already_is_followed_without_waiting_for_an_exec(choose):
    plan = choose(Kernel(paranoid=2, privileged=False), attaches=True)
    assert plan.attr.flags & abi.FLAG_INHERIT
    assert not plan.attr.flags & abi.FLAG_ENABLE_ON_EXEC
    assert "Only the processes of -p" in plan.limits[0]
    assert choose(Kernel(), attaches=True).limits == ()


def test_who_needs_the_whole_system_is_not_given_less(choose):
    assert choose(Kernel(), pid=EVERY_TASK).scope == "system"
    with pytest.raises(CaptureError, match="the whole system takes root"):
        choose(Kernel(paranoid=2, privileged=False), pid=EVERY_TASK)


def test_tries_watch_the_command_where_not_all_may_be_watched(choose):
    kernel = Kernel(paranoid=2, privileged=False)
    choose(kernel)
    assert {(pid, cpu) for _, pid, cpu in kernel.opened} == {(PID, 0)}


def test_paranoid_3_is_told_what_to_do(choose):
    with pytest.raises(CaptureError, match=r"sysctl kernel\.perf_event_paranoid=2"):
        choose(Kernel(paranoid=3, privileged=False))


@pytest.mark.parametrize(
    ("code", "is_filtered", "says"),
    [
        (errno.ENOSYS, False, "CONFIG_PERF_EVENTS"),
        (errno.ENOSYS, True, "seccomp"),
        (errno.EPERM, False, "CAP_PERFMON"),
        (errno.EPERM, True, "seccomp"),
    ],
)
def test_kernel_that_refuses_everything_is_named(choose, monkeypatch, code, is_filtered, says):
    monkeypatch.setattr(event_choice.perf_syscalls, "is_filtered", lambda _: is_filtered)

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


def test_one_clock_is_said_to_miss_what_several_would_show(monkeypatch):
    monkeypatch.setattr(perf_syscalls, "perf_event_open", Kernel())
    (limit,) = choose_events(1000, (1_000_000,), PID, 0).limits
    assert "in step" in limit
    assert "independent" in limit


def test_kernel_chains_are_recorded_where_the_kernel_is(choose):
    plan = choose(Kernel())
    assert plan.has_chains
    assert plan.attr.flags & abi.FLAG_EXCLUDE_CALLCHAIN_USER
    user_only = choose(Kernel(paranoid=2, privileged=False))
    assert not user_only.has_chains
    assert not user_only.attr.flags & abi.FLAG_EXCLUDE_CALLCHAIN_USER


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOMEM, errno.EOVERFLOW, errno.EOPNOTSUPP])
def test_kernel_without_chains_gives_all_else_and_it_is_said(choose, code):
    plan = choose(Kernel(chain_error=code))
    assert not plan.has_chains
    assert not plan.attr.flags & abi.FLAG_EXCLUDE_CALLCHAIN_USER
    assert "call chains" in plan.limits[-1]
    if code != errno.EINVAL:  # which says nothing of what the kernel did not like
        assert plan.attr.flags & abi.FLAG_TEXT_POKE
        assert len(plan.limits) == 1


def test_event_that_only_samples_reports_nothing_else(choose):
    plan = choose(Kernel(precise=2))
    attr = plan.sampling_attr(60_000, 4096)
    assert (attr.sample_period, attr.wakeup) == (60_000, 4096)
    assert attr.frequency_hz is None
    assert attr.sample_type == plan.attr.sample_type
    for flag in (abi.FLAG_MMAP2, abi.FLAG_TASK, abi.FLAG_INHERIT, abi.FLAG_ENABLE_ON_EXEC):
        assert not attr.flags & flag
    assert attr.flags & abi.FLAG_DISABLED
    assert attr.flags >> 15 & 3 == 2


@pytest.mark.parametrize(
    ("rate_hz", "interval_ns"), [(1000, 10**8), (100_000, 10**8), (50, 2 * 10**9)]
)
def test_rates_are_redrawn_often_but_not_for_every_few_samples(choose, rate_hz, interval_ns):
    plan = choose(Kernel(precise=0))._replace(periods=(rate_hz,))
    assert plan.redraw_interval_ns == interval_ns


def test_stacks_are_copied_by_every_clock_and_data_mappings_told_by_the_first(choose):
    plan = choose(Kernel(), call_graph=CallGraph("dwarf", 4096))
    first, second = (plan.clock_attr(clock, 4096) for clock in (0, 1))
    for attr in (first, second, plan.sampling_attr(1000, 4096)):
        assert attr.sample_type & abi.PERF_SAMPLE_STACK_USER
        assert attr.sample_stack_user == 4096
    assert first.flags & abi.FLAG_MMAP_DATA
    assert not second.flags & abi.FLAG_MMAP_DATA


def test_a_kernel_without_stack_copies_records_what_it_can_and_says_so(choose):
    plan = choose(Kernel(stack_error=errno.ENOSYS), call_graph=CallGraph("auto", 8192))
    assert plan.attr.sample_type & abi.PERF_SAMPLE_CALLCHAIN
    assert not plan.attr.sample_type & abi.PERF_SAMPLE_STACK_USER
    assert any("copies no user stacks" in limit for limit in plan.limits)


def test_a_branch_stack_is_a_hardware_counters_or_none(choose):
    plan = choose(
        Kernel(precise=2, branch_error=0), allow_hardware=False, call_graph=CallGraph("lbr")
    )
    assert plan.clock == "cycles"
    assert plan.attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_CALL_STACK
    for kernel in (Kernel(precise=2), Kernel(branch_error=0)):
        with pytest.raises(CaptureError, match="--call-graph auto"):
            choose(kernel, call_graph=CallGraph("lbr"))
