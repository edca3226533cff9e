"""Call chains and Python stacks → chains with Python frames instead of the evaluation loop's.

The user part of a chain may be whole, broken or not recorded at all. Each frame of the
interpreter's evaluation loop in the native stack represents one run of Python frames; the other
frames of the interpreter's file are left out. A chain with fewer frames of the loop than runs has
lost its outer end: frames beyond the last frame of the loop are dropped, and the outer runs follow
directly. The native code that entered the interpreter is then copied from another stack of the
process with the same outermost Python function, so that both are one tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.stacks.user_stacks import Chains, user_parts, with_user_part
from prospect.columns.buffers import segments
from prospect.columns.sorting import numbered
from prospect.records import NamedTuple
from prospect.symbols.objects import RUNTIME_BASE

if TYPE_CHECKING:
    from prospect.assembly.runtimes.runtime_stacks import RuntimeSamples, RuntimeStacks
    from prospect.assembly.stacks.user_stacks import UserStacks
    from prospect.columns.array_types import I8, I64, U64, Bools
    from prospect.events.record_columns import Samples


_OTHER, _INTERPRETER, _LOOP = 0, 1, 2


class _Native(NamedTuple):
    """The native frames of all stacks, the innermost first.

    Attributes:
        length: i64[s] frames of each stack.
        words: u64[w] as in chains.
        stack: i64[w] the stack.
        place: i64[w] place in the stack, 0 for the innermost.
        kind: i8[w] _OTHER, _INTERPRETER or _LOOP.
    """

    length: I64
    words: U64
    stack: I64
    place: I64
    kind: I8


def with_runtime_callers(
    samples: Samples, unwound: UserStacks, python: RuntimeSamples
) -> tuple[Samples, UserStacks]:
    """Return the samples with Python frames in their call chains, and the stacks of the others.

    `samples` and `python` are from `with_runtimes`.
    """
    stacks = python.stacks
    native = np.flatnonzero(unwound.innermost.take(stacks.sample) >= 0)
    if len(native):
        of_sample = stacks.sample.take(native)
        samples = with_user_part(samples, of_sample, unwound.chains(of_sample))
        unwound = unwound.without(of_sample)
    return _with_python_frames(samples, python), unwound


def _with_python_frames(samples: Samples, python: RuntimeSamples) -> Samples:
    """Return the samples with Python frames in their call chains."""
    stacks, ip = python.stacks, python.ip
    native = _native_frames(samples, ip, stacks)
    runs = _run_counts(stacks)
    place_of_run, limit = _matched(native, runs, stacks.is_cut)
    frame_stack = np.repeat(np.arange(len(stacks.sample)), np.diff(stacks.start))
    first_run = np.cumsum(runs) - runs
    frame_place = place_of_run.take(first_run.take(frame_stack) + stacks.run, mode="clip")
    kept = native.place < limit.take(native.stack)
    kept &= (native.kind == _OTHER) | python.is_native
    # A hit of a Python function is the innermost frame, whatever the interpreter calls there.
    is_python = samples.ip.take(stacks.sample) != ip.take(stacks.sample)
    innermost = place_of_run.take(first_run + np.maximum(runs - 1, 0), mode="clip")
    innermost = np.where(is_python, innermost, -1)
    kept &= native.place > innermost.take(native.stack)
    rows = np.flatnonzero(kept)
    outermost = place_of_run.take(first_run, mode="clip")
    lent, borrower = _outer_frames_of_others(
        native,
        rows[native.place.take(rows) > outermost.take(native.stack.take(rows))],
        _entries(samples, stacks),
        (runs > 0) & ~stacks.is_cut,
    )
    stack = np.concatenate((native.stack.take(rows), borrower, frame_stack))
    place = np.concatenate(
        (
            native.place.take(rows),
            native.length.take(borrower) + native.place.take(lent),
            frame_place,
        )
    )
    rows = np.append(rows, lent)
    words = np.concatenate((native.words.take(rows), stacks.address + np.uint64(1)))
    # Stable: frames of a run stay in their order, after the frame of the loop if that is shown.
    order = np.lexsort((place, stack))
    words, stack = words.take(order), stack.take(order)
    length = np.bincount(stack, minlength=len(stacks.sample))
    begin = (np.cumsum(length) - length)[length > 0]
    # The first word of a chain is no return address, nor is that of an interrupted instruction.
    is_return = np.concatenate((native.place.take(rows) > 0, np.ones(len(stacks.address), bool)))
    words[begin] -= is_return.take(order).take(begin).astype(np.uint64)
    return with_user_part(samples, stacks.sample, Chains(length, words))


def _entries(samples: Samples, stacks: RuntimeStacks) -> I64:
    """Number the pairs of a process and a stack's outermost Python function, i64[s].

    The same native code starts threads of one process that begin with the same function.
    """
    length = np.diff(stacks.start)
    last = stacks.address.take(np.maximum(stacks.start[1:] - 1, 0), mode="clip")
    function = np.where(length > 0, stacks.code.row_of(last - RUNTIME_BASE), -1)
    pid = (samples.task.take(stacks.sample) & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    entry, _ = numbered(pid << 32 | (function + 1))
    return entry


def _outer_frames_of_others(
    native: _Native, outer: I64, entry: I64, is_whole: Bools
) -> tuple[I64, I64]:
    """Find the native frames that stacks lack outside their Python frames, in the longest stacks.

    Args:
        outer: i64[o] rows of `native` that are further out than their stack's Python frames.
        entry: i64[s] from `_entries`.
        is_whole: bool[s] whether a stack has all its Python frames.

    Returns:
        i64[w] rows of `native`, and i64[w] the stacks to which they belong too.
    """
    count = np.bincount(native.stack.take(outer), minlength=len(entry))
    begin = np.cumsum(count) - count
    longest = np.zeros(int(entry.max(initial=-1)) + 1, np.int64)
    order = np.argsort(count, kind="stable")
    longest[entry.take(order)] = order  # of several values for one place the last stays
    lender = longest.take(entry)
    borrower = np.flatnonzero(is_whole & (count < count.take(lender)))
    lender, own = lender.take(borrower), count.take(borrower)
    words = native.words.take(outer)
    is_other = words.take(segments(begin.take(borrower), own)) != words.take(
        segments(begin.take(lender), own)
    )
    others = np.bincount(np.repeat(np.arange(len(own)), own)[is_other], minlength=len(own))
    fits = np.flatnonzero(others == 0)
    borrower, lender, own = borrower.take(fits), lender.take(fits), own.take(fits)
    sizes = count.take(lender) - own
    return outer.take(segments(begin.take(lender) + own, sizes)), np.repeat(borrower, sizes)


def _native_frames(samples: Samples, ip: U64, stacks: RuntimeStacks) -> _Native:
    """Return the user part of chains; the instruction of user code if there is none."""
    recorded = user_parts(samples, stacks.sample)
    is_user = samples.mode.take(stacks.sample) == abi.PERF_RECORD_MISC_USER
    is_bare = (recorded.length == 0) & is_user
    length = recorded.length + is_bare
    begin = np.cumsum(length) - length
    words = np.empty(int(length.sum()), np.uint64)
    words[segments(begin, recorded.length)] = recorded.words
    words[begin[is_bare]] = ip.take(stacks.sample[is_bare])
    stack = np.repeat(np.arange(len(length)), length)
    place = np.arange(len(words)) - begin.take(stack)
    address = words - (place > 0)
    in_text = stacks.are_in_own_code(stack, address)
    loop = stacks.loop.take(stack, axis=0)
    in_loop = (address >= loop[:, 0]) & (address < loop[:, 1])
    kind = in_text.astype(np.int8) + in_loop
    if stacks.v8 is not None:
        kind = stacks.v8.kinds(kind, stack, address, words)
    return _Native(length, words, stack, place, kind.astype(np.int8))


def _run_counts(stacks: RuntimeStacks) -> I64:
    """Return the number of runs of each stack, including runs without a shown frame."""
    runs = np.zeros(len(stacks.sample), np.int64)
    length = np.diff(stacks.start)
    np.maximum.at(runs, np.repeat(np.arange(len(length)), length), stacks.run + 1)
    return runs


def _matched(native: _Native, runs: I64, is_cut: Bools) -> tuple[I64, I64]:
    """Match frames of the loop with runs.

    Args:
        runs: i64[s] number of runs of each stack.
        is_cut: bool[s] whether a Python stack lacks its outer frames, and so native ones too.

    Returns:
        i64[r] the place in the native stack for each run of each stack, the outermost first; and
        i64[s] the place from which on native frames are dropped.
    """
    stacks = len(runs)
    is_loop = native.kind == _LOOP
    loops = np.bincount(native.stack[is_loop], minlength=stacks)
    rows = np.flatnonzero(is_loop)
    stack = native.stack.take(rows)
    # Frames of the loop are ordered from the inside out, runs from the outside in.
    from_inside = np.arange(len(rows)) - (np.cumsum(loops) - loops).take(stack)
    missing = np.maximum(runs - loops, 0)
    run = (loops - 1).take(stack) - from_inside + missing.take(stack)
    first_run = np.cumsum(runs) - runs
    place_of_run = np.repeat(native.length, runs)
    is_run = run < runs.take(stack)
    place_of_run[(first_run.take(stack) + run)[is_run]] = native.place.take(rows)[is_run]
    first_interpreter = native.length.copy()
    of_interpreter = np.flatnonzero(native.kind > _OTHER)
    np.minimum.at(
        first_interpreter, native.stack.take(of_interpreter), native.place.take(of_interpreter)
    )
    first_interpreter[first_interpreter == native.length] = 1
    last_loop = np.zeros(stacks, np.int64)
    np.maximum.at(last_loop, stack, native.place.take(rows) + 1)
    believed = np.where(loops > 0, last_loop, first_interpreter)
    return place_of_run, np.where((missing > 0) | is_cut, believed, native.length)
