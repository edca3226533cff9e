"""Events that record the scheduler's switches: when and where each task leaves its CPU and returns.

There are two plans: `with_switches` has stacks (``--off-cpu``), `with_switch_times` none
(``--wall``). If possible, both record only switches of COMMAND or the processes of ``-p``, by
programs that follow threads (`prospect.capture.following`).

The plan of the clocks gets one more event on every CPU. It samples each task that leaves the CPU,
in that task's own context, so that the sample has the stack that led to it. Records of both sides
of each switch have the times, and whether the task was preempted. None of this needs tracefs. Only
the tracepoint sched:sched_waking shows which task wakes a waiting one, and when: each occurrence is
sampled, in the waker's context, if the whole system may be watched.

Defined by: perf_event_task_sched_out() in ``include/linux/perf_event.h`` (which counts
PERF_COUNT_SW_CONTEXT_SWITCHES before the switch) and perf_event_switch() in
``kernel/events/core.c``, try_to_wake_up() in ``kernel/sched/core.c``, Linux 6.18.
"""

from __future__ import annotations

import os

from prospect.abi import constants as abi
from prospect.capture.capture_limits import LARGEST_COPIED_ONCE_BYTES
from prospect.capture.events.event_choice import (
    EVERY_TASK,
    PRECISE_IP,
    SCOPE_SYSTEM,
    SIDE_BAND_FLAGS,
    ChosenEvent,
)
from prospect.capture.events.recorded_callers import (
    BRANCH_STACK,
    BY_IMAGE,
    FRAME_POINTERS,
    KERNEL_CHAINS,
    UNWOUND_REGISTERS,
    CallGraph,
    sample_bytes,
    with_callers,
)
from prospect.errors import CaptureError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr
    from prospect.capture.events.event_choice import EventPlan
    from prospect.capture.following.followed import FollowedSwitches

NAME = "context-switches"
WAKING = "sched:sched_waking"
SWITCH_TIMES = "switches"

# Threads wait in a few functions of a library, most of which keep no frame pointers. The frames of
# these fit into this; the unwinder then follows frame pointers.
_STACK_BYTES = 1024
# A busy CPU of a server; with more switches, the recorder drains the rings more often.
_SWITCHES_A_SECOND = 10_000
# Both records of a switch: header, the other task, pid and tid, time, cpu, identifier.
_RECORDS_BYTES = 2 * 48
_NOT_OF_CLOCKS = SIDE_BAND_FLAGS | PRECISE_IP | abi.FLAG_FREQ
_CALLERS = (
    abi.PERF_SAMPLE_CALLCHAIN
    | abi.PERF_SAMPLE_BRANCH_STACK
    | abi.PERF_SAMPLE_REGS_USER
    | abi.PERF_SAMPLE_STACK_USER
)

_NO_STACKS = (
    "Waits have times but no stacks: sampling the kernel, in which a task leaves its CPU, needs "
    "root, CAP_PERFMON, or sysctl kernel.perf_event_paranoid=1."
)
_NO_CALLS = "Waits have times, and no system call: switches are recorded without a program ({})."
_NO_WAKERS = (
    "Only exits show which thread ended a wait, and time ready for a CPU after any other wait"
    " counts as part of it: more needs the tracepoint sched:sched_waking, that is root"
)


def with_switches(
    plan: EventPlan, graph: CallGraph, cpu: int, programs: tuple[ChosenEvent, ...], *, wakers: bool
) -> EventPlan:
    """Return a plan that records the scheduler's switches too.

    Without programs that follow threads, it records switches of all threads, even if only some
    processes have stacks.

    Args:
        plan: the clocks.
        graph: the callers in samples of switches. Instead of none or a branch stack, they are
            those in small copies of stacks and by frame pointers.
        cpu: an online CPU, on which events are tried.
        programs: the events that programs write: wake-ups, and switches if they follow threads.
        wakers: whether to record which thread wakes another.
    """
    clock = plan.attr
    dropped = _NOT_OF_CLOCKS | abi.FLAG_EXCLUDE_CALLCHAIN_USER | abi.FLAG_EXCLUDE_CALLCHAIN_KERNEL
    attr = clock._replace(
        type=abi.PERF_TYPE_SOFTWARE,
        config=abi.PERF_COUNT_SW_CONTEXT_SWITCHES,
        sample_period=1,
        sample_type=clock.sample_type & ~abi.PERF_SAMPLE_BRANCH_STACK,
        flags=clock.flags & ~dropped | abi.FLAG_CONTEXT_SWITCH,
        branch_sample_type=0,
    )
    if graph.mode in (KERNEL_CHAINS, BRANCH_STACK):
        try:
            attr = with_callers(attr, CallGraph(BY_IMAGE, _STACK_BYTES))
        except UsageError:  # Prospect cannot unwind copies of this machine's stacks
            attr = with_callers(attr, CallGraph(FRAME_POINTERS))
    else:
        attr = with_callers(attr, graph)
    attr = attr._replace(flags=attr.flags & ~abi.FLAG_MMAP_DATA)  # the first clock has it
    limits = plan.limits
    if attr.flags & abi.FLAG_EXCLUDE_KERNEL:
        limits += (_NO_STACKS,)
    copies_once = plan.may_filter and 0 < attr.sample_stack_user <= LARGEST_COPIED_ONCE_BYTES
    if plan.of_every_process and not copies_once:
        plan = plan._replace(may_filter=False)  # nothing is left for a program to do
    beside = (*plan.beside, ChosenEvent(NAME, attr))
    has_times = len(programs) > 1
    if plan.may_filter or has_times:
        attr = attr._replace(flags=attr.flags & ~abi.FLAG_CONTEXT_SWITCH)
        # Records of switches begin with the clocks, samples with the program that chooses them.
        times = () if has_times else (_switch_records(plan),)
        beside = (*plan.beside, *times)
        if copies_once:
            beside += _copied_once(attr)
        else:
            beside += (ChosenEvent(NAME, attr, is_filtered=plan.may_filter),)
    plan = plan._replace(beside=beside, limits=limits)
    if wakers and programs:
        return plan._replace(beside=(*beside, *programs))
    return _with_wakers(plan, dropped, cpu) if wakers else plan


def _copied_once(attr: EventAttr) -> tuple[ChosenEvent, ...]:
    """Return the events that copy each piece of a waiting thread's stack once.

    The first one runs the program that writes samples by the second (`following.wait_stacks`). The
    recording describes the second as samples of switches. Its samples have copies in their raw
    data; only the description has the size of a copy.
    """
    registers = UNWOUND_REGISTERS[os.uname().machine]
    written = attr._replace(
        config=abi.PERF_COUNT_SW_BPF_OUTPUT,
        sample_type=attr.sample_type & ~abi.PERF_SAMPLE_STACK_USER | abi.PERF_SAMPLE_RAW,
        sample_regs_user=registers,
    )
    recorded = written._replace(config=attr.config)
    return (
        ChosenEvent(NAME, _without_callers(attr), is_filtered=True, is_recorded=False),
        ChosenEvent(NAME, written, recorded=recorded, is_of_waits=True),
    )


def with_switch_times(
    plan: EventPlan, cpu: int, followed: FollowedSwitches | None, obstacle: str
) -> EventPlan:
    """Return a plan that records the scheduler's switches without stacks.

    Args:
        plan: the clocks.
        cpu: an online CPU, on which events are tried.
        followed: the programs that record the switches of followed threads, None for none.
        obstacle: the reason why there are none.
    """
    if followed is not None and plan.scope == SCOPE_SYSTEM:
        return plan._replace(beside=(*plan.beside, *followed.events(plan)))
    limits = (*plan.limits, _NO_CALLS.format(obstacle or "only the command's own are recorded"))
    plan = plan._replace(beside=(*plan.beside, _switch_records(plan)), limits=limits)
    return _with_wakers(plan, _NOT_OF_CLOCKS, cpu)


def _switch_records(plan: EventPlan) -> ChosenEvent:
    """Return the event that records both sides of each switch, without samples."""
    clock = _without_callers(plan.attr)
    attr = clock._replace(
        type=abi.PERF_TYPE_SOFTWARE,
        config=abi.PERF_COUNT_SW_DUMMY,
        flags=clock.flags & ~_NOT_OF_CLOCKS | abi.FLAG_CONTEXT_SWITCH,
    )
    return ChosenEvent(SWITCH_TIMES, attr)


def _without_callers(clock: EventAttr) -> EventAttr:
    """Return the attributes of a clock for an event that samples each time, without callers."""
    return clock._replace(
        sample_period=1,
        sample_type=clock.sample_type & ~_CALLERS,
        branch_sample_type=0,
        sample_regs_user=0,
        sample_stack_user=0,
    )


def _with_wakers(plan: EventPlan, dropped: int, cpu: int) -> EventPlan:
    """Return a plan that records wake-ups, or that has a sentence why it cannot."""
    try:
        return plan._replace(beside=(*plan.beside, _waking_event(plan, dropped, cpu)))
    except CaptureError as error:
        return plan._replace(limits=(*plan.limits, f"{_NO_WAKERS} ({error})."))


def _waking_event(plan: EventPlan, dropped: int, cpu: int) -> ChosenEvent:
    """Return the event that samples each wake-up, without callers, which would cost too much."""
    from prospect.capture.events.event_opening import open_chosen  # noqa: PLC0415 - as below
    from prospect.capture.events.tracepoints import tracepoint_id  # noqa: PLC0415 - rarely asked for

    if plan.scope != SCOPE_SYSTEM:
        raise CaptureError("only the command's own events may be recorded")
    number = tracepoint_id(*WAKING.split(":"))
    if number is None:
        raise CaptureError("this kernel has none")
    clock = _without_callers(plan.attr)
    attr = clock._replace(
        type=abi.PERF_TYPE_TRACEPOINT,
        config=number,
        sample_type=clock.sample_type | abi.PERF_SAMPLE_RAW,
        flags=clock.flags & ~(dropped | abi.FLAG_MMAP_DATA),
    )
    event = ChosenEvent(WAKING, attr)
    try:
        os.close(open_chosen(event, EVERY_TASK, cpu))
    except OSError as error:
        raise CaptureError(os.strerror(error.errno or 0)) from error
    return event


# Bytes a second of a busy CPU's switches and wake-ups without stacks.
SWITCH_TIMES_BYTES_A_SECOND = _SWITCHES_A_SECOND * 256


def switch_bytes_a_second(attr: EventAttr) -> int:
    """Return the bytes a second of a busy CPU's switches with stacks."""
    return _SWITCHES_A_SECOND * (_RECORDS_BYTES + sample_bytes(attr))
