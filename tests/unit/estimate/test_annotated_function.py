"""Which instruction is meant by the hottest: what ran before it, where that can be known."""

import numpy as np
import pytest

from builders.annotated import code_table
from prospect.estimate.annotate.annotation_view import (
    FunctionSums,
    InstructionSums,
    annotated_function,
)
from prospect.profile.optional_tables import (
    FLOW_BRANCH,
    FLOW_CALL,
    FLOW_JUMP,
    FLOW_NEXT,
    FLOW_RETURN,
    FLOW_STOP,
    NO_TARGET,
)
from prospect.profile.run_info import EventInfo

TIMER = EventInfo("cpu-clock", 1e-9, 0.0, 200.0)
COUNTER = EventInfo("cycles", 0.0, 0.005, 200.0)
PRECISE = EventInfo("cycles:pp", 0.0, 0.005, 200.0)


def judged(rows, hottest, event=TIMER):
    """Annotate instructions (flow, target row or None, text) whose `hottest` has the most hits."""
    code = code_table(
        {
            0: [
                (row, 1, text, flow, NO_TARGET if target is None else target, "")
                for row, (flow, target, text) in enumerate(rows)
            ]
        }
    )
    hits = np.ones(len(rows), np.int64)
    hits[hottest] = 10
    total = int(hits.sum())
    return annotated_function(
        code,
        0,
        event,
        FunctionSums(total, 1.0, None, 1.0, float(total)),
        InstructionSums(hits, hits / total, None, hits.astype(np.float64)),
    )


def plain(count=4):
    return [(FLOW_NEXT, None, "nop")] * count


def test_the_instruction_before_is_meant_where_it_always_ran_before():
    assert judged(plain(), 2).likely == 1
    assert judged(plain(), 2, COUNTER).likely == 1


def test_a_branch_that_was_not_taken_ran_before():
    rows = plain()
    rows[1] = (FLOW_BRANCH, 3, "jne")
    assert judged(rows, 2).likely == 1


def test_nothing_is_said_of_the_first_instruction():
    assert judged(plain(), 0).likely == -1


def test_nothing_is_said_where_a_jump_may_have_led():
    rows = plain()
    rows[3] = (FLOW_BRANCH, 2, "jne")
    assert judged(rows, 2).likely == -1
    assert judged(rows, 1).likely == 0


@pytest.mark.parametrize("flow", [FLOW_JUMP, FLOW_RETURN, FLOW_STOP, FLOW_CALL])
def test_nothing_is_said_behind_what_goes_elsewhere(flow):
    """Behind a jump it was come to from elsewhere; behind a call the callee's return ran before."""
    rows = plain()
    rows[1] = (flow, None, "x")
    assert judged(rows, 2).likely == -1
    assert judged(rows, 3).likely == 2


def test_precise_events_mean_the_instruction_itself():
    assert judged(plain(), 2, PRECISE).likely == 2


@pytest.mark.parametrize(
    ("text", "hottest", "found"),
    [
        ("sti", 2, 1),
        ("sti    ", 3, 1),
        ("sti", 1, -1),
        ("popf", 2, 1),
        ("popfq", 2, 1),
        ("popf", 3, -1),
        ("msr    DAIFClr, #2", 2, 1),
        ("stil", 2, -1),
        ("cli", 2, -1),
    ],
)
def test_behind_what_lets_interrupts_in_a_timer_means_the_time_before(text, hottest, found):
    rows = plain()
    rows[1] = (FLOW_NEXT, None, text)
    judgement = judged(rows, hottest)
    assert judgement.unmasking == found
    assert (judgement.likely == -1) == (found >= 0)
    assert judged(rows, hottest, COUNTER).unmasking == -1
