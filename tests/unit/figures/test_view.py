import gc
import weakref

import pytest

from builders.profile import empty_profile, perf_profile, qsort_profile, rowless_profile
from builders.profile_builder import ProfileBuilder, run_info
from prospect.errors import UsageError
from prospect.figures.modes import MODE_KERNEL, MODE_USER
from prospect.figures.remarks import limits_of
from prospect.figures.report.report_view import ReportView
from prospect.profile.model import BIRTH_FORK, CPUMODE_KERNEL
from prospect.records import replace


def _names(view):
    return [view.profile.processes.name[row] for row in view.events[0].detailed]


def test_details_are_those_of_the_command():
    assert _names(ReportView(qsort_profile(), "2")) == ["qsort"]
    assert _names(ReportView(qsort_profile(), "4")) == ["qsort", "swapper"]
    assert _names(ReportView(qsort_profile(), "4", 0.0, 0.0)) == [
        "qsort",
        "bash",
        "prospect",
        "swapper",
        "ksoftirqd/0",
    ]


def test_the_command_is_shown_even_where_it_took_no_time():
    build = ProfileBuilder(run_info(command=("true",)))
    build.process("true", 9, is_command=True)
    assert _names(ReportView(build.build(), "2")) == ["true"]


def test_descendants_under_the_thresholds_are_counted():
    build = ProfileBuilder()
    command = build.process("make", 9, is_command=True)
    for pid in range(10, 13):
        build.process("cc", pid, parent_index=command, birth=BIRTH_FORK, is_descendant=True)
    view = ReportView(build.build(), "3")
    assert _names(view) == ["make"]
    assert view.events[0].detail_skipped == 3


def test_where_the_command_only_starts_others_it_is_said_what_shows_them():
    build = ProfileBuilder()
    main = build.function("main", build.object("/bin/x"), 0x1000)
    command = build.process("make", 9, is_command=True)
    child = build.process("cc", 10, parent_index=command, birth=BIRTH_FORK, is_descendant=True)
    build.hit(command, main, 10)
    build.hit(child, main, 990)
    profile = build.build()
    (note,) = (note for note in ReportView(profile, "2").notes if "-V 3" in note)
    tick_s = 1 / profile.run.events[0].frequency_hz
    assert f"itself took {10 * tick_s:.2f} s" in note
    assert f"with its descendants {1000 * tick_s:.2f} s" in note
    assert not any("-V 3" in note for note in ReportView(profile, "3").notes)
    assert not any("-V 3" in note for note in ReportView(qsort_profile(), "2").notes)


def test_without_a_known_command_every_process_is_shown_and_that_is_said():
    view = ReportView(perf_profile(), "2")
    assert view.detail == "4"
    assert any("does not say which process is COMMAND" in note for note in view.notes)
    assert ReportView(perf_profile(), "k").detail == "k"


def test_each_event_is_a_report_of_its_own():
    cycles, faults = ReportView(perf_profile(), "4").events
    assert (cycles.event.name, faults.event.name) == ("cycles", "page-faults")
    assert cycles.hits.tolist() == [4000, 10, 0, 0]
    assert faults.hits.tolist() == [15, 0, 0, 5]
    assert cycles.seconds.sum() == pytest.approx(4010 / 4000)
    assert not faults.has_time


def test_an_event_without_hits_has_no_report_unless_none_has_any():
    assert len(ReportView(empty_profile()).events) == 1
    profile = perf_profile()
    only = replace(profile, hits=replace(profile.hits, event=profile.hits.event * 0 + 1))
    assert [view.event.name for view in ReportView(only).events] == ["page-faults"]


def test_user_and_kernel_thresholds_apply_to_their_modes():
    view = ReportView(qsort_profile(), "2", 0.1, 0.005)
    row = int(view.events[0].detailed[0])
    assert view.events[0].function_table(row, MODE_USER).shown == 3
    assert view.events[0].function_table(row, MODE_KERNEL).shown == 1
    loose = ReportView(qsort_profile(), "2", 0.1, 0.0)
    assert loose.events[0].function_table(row, MODE_KERNEL).shown == 2


@pytest.mark.parametrize("detail", ["1", "", "5", "K"])
def test_an_unknown_detail_is_refused(detail):
    with pytest.raises(UsageError, match="-V"):
        ReportView(qsort_profile(), detail)


@pytest.mark.parametrize("threshold", [-0.1, float("nan"), float("inf")])
def test_a_threshold_that_is_no_time_is_refused(threshold):
    with pytest.raises(UsageError, match="-m"):
        ReportView(qsort_profile(), "2", threshold)
    with pytest.raises(UsageError, match="-k"):
        ReportView(qsort_profile(), "2", 0.0, threshold)


def test_lost_samples_and_throttling_are_warned_of():
    build = ProfileBuilder(run_info(damage=("cut short",)))
    process = build.process("p", 1, is_command=True)
    build.hit(process, build.function("f", build.object("/f"), 0), 90, CPUMODE_KERNEL)
    build.losses += [(0, 10, 2)]
    warnings = ReportView(build.build()).warnings
    assert warnings[0] == "cut short"
    assert warnings[1].startswith("10 of 100 samples were lost")
    assert warnings[2].startswith("The kernel throttled sampling 2 times")


def test_samples_that_are_in_no_row_are_warned_of():
    view = ReportView(qsort_profile(statistics={"samples": 1020}))
    assert view.warnings == ("1020 samples recorded, 1014 in this report.",)


def test_hits_without_any_row_are_still_in_the_totals():
    view = ReportView(rowless_profile(), "4")
    assert view.events[0].hits.sum() == 12
    assert view.mapping_rows.rows(0).tolist() == [0]


def test_notes_on_single_processes_are_those_of_the_shown_ones():
    profile = qsort_profile()
    command = int(profile.processes.pid[profile.processes.is_command.argmax()])
    notes = ((command, "Its map file is gone."), (command + 100_000, "Another's map file is gone."))
    profile = replace(profile, run=replace(profile.run, process_notes=notes))
    assert "Its map file is gone." in limits_of(profile, "2")
    assert "Another's map file is gone." not in limits_of(profile, "2")


def test_many_notes_on_processes_are_counted():
    profile = qsort_profile()
    command = int(profile.processes.pid[profile.processes.is_command.argmax()])

    def said(count):
        notes = tuple((command, f"note {number}") for number in range(count))
        return limits_of(replace(profile, run=replace(profile.run, process_notes=notes)), "2")

    assert said(6)[-6:] == tuple(f"note {number}" for number in range(6))
    assert said(20)[-2:] == ("note 4", "There are 15 notes like these on other processes.")


def test_a_report_is_freed_without_the_garbage_collector():
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with ReportView(qsort_profile(), "4") as view:
            assert view.events[0].report is view
        left = weakref.ref(view)
        del view
        assert left() is None
    finally:
        if was_enabled:
            gc.enable()
