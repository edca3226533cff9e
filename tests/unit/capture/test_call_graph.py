"""What is asked of the kernel for callers, and the words for what cannot be had."""

from __future__ import annotations

import os

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.capture_limits import MOST_DEFAULT_BYTES
from prospect.capture.events import recorded_callers
from prospect.capture.events.recorded_callers import (
    CallGraph,
    default_callers,
    parse_call_graph,
    sample_bytes,
    with_callers,
)
from prospect.errors import UsageError

STATES = abi.PERF_SAMPLE_REGS_USER | abi.PERF_SAMPLE_STACK_USER


@pytest.fixture
def on(monkeypatch):
    def on(machine):
        name = os.uname_result(("Linux", "host", "6.18", "#1", machine))
        monkeypatch.setattr(recorded_callers.os, "uname", lambda: name)

    on("x86_64")
    return on


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", CallGraph("kernel", 0)),
        ("none", CallGraph("kernel", 0)),
        ("fp", CallGraph("fp", 0)),
        ("lbr", CallGraph("lbr", 0)),
        ("dwarf", CallGraph("dwarf", 8192)),
        ("auto,16384", CallGraph("auto", 16384)),
        ("dwarf,1001", CallGraph("dwarf", 1008)),
        ("dwarf,65520", CallGraph("dwarf", 65520)),
    ],
)
def test_a_mode_and_a_size_are_read(text, expected):
    assert parse_call_graph(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "none,8",
        "fp,8192",
        "lbr,8",
        "dwarf,",
        "dwarf,0",
        "dwarf,65521",
        "dwarf,8k",
        "dwarf,-8",
        ",8",
    ],
)
def test_what_means_nothing_is_refused(text):
    with pytest.raises(UsageError, match="give"):
        parse_call_graph(text)


@pytest.mark.parametrize(
    ("mode", "sample_type", "flags"),
    [
        ("", abi.PERF_SAMPLE_CALLCHAIN, abi.FLAG_EXCLUDE_CALLCHAIN_USER),
        ("fp", abi.PERF_SAMPLE_CALLCHAIN, 0),
        (
            "dwarf",
            abi.PERF_SAMPLE_CALLCHAIN | STATES,
            abi.FLAG_EXCLUDE_CALLCHAIN_USER | abi.FLAG_MMAP_DATA,
        ),
        ("auto", abi.PERF_SAMPLE_CALLCHAIN | STATES, abi.FLAG_MMAP_DATA),
        (
            "lbr",
            abi.PERF_SAMPLE_CALLCHAIN | abi.PERF_SAMPLE_BRANCH_STACK,
            abi.FLAG_EXCLUDE_CALLCHAIN_USER,
        ),
    ],
)
def test_each_mode_asks_for_its_own(on, mode, sample_type, flags):
    attr = with_callers(EventAttr(), parse_call_graph(mode))
    assert (attr.sample_type, attr.flags) == (sample_type, flags)
    assert (attr.sample_stack_user == 8192) == (mode in ("dwarf", "auto"))
    assert bool(attr.branch_sample_type) == (mode == "lbr")


def test_the_recording_says_how_many_frames_chains_have(on, tmp_path, monkeypatch):
    sysctl = tmp_path / "perf_event_max_stack"
    sysctl.write_text("1024\n")
    monkeypatch.setattr(recorded_callers, "_MAX_STACK", str(sysctl))
    attr = with_callers(EventAttr(), CallGraph("fp"))
    assert attr.sample_max_stack == attr.most_frames == 1024
    assert EventAttr.unpack(attr.pack()) == attr
    plain = EventAttr(flags=abi.FLAG_EXCLUDE_KERNEL)
    assert with_callers(plain, CallGraph()).sample_max_stack == 0  # without chains it means nothing
    sysctl.unlink()  # before Linux 4.8
    assert with_callers(EventAttr(), CallGraph("fp")).sample_max_stack == 0


def test_without_the_kernel_there_are_no_kernel_chains(on):
    attr = EventAttr(flags=abi.FLAG_EXCLUDE_KERNEL)
    assert with_callers(attr, CallGraph()) == attr
    chained = with_callers(attr, CallGraph("fp"))
    assert chained.flags & abi.FLAG_EXCLUDE_CALLCHAIN_KERNEL
    assert not chained.flags & abi.FLAG_EXCLUDE_CALLCHAIN_USER


@pytest.mark.parametrize(("machine", "registers"), [("x86_64", 20), ("aarch64", 33)])
def test_all_general_registers_are_copied(on, machine, registers):
    on(machine)
    attr = with_callers(EventAttr(), CallGraph("dwarf", 8192))
    assert attr.sample_regs_user.bit_count() == registers
    assert EventAttr.unpack(attr.pack()) == attr


def test_on_arm64_frame_pointers_come_with_the_register_of_a_leafs_caller(on):
    plain = with_callers(EventAttr(), CallGraph("fp"))
    assert not plain.sample_type & STATES
    on("aarch64")
    attr = with_callers(EventAttr(), CallGraph("fp"))
    assert attr.sample_type & STATES == abi.PERF_SAMPLE_REGS_USER
    assert attr.sample_regs_user == 1 << 29 | 1 << 30 | 1 << 31  # x29, lr, sp
    assert (attr.flags, attr.sample_stack_user) == (plain.flags, 0)
    assert EventAttr.unpack(attr.pack()) == attr
    assert sample_bytes(attr) - sample_bytes(plain) == 8 * 4
    assert not with_callers(EventAttr(), CallGraph()).sample_type & STATES


def test_a_machine_of_unknown_registers_is_refused(on):
    on("s390x")
    with pytest.raises(UsageError, match="--call-graph fp"):
        with_callers(EventAttr(), CallGraph("dwarf", 8192))
    with_callers(EventAttr(), CallGraph("fp"))


def test_a_sample_is_as_large_as_what_it_holds(on):
    plain = with_callers(EventAttr(), CallGraph())
    copying = with_callers(EventAttr(), CallGraph("dwarf", 16384))
    assert sample_bytes(copying) - sample_bytes(plain) == 16384 + 16 + 8 * 21
    assert sample_bytes(with_callers(EventAttr(), CallGraph("lbr"))) > sample_bytes(plain)


@pytest.mark.parametrize(
    ("machine", "machine_facts", "expected", "says"),
    [
        ("x86_64", (200, 2, True), CallGraph("auto", 8192), ""),
        ("x86_64", (200, 2, False), CallGraph("auto", 2048), ""),
        ("x86_64", (200, 16, True), CallGraph("auto", 2616), "2616 bytes instead of 8192"),
        ("x86_64", (2000, 64, True), CallGraph("fp"), "frame pointers alone"),
        ("riscv64", (200, 2, True), CallGraph("fp"), ""),
    ],
)
def test_what_nobody_asked_for_has_a_bound(on, machine, machine_facts, expected, says):
    on(machine)
    rate_hz, cpus, is_system = machine_facts
    graph, limit = default_callers(rate_hz, cpus, is_system=is_system)
    assert graph == expected
    assert graph.stack_bytes * rate_hz * cpus <= MOST_DEFAULT_BYTES
    assert says in limit
    assert bool(limit) == bool(says)
