"""Frames of Go functions, by the sizes that Go's own table has for each address.

A size is the distance from the stack pointer to the return address on x86-64, and to the caller's
stack pointer on arm64, where the link register is saved at the stack pointer and the frame register
below it. Functions that set the stack pointer to another stack (`systemstack`, `mcall`) have no
rule: only the runtime knows where the caller's stack is.

Source: ``runtime/traceback.go`` (Go 1.27), unwinder.next(); ``cmd/internal/obj/x86/obj6.go`` and
``cmd/internal/obj/arm64/obj7.go``, preprocess(), for what prologues save.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.elf import elf_layout
from prospect.elf import frame_rules as rules
from prospect.elf.go_table import ASSEMBLY, GO_1_16, WRITES_SP
from prospect.elf.image import NO_ADDRESS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.go_table import GoTable

_WORD = 8
_MOST_ROWS = 1 << 22
_PIECE = 4096
_MOST_ASSEMBLY = 4096
_PROLOGUE = 64  # bytes in which a function saves the frame register
_SAVED_BELOW_RETURN = -2 & (1 << rules.FP_BITS) - 1
# push %rbp and mov %rsp, %rbp; or mov %rbp to a distance of one byte, or of four, from %rsp
_SAVES_FP = re.compile(rb"^\x55\x48\x89\xe5|\x48\x89\x6c\x24(.)|\x48\x89\xac\x24(....)", re.DOTALL)
# Outermost functions. `sigtramp` is not one, although Go marks it: the kernel's frame is above it.
_OUTERMOST = (b"runtime.goexit", b"runtime.mstart", b"runtime.rt0_go")
# It leaves a frame on the new stack that leads to what was there before.
_LEADS_ON = (b"runtime.cgocallback", b"runtime.cgocallback_gofunc")
# In Go 1.16, which has no flag for it.
_SWITCHES = (
    *(b"runtime.systemstack", b"runtime.mcall", b"runtime.asmcgocall", b"runtime.morestack"),
    *(b"runtime.gogo", b"runtime.nanotime1", b"runtime.walltime1", b"runtime.sigfwd"),
)


def go_rows(table: GoTable) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Work out the rules of all functions of an image of x86-64 or arm64.

    Returns:
        u64[r] SVMAs from which on a rule holds, in no order; of equal ones the last counts. i64[r]
        the rules.
    """
    starts = [table.end]
    found = [np.full(len(table), rules.NO_ROW)]
    is_saved = _saves_frame_register(table)
    left = _MOST_ROWS
    for begin in range(0, len(table), _PIECE):
        function = np.arange(begin, min(begin + _PIECE, len(table)))
        lists = table.stack_depths(function)
        depths = table.values.unpacked(lists)
        which = depths.rows_of(lists)
        first = np.searchsorted(depths.row, np.arange(len(depths.begin) + 1))
        count = np.append(np.diff(first), 0).take(which)
        # Any number of functions may share one list.
        count = np.minimum(count, (left - np.cumsum(count) + count).clip(0))
        left -= int(count.sum())
        at, function = segments(first.take(which), count), function.repeat(count)
        start = table.start.take(function) + depths.start.take(at).astype(np.uint64)
        kept = np.flatnonzero(start < table.end.take(function))
        starts.append(start.take(kept))
        depth, function = depths.value.take(at.take(kept)), function.take(kept)
        found.append(_rules(table.image.machine, depth, is_saved.take(function)))
    return _with_rules(np.concatenate(starts), np.concatenate(found), table, _special(table))


def _rules(
    machine: int, depth: NDArray[np.int64], is_saved: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the rules of frames of some sizes, i64[r]."""
    if machine == elf_layout.EM_X86_64:
        cfa, saved = depth + _WORD, is_saved & (depth > 0)
        rule = np.where(saved, rules.RULE_AT_CFA << rules.FP_BITS | _SAVED_BELOW_RETURN, 0)
        rule = rule << rules.FP_SHIFT
        is_form = rules.fits(cfa, rules.CFA_BITS)
    else:
        cfa, saved = depth, depth > 0
        link = rules.pack_slot(-depth, rules.SECOND_BITS)
        frame = rules.pack_slot(-depth - _WORD, rules.FP_BITS)
        rule = (rules.RULE_AT_CFA << rules.SECOND_BITS | link) | (
            rules.RULE_AT_CFA << rules.FP_BITS | frame
        ) << rules.FP_SHIFT
        rule = np.where(saved, rule, 0)
        is_form = rules.fits(-depth - _WORD, rules.FP_BITS)
    rule = rule | rules.pack_slot(cfa, rules.CFA_BITS) << rules.CFA_SHIFT
    return np.where(is_form & (depth >= 0), rule, rules.NO_FORM)


def _saves_frame_register(table: GoTable) -> NDArray[np.bool_]:
    """Return which functions save the frame register below the return address, bool[f].

    Compilers always do, in frames that are not empty. Assembly without its own frame may push
    something else there.
    """
    is_saved = np.ones(len(table), np.bool_)
    if table.image.machine != elf_layout.EM_X86_64:
        return is_saved
    rows = np.flatnonzero(table.flags & ASSEMBLY)
    is_saved[rows] = False
    rows = rows[:_MOST_ASSEMBLY]
    offset = table.image.offset_of_svma(table.start.take(rows))
    lists = table.stack_depths(rows)
    depths = table.values.unpacked(lists)
    deepest = np.zeros(len(depths.begin) + 1, np.int64)
    np.maximum.at(deepest, depths.row, depths.value)
    deepest = deepest.take(depths.rows_of(lists))
    for row, at, size in zip(rows.tolist(), offset.tolist(), deepest.tolist(), strict=True):
        if at == NO_ADDRESS:
            continue
        found = _SAVES_FP.search(bytes(table.image.data[at : at + _PROLOGUE]))
        if found:
            distance = int.from_bytes(found[1] or found[2] or b"", "little")
            is_saved[row] = not found.lastindex or distance == size - _WORD
    return is_saved


def _special(table: GoTable) -> dict[int, int]:
    """Return the rules of functions, by row, that have one rule for all of their code."""
    named = {name: row for row, name in table.rows_named(_OUTERMOST + _LEADS_ON + _SWITCHES)}
    switches = set(np.flatnonzero(table.flags & WRITES_SP).tolist())
    if table.version == GO_1_16:
        switches |= {named[name] for name in _SWITCHES if name in named}
    switches -= {named[name] for name in _LEADS_ON if name in named}
    found = dict.fromkeys(sorted(switches), rules.SWITCH)
    return found | dict.fromkeys((named[name] for name in _OUTERMOST if name in named), rules.END)


def _with_rules(
    start: NDArray[np.uint64], rule: NDArray[np.int64], table: GoTable, special: dict[int, int]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Give some functions one rule for all of their code."""
    is_special = np.zeros(len(table) + 1, np.bool_)
    is_special[list(special)] = True
    kept = np.flatnonzero(~is_special.take(table.row_of(start)))
    own = np.array(list(special), np.int64)
    return (
        np.concatenate((start.take(kept), table.start.take(own))),
        np.concatenate((rule.take(kept), np.array(list(special.values()), np.int64))),
    )
