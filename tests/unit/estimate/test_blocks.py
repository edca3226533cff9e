import numpy as np
import pytest

from builders.annotated import LOOP, code_table
from prospect.estimate.annotate.annotation_view import find_blocks
from prospect.profile.optional_tables import FLOW_JUMP, FLOW_NEXT, FLOW_RETURN, NO_TARGET


def test_a_loop_is_a_block_that_is_jumped_to():
    blocks = find_blocks(code_table({0: LOOP}), 0)
    assert blocks.start.tolist() == [0, 1, 5]
    assert blocks.jump_from.tolist() == [4]
    assert blocks.jump_to.tolist() == [1]


def test_sums_are_of_blocks():
    blocks = find_blocks(code_table({0: LOOP}), 0)
    assert blocks.sums(np.array([1, 2, 3, 4, 5, 6])).tolist() == [1, 14, 6]


@pytest.mark.parametrize("target", [0x0, 0x1001, 0x1003, 0x5000, NO_TARGET])
def test_a_jump_that_leaves_or_leads_into_an_instruction_is_none(target):
    rows = [
        (0x1000, 2, "jmp", FLOW_JUMP, target, ""),
        (0x1002, 4, "nop", FLOW_NEXT, NO_TARGET, ""),
        (0x1006, 1, "ret", FLOW_RETURN, NO_TARGET, ""),
    ]
    blocks = find_blocks(code_table({0: rows}), 0)
    assert blocks.start.tolist() == [0, 1]
    assert len(blocks.jump_from) == 0


def test_a_function_without_instructions_has_no_blocks():
    blocks = find_blocks(code_table({0: "gone", 1: LOOP}), 0)
    assert len(blocks.start) == 0
    assert blocks.sums(np.zeros(0, np.int64)).tolist() == []


def test_jumps_of_one_function_do_not_lead_into_the_next():
    first = [(0x0FFE, 2, "jmp", FLOW_JUMP, 0x1002, "")]
    blocks = find_blocks(code_table({0: first, 1: LOOP}), 0)
    assert len(blocks.jump_from) == 0
