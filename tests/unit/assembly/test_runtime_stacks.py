"""Samples in Python functions: which function a sample hits, and what stands in its call chain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from builders import runtime_frames as make
from prospect.abi import runtime_frames as wire
from prospect.abi.recorded_facts import RecordBlock
from prospect.assembly.runtimes.runtime_callers import with_runtime_callers
from prospect.assembly.runtimes.runtime_stacks import with_runtimes
from prospect.assembly.stacks.user_stacks import no_user_stacks
from prospect.events.decode import decode
from prospect.symbols.objects import RUNTIME_BASE

KERNEL, USER = (1 << 64) - 128, (1 << 64) - 512
LIBC, RUNTIME, IN_LOOP, MAIN = 0x700000, 0x450000, 0x415000, 0x900000
SHIM = 3
# Two pieces of two instructions, the second one line further.
LINES = bytes([0x80 | 10 << 3 | 1, 0, 0, 0x80 | 11 << 3 | 1, 0, 0])
FIRST = {"leaf": 10, "middle": 20, "outer": 30}
CODE = {name: 0x1000 * number for number, name in enumerate(FIRST, 1)}


def named(minor, names=FIRST):
    parts = [make.raw(make.image(minor))]
    for name, first in names.items():
        found = make.names(CODE[name], name, "/app.py", LINES, first, signature=first)
        parts += map(make.raw, found)
    return parts


def frame(name, owner=0, offset=200):
    """A frame at the second line of its function."""
    return CODE[name], offset, owner, FIRST[name]


def events_of(*parts):
    block = RecordBlock(memoryview(b"".join(parts)))
    return decode([block], [make.CLOCK, make.FRAMES])


def sample(ip, chain=(), mode=2):
    return make.SAMPLES.sample(ip=ip, pid=5, tid=5, time=10, id=7, misc=mode, chain=list(chain))


def told(events, *, native=False):
    """The function and line that each sample hits, or its address; and those of its chain."""
    found, python = with_runtimes(events, native=native)
    code = python.stacks.code

    def text(address):
        if not code.covers(np.array([address], np.uint64))[0]:
            return hex(address)
        row = np.array([address - RUNTIME_BASE], np.uint64)
        function = code.functions[int(code.row_of(row)[0])]
        return f"{function.name}:{code.lines_of(row)[0][1]}"

    hits = [text(ip) for ip in found.samples.ip.tolist()]
    nothing = no_user_stacks(len(found.samples))
    chained, _ = with_runtime_callers(found.samples, nothing, python)
    chains = []
    for begin, end in itertools.pairwise(chained.chain_start.tolist()):
        words, shown = chained.chain[begin:end].tolist(), []
        for before, word in itertools.pairwise([USER, *words]):
            is_exact = before in {USER, KERNEL}
            shown += [] if word in {USER, KERNEL} else [text(word if is_exact else word - 1)]
        chains.append(shown)
    return hits, chains


STACK = make.raw(make.stack(frame("leaf"), frame("middle"), frame("outer", 1)))


def test_a_sample_in_the_interpreter_is_one_of_the_innermost_function():
    hits, chains = told(events_of(*named(11), STACK, sample(RUNTIME)))
    assert hits == ["leaf:11"]
    assert chains == [["leaf:11", "middle:21", "outer:31"]]


def test_a_sample_in_a_library_stays_there_and_is_called_by_python():
    hits, chains = told(events_of(*named(11), STACK, sample(LIBC)))
    assert hits == [hex(LIBC)]
    assert chains == [[hex(LIBC), "leaf:11", "middle:21", "outer:31"]]


def test_a_sample_in_the_kernel_is_called_by_python():
    kernel = 0xFFFF_FFFF_8000_0000
    hits, chains = told(events_of(*named(11), STACK, sample(kernel, [KERNEL, kernel], mode=1)))
    assert hits == [hex(kernel)]
    assert chains == [[hex(kernel), "leaf:11", "middle:21", "outer:31"]]


def test_each_run_of_frames_takes_the_place_of_one_frame_of_the_loop():
    stack = make.raw(make.stack(frame("leaf", 1), frame("middle"), frame("outer", 1)))
    # leaf is called back by a function of libc that the interpreter called.
    chain = [USER, RUNTIME, IN_LOOP, RUNTIME, LIBC + 1, RUNTIME, IN_LOOP, RUNTIME, MAIN + 1]
    hits, chains = told(events_of(*named(11), stack, sample(RUNTIME, chain)))
    assert hits == ["leaf:11"]
    assert chains == [["leaf:11", hex(LIBC), "middle:21", "outer:31", hex(MAIN)]]


def test_native_shows_the_interpreter_called_by_python():
    stack = make.raw(make.stack(frame("leaf", 1), frame("outer", 1)))
    chain = [USER, RUNTIME, IN_LOOP, LIBC + 1, IN_LOOP, MAIN + 1]
    events = events_of(*named(11), stack, sample(RUNTIME, chain))
    hits, chains = told(events, native=True)
    assert hits == [hex(RUNTIME)]
    loop, main = hex(IN_LOOP - 1), hex(MAIN)
    assert chains == [[hex(RUNTIME), loop, "leaf:11", hex(LIBC), loop, "outer:31", main]]


def test_frames_that_stand_for_calls_from_c_end_runs_and_are_not_shown():
    shim = (0x9000, 0, SHIM, 0)
    stack = make.raw(make.stack(frame("leaf"), shim, frame("middle"), frame("outer"), shim))
    chain = [USER, RUNTIME, IN_LOOP, LIBC + 1, IN_LOOP, MAIN + 1]
    _, chains = told(events_of(*named(12), stack, sample(RUNTIME, chain)))
    assert chains == [["leaf:11", hex(LIBC), "middle:21", "outer:31", hex(MAIN)]]


def test_a_chain_that_lost_its_outer_end_is_continued_by_python():
    stack = make.raw(make.stack(frame("leaf", 1), frame("middle", 1), frame("outer", 1)))
    chain = [USER, LIBC, RUNTIME, IN_LOOP, 0x123]
    _hits, chains = told(events_of(*named(11), stack, sample(LIBC, chain)))
    assert chains == [[hex(LIBC), "leaf:11", "middle:21", "outer:31"]]


def test_a_chain_that_never_reaches_the_interpreter_is_not_believed():
    _hits, chains = told(events_of(*named(11), STACK, sample(LIBC, [USER, LIBC, 0x123, 0x456])))
    assert chains == [[hex(LIBC), "leaf:11", "middle:21", "outer:31"]]


@pytest.mark.parametrize(
    ("short", "expected"),
    [
        ([IN_LOOP], ["leaf:11", hex(MAIN), hex(MAIN + 8)]),  # cut above the outermost frame
        ([IN_LOOP, MAIN + 1], ["leaf:11", hex(MAIN), hex(MAIN + 8)]),
        ([IN_LOOP, MAIN + 33], ["leaf:11", hex(MAIN + 32)]),  # entered elsewhere
        ([RUNTIME], ["leaf:11", hex(MAIN), hex(MAIN + 8)]),  # never got to the interpreter's loop
    ],
)
def test_a_cut_chain_gets_the_native_frames_of_one_that_was_entered_alike(short, expected):
    stack = make.raw(make.stack(frame("leaf", 1)))
    whole = [USER, RUNTIME, IN_LOOP, MAIN + 1, MAIN + 9]
    chains = whole, [USER, RUNTIME, *short]
    parts = [part for chain in chains for part in (stack, sample(RUNTIME, chain))]
    _hits, found = told(events_of(*named(11), *parts))
    assert found == [["leaf:11", hex(MAIN), hex(MAIN + 8)], expected]


def test_native_frames_of_another_entry_are_not_taken():
    parts = []
    for name, chain in (("leaf", [IN_LOOP, MAIN + 1]), ("outer", [])):
        parts.append(make.raw(make.stack(frame(name, 1))))
        parts.append(sample(RUNTIME, [USER, RUNTIME, *chain]))
    assert told(events_of(*named(11), *parts))[1] == [["leaf:11", hex(MAIN)], ["outer:31"]]


def test_a_python_stack_without_its_outer_frames_has_nothing_native_further_out():
    frames = frame("leaf"), frame("middle"), frame("outer")
    stack = make.raw(make.stack(*frames, status=wire.TRUNCATED))
    chain = [USER, LIBC, RUNTIME, IN_LOOP, RUNTIME, MAIN + 1]
    events = events_of(*named(11), stack, sample(LIBC, chain))
    assert with_runtimes(events)[1].stacks.is_cut.tolist() == [True]
    _hits, chains = told(events)
    assert chains == [[hex(LIBC), "leaf:11", "middle:21", "outer:31"]]


@pytest.mark.parametrize("minor", [8, 9, 10])
def test_before_3_11_each_frame_is_a_run(minor):
    names = {"leaf": 10}
    parts = [make.raw(make.image(minor))]
    named = make.names(CODE["leaf"], "leaf", "/app.py", bytes([2, 1, 2, 1]), 10 << 32)
    parts += map(make.raw, named)
    stack = make.raw(make.stack(*[(CODE["leaf"], 0xFFFFFFFF, 0, 0)] * 2))
    chain = [USER, RUNTIME, IN_LOOP, RUNTIME, IN_LOOP, MAIN + 1]
    hits, chains = told(events_of(*parts, stack, sample(RUNTIME, chain)))
    assert hits == [f"leaf:{names['leaf']}"]
    assert chains == [["leaf:10", "leaf:10", hex(MAIN)]]


def test_a_function_without_a_name_is_said_to_be_unread():
    hits, _ = told(events_of(*named(11, {"outer": 30}), STACK, sample(RUNTIME)))
    assert hits == ["[not read]:0"]


@pytest.mark.parametrize("status", [wire.NO_KEY, wire.NO_THREAD, wire.NO_FRAME])
def test_without_frames_nothing_changes(status):
    events = events_of(*named(11), make.raw(make.stack(status=status)), sample(RUNTIME))
    assert with_runtimes(events) == (events, None)


def test_a_stack_of_another_thread_is_not_taken():
    other = make.raw(make.stack(frame("leaf", 1)), tid=6)
    events = events_of(*named(11), other, sample(RUNTIME))
    assert with_runtimes(events) == (events, None)
