"""Stacks of samples, their sums, and their forests by name."""

from collections import Counter

import numpy as np
import pytest

from builders.profile import (
    hostile_profile,
    huge_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)
from builders.stacks import TICK_NS, random_stacks_profile, stacks_profile
from prospect.errors import UsageError
from prospect.figures.stacks.frames import frame_labels, frame_table, named_forest
from prospect.figures.stacks.stack_weights import (
    nanoseconds,
    paths,
    sample_threads,
    stack_samples,
    stack_weights,
)
from prospect.profile.model import CPUMODE_KERNEL, ENTRY_REASON_SYSCALL
from prospect.records import replace

WITHOUT_STACKS = {
    "qsort": qsort_profile,
    "hostile": hostile_profile,
    "perf": perf_profile,
    "rowless": rowless_profile,
    "huge": lambda: huge_profile(20, 400),
}


def named_stacks(profile, detail="4", *, inlined=False):
    """Count samples by thread name and names, by following each stack on its own."""
    samples = stack_samples(profile, detail)
    frames = frame_table(samples.profile, inlined=inlined)
    labels = frame_labels(samples.profile, frames)
    found = Counter()
    for hit, row, count in zip(
        samples.hit_index.tolist(),
        samples.stack_index.tolist(),
        samples.count.tolist(),
        strict=True,
    ):
        comm = samples.profile.comms[samples.profile.hits.comm_index[hit]]
        names, above = [], row
        while above >= 0:
            place = samples.stacks.location_index[above]
            inner = frames.frame[frames.start[place] : frames.start[place + 1]]
            names = [labels[f] for f in inner] + names
            above = int(samples.stacks.caller_index[above])
        found[comm, tuple(names)] += count
    return found


def merged_stacks(profile, detail="4", *, inlined=False):
    """The same by sums over the forest by name."""
    samples = stack_samples(profile, detail)
    weights = stack_weights(samples)
    frames = frame_table(samples.profile, inlined=inlined)
    labels = frame_labels(samples.profile, frames)
    forest = named_forest(samples.stacks, frames)
    start, path = paths(
        forest.caller_index, forest.depth, forest.row_of_stack.take(weights.stack_index)
    )
    found = Counter()
    for number, (comm, count) in enumerate(
        zip(weights.comm_index.tolist(), weights.count.tolist(), strict=True)
    ):
        rows = forest.frame_index.take(path[start[number] : start[number + 1]])
        found[samples.profile.comms[comm], tuple(labels[f] for f in rows)] += count
    return found


def test_stacks_are_those_that_were_recorded():
    assert merged_stacks(stacks_profile()) == {
        ("comm", ("main", "work")): 5,
        ("comm", ("main", "work", "work", "work")): 3,
        ("comm", ("main", "work", "a;b <c>&\"' 1")): 2,
        ("comm", ("main", "jitted")): 4,
        ("comm", ("main", "[libc.so.6]")): 1,
        ("comm", ("main", "read", "do_syscall_64", "vfs_read")): 6,
        ("a b;c", ("default_idle",)): 9,
    }


def test_inlined_functions_stand_between_their_function_and_what_it_calls():
    found = merged_stacks(stacks_profile(lines=True), inlined=True)
    assert found["comm", ("main", "work", "inlined<int>", "a;b <c>&\"' 1")] == 2
    assert found["comm", ("main", "work", "inlined<int>")] == 5


@pytest.mark.parametrize("inlined", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_sums_over_the_forest_are_those_of_each_stack(seed, inlined):
    profile = random_stacks_profile(500, 60, 6, seed)
    assert merged_stacks(profile, inlined=inlined) == named_stacks(profile, inlined=inlined)


def test_rows_of_the_forest_have_their_callers_before_them_and_are_distinct():
    profile = random_stacks_profile(3000, 400, 9)
    samples = stack_samples(profile)
    forest = named_forest(samples.stacks, frame_table(samples.profile))
    rows = np.arange(len(forest))
    assert (forest.caller_index < rows).all()
    known = forest.caller_index >= 0
    assert (forest.depth[known] == forest.depth[forest.caller_index[known]] + 1).all()
    assert (forest.depth[~known] == 0).all()
    pairs = forest.caller_index * 10_000 + forest.frame_index
    assert len(np.unique(pairs)) == len(forest)


@pytest.mark.parametrize("case", WITHOUT_STACKS)
def test_without_chains_each_hit_is_a_stack_of_one_frame(case):
    profile = WITHOUT_STACKS[case]()
    samples = stack_samples(profile, "4")
    weights = stack_weights(samples)
    assert weights.count.sum() == profile.hits.count.sum()
    assert weights.period.sum() == np.maximum(profile.hits.period, 0).sum()
    assert (samples.stacks.depth == 0).all()
    assert merged_stacks(profile) == named_stacks(profile)


def test_samples_without_a_chain_among_others_keep_their_own_frame():
    profile = stacks_profile()
    stack_index = profile.samples.stack_index.copy()
    stack_index[::3] = -1
    partly = replace(profile, samples=replace(profile.samples, stack_index=stack_index))
    found = merged_stacks(partly)
    assert sum(found.values()) == 30
    assert found == named_stacks(partly)
    assert any(len(names) == 1 for comm, names in found if comm == "comm")


def test_a_caller_without_a_place_has_a_name_all_the_same():
    profile = stacks_profile()
    location = profile.stacks.location_index.copy()
    location[0] = -1
    lost = replace(profile, stacks=replace(profile.stacks, location_index=location))
    found = merged_stacks(lost)
    assert sum(found.values()) == 30
    assert any(names[0] == "[no object]" for _, names in found)


def test_time_is_that_of_the_samples():
    samples = stack_samples(stacks_profile(), "4")
    weights = stack_weights(samples)
    time = nanoseconds(samples.profile, weights.event, weights.count, weights.period)
    assert time.tolist() == (weights.count * TICK_NS).tolist()


def test_periods_of_samples_win_over_the_mean_of_their_hit():
    profile = stacks_profile()
    period = np.arange(1, 31, dtype=np.uint64)
    exact = replace(profile, samples=replace(profile.samples, period=period))
    assert stack_weights(stack_samples(exact, "4")).period.sum() == 465


@pytest.mark.parametrize(("detail", "count"), [("2", 21), ("3", 21), ("4", 30), ("k", 15)])
def test_detail_chooses_whose_samples(detail, count):
    samples = stack_samples(stacks_profile(), detail)
    assert samples.count.sum() == count
    if detail == "k":
        assert (samples.of_hit(samples.profile.hits.mode) == CPUMODE_KERNEL).all()


def test_an_unknown_detail_is_refused():
    with pytest.raises(UsageError, match="-V 9"):
        stack_samples(stacks_profile(), "9")


def test_sums_can_tell_processors_and_threads_apart():
    samples = stack_samples(stacks_profile(), "4")
    weights = stack_weights(samples, by_place=True)
    assert weights.count.sum() == 30
    for cpu in (0, 1):
        assert weights.count[weights.cpu == cpu].sum() == (samples.cpu == cpu).sum()
    assert set(weights.tid.tolist()) == {0, 77}
    together = stack_weights(samples)
    assert len(together) == 7
    assert set(together.cpu.tolist()) == {0xFFFF}
    assert set(together.tid.tolist()) == {-1}


def test_entry_reasons_stay_with_their_samples():
    samples = stack_samples(stacks_profile(), "4")
    weights = stack_weights(samples)
    kind = samples.profile.entry_reasons.kind.take(weights.entry_reason_index)
    assert weights.count[kind == ENTRY_REASON_SYSCALL].tolist() == [6]


def test_threads_are_told_apart_by_id_and_program():
    samples = stack_samples(stacks_profile(), "4")
    threads = sample_threads(samples)
    assert sorted(zip(threads.process_index, threads.tid, strict=True)) == [(0, 0), (1, 77)]
    process = samples.of_hit(samples.profile.hits.process_index)
    assert (threads.process_index.take(threads.thread_index) == process).all()


def test_threads_without_an_id_have_one_that_no_thread_has():
    profile = stacks_profile()
    unknown = replace(profile, samples=replace(profile.samples, tid=None))
    threads = sample_threads(stack_samples(unknown, "4"))
    assert len(set(threads.tid.tolist())) == 2
    assert (threads.tid > 1 << 22).all()
