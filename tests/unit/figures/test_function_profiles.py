import numpy as np
import pytest

from builders.profile_builder import ProfileBuilder, clock_event, run_info
from prospect.figures.modes import event_hits
from prospect.figures.report.function_profiles import function_tables
from prospect.profile.run_info import EventInfo


def _hits(event, rows):
    build = ProfileBuilder(run_info(events=(event,)))
    process = build.process("p", 1)
    where = build.object("/f")
    functions = [build.function(f"f{row}", where, 16 * row) for row in range(5)]
    for row, count, period in rows:
        build.hit(process, functions[row], count, period=period, offset=count)
    return event_hits(build.build(), 0)


def test_time_of_a_clock_is_the_sum_of_periods_not_of_hits():
    hits = _hits(clock_event(1000.0), [(0, 1, 9_000_000), (1, 5, 5_000_000)])
    table = function_tables(hits, np.zeros(2, np.int64), 1).table(0, 0.0)
    assert table.function.tolist() == [0, 1]
    assert table.seconds.tolist() == pytest.approx([0.009, 0.005])
    assert table.hits.tolist() == [1, 5]
    assert table.share.tolist() == pytest.approx([9 / 14, 5 / 14])


def test_time_of_a_counter_is_extrapolated_from_hits():
    hits = _hits(EventInfo("cycles", 0.0, 0.001, 1000.0), [(0, 1, 10**12), (1, 5, 5)])
    table = function_tables(hits, np.zeros(2, np.int64), 1).table(0, 0.0)
    assert table.function.tolist() == [1, 0]
    assert table.seconds.tolist() == pytest.approx([0.005, 0.001])


def test_without_time_rows_are_sorted_by_hits_and_no_threshold_cuts():
    hits = _hits(EventInfo("faults", 0.0, 0.0, 0.0), [(0, 1, 1), (1, 5, 5)])
    table = function_tables(hits, np.zeros(2, np.int64), 1).table(0, 100.0)
    assert table.function.tolist() == [1, 0]
    assert table.shown == 2
    assert table.accumulated.tolist() == pytest.approx([5 / 6, 1.0])


def test_a_row_just_at_the_threshold_is_shown_and_one_below_is_not():
    rows = [(0, 20, 20_000_000), (1, 19, 19_999_999)]
    table = function_tables(_hits(clock_event(1000.0), rows), np.zeros(2, np.int64), 1)
    cut = table.table(0, 0.02)
    assert cut.shown == 1
    assert cut.skipped_hits == 19
    assert cut.skipped_seconds == pytest.approx(0.019999999)
    assert cut.total_hits == 39


def test_groups_do_not_mix_and_a_hit_without_group_is_left_out():
    rows = [(0, 1, 1), (0, 2, 2), (1, 4, 4), (2, 8, 8)]
    tables = function_tables(_hits(clock_event(1000.0), rows), np.array([1, 3, -1]), 4)
    assert [tables.table(group, 0.0).total_hits for group in range(4)] == [0, 3, 0, 4]
    assert tables.table(1, 0.0).accumulated.tolist() == pytest.approx([1.0])
    assert tables.table(3, 0.0).accumulated.tolist() == pytest.approx([1.0])
    assert len(tables.table(0, 0.0)) == 0


def test_sums_that_a_damaged_recording_overflowed_are_no_negative_time():
    hits = _hits(clock_event(1000.0), [(0, 1, -5)])
    assert function_tables(hits, np.zeros(1, np.int64), 1).table(0, 0.0).total_seconds == 0.0


def test_running_shares_are_exact_whatever_groups_stand_before():
    rows = [(row, 1, 1_000_003) for row in range(5)]
    hits = _hits(clock_event(997.0), rows)
    alone = function_tables(hits, np.zeros(5, np.int64), 1).table(0, 0.0)
    behind = function_tables(hits, np.array([0, 1, 1, 1, 1]), 2).table(1, 0.0)
    assert alone.accumulated.tolist() == [number / 5 for number in range(1, 6)]
    assert behind.accumulated.tolist() == [number / 4 for number in range(1, 5)]


def test_each_hit_is_in_the_row_that_counts_it():
    build = ProfileBuilder(run_info(events=(clock_event(1000.0), clock_event(1000.0))))
    where = build.object("/f")
    processes = [build.process("p", 1), build.process("q", 2)]
    functions = [build.function(f"f{row}", where, 16 * row) for row in range(3)]
    for number, (process, row) in enumerate([(0, 2), (1, 0), (0, 1), (0, 2), (1, 2)]):
        build.hit(processes[process], functions[row], 10 + number, offset=number)
    profile = build.build()
    hits = event_hits(profile, 0)
    tables = function_tables(hits, np.where(hits.process == 0, 3, -1), 4)
    process = profile.hits.process_index
    function = profile.locations.function_index.take(profile.hits.location_index)
    row = tables.row_of_hit
    assert (row < 0).tolist() == (process != 0).tolist()
    assert tables.function.take(row[row >= 0]).tolist() == function[row >= 0].tolist()
    counted = np.bincount(row[row >= 0], profile.hits.count[row >= 0], len(tables.function))
    assert counted.tolist() == tables.hits.tolist()
    assert (event_hits(profile, 1).row_of_hit < 0).all()
