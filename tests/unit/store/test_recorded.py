"""The words that choose a part of a store choose the same of a recording."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from builders.sources import CLOCK
from builders.stacks import stacks_profile
from builders.stored import by_function
from builders.switches import SWITCH, switched_profile
from prospect.errors import UsageError
from prospect.figures.stacks.stack_weights import stack_samples, with_waits
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
        (["symbol:wor?,jitted", "exclude-symbol:jit*"], 8),
        (["dependent:no"], 14),
        (["unit-mask:0x0"], 30),
    ],
)
def test_words_choose_the_hits_that_they_choose_of_a_store(words, hits):
    found = part(*words)
    assert found.hits.count.sum() == hits
    assert len(found.samples) == 0
    assert any(" ".join(words) in limit for limit in found.run.limits)


def test_all_of_it_has_the_same_hits_and_stacks():
    found = part("event:*")
    assert by_function(found) == by_function(recording())
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


def test_waits_that_fit_are_part_of_it():
    whole = switched_profile(CLOCK, SWITCH, stacks=True)
    for words, lengths in ((["tid:5"], [20_000, 21_000]), (["event:blocked"], [20_000])):
        found = part_of_recording(whole, parse_specifications(words))
        assert found.waits.length_ns.tolist() == lengths
        exported = stack_samples(with_waits(found), "4")
        assert exported.period.tolist()[-len(lengths) :] == lengths


def test_what_fits_nothing_says_what_there_is():
    with pytest.raises(UsageError, match="comm: there is comm, a b;c"):
        part("comm:nginx")
    with pytest.raises(UsageError, match="tgid: there is "):
        part("tgid:4711")
    with pytest.raises(UsageError, match="needs a store"):
        part("session:current")
    with pytest.raises(UsageError, match=r"nothing matches .* it is from 2026-11-"):
        part("until:2001-01-01")


def test_events_are_chosen_by_what_they_count():
    profile = recording()
    event = replace(
        profile.run.events[0],
        seconds_per_period=0.0,
        seconds_per_hit=0.0,
        frequency_hz=0.0,
        sample_period=10_000,
        unit_mask=0x41,
    )
    profile = replace(profile, run=replace(profile.run, events=(event,)))

    def hits(*words):
        return part_of_recording(profile, parse_specifications(words)).hits.count.sum()

    assert hits("count:10000", "unit-mask:0x41") == hits("unit-mask:65") == 30
    with pytest.raises(UsageError, match="nothing matches count:7; count: there is 10000"):
        hits("count:7")
    with pytest.raises(UsageError, match="nothing matches unit-mask:0x1; unit-mask: there is 65"):
        hits("unit-mask:0x1")


@pytest.mark.parametrize(
    ("period", "word"),
    [
        (4_000_000_000, "count:4000000000"),
        # No kernel takes a period from 2^63 on, but a file may say it.
        (2**64 - 1, "count:9223372036854775807"),
    ],
)
def test_events_are_chosen_by_large_periods(period, word):
    profile = recording()
    event = replace(
        profile.run.events[0], seconds_per_period=0.0, frequency_hz=0.0, sample_period=period
    )
    profile = replace(profile, run=replace(profile.run, events=(event,)))
    assert part_of_recording(profile, parse_specifications([word])).hits.count.sum() == 30
    with pytest.raises(UsageError, match=f"there is {word.partition(':')[2]}"):
        part_of_recording(profile, parse_specifications(["count:7"]))


def test_the_count_of_a_timer_is_that_of_one_of_its_clocks():
    events = {"frequency_hz": 1000.0, "clocks": 4, "seconds_per_period": 1e-9 / 4}
    profile = recording()
    event = replace(profile.run.events[0], **events)
    profile = replace(profile, run=replace(profile.run, events=(event,)))
    found = part_of_recording(profile, parse_specifications(["count:4000000"]))
    assert found.hits.count.sum() == 30


def test_what_excludes_all_says_what_there_is():
    with pytest.raises(
        UsageError, match=r"nothing matches exclude-symbol:\*; exclude-symbol: there is"
    ):
        part("exclude-symbol:*")
    with pytest.raises(UsageError, match="dependent:yes: give no"):
        part("dependent:yes")
