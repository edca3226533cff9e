"""Which events tell of the scheduler's switches: when each task left its CPU, where, and came back.

Comes in: the clocks' plan, and which callers are wanted. Goes out: the plan with one event more on
every CPU. It samples each task that leaves the CPU, in that task's own context, so that the sample
has the stack of what made it leave; records of both sides of each switch have the times, and
whether the task could have gone on. None of this needs tracefs.

Defined by: perf_event_task_sched_out() in ``include/linux/perf_event.h`` (which counts
PERF_COUNT_SW_CONTEXT_SWITCHES before the switch) and perf_event_switch() in
``kernel/events/core.c``, Linux 6.18.
"""

from __future__ import annotations

from prospect.abi import constants as abi
from prospect.capture.events.call_graph import (
    BRANCH_STACK,
    BY_IMAGE,
    FRAME_POINTERS,
    KERNEL_CHAINS,
    CallGraph,
    sample_bytes,
    with_callers,
)
from prospect.capture.events.event_choice import SIDE_BAND_FLAGS, ChosenEvent
from prospect.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr
    from prospect.capture.events.event_choice import EventPlan

NAME = "context-switches"

# Who waits does so in a few routines of a library, most of which keep no frame pointers: their
# frames fit into this, and what called them is followed from there.
_STACK_BYTES = 1024
# A busy CPU with a server's work; where there are more, rings are emptied more often.
_SWITCHES_A_SECOND = 10_000
# Both records of a switch: header, the other task, pid and tid, time, cpu, identifier.
_RECORDS_BYTES = 2 * 48
_PRECISE_IP = 3 << 15

_NO_STACKS = (
    "Waits have no stacks, only times: where a task leaves its CPU is in the kernel, and that needs"
    " root, CAP_PERFMON, or sysctl kernel.perf_event_paranoid=1."
)


def with_switches(plan: EventPlan, graph: CallGraph) -> EventPlan:
    """Return a plan that records the scheduler's switches too.

    Args:
        plan: the clocks.
        graph: whose callers; where none are wanted, or those that only a hardware counter knows,
            it is those that small copies of stacks and frame pointers tell.
    """
    clock = plan.attr
    dropped = (
        SIDE_BAND_FLAGS
        | _PRECISE_IP
        | abi.FLAG_FREQ
        | abi.FLAG_EXCLUDE_CALLCHAIN_USER
        | abi.FLAG_EXCLUDE_CALLCHAIN_KERNEL
    )
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
        except UsageError:  # copies of this machine's stacks are not unwound
            attr = with_callers(attr, CallGraph(FRAME_POINTERS))
    else:
        attr = with_callers(attr, graph)
    attr = attr._replace(flags=attr.flags & ~abi.FLAG_MMAP_DATA)  # the first clock has it
    limits = plan.limits
    if attr.flags & abi.FLAG_EXCLUDE_KERNEL:
        limits += (_NO_STACKS,)
    return plan._replace(beside=(*plan.beside, ChosenEvent(NAME, attr)), limits=limits)


def switch_bytes_a_second(attr: EventAttr) -> int:
    """Return how many bytes a second of a busy CPU's switches takes in its ring."""
    return _SWITCHES_A_SECOND * (_RECORDS_BYTES + sample_bytes(attr))
