"""Registers of leaves → the return addresses that only the link register holds.

In: an `UnwindInput` without stack copies, and the chain of frame records. Out: for each
sample the return address that the chain lacks. A function of arm64 that calls none makes no frame
record, and no other has made one at its first and its last instructions: the records, which x29
leads to, begin with the caller's, and that one returns to the caller's caller.

Defined by: the AAPCS64, "The Frame Pointer"; ``arch/arm64/kernel/stacktrace.c``, where the kernel's
chain begins with pc and goes on with x29 (Linux 6.18). ``perf report`` asks call-frame information
likewise (``tools/perf/util/arm64-frame-pointer-unwind-support.c``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import frame_rules as rules
from prospect.unwind.unwinder import unwind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.unwind.model import CodeFinder, UnwindInput


def leaf_callers(
    given: UnwindInput, known: NDArray[np.uint64], finder: CodeFinder
) -> NDArray[np.uint64]:
    """Find the return addresses that chains of frame records lack.

    Without a copy of the stack, unwinding comes to a caller only by the link register: where
    call-frame information says that the return address is still in it, or where an image has none
    of the code but has some of the code that the register leads to.

    Args:
        given: the samples, of arm64; sp and x29 may be unknown, and 0 then.
        known: u64[n] the return address that comes next in each chain, 0 where it has none.
        finder: what stands where.

    Returns:
        u64[n] return addresses without the bits that sign them; 0 where the chain lacks none.
    """
    unwound = unwind(given, finder, most_frames=2)
    rows = np.flatnonzero(unwound.frames() > 1)
    chains = unwound.chains(rows)
    first = chains.start[:-1]
    found = chains.address.take(first + 1)
    rule = unwound.sites.rule.take(chains.site.take(first))
    sp, fp = given.sp.take(rows).view(np.int64), given.fp.take(rows).view(np.int64)
    # The same address twice is the frame record of this function, whose information is missing or
    # wrong; or a recursion, if the record lies in the caller's frame.
    is_of_caller = (rule >> rules.KIND_SHIFT == rules.KIND_SP) & (sp > 0)
    is_of_caller &= fp >= sp + rules.cfa_bytes(rule)
    callers = np.zeros(len(given), np.uint64)
    callers[rows] = np.where((found != known.take(rows)) | is_of_caller, found, np.uint64(0))
    return callers
