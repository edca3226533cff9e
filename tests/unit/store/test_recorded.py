"""The words that choose a part of a store choose the same of a recording."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from builders.stacks import stacks_profile
from builders.stored import by_routine
from prospect.errors import UsageError
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.records import replace
from prospect.store.recorded import part_of_recording
from prospect.store.specification import parse_specifications

BEGAN = 1_795_356_300


def recording():
    profile = stacks_profile()
    return replace(profile, run=replace(profile.run, started_at=float(BEGAN)))


def part(*words):
    return part_of_recording(recording(), parse_specifications(words))


@pytest.mark.parametrize(
    ("words", "hits"),
    [
        (["comm:comm"], 21),
        (["comm:c*,x"], 21),
        (["image:work", "symbol:work"], 8),
        (["symbol:wor?,jitted"], 12),
        (["lib-image:*/libc.so*"], 1),
        (["event:cpu-clock"], 30),
        (["tgid:77"], 21),
        (["cpu:0"], 15),
    ],
)
def test_words_choose_the_hits_that_they_choose_of_a_store(words, hits):
    found = part(*words)
    assert found.hits.count.sum() == hits
    assert len(found.samples) == 0
    assert any(" ".join(words) in limit for limit in found.run.limits)


def test_all_of_it_has_the_same_hits_and_stacks():
    found = part("event:*")
    assert by_routine(found) == by_routine(recording())
    assert found.hits.period.sum() == recording().hits.period.sum()
    depths = [
        sorted(
            int(one.stacks.depth[row])
            for row, count in zip(one.stack_index.tolist(), one.count.tolist(), strict=True)
            for _ in range(count)
        )
        for one in (stack_samples(found, "4"), stack_samples(recording(), "4"))
    ]
    assert depths[0] == depths[1]


def test_times_are_those_of_the_clock_on_the_wall():
    samples = stack_samples(recording(), "4")
    middle_s = BEGAN + float(sorted(samples.time_ns.tolist())[15]) / 1e9
    middle = datetime.fromtimestamp(middle_s, UTC).isoformat()
    first, second = part(f"until:{middle}"), part(f"since:{middle}")
    assert first.hits.count.sum() + second.hits.count.sum() == 30
    assert 0 < first.hits.count.sum() < 30
    seconds = first.run.wall_seconds + second.run.wall_seconds
    assert seconds == pytest.approx(recording().run.wall_seconds, abs=1e-3)


def test_what_fits_nothing_says_what_there_is():
    with pytest.raises(UsageError, match="comm: there is comm, a b;c"):
        part("comm:nginx")
    with pytest.raises(UsageError, match="tgid: there is "):
        part("tgid:4711")
    with pytest.raises(UsageError, match="is of a store"):
        part("session:current")
    with pytest.raises(UsageError, match=r"nothing fits .* it is from 2026-11-"):
        part("until:2001-01-01")
