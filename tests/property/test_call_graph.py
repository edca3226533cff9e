"""Any stacks: totals, arcs and trees of calls against counting sample by sample."""

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders.profile_builder import ProfileBuilder, run_info
from builders.stacks import with_stacks
from prospect.figures.calls.call_graph import (
    call_arcs,
    call_graph,
    frame_totals,
    numbers_within,
    of_each_hit,
)
from prospect.figures.calls.call_tree import (
    callees_of_tree,
    callees_tree,
    callers_tree,
    self_callers_tree,
)
from prospect.figures.stacks.call_forest import fold_recursion
from prospect.figures.stacks.frames import frame_table, named_forest
from prospect.figures.stacks.stack_weights import stack_samples

paths = st.lists(st.integers(0, 3), min_size=1, max_size=7)
drawn_samples = st.lists(
    st.tuples(st.integers(0, 1), paths, st.booleans()), min_size=1, max_size=15
)


def folded(path):
    return [f for place, f in enumerate(path) if not place or path[place - 1] != f]


def built(drawn):
    """The graph, and of each sample that was chosen its process and folded path of names."""
    build = ProfileBuilder(run_info(command=("x",), begin_ns=1))
    image = build.object("/bin/x")
    for row in range(2):
        build.process(f"p{row}", 10 + row, is_command=True)
    functions = [build.function(f"f{row}", image, 0x1000 * (row + 1)) for row in range(4)]
    profile = with_stacks(build, [(p, [functions[f] for f in path]) for p, path, _ in drawn])
    samples = stack_samples(profile, "4")
    chosen = np.array([keep for *_, keep in drawn])
    graph = call_graph(samples, chosen, 0)
    names = [(f"p{p}", [f"f{f}" for f in folded(path)]) for p, path, keep in drawn if keep]
    return graph, names


@given(drawn_samples)
def test_totals_count_each_sample_once(drawn):
    graph, names = built(drawn)
    totals = frame_totals(graph)
    own = Counter(path[-1] for _, path in names)
    whole = Counter(f for _, path in names for f in set(path))
    for frame, label in enumerate(graph.labels):
        assert totals.self_hits[frame] == own[label]
        assert totals.total_hits[frame] == whole[label]
        rows = np.flatnonzero(graph.forest.frame_index == frame)
        inside = of_each_hit(graph, numbers_within(graph, rows))
        assert graph.profile.hits.count[inside].sum() == whole[label]
    assert graph.hits == len(names)


@given(drawn_samples)
def test_arcs_count_each_sample_once(drawn):
    graph, names = built(drawn)
    arcs = call_arcs(graph)
    whole = Counter(pair for _, path in names for pair in set(pairwise(path)))
    own = Counter(tuple(path[-2:]) for _, path in names if len(path) > 1)
    pairs = [
        (graph.labels[a], graph.labels[b]) for a, b in zip(arcs.caller, arcs.callee, strict=True)
    ]
    assert dict(zip(pairs, arcs.hits.tolist(), strict=True)) == dict(whole)
    tick_s = graph.seconds / max(graph.hits, 1)
    expected = [own[pair] * tick_s for pair in pairs]
    np.testing.assert_allclose(arcs.self_s, expected, atol=1e-12)


def tree_paths(graph, tree):
    """Hits and ended seconds by path of labels."""
    found = {}
    for row in range(len(tree)):
        path, at = [], row
        while at >= 0:
            path.append(tree.labels[tree.frame[at]])
            at = int(tree.parent[at])
        found[tuple(reversed(path))] = int(tree.hits[row])
        assert tree.depth[row] == len(path) - 1
        assert tree.parent[row] < row
        assert (
            graph.profile.hits.count[tree.rows_at_depth[tree.depth[row]] == row].sum()
            == (tree.hits[row])
        )
    return found


def prefixes(paths_of_samples):
    found = defaultdict(int)
    for path in paths_of_samples:
        for end in range(1, len(path) + 1):
            found[tuple(path[:end])] += 1
    return dict(found)


@given(drawn_samples)
def test_trees_have_every_path(drawn):
    graph, names = built(drawn)
    tree = callees_tree(graph, 0.0)
    assert tree_paths(graph, tree) == prefixes([[process, *path] for process, path in names])
    np.testing.assert_allclose(tree.ended_s.sum(), graph.seconds)
    wanted = np.array([f for f, label in enumerate(graph.labels) if label in {"f1", "f2"}], int)
    outwards = [
        path[: min(place for place, f in enumerate(path) if f in {"f1", "f2"}) + 1][::-1]
        for _, path in names
        if {"f1", "f2"} & set(path)
    ]
    assert tree_paths(graph, callers_tree(graph, wanted, 0.0)) == prefixes(outwards)
    inwards = [
        path[min(place for place, f in enumerate(path) if f in {"f1", "f2"}) :]
        for _, path in names
        if {"f1", "f2"} & set(path)
    ]
    assert tree_paths(graph, callees_of_tree(graph, wanted, 0.0)) == prefixes(inwards)
    own = [path[::-1] for _, path in names if path[-1] in {"f1", "f2"}]
    assert tree_paths(graph, self_callers_tree(graph, wanted, 0.0)) == prefixes(own)


@given(drawn_samples)
def test_what_is_left_out_of_a_tree_ends_in_the_row_above(drawn):
    graph, _ = built(drawn)
    whole, tree = callees_tree(graph, 0.0), callees_tree(graph, 0.4)
    np.testing.assert_allclose(tree.ended_s.sum(), tree.total_s[tree.parent < 0].sum())
    assert set(tree_paths(graph, tree)) == {
        path for path, hits in tree_paths(graph, whole).items() if hits >= 0.4 * graph.hits
    }


@given(drawn_samples)
def test_direct_recursion_is_one_frame(drawn):
    build = ProfileBuilder(run_info(command=("x",), begin_ns=1))
    image = build.object("/bin/x")
    build.process("p", 10, is_command=True)
    functions = [build.function(f"f{row}", image, 0x1000 * (row + 1)) for row in range(4)]
    profile = with_stacks(build, [(0, [functions[f] for f in path]) for _, path, _ in drawn])
    forest = fold_recursion(named_forest(profile.stacks, frame_table(profile)))
    labels = frame_table(profile).name
    for (_, path, _), stack in zip(drawn, profile.samples.stack_index, strict=True):
        row, found = int(forest.row_of_stack[stack]), []
        while row >= 0:
            assert forest.caller_index[row] < row
            found.append(labels[forest.frame_index[row]])
            assert (
                forest.depth[row] == forest.depth[forest.caller_index[row]] + 1
                or not (forest.depth[row])
            )
            row = int(forest.caller_index[row])
        assert found[::-1] == [f"f{f}" for f in folded(path)]
