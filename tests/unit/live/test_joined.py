"""Parts of a profile, joined again, are the profile."""

import itertools

import numpy as np
import pytest

from builders.profile_builder import ProfileBuilder, run_info
from builders.stacks import TICK_NS, random_stacks_profile
from prospect.figures.selection import only_used
from prospect.live.joined import JoinedProfile
from prospect.profile.model import STOP_THROTTLED, ClockStopTable, ClockTable, LossTable
from prospect.records import replace

CUTS_NS = (0, 90_000_000, 90_000_001, 410_000_000, 10**9)


def whole_profile():
    profile = random_stacks_profile(3000, 400, 12)
    samples = profile.samples
    period = np.broadcast_to(np.uint64(TICK_NS), len(samples))
    return replace(profile, samples=replace(samples, period=period))


def parts_of(profile, cuts=CUTS_NS):
    times = profile.samples.time_ns
    for begin, end in itertools.pairwise(cuts):
        part = only_used(profile, (times >= begin) & (times < end))
        yield replace(
            part,
            run=replace(
                profile.run,
                begin_ns=begin,
                end_ns=end,
                wall_seconds=(end - begin) * 1e-9,
                statistics={"samples": len(part.samples)},
                accounting={"cpu_user_s": 0.5, "command_exit_status": begin},
                cpu_accounting={0: {"idle_s": 0.25}},
                limits=("every part", f"part {begin}"),
            ),
            losses=LossTable(np.array([begin % 3], np.int32), np.array([2]), np.array([1])),
            clocks=clocks(begin, end),
        )


def clocks(begin, end):
    return ClockTable(
        event=np.zeros(2, np.uint16),
        clock=np.arange(2, dtype=np.uint8),
        cpu=np.zeros(2, np.int32),
        period_ns=np.array([1e6, 2e6]),
        begin_ns=np.full(2, begin, np.uint64),
        end_ns=np.full(2, end, np.uint64),
        lost=np.array([1, 0]),
    )


def joined(parts):
    whole = JoinedProfile()
    for part in parts:
        whole.add(part)
    return whole


def places(profile):
    """Of each location, what it is."""
    functions, objects = profile.functions, profile.objects
    rows = zip(
        profile.locations.function_index.tolist(), profile.locations.address.tolist(), strict=True
    )
    return [
        (objects.path[functions.object_index[f]], functions.linkage_name[f], address)
        for f, address in rows
    ]


def hits(profile):
    place, table = places(profile), profile.hits
    rows = zip(
        profile.processes.pid[table.process_index].tolist(),
        (profile.comms[row] for row in table.comm_index),
        (place[row] for row in table.location_index),
        table.mode.tolist(),
        table.entry_reason_index.tolist(),
        strict=True,
    )
    counts = zip(table.count.tolist(), table.period.tolist(), strict=True)
    return dict(zip(rows, counts, strict=True))


def stacks(profile):
    """Of each sample, the places from the innermost frame to the outermost."""
    place, table = places(profile), profile.stacks
    found = []
    for own in profile.samples.stack_index.tolist():
        row, stack = own, []
        while row >= 0:
            stack.append(place[table.location_index[row]])
            row = int(table.caller_index[row])
        found.append(tuple(stack))
    return found


def test_hits_samples_and_stacks_are_those_of_the_whole():
    whole = whole_profile()
    again = joined(parts_of(whole)).profile()
    assert hits(again) == hits(whole)
    assert np.array_equal(again.samples.time_ns, whole.samples.time_ns)
    assert np.array_equal(again.samples.tid, whole.samples.tid)
    assert stacks(again) == stacks(whole)
    of_sample = np.bincount(again.samples.hit_index, minlength=len(again.hits))
    assert np.array_equal(of_sample, again.hits.count)
    assert len(set(places(again))) == len(places(again))
    assert (again.stacks.caller_index < np.arange(len(again.stacks))).all()


def test_nothing_is_there_twice_and_nothing_without_use():
    whole = only_used(whole_profile())
    again = joined(parts_of(whole)).profile()
    assert len(places(again)) == len(set(places(whole)))  # the builder draws some twice
    for name in ("processes", "objects", "functions", "hits", "entry_reasons"):
        assert len(getattr(again, name)) == len(getattr(whole, name)), name


def test_the_run_reaches_from_the_first_to_the_last():
    whole = whole_profile()
    parts = list(parts_of(whole))
    run = joined(parts).profile().run
    assert (run.begin_ns, run.end_ns, run.wall_seconds) == (0, 10**9, 1.0)
    assert run.statistics["samples"] == len(whole.samples)
    assert run.accounting == {"cpu_user_s": 2.0, "command_exit_status": parts[-1].run.begin_ns}
    assert run.cpu_accounting == {0: {"idle_s": 1.0}}
    assert run.limits == ("every part", *(f"part {begin}" for begin in CUTS_NS[:-1]))


def test_clocks_tick_on_from_part_to_part_and_losses_add_up():
    profile = joined(parts_of(whole_profile())).profile()
    table = profile.clocks
    assert list(zip(table.begin_ns, table.end_ns, table.lost, strict=True)) == [
        (0, 10**9, 4),
        (0, 10**9, 0),
    ]
    assert profile.losses.lost.sum() == 8
    assert profile.losses.cpu.tolist() == sorted(set(profile.losses.cpu.tolist()))


def test_a_clock_that_stood_still_between_parts_has_two_rows():
    first, second, *_ = parts_of(whole_profile(), (0, 10**8, 2 * 10**8, 10**9))
    second = replace(second, clocks=clocks(2 * 10**8 - 5, 2 * 10**8))
    stops = ClockStopTable(
        np.array([STOP_THROTTLED], np.uint8),
        np.array([1], np.int32),
        np.array([2 * 10**8 - 4], np.uint64),
        np.array([2 * 10**8 - 3], np.uint64),
    )
    none = replace(stops, **{name: getattr(stops, name)[:0] for name in stops.__annotations__})
    whole = joined([replace(first, clock_stops=none), replace(second, clock_stops=stops)])
    profile = whole.profile()
    assert profile.clocks.begin_ns.tolist() == [0, 0, 2 * 10**8 - 5, 2 * 10**8 - 5]
    assert profile.clock_stops.clock_index.tolist() == [3]
    whole.forget_before(10**8)
    profile = whole.profile()
    assert profile.clocks.begin_ns.tolist() == [2 * 10**8 - 5] * 2
    assert profile.clock_stops.clock_index.tolist() == [1]


def test_forgetting_leaves_the_parts_that_end_later():
    whole = whole_profile()
    parts = list(parts_of(whole))
    some = joined(parts)
    some.forget_before(CUTS_NS[2])
    late = joined(parts[2:]).profile()
    kept = some.profile()
    assert len(some) == len(kept.samples) == len(late.samples)
    assert hits(kept) == hits(late)
    assert stacks(kept) == stacks(late)
    assert kept.run.begin_ns == kept.clocks.begin_ns.min() == CUTS_NS[2]
    assert kept.clocks.lost.tolist() == late.clocks.lost.tolist() == [len(CUTS_NS) - 3, 0]
    some.add(replace(parts[0], run=replace(parts[0].run, begin_ns=10**9, end_ns=2 * 10**9)))
    assert hits(some.profile()).keys() == hits(late).keys() | hits(parts[0]).keys()


def test_parts_without_samples_take_no_stacks_away():
    whole = whole_profile()
    parts = list(parts_of(whole, (0, 10**8, 10**9)))
    none = only_used(whole, np.zeros(len(whole.samples), np.bool_))
    empty = replace(none, run=parts[0].run, clocks=clocks(0, 1), stacks=None)
    empty = replace(empty, samples=replace(none.samples, stack_index=None))
    again = joined([empty, parts[0], empty, parts[1], empty]).profile()
    assert stacks(again) == stacks(whole)


def test_a_pid_that_is_given_again_is_another_process():
    def part(start_ns, name, *, end_ns):
        build = ProfileBuilder(run_info(begin_ns=start_ns, end_ns=end_ns))
        process = build.process(name, 7, start_ns=start_ns, end_ns=end_ns)
        build.hit(process, build.function("main", build.object("/bin/x"), 16), 1)
        return build.build()

    same = [part(5, "before", end_ns=2**64 - 1), part(5, "after", end_ns=40)]
    other = part(50, "other", end_ns=60)
    processes = joined([*same, other]).profile().processes
    assert list(zip(processes.name, processes.pid, processes.end_ns, strict=True)) == [
        ("after", 7, 40),
        ("other", 7, 60),
    ]


def test_no_parts_make_no_profile():
    with pytest.raises(ValueError, match="no parts"):
        JoinedProfile().profile()


def test_parts_are_counted_and_forgotten_from_the_oldest_on():
    some = joined(parts_of(whole_profile()))
    assert some.parts == len(CUTS_NS) - 1
    assert [some.end_of_part(part) for part in range(some.parts)] == list(CUTS_NS[1:])
    some.forget_before(some.end_of_part(0))
    assert some.parts == len(CUTS_NS) - 2
