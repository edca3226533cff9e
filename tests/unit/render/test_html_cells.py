"""The cells of a page: every sample in exactly one, under the stack that it was taken in."""

from collections import Counter

import numpy as np
import pytest

from builders.profile import hostile_profile, perf_profile
from builders.stacks import random_stacks_profile, stacks_profile
from prospect.figures.calls.call_graph import call_graph, frame_totals
from prospect.figures.stacks.call_forest import LEFT_OUT, THREADS, subtree_sums
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.records import replace
from prospect.render.html import cells as cells_module
from prospect.render.html.cells import Selection, event_parts, sample_cells, stack_names

PROFILES = {
    "stacks": stacks_profile,
    "random": lambda: random_stacks_profile(3000, 300, 12),
    "perf": perf_profile,
    "hostile": hostile_profile,
}
every_case = pytest.mark.parametrize("case", PROFILES)


def made(profile):
    names = stack_names(stack_samples(profile, "4"))
    return names, sample_cells(names, int(profile.hits.event[0]))


def totals(cells):
    own = np.bincount(cells.node, cells.count, len(cells.tree)).astype(np.int64)
    return own, subtree_sums(cells.tree, own)


def of_event(names, event):
    return names.samples.of_hit(names.samples.profile.hits.event) == event


@every_case
def test_every_sample_is_in_a_cell(case):
    profile = PROFILES[case]()
    names, cells = made(profile)
    chosen = of_event(names, int(profile.hits.event[0]))
    assert cells.count.sum() == names.samples.count[chosen].sum()
    by_context = np.bincount(cells.context, cells.count)
    for column, of_sample in (
        (cells.contexts.thread, names.threads.thread_index),
        (cells.contexts.cpu, names.samples.cpu),
        (
            cells.contexts.entry_reason,
            names.samples.of_hit(names.samples.profile.hits.entry_reason_index),
        ),
    ):
        expected = np.bincount(of_sample[chosen], names.samples.count[chosen])
        assert np.bincount(column, by_context).tolist() == expected.tolist()


@every_case
def test_the_tree_is_in_preorder_below_all_samples_and_threads(case):
    names, cells = made(PROFILES[case]())
    tree, frames = cells.tree, len(names.frames)
    assert tree.depth[0] == 0
    assert (tree.depth[1:] >= 1).all()
    assert (np.diff(tree.depth) <= 1).all()
    path = {}
    for row, depth in enumerate(tree.depth.tolist()):
        assert tree.caller_index[row] == (path[depth - 1] if depth else -1)
        path[depth] = row
    assert ((tree.frame_index >= frames + THREADS) == (tree.depth == 1)).all()
    own, total = totals(cells)
    assert total[0] == own.sum()
    assert (total > 0).all()


def test_stacks_below_a_thread_weigh_what_the_call_graph_says():
    profile = random_stacks_profile(3000, 300, 12)
    names, cells = made(profile)
    samples = names.samples
    graph = call_graph(samples, np.ones(len(samples), np.bool_), 0)
    expected = frame_totals(graph).self_hits
    own, _ = totals(cells)
    found = np.bincount(cells.tree.frame_index, own, len(expected))[: len(expected)]
    assert found.tolist() == expected.tolist()


def test_the_stacks_of_a_small_profile_read_as_folded_ones():
    names, cells = made(stacks_profile())
    own, _ = totals(cells)
    threads = names.samples.profile.comms

    def label(row):
        frame = int(cells.tree.frame_index[row])
        first = len(names.frames) + THREADS
        return names.labels[frame] if frame < first - THREADS else threads[frame - first]

    found = Counter()
    for row in np.flatnonzero(own).tolist():
        path, at = [], row
        while at > 0:
            path.append(label(at))
            at = int(cells.tree.caller_index[at])
        found[tuple(path[::-1])] += int(own[row])
    assert found == {
        ("a b;c", "default_idle"): 9,
        ("comm", "main", "[libc.so.6]"): 1,
        ("comm", "main", "jitted"): 4,
        ("comm", "main", "read", "do_syscall_64", "vfs_read"): 6,
        ("comm", "main", "work"): 5 + 3,  # recursion is folded
        ("comm", "main", "work", "a;b <c>&\"' 1"): 2,
    }


def test_too_many_cells_become_coarser_ones_and_none_is_lost(monkeypatch):
    profile = random_stacks_profile(20_000, 4000, 12)
    names, fine = made(profile)
    assert fine.is_whole
    monkeypatch.setattr(cells_module, "_MOST_CELLS", 3000)
    monkeypatch.setattr(cells_module, "_NODES", 2000)
    monkeypatch.setattr(cells_module, "_THREADS", 64)
    _, coarse = made(profile)
    assert not coarse.is_whole
    assert len(coarse.node) < len(fine.node) / 2
    assert len(coarse.tree) < len(fine.tree)
    assert coarse.stretches < fine.stretches
    assert coarse.count.sum() == fine.count.sum() == 20_000
    assert coarse.time_ns.sum() == fine.time_ns.sum()
    left_out = coarse.tree.frame_index == len(names.frames) + LEFT_OUT
    own, total = totals(coarse)
    assert left_out.any()
    assert (own[left_out] > 0).all()
    assert (total > 0).all()
    assert (
        coarse.contexts.thread == len(names.threads)
    ).any()  # what is none of the largest threads


def test_stretches_are_in_time_and_long_enough_to_hold_samples():
    _, cells = made(random_stacks_profile(3000, 300, 12))
    assert cells.stretches == 64  # 3000 samples on 4 CPUs
    by_stretch = np.bincount(cells.stretch, cells.count, cells.stretches)
    assert by_stretch[0] > 0
    assert len(by_stretch) == 64


@pytest.mark.parametrize("last_ns", [1 << 57, (1 << 63) + 5, (1 << 64) - 1])
def test_times_of_a_damaged_recording_lose_no_sample(last_ns):
    profile = stacks_profile()
    time_ns = profile.samples.time_ns.copy()
    time_ns[-1] = last_ns
    names, cells = made(replace(profile, samples=replace(profile.samples, time_ns=time_ns)))
    assert cells.count.sum() == len(profile.samples)
    assert cells.stretch.max() == cells.stretches - 1
    parts = event_parts(names, int(profile.hits.event[0]))
    served = parts.cells(Selection(is_by_time=True))
    assert served.count.sum() == len(profile.samples)
    assert served.stretch.max() == served.stretches - 1
