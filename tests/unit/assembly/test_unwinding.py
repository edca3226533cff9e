"""User frames put into chains: what is kept, what is replaced, what goes on by frame pointers."""

from __future__ import annotations

import itertools

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.stacks import unwinding
from prospect.assembly.stacks.unwinding import _continued, user_parts, with_user_part
from prospect.assembly.stacks.user_stacks import Chains, UserStacks
from prospect.columns.forests import forest_of_lists
from prospect.events.record_columns import CallBranches, Samples
from prospect.unwind import interface

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


def stacks_of(*lists):
    """Unwound stacks of these words, the innermost first."""
    values = words([word for each in lists for word in each[::-1]])
    forest, innermost = forest_of_lists(values, np.array([len(each) for each in lists]))
    places, value = np.unique(values, return_inverse=True)
    _, value = np.unique(np.append(forest.value, places), return_inverse=True)
    forest = forest._replace(value=value[: len(forest)].astype(np.int32))
    is_inner = np.isin(places, words([each[0] for each in lists if each]))
    address = places - ~is_inner
    return UserStacks(forest, innermost, np.zeros(len(places), np.int32), address)


def continued(lists, ends, others, *, is_fp_kept=False):
    samples = samples_with(*([USER, *each] if each else [] for each in others))
    rows = np.arange(len(lists))
    samples, stacks, is_longer = _continued(
        samples,
        stacks_of(*lists),
        rows,
        np.array(ends, np.uint8),
        is_fp_kept=np.full(len(lists), is_fp_kept),
    )
    unwound = stacks.chains(rows)
    found = np.split(unwound.words, np.cumsum(unwound.length)[:-1])
    return [
        own.tolist() if row >= 0 else chain[1:]
        for row, own, chain in zip(stacks.innermost, found, lists_of(samples), strict=True)
    ], is_longer.tolist()


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
    cut, whole = interface.END_CUT, interface.END_COMPLETE
    frames = [[1, 2, 3], [1, 2], [1, 2], [], [1, 9]]
    other = [[1, 3, 4, 5], [1, 2, 7], [8, 9], [1, 2], []]
    lists, is_longer = continued(frames, [cut, whole, cut, cut, cut], other)
    assert lists == [[1, 2, 3, 4, 5], [1, 2], [1, 2], [1, 2], [1, 9]]
    assert is_longer == [True, False, False, False, False]


def test_frame_pointers_go_on_behind_a_switch_of_stacks_if_the_first_record_is_its_own():
    frames, other = [[1, 2], [1, 2]], [[1, 7, 8], [1, 2, 9]]
    ends = [interface.END_SWITCHED] * 2
    assert continued(frames, ends, other) == ([[1, 2], [1, 2, 9]], [False, True])
    whole = [[1, 2, 7, 8], [1, 2, 9]]
    assert continued(frames, ends, other, is_fp_kept=True) == (whole, [True, True])
    cut = [interface.END_CUT] * 2
    assert continued(frames, cut, other, is_fp_kept=True) == ([[1, 2], [1, 2, 9]], [False, True])


def test_in_a_recursion_the_frame_of_the_same_depth_is_meant():
    other = [1, 6, 6, 6, 6, 6, 7]
    assert continued([[1, 6, 6, 6]], [interface.END_CUT], [other]) == ([other], [True])


def test_calls_of_a_branch_stack_are_callers():
    calls = CallBranches(
        sample=np.array([0, 1, 2]),
        start=np.array([0, 2, 3, 3]),
        source=words([0x50, 0x60, 0x70]),
        target=words([0x100, 0x200, 0x300]),
    )
    samples = samples_with([], [KERNEL, TOP], [KERNEL, TOP], mode=[2, 1, 1], ip=[0x105, 1, 1])
    samples = Samples(**{**vars(samples), "calls": calls})
    found = unwinding._branch_chains(samples, samples.calls)
    # In the kernel the function that was called last stands for the instruction.
    assert found.length.tolist() == [3, 2, 0]
    assert found.words.tolist() == [0x105, 0x51, 0x61, 0x300, 0x71]
