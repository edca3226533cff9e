"""What stands behind a sample's call chain, for one event's attributes.

Comes in: an `EventAttr`. Goes out: `Trailing`, which says which of the fields of varying size the
event's samples have, up to the copy of the user's stack; nothing behind that is read.
Source: the comment of PERF_RECORD_SAMPLE in ``include/uapi/linux/perf_event.h`` (Linux 6.18): raw
data, branch stack, user registers, user stack stand in this order behind the call chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr

_REGISTER_LIMIT = 64


class Trailing(NamedTuple):
    """The fields behind the call chain of one event's samples.

    Attributes:
        has_raw: raw data comes first.
        branch_words_each: words of each branch with its counter, 0 without a branch stack.
        has_branch_index: a word stands between the number of branches and the branches.
        are_branches_calls: the branches are the calls that have not returned yet.
        registers: the kernel's numbers of the user's registers, ascending; empty without.
        has_stack: a copy of the user's stack.
    """

    has_raw: bool = False
    branch_words_each: int = 0
    has_branch_index: bool = False
    are_branches_calls: bool = False
    registers: tuple[int, ...] = ()
    has_registers: bool = False
    has_stack: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything that is decoded."""
        return self.has_registers or self.has_stack or self.are_branches_calls


def trailing_of(attr: EventAttr) -> Trailing:
    """Return what stands behind the call chains of an event's samples, all absent if unwanted."""
    kinds = attr.sample_type
    branches, each = bool(kinds & abi.PERF_SAMPLE_BRANCH_STACK), 0
    if branches:
        each = 3 + bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_COUNTERS)
    has_registers = bool(kinds & abi.PERF_SAMPLE_REGS_USER)
    mask = attr.sample_regs_user if has_registers else 0
    found = Trailing(
        has_raw=bool(kinds & abi.PERF_SAMPLE_RAW),
        branch_words_each=each,
        has_branch_index=bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_HW_INDEX),
        are_branches_calls=branches
        and bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_CALL_STACK),
        registers=tuple(bit for bit in range(_REGISTER_LIMIT) if mask >> bit & 1),
        has_registers=has_registers,
        has_stack=bool(kinds & abi.PERF_SAMPLE_STACK_USER),
    )
    return found if found.is_wanted else Trailing()
