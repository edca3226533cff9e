"""Events of recordings whose stacks are of some processes only, and the programs that choose."""

from __future__ import annotations

import struct

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.events.event_choice import (
    CLOCK_TIMER,
    SAMPLE_TYPE,
    SCOPE_SYSTEM,
    ChosenEvent,
    EventPlan,
    with_filtered_copies,
)
from prospect.capture.events.recorded_callers import CallGraph, with_callers
from prospect.capture.events.switches import with_switches
from prospect.capture.following import process_programs as programs
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.kernel_types import add_offset
from prospect.recording import opened_events as recording_events
from prospect.recording.opened_events import RecordOptions, filter_obstacle

PERIODS = (4_000_000, 3_900_000)


def plan_of_copies():
    attr = EventAttr(
        sample_period=PERIODS[0],
        sample_type=SAMPLE_TYPE,
        flags=abi.FLAG_MMAP | abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_DISABLED,
    )
    try:
        attr = with_callers(attr, CallGraph("auto", 2048))
    except Exception:  # noqa: BLE001 - another machine, whose stacks are not copied
        pytest.skip("no copies of stacks on this machine")
    return EventPlan(attr, PERIODS, SCOPE_SYSTEM, CLOCK_TIMER, ())


def test_clocks_copy_nothing_and_the_events_behind_them_all():
    copying = plan_of_copies()
    plan = with_filtered_copies(copying)
    assert plan.attr.sample_stack_user == plan.attr.sample_regs_user == 0
    assert plan.attr.flags & abi.FLAG_EXCLUDE_CALLCHAIN_USER
    assert plan.attr.flags & abi.FLAG_MMAP_DATA  # perf looks up call-frame information
    assert plan.copies.config == abi.PERF_COUNT_SW_BPF_OUTPUT
    assert not plan.copies.flags & (abi.FLAG_MMAP | abi.FLAG_MMAP_DATA)
    # A file describes them as what their samples are, and the cost of a sample is with its copy.
    assert plan.recorded_copies(64) == copying.recorded_attr(64)
    assert plan.sampling_attr(10**6, 64) == copying.sampling_attr(10**6, 64)
    assert plan.filters
    assert not copying.filters


def test_times_of_switches_do_not_wait_for_the_programs():
    plan = with_filtered_copies(plan_of_copies())._replace(may_filter=True)
    times, *samples = with_switches(plan, CallGraph(), 0, (), wakers=False).beside
    assert times.attr.flags & abi.FLAG_CONTEXT_SWITCH
    assert not times.is_filtered
    assert not any(one.attr.flags & abi.FLAG_CONTEXT_SWITCH for one in samples)
    # Programs that follow threads write the times too.
    chosen = [ChosenEvent(name, plan.attr) for name in ("sched:sched_switch", "sched:sched_waking")]
    beside = with_switches(plan, CallGraph(), 0, tuple(chosen), wakers=True).beside
    assert beside == (*samples, *chosen)
    (both,) = with_switches(plan_of_copies(), CallGraph(), 0, (), wakers=False).beside
    assert both.attr.flags & abi.FLAG_CONTEXT_SWITCH
    assert not both.is_filtered


def test_a_program_writes_samples_of_switches_with_pieces_of_stacks():
    plan = with_filtered_copies(plan_of_copies())._replace(may_filter=True)
    _, begin, written = with_switches(plan, CallGraph(), 0, (), wakers=False).beside
    assert (begin.is_filtered, begin.is_recorded) == (True, False)
    # The kernel prepares what this event asks for, whoever writes the sample.
    assert not begin.attr.sample_type & (abi.PERF_SAMPLE_CALLCHAIN | abi.PERF_SAMPLE_STACK_USER)
    assert written.attr.config == abi.PERF_COUNT_SW_BPF_OUTPUT
    assert written.recorded.config == abi.PERF_COUNT_SW_CONTEXT_SWITCHES
    assert written.recorded.has_pieces_of_stacks
    wanted = abi.PERF_SAMPLE_CALLCHAIN | abi.PERF_SAMPLE_RAW | abi.PERF_SAMPLE_REGS_USER
    assert written.attr.sample_type & wanted == wanted
    # Large copies, and chains alone, are the event's own.
    for graph in (CallGraph("dwarf", 32768), CallGraph("fp")):
        _, alone = with_switches(plan, graph, 0, (), wakers=False).beside
        assert alone.is_filtered
        assert alone.is_recorded


def test_offsets_are_at_the_instructions_that_use_them():
    program = programs.fork_program(3)
    code = asm.assemble(program)
    ((at, field),) = asm.fields_of(program)
    assert field == "tgid"
    assert code[at : at + 8] == asm.assemble((add_offset(asm.Reg.R3, "tgid"),))


@pytest.mark.parametrize("copies", [7, -1])
def test_a_program_compares_each_period_if_there_are_copies(copies):
    if programs.os.uname().machine not in programs._PERIOD_OFFSET:
        pytest.skip("runs on x86-64 and arm64")
    code = programs.sample_program(programs.Maps(3, copies, 5, 4, PERIODS))
    immediates = {value for (value,) in struct.iter_unpack("=4xi", code)}
    assert (set(PERIODS) <= immediates) == (copies >= 0)


@pytest.mark.parametrize(
    ("changes", "is_filtered"),
    [
        ({}, True),
        ({"of_all": True}, False),
        ({"command": ()}, False),
        ({"command": (), "pids": (4,)}, True),
        ({"events": ("page-faults",)}, False),
    ],
)
def test_whose_stacks_are_recorded(monkeypatch, changes, is_filtered):
    monkeypatch.setattr(recording_events, "filter_obstacle", lambda: "")
    options = RecordOptions(**{"command": ("true",), **changes})
    plan = recording_events._with_chosen_processes(options, plan_of_copies())
    assert plan.filters == is_filtered
    same = plan_of_copies()._replace(periods=(PERIODS[0],) * 2)
    assert not recording_events._with_chosen_processes(options, same).filters


@pytest.mark.parametrize(
    ("changes", "copies_once"),
    [({}, True), ({"in_parts": True}, False), ({"events": ("page-faults",)}, False)],
)
def test_waits_of_every_process_are_copied_once(monkeypatch, changes, copies_once):
    monkeypatch.setattr(recording_events, "filter_obstacle", lambda: "")
    options = RecordOptions(of_all=True, off_cpu=True, **changes)
    plan = recording_events._with_chosen_processes(options, plan_of_copies())
    assert plan.copies is None  # each clock copies by itself
    callers = CallGraph("auto", 2048)
    assert bool(with_switches(plan, callers, 0, (), wakers=False).copies_of_waits) == copies_once
    # A program has nothing to do if there are no copies.
    (both,) = with_switches(plan, CallGraph("fp"), 0, (), wakers=False).beside
    assert not both.is_filtered


def test_a_program_looks_up_no_process_if_every_one_is_followed():
    if programs.os.uname().machine not in programs._PERIOD_OFFSET:
        pytest.skip("runs on x86-64 and arm64")
    of_some, of_all = (
        programs.sample_program(programs.Maps(fd, -1, 5, 4, PERIODS, copies_of_waits=True))
        for fd in (3, -1)
    )
    assert len(of_all) < len(of_some)


def test_old_kernels_choose_nobody(monkeypatch):
    kernel = recording_events.os.uname()
    if kernel.machine not in ("x86_64", "aarch64"):
        pytest.skip("runs on x86-64 and arm64")
    old = type("Kernel", (), {"machine": kernel.machine, "release": "5.16.0-5-amd64"})
    monkeypatch.setattr(recording_events.os, "uname", lambda: old)
    assert filter_obstacle() == "it takes Linux 5.17"
