"""Records of switches become waits, in a table of their own, and the lives of threads."""

from __future__ import annotations

import numpy as np
import pytest

from builders.sources import CLOCK, BuiltSource
from builders.switches import (
    BEGIN,
    END,
    FAULTS,
    PERIOD,
    RUN,
    SWITCH,
    WAKING,
    switched_profile,
    wakes,
)
from prospect.abi.recorded_facts import RecordingInfo
from prospect.analysis.pipeline import build_profile
from prospect.columns.buffers import tuples
from prospect.figures.remarks import run_warnings
from prospect.figures.report.counters import run_counters
from prospect.figures.report.report_view import ReportView
from prospect.figures.report.waiting import waiting
from prospect.figures.stacks.stack_weights import with_waits
from prospect.options import NamingOptions
from prospect.profile.complete import complete


@pytest.fixture(params=[(CLOCK, SWITCH), (SWITCH, CLOCK), (CLOCK, SWITCH, FAULTS)])
def events(request):
    return request.param


def test_threads_are_what_their_switches_say(events):
    threads = switched_profile(*events).threads
    assert threads.tid.tolist() == [5, 6]
    assert threads.name == ["prog", "prog"]
    assert threads.life_ns.tolist() == [100_000, 27_000]
    assert threads.cpu_ns.tolist() == [10_000 + 8_000 + 40_000, 20_000]
    assert threads.blocked_ns.tolist() == [1_000 + 20_000, 0]
    assert threads.runnable_ns.tolist() == [21_000, 7_000]
    assert threads.stackless_ns.tolist() == [1_000, 7_000]
    assert threads.longest_ns.tolist() == [20_000, 0]
    assert (threads.blocks.tolist(), threads.preemptions.tolist()) == ([1, 0], [1, 0])


@pytest.mark.parametrize("options", [{"stacks": True}, {"waits": True}])
def test_waits_have_a_table_of_their_own(events, options):
    profile = switched_profile(*events, **options)
    names = [event.name for event in profile.run.events]
    assert names == [event.name for event in events if event is not SWITCH]
    assert [event.name for event in profile.run.wait_events] == ["blocked", "runnable"]
    waits, hits, samples = profile.waits, profile.hits, profile.samples
    assert waits.is_runnable.tolist() == [False, True]
    assert waits.begin_ns.tolist() == [12_000, 40_000]
    assert waits.length_ns.tolist() == [20_000, 21_000]
    assert waits.tid.tolist() == [5, 5]
    assert profile.locations.address[waits.location_index].tolist() == [0x400005] * 2
    assert (hits.count.tolist(), hits.period.tolist()) == ([1], [PERIOD])
    assert (samples.hit_index.tolist(), samples.time_ns.tolist()) == ([0], [3_000])
    assert profile.run.statistics["samples"] == 1


def test_stacks_are_exported_with_waits_as_samples_of_events_behind_all_others(events):
    profile = with_waits(switched_profile(*events, waits=True))
    names = [event.name for event in profile.run.events]
    assert names == [*(e.name for e in events if e is not SWITCH), "blocked", "runnable"]
    hits, samples = profile.hits, profile.samples
    sums = {
        names[event]: (count, period)
        for event, count, period in tuples(hits.event, hits.count, hits.period)
    }
    assert sums == {"cpu-clock": (1, PERIOD), "blocked": (1, 20_000), "runnable": (1, 21_000)}
    assert samples.period.tolist() == [PERIOD, 20_000, 21_000]
    assert [names[event] for event in hits.event[samples.hit_index].tolist()] == list(sums)
    assert profile.waits is None
    assert with_waits(profile) is profile


def test_who_does_not_ask_for_waits_has_none(events):
    profile = switched_profile(*events)
    assert profile.waits is None
    assert [event.is_waiting for event in profile.run.events] == [False] * (len(events) - 1)
    assert int(profile.hits.count.sum()) == 1
    assert len(profile.threads) == 2


def test_a_report_counts_the_clock_and_shows_waits_beside_it(events):
    profile = switched_profile(*events, waits=True)
    view = ReportView(profile, "4")
    assert int(view.profile.hits.count.sum()) == 1
    assert view.profile.samples.hit_index.tolist() == [0]
    (stack,) = view.waiting.stacks
    assert (stack.waits, stack.seconds, stack.longest_s) == (1, 2e-5, 2e-5)
    assert np.isnan(view.waiting.user_s[1])
    assert np.nansum(view.waiting.user_s + view.waiting.system_s) == pytest.approx(58e-6)


def test_no_warning_says_that_waits_are_samples_too_many(events):
    profile = complete(switched_profile(*events, waits=True))
    counters = run_counters(profile)
    assert counters["samples"] == 1
    assert run_warnings(profile, counters) == ()


@pytest.mark.parametrize(
    ("by", "flags", "waker", "who"),
    [
        (6, 0, 6, "prog"),
        (77, 0, 77, "thread 77"),
        (6, 0x08, 0, "(interrupt)"),
        (0, 0x10, 0, "(interrupt)"),
    ],
)
def test_a_thread_is_runnable_from_its_wake_up_on(by, flags, waker, who):
    # Blocked from 12,000 on, and on the CPU again at 32,000.
    more = [wakes(27_000, 5, by, flags=flags), wakes(28_000, 5, 6)]
    profile = switched_profile(CLOCK, SWITCH, WAKING, more=more, waits=True)
    assert [event.name for event in profile.run.events] == ["cpu-clock"]
    assert profile.threads.blocked_ns.tolist() == [1_000 + 15_000, 0]
    assert profile.threads.runnable_ns.tolist() == [21_000 + 5_000, 7_000]
    assert profile.run.statistics["samples"] == 1
    waits = profile.waits
    assert sorted(waits.length_ns[waits.is_runnable].tolist()) == [5_000, 21_000]
    assert waits.waker[~waits.is_runnable].tolist() == [waker]
    assert (waits.waker[waits.is_runnable] == -1).all()
    (one,) = waiting(complete(profile), "4").wakers
    assert (one.who, one.waits, one.seconds) == (who, 1, pytest.approx(15e-6))


def test_a_wake_up_of_a_thread_that_runs_ends_nothing():
    more = [wakes(70_000, 5, 6)]
    profile = switched_profile(CLOCK, SWITCH, WAKING, more=more, waits=True)
    assert profile.threads.blocked_ns.tolist() == [1_000 + 20_000, 0]
    assert (profile.waits.waker == -1).all()


def test_a_thread_that_is_woken_as_it_leaves_only_waits_for_its_turn():
    # It is off its queue, and can be woken, before its switch is recorded.
    profile = switched_profile(CLOCK, SWITCH, WAKING, more=[wakes(11_000, 5, 6)], waits=True)
    assert profile.threads.blocked_ns.tolist() == [1_000, 0]
    assert profile.threads.runnable_ns.tolist() == [21_000 + 20_000, 7_000]


def test_times_without_samples_of_switches_are_still_times():
    threads = switched_profile(CLOCK, stacks=True).threads
    assert threads.life_ns.tolist() == [100_000, 27_000]
    assert threads.stackless_ns.tolist() == [
        int(threads.blocked_ns[row] + threads.runnable_ns[row]) for row in range(2)
    ]


@pytest.mark.parametrize("interval", [[BEGIN, BEGIN], [END, BEGIN], [0, 1 << 60]])
def test_an_interval_that_cannot_be_one_is_no_life(interval):
    info = RecordingInfo(events=(CLOCK, SWITCH), extras={"interval_ns": interval})
    source = BuiltSource(list(RUN), info)
    profile = build_profile(source, NamingOptions(use_cache=False, debuginfod_s=0))
    assert profile.threads is None
