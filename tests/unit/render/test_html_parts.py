"""Parts of a page: a selection has the samples that it says; what is told apart first."""

from collections import Counter

import numpy as np
import pytest

from builders.profile import empty_profile, hostile_profile, perf_profile
from builders.stacks import random_stacks_profile, stacks_profile
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


def made(profile):
    names = stack_names(stack_samples(profile, "4"))
    return names, event_parts(names, int(profile.hits.event[0]))


def stacks_of(names, cells):
    """Hits by path of frames."""
    own = np.bincount(cells.node, cells.count, len(cells.tree)).astype(np.int64)
    found = Counter()
    for row in np.flatnonzero(own).tolist():
        path, at = [], row
        while at > 0:
            path.append(int(cells.tree.frame_index[at]))
            at = int(cells.tree.caller_index[at])
        found[tuple(path[::-1])] += int(own[row])
    return found


def is_preorder(tree):
    path = {}
    for row, depth in enumerate(tree.depth.tolist()):
        if tree.caller_index[row] != (path[depth - 1] if depth else -1):
            return False
        path[depth] = row
    return True


@pytest.mark.parametrize("case", PROFILES)
def test_the_whole_is_what_the_page_in_one_file_shows(case):
    profile = PROFILES[case]()
    names, parts = made(profile)
    event = int(profile.hits.event[0])
    ours, page = parts.cells(Selection(is_by_time=True)), sample_cells(names, event)
    assert stacks_of(names, ours) == stacks_of(names, page)
    assert (ours.tree.frame_index == page.tree.frame_index).all()
    assert ours.is_whole
    for name in ("thread", "cpu", "entry_reason", "mode"):
        column, expected = (
            getattr(cells.contexts, name).take(cells.context) for cells in (ours, page)
        )
        assert (np.bincount(column, ours.count) == np.bincount(expected, page.count)).all()
    if names.samples.time_ns is not None:
        by_stretch = [np.bincount(one.stretch, one.count, one.stretches) for one in (ours, page)]
        assert by_stretch[0].tolist() == by_stretch[1].tolist()
    assert ours.time_ns.sum() == page.time_ns.sum()


@pytest.mark.parametrize(
    "selection",
    [
        Selection(begin_ns=100_000_000, end_ns=250_000_000),
        Selection(scope="process", process=7),
        Selection(cpu=2, thread=5),
        Selection(begin_ns=1, end_ns=600_000_000, scope="command", cpu=1, is_by_time=True),
        Selection(scope="descendants"),
        Selection(begin_ns=500, end_ns=400),
        Selection(scope="process", process=10**9, thread=10**9),
    ],
)
def test_a_selection_has_the_samples_that_it_says(selection):
    profile = random_stacks_profile(3000, 300, 12)
    names, parts = made(profile)
    samples, threads = names.samples, names.threads
    cells = parts.cells(selection)
    end_ns = names.end_ns if selection.end_ns is None else selection.end_ns
    process = threads.process_index.take(threads.thread_index)
    chosen = (samples.time_ns >= selection.begin_ns) & (samples.time_ns < end_ns)
    if selection.scope == "process":
        chosen &= process == selection.process
    if selection.scope == "descendants":
        chosen &= profile.processes.is_descendant.take(process)
    if selection.cpu is not None:
        chosen &= samples.cpu == selection.cpu
    if selection.thread is not None:
        chosen &= threads.thread_index == selection.thread
    assert cells.count.sum() == np.count_nonzero(chosen)
    rows = names.forest.row_of_stack.take(samples.stack_index[chosen])
    expected = Counter(names.forest.frame_index.take(rows).tolist())
    leaves = Counter()
    for path, hits in stacks_of(names, cells).items():
        leaves[path[-1]] += hits
    assert leaves == expected
    assert is_preorder(cells.tree)


def test_stretches_of_a_closer_look_divide_its_time():
    names, parts = made(random_stacks_profile(3000, 300, 12))
    begin, end = 100_000_000, 400_000_000
    cells = parts.cells(Selection(begin_ns=begin, end_ns=end, is_by_time=True))
    assert (cells.begin_ns, cells.end_ns) == (begin, end)
    times = names.samples.time_ns.astype(np.int64)
    since = times[(times >= begin) & (times < end)] - begin
    expected = np.bincount(since * cells.stretches // (end - begin), minlength=cells.stretches)
    assert np.bincount(cells.stretch, cells.count, cells.stretches).tolist() == expected.tolist()


def test_what_is_left_out_is_the_smallest_and_no_sample_is_lost(monkeypatch):
    names, parts = made(random_stacks_profile(20_000, 4000, 12))
    whole = parts.cells(Selection())
    monkeypatch.setattr(cells_module, "_NODES", 2000)
    cells = parts.cells(Selection())
    left_out = cells.tree.frame_index == len(names.frames) + LEFT_OUT
    assert not cells.is_whole
    assert left_out.any()
    assert np.count_nonzero(~left_out) <= 2000
    assert cells.count.sum() == 20_000
    assert is_preorder(cells.tree)
    own = np.bincount(cells.node, cells.count, len(cells.tree)).astype(np.int64)
    assert (own[left_out] > 0).all()
    kept = subtree_sums(cells.tree, own)[~left_out]
    assert (kept > 0).all()
    # What is told apart has what it has in the whole.
    fine = stacks_of(names, whole)
    last = len(names.frames) + LEFT_OUT
    for path, hits in stacks_of(names, cells).items():
        if path[-1] != last:
            assert fine[path] == hits


def test_too_many_cells_become_fewer_and_no_sample_is_lost(monkeypatch):
    _, parts = made(random_stacks_profile(20_000, 4000, 12))
    fine = parts.cells(Selection(is_by_time=True))
    monkeypatch.setattr(cells_module, "_MOST_CELLS_OF_PART", len(fine.node) * 4 // 5)
    coarse = parts.cells(Selection(is_by_time=True))
    assert 0 < len(coarse.node) <= len(fine.node) * 4 // 5
    assert coarse.stretches < fine.stretches
    assert coarse.count.sum() == 20_000
    assert coarse.time_ns.sum() == fine.time_ns.sum()


def test_what_is_zoomed_to_is_told_apart_first(monkeypatch):
    names, parts = made(random_stacks_profile(20_000, 4000, 12))
    whole = stacks_of(names, parts.cells(Selection()))
    monkeypatch.setattr(cells_module, "_NODES", 2000)
    last = len(names.frames) + LEFT_OUT
    rough = stacks_of(names, parts.cells(Selection()))
    path = next(path[:-1] for path in rough if path[-1] == last and len(path) > 5)
    below = {stack: hits for stack, hits in whole.items() if stack[: len(path)] == path}
    fine = stacks_of(names, parts.cells(Selection(path=path)))
    assert {stack: hits for stack, hits in fine.items() if stack[: len(path)] == path} == below
    assert sum(fine.values()) == 20_000


def test_what_is_searched_for_is_told_apart_first(monkeypatch):
    names, parts = made(random_stacks_profile(20_000, 4000, 12))
    whole = stacks_of(names, parts.cells(Selection()))
    monkeypatch.setattr(cells_module, "_NODES", 2000)
    rough = stacks_of(names, parts.cells(Selection()))
    shown = {frame for path in rough for frame in path}
    frame = next(frame for path in whole for frame in path if frame not in shown)
    found = stacks_of(names, parts.cells(Selection(search=names.labels[frame].upper())))
    expected = {path: hits for path, hits in whole.items() if frame in path}
    assert {path: hits for path, hits in found.items() if frame in path} == expected


def test_paths_that_lead_nowhere_end_where_they_do():
    names, parts = made(stacks_profile())
    frames = len(names.frames)
    for path in [(0,), (10**9,), (frames + THREADS, 10**9), (frames + THREADS,) * 4]:
        assert parts.cells(Selection(path=path)).count.sum() == 30


def test_a_profile_without_times_has_one_stretch():
    profile = hostile_profile()
    names, parts = made(replace(profile, samples=replace(profile.samples, **_no_rows(profile))))
    cells = parts.cells(Selection(is_by_time=True))
    assert cells.stretches == 1
    assert cells.count.sum() == names.samples.count.sum()


def _no_rows(profile):
    columns = {name: column for name, column in vars(profile.samples).items() if column is not None}
    return {name: column[:0] for name, column in columns.items()}


def test_an_empty_profile_has_no_events():
    names = stack_names(stack_samples(empty_profile(), "4"))
    assert len(names.samples) == 0
