"""User frames put into chains: what is kept, what is replaced, what goes on by frame pointers."""

from __future__ import annotations

import itertools

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.stacks import unwinding
from prospect.assembly.stacks.unwinding import Chains, _continued, user_parts, with_user_part
from prospect.events.columns import CallBranches, Samples
from prospect.unwind import model

USER = abi.PERF_CONTEXT_USER % (1 << 64)
KERNEL = abi.PERF_CONTEXT_KERNEL % (1 << 64)
TOP = 0xFFFF_FFFF_8000_0000


def words(values):
    return np.array(values, np.uint64)


def chains_of(*lists):
    length = np.array([len(each) for each in lists], np.int64)
    return Chains(length, words(list(itertools.chain(*lists))))


def samples_with(*chains, mode=None, ip=None, calls=None):
    count = len(chains)
    zeros = np.zeros(count, np.uint64)
    start = np.cumsum([0, *map(len, chains)])
    return Samples(
        ip=zeros if ip is None else words(ip),
        task=zeros,
        time_ns=zeros,
        mode=np.full(count, 2, np.uint8) if mode is None else np.array(mode, np.uint8),
        cpu=np.zeros(count, np.uint16),
        period=zeros,
        event=np.zeros(count, np.uint16),
        clock=np.zeros(count, np.uint8),
        chain_start=start.astype(np.int64),
        chain=words(list(itertools.chain(*chains))),
        calls=calls,
    )


def lists_of(samples):
    bounds = samples.chain_start.tolist()
    return [samples.chain[a:b].tolist() for a, b in itertools.pairwise(bounds)]


def unwound(ends):
    none = np.zeros(0, np.int64)
    return model.Unwound(none, none, none, None, np.array(ends, np.uint8), none)


def test_user_frames_come_behind_those_of_the_kernel_and_instead_of_the_recorded():
    samples = samples_with(
        [KERNEL, TOP + 1, TOP + 2], [], [KERNEL, TOP + 3, USER, 7, 8], [USER, 1, 2], [USER, 9]
    )
    rows = np.array([0, 1, 2, 4])
    found = with_user_part(samples, rows, chains_of([11, 12], [13], [14, 15], []))
    assert lists_of(found) == [
        [KERNEL, TOP + 1, TOP + 2, USER, 11, 12],
        [USER, 13],
        [KERNEL, TOP + 3, USER, 14, 15],
        [USER, 1, 2],
        [USER, 9],
    ]


def test_chains_arise_where_a_recording_has_none():
    bare = samples_with([], [])
    bare = Samples(**{**vars(bare), "chain": None, "chain_start": None})
    found = with_user_part(bare, np.array([1]), chains_of([5, 6]))
    assert lists_of(found) == [[], [USER, 5, 6]]
    parts = user_parts(bare, np.array([0, 1]))
    assert parts.length.tolist() == [0, 0]


def test_frame_pointers_go_on_only_from_a_frame_that_both_have():
    cut, whole = model.END_CUT, model.END_COMPLETE
    frames = chains_of([1, 2, 3], [1, 2], [1, 2], [], [1, 9])
    other = chains_of([1, 3, 4, 5], [1, 2, 7], [8, 9], [1, 2], [])
    found, is_longer = _continued(frames, unwound([cut, whole, cut, cut, cut]), other)
    ends = np.cumsum(found.length)
    lists = [found.words[b - n : b].tolist() for b, n in zip(ends, found.length, strict=True)]
    assert lists == [[1, 2, 3, 4, 5], [1, 2], [1, 2], [], [1, 9]]
    assert is_longer.tolist() == [True, False, False, False, False]


def test_in_a_recursion_the_frame_of_the_same_depth_is_meant():
    frames = chains_of([1, 6, 6, 6])
    other = chains_of([1, 6, 6, 6, 6, 6, 7])
    found, is_longer = _continued(frames, unwound([model.END_CUT]), other)
    assert found.words.tolist() == other.words.tolist()
    assert is_longer.tolist() == [True]


def test_calls_of_a_branch_stack_are_callers():
    calls = CallBranches(
        sample=np.array([0, 1, 2]),
        start=np.array([0, 2, 3, 3]),
        source=words([0x50, 0x60, 0x70]),
        target=words([0x100, 0x200, 0x300]),
    )
    samples = samples_with([], [KERNEL, TOP], [KERNEL, TOP], mode=[2, 1, 1], ip=[0x105, 1, 1])
    samples = Samples(**{**vars(samples), "calls": calls})
    found = unwinding._branch_chains(samples)
    # In the kernel the function that was called last stands for the instruction.
    assert found.length.tolist() == [3, 2, 0]
    assert found.words.tolist() == [0x105, 0x51, 0x61, 0x300, 0x71]
