"""Instructions of a routine → its basic blocks and the jumps between them.

A block is entered at its first instruction only and left at its last; calls return and end none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.sorting import distinct
from prospect.profile.source import FLOW_BRANCH, FLOW_JUMP, FLOW_NAMES, FLOW_RETURN, FLOW_STOP
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.source import CodeTable

_Number = TypeVar("_Number", np.int64, np.float64)
_IS_JUMP = np.zeros(len(FLOW_NAMES), np.bool_)
_IS_JUMP[[FLOW_JUMP, FLOW_BRANCH]] = True
_IS_END = _IS_JUMP.copy()
_IS_END[[FLOW_RETURN, FLOW_STOP]] = True


class Blocks(Record):
    """The basic blocks of a routine; rows count from its first instruction.

    Attributes:
        start: i64[b] first row of each block.
        jump_from: i64[j] rows of the jumps that stay in the routine.
        jump_to: i64[j] rows where they lead.
    """

    start: NDArray[np.int64]
    jump_from: NDArray[np.int64]
    jump_to: NDArray[np.int64]

    def sums(self, column: NDArray[_Number]) -> NDArray[_Number]:
        """Add up a column of the routine's instructions by block."""
        if not len(self.start):
            return column[:0]
        total: NDArray[_Number] = np.add.reduceat(column, self.start)
        return total


def find_blocks(code: CodeTable, routine: int) -> Blocks:
    """Find the blocks of one routine of a code table."""
    rows = slice(int(code.start[routine]), int(code.start[routine + 1]))
    address, target, flow = code.address[rows], code.target[rows], code.flow[rows]
    if not len(address):
        none = np.zeros(0, np.int64)
        return Blocks(none, none, none)
    jump = np.flatnonzero(_IS_JUMP.take(flow))
    led_to = np.searchsorted(address, target.take(jump))
    inside = address.take(np.minimum(led_to, len(address) - 1)) == target.take(jump)
    jump, led_to = jump[inside], led_to[inside]
    after = np.flatnonzero(_IS_END.take(flow)) + 1
    start = distinct(np.concatenate(([0], led_to, after[after < len(address)])))
    return Blocks(start.astype(np.int64), jump, led_to)
