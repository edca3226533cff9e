"""Comparisons of recordings whose hits are known: figures, order, normalisation, remarks."""

from __future__ import annotations

import numpy as np
import pytest

from builders.profile import empty_profile, perf_profile, qsort_profile, rowless_profile
from builders.runs import run_of
from prospect.errors import RecordingError, UsageError
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.compare.comparison import CompareOptions
from prospect.profile.model import LossTable
from prospect.profile.naming import NameSource
from prospect.profile.run_info import EventInfo, replaced_note
from prospect.records import replace


def rows(table):
    """Return a table's rows by name: hits and times of both sides."""
    return {
        name: (*hits, *np.round(mean, 9).tolist())
        for name, hits, mean in zip(table.name, table.hits.tolist(), table.mean, strict=True)
    }


def notes(before, after, **options):
    found = compare([before], [after], CompareOptions(**options))
    return "\n".join(found.notes)


def test_times_are_of_both_sides_with_new_and_gone_rows():
    found = compare([run_of({"f": 300, "old": 50})], [run_of({"f": 200, "new": 70})])
    assert rows(found.functions) == {
        "f": (300, 200, 0.3, 0.2),
        "old": (50, 0, 0.05, 0.0),
        "new": (0, 70, 0.0, 0.07),
    }
    assert rows(found.total) == {"": (350, 270, 0.35, 0.27)}
    assert found.total.change == pytest.approx([-0.08])
    assert found.total.relative == pytest.approx([-0.08 / 0.35])
    assert found.work.kind == "run"


def test_what_is_new_or_gone_is_found_even_once_a_side():
    found = compare([run_of({"f": 900, "old": 500})], [run_of({"f": 900, "new": 500})])
    marked = {
        name
        for name, is_marked in zip(
            found.functions.name, found.functions.significant.tolist(), strict=True
        )
        if is_marked
    }
    assert marked == {"old", "new"}
    assert np.isnan(found.functions.relative[found.functions.name.index("new")])


def test_significant_rows_come_first_the_biggest_change_leading():
    before = [run_of({"a": 5000, "b": 1000, "c": 100, "d": 3000}) for _ in range(5)]
    after = [run_of({"a": 5000, "b": 2000, "c": 300, "d": 1500}) for _ in range(5)]
    found = compare(before, after).functions
    assert found.name == ["d", "b", "c", "a"]
    assert found.significant.tolist() == [True, True, True, False]
    assert found.change[:3] == pytest.approx([-1.5, 1.0, 0.2])


def test_replicates_are_averaged():
    found = compare([run_of({"f": 100}), run_of({"f": 300})], [run_of({"f": 400, "g": 1})])
    assert rows(found.functions) == {"f": (400, 400, 0.2, 0.4), "g": (0, 1, 0.0, 0.001)}


def test_times_are_per_second_run_or_unit_of_work():
    before = run_of({"f": 1000}, wall_seconds=10.0)
    after = run_of({"f": 2000}, wall_seconds=40.0)
    for per, expected in (
        ("run", (1.0, 2.0)),
        ("second", (0.1, 0.05)),
        ("A=100,B=400 requests", (0.01, 0.005)),
        ("10 requests", (0.1, 0.2)),
    ):
        found = compare([before], [after], CompareOptions(per=per))
        assert found.total.mean[0] == pytest.approx(expected), per
    by_default = compare([before], [after], CompareOptions(scope="4"))
    assert by_default.work.kind == "second"


def test_intervals_shrink_with_the_work():
    whole = compare([run_of({"f": 1000})], [run_of({"f": 1500})]).total
    each = compare([run_of({"f": 1000})], [run_of({"f": 1500})], CompareOptions(per="100")).total
    assert each.half_width * 100 == pytest.approx(whole.half_width)
    assert each.p_value == pytest.approx(whole.p_value)
    assert each.relative_high == pytest.approx(whole.relative_high)


def test_few_hits_are_never_sure():
    found = compare([run_of({"f": 500, "g": 12})], [run_of({"f": 500, "g": 24})])
    assert not found.functions.significant.any()
    tiny = compare([run_of({"f": 3})], [run_of({"g": 6})])
    assert tiny.tested == 0
    assert np.isnan(tiny.functions.q_value).all()


def test_the_relative_interval_is_unbounded_where_a_may_be_nothing():
    found = compare([run_of({"f": 500, "g": 2})], [run_of({"f": 500, "g": 6})]).functions
    row = found.name.index("g")
    assert found.relative[row] == pytest.approx(2.0)
    assert found.relative_low[row] == -1.0
    assert np.isinf(found.relative_high[row])


def test_one_recording_a_side_is_said_every_time():
    run = run_of({"f": 100})
    assert "does not show how much two runs" in notes(run, run_of({"f": 90}))
    assert "assumed to vary by 20.0%" in notes(run, run_of({"f": 90}), run_variation=0.2)
    assert "only these two runs are compared" in notes(run, run_of({"f": 90}), run_variation=0.0)
    several = compare([run, run_of({"f": 95})], [run_of({"f": 90}), run_of({"f": 99})]).notes
    assert any("rows together vary by" in note for note in several)
    assert not any("does not show how much" in note for note in several)


def test_other_load_widens_what_is_assumed():
    quiet = compare([run_of({"f": 1000}, cpus=4)], [run_of({"f": 1100}, cpus=4)])
    assert quiet.load_allowance == (0.0, 0.0)
    loaded = compare([loaded_run(1000, 3000)], [loaded_run(1100, 1000)])
    assert loaded.load_allowance == pytest.approx((0.3, 0.1))
    assert loaded.total.half_width[0] > 3 * quiet.total.half_width[0]
    assert "75% of the CPUs' time in A and 25% in B" in "\n".join(loaded.notes)
    just_so = compare(
        [loaded_run(1000, 3000)], [loaded_run(1100, 1000)], CompareOptions(run_variation=0.0)
    )
    assert just_so.load_allowance == (0.0, 0.0)


def loaded_run(hits, other_hits):
    """Return a run of 1 s on 4 CPUs beside another process."""
    profile = run_of({"f": hits, "other": other_hits}, cpus=4, wall_seconds=1.0)
    processes, table = profile.processes, profile.hits
    both = {
        name: np.repeat(column, 2)
        for name, column in vars(processes).items()
        if isinstance(column, np.ndarray)
    }
    both["is_command"] = both["is_descendant"] = np.array([True, False])
    names = [*processes.name, "other"]
    index = np.array([0, 1], np.int32)
    return replace(
        profile,
        processes=replace(processes, name=names, **both),
        hits=replace(table, process_index=index),
    )


@pytest.mark.parametrize(
    ("fact", "value", "says"),
    [
        ("hostname", "elsewhere", "The machine differs: fctype2 in A, elsewhere in B."),
        ("os_release", "9.9", "The kernel differs: 6.1.0 in A, 9.9 in B."),
        ("cpu_description", "", "The processor differs: A processor in A, unknown in B."),
        ("cpus", 8, "The number of CPUs differs: 1 in A, 8 in B."),
        ("arch", "aarch64", "The architecture differs"),
        ("system_wide", False, "The scope differs"),
        ("recorder", "perf 6.1", "The recorder differs"),
        ("events", (EventInfo("cycles", 0.0, 1e-3, 1000.0),), "cpu-clock at 1000 Hz in A, cycles"),
    ],
)
def test_what_differs_between_the_sides_is_said(fact, value, says):
    assert says in notes(run_of({"f": 100}), run_of({"f": 90}, **{fact: value}))
    assert "differs: " not in notes(run_of({"f": 100}), run_of({"f": 90}))


def test_a_side_with_next_to_no_data_is_said():
    short, long = run_of({"f": 10}, wall_seconds=1.5), run_of({"f": 900}, wall_seconds=300.0)
    assert "A has only 1.5 s of data and B 300 s: functions" in notes(short, long)
    assert "B has only" in notes(long, short)
    assert "has only" not in notes(short, run_of({"f": 9}, wall_seconds=2.0))


def test_the_same_recording_twice_differs_in_nothing_and_is_said():
    run = run_of({"f": 100, "k:g": 50})
    found = compare([run], [run])
    assert any("perf.data is on both sides" in note for note in found.notes)
    assert (found.functions.change == 0).all()
    assert not found.functions.significant.any()


def test_sides_without_a_common_row_are_said():
    assert "no function in common" in notes(run_of({"f": 100}), run_of({"g": 100}))
    assert "The recording has no samples" in notes(run_of({}), run_of({}))


def test_names_on_one_side_only_are_said():
    before, after = run_of({"f": 100}), run_of({"": 100})
    stripped = np.full(1, NameSource.NO_STRIPPED, np.uint8)
    after = replace(after, functions=replace(after.functions, source=stripped))
    assert "have an exact name in A, 0% in B" in notes(before, after)


def test_samples_without_names_on_both_sides_are_said():
    """Neither side is worse named than the other, and the rows are of no use."""
    run = run_of({"f": 100, "": 300}, limits=(replaced_note("/bin/p", "/image"), "Another."))
    names = np.array(run.functions.name)
    source = np.where(names == "", NameSource.NO_MATCH, NameSource.SYMTAB).astype(np.uint8)
    run = replace(run, functions=replace(run.functions, source=source))
    found = compare([run], [run])
    reason = "(file replaced: --sysroot or DEBUGINFOD_URLS)"
    assert f"75% of the samples in A and 75% in B have no name {reason}." in found.notes
    assert replaced_note("/bin/p", "/image") in found.notes
    assert "Another." not in found.notes
    assert compare([run_of({"f": 9})], [run_of({"f": 9})]).unnamed is None


def test_damage_and_losses_are_warned_of():
    losses = LossTable(np.zeros(1, np.int32), np.array([7]), np.zeros(1, np.int64))
    after = replace(run_of({"f": 9}, damage=("cut at offset 3",)), losses=losses)
    warnings = "\n".join(compare([run_of({"f": 9})], [after]).warnings)
    assert "B, perf.data: cut at offset 3" in warnings
    assert "7 samples lost" in warnings


def test_recordings_that_know_no_command_are_compared_whole():
    found = compare([perf_profile()], [perf_profile()])
    assert found.options.scope == "4"
    assert any("-V 4 is compared instead of -V 3" in note for note in found.notes)
    assert found.work.kind == "run"  # not of the system: what was recorded is the command


def test_odd_recordings_are_compared_or_refused_in_words():
    compare([qsort_profile()], [qsort_profile()], CompareOptions(scope="k"))
    compare([empty_profile()], [empty_profile()])
    compare([run_of({})], [run_of({"f": 5})], CompareOptions(scope="2"))
    with pytest.raises(RecordingError, match="measures time in seconds"):
        compare([rowless_profile()], [qsort_profile()])


@pytest.mark.parametrize(
    "options",
    [
        {"scope": "9"},
        {"fdr": 0.0},
        {"fdr": 1.0},
        {"fdr": float("nan")},
        {"run_variation": -0.1},
        {"run_variation": 1.0},
        {"per": "nonsense"},
        {"fail_if": "nonsense"},
        {"fail_if": "slower by 3% in nothing"},
        {"fail_if": "slower by 3% in function program"},
    ],
)
def test_options_without_meaning_are_refused(options):
    with pytest.raises(UsageError):
        compare([run_of({"f": 100})], [run_of({"f": 100})], CompareOptions(**options))


def test_a_side_without_recordings_is_refused():
    with pytest.raises(UsageError):
        compare([], [run_of({"f": 1})])


def test_a_condition_is_judged_on_what_it_names():
    before = [run_of({"f": 1000 + d, "g": 1000 - d}) for d in (0, 5, 9)]
    after = [run_of({"f": 1500 + d, "g": 500 - d}) for d in (0, 7, 3)]

    def outcome(text):
        return compare(before, after, CompareOptions(fail_if=text)).verdict

    assert outcome("slower by 3%").outcome == "not met"
    assert outcome("slower by 3% in f").outcome == "met"
    assert outcome("faster by 40% in function g").outcome == "met"
    assert outcome("slower by 3% in program").outcome == "not met"
    assert (
        outcome("slower by 3% in f").about == "the function f, in the command and its descendants"
    )
    assert outcome("").__class__ is type(None)
