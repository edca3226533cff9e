import numpy as np

from builders.profile import qsort_profile
from builders.profile_builder import ProfileBuilder, clock_event, run_info
from prospect.figures.modes import event_hits
from prospect.figures.processes import (
    chosen_by_detail,
    ended_by_exec,
    forking_parents,
    process_totals,
)
from prospect.profile.model import BIRTH_EXEC, BIRTH_FORK, CPUMODE_KERNEL


def _chain():
    build = ProfileBuilder()
    shell = build.process("bash", 10)
    fork = build.process("bash", 11, parent_index=shell, birth=BIRTH_FORK)
    first = build.process("env", 11, parent_index=fork, birth=BIRTH_EXEC, is_command=True)
    second = build.process("make", 11, parent_index=first, birth=BIRTH_EXEC, is_command=True)
    build.process("cc", 12, parent_index=second, birth=BIRTH_FORK, is_descendant=True)
    return build.build().processes


def test_the_parent_is_who_forked_however_many_programs_were_run_since():
    assert forking_parents(_chain()).tolist() == [-1, 0, 0, 0, 3]


def test_a_row_whose_process_ran_another_program_ended_by_exec():
    assert ended_by_exec(_chain()).tolist() == [False, True, True, False, False]


def test_a_circle_of_execs_ends_without_a_parent():
    build = ProfileBuilder()
    build.process("a", 5, parent_index=1, birth=BIRTH_EXEC)
    build.process("a", 5, parent_index=0, birth=BIRTH_EXEC)
    assert forking_parents(build.build().processes).tolist() == [-1, -1]


def test_each_detail_contains_the_one_before():
    processes = _chain()
    two, three, four = (chosen_by_detail(processes, detail) for detail in "234")
    assert two.tolist() == [False, False, True, True, False]
    assert three.tolist() == [False, False, True, True, True]
    assert four.all()
    assert not (two & ~three).any()
    assert not (three & ~four).any()


def test_processes_are_sorted_by_user_time_then_by_system_time():
    build = ProfileBuilder(run_info(events=(clock_event(1000.0),)))
    function = build.function("f", build.object("/f"), 0)
    for user, system in ((5, 0), (7, 1), (7, 2), (0, 90), (0, 0)):
        row = build.process("p", 1)
        build.hit(row, function, user)
        build.hit(row, function, system, CPUMODE_KERNEL)
    totals = process_totals(event_hits(build.build(), 0), 5, 0.005, 0.05)
    assert totals.order.tolist() == [2, 1, 0, 3, 4]
    # 5 hits of 1 ms are <= -m 0.005; 90 kernel hits are over -k 0.05.
    assert totals.kept_rows.tolist() == [2, 1, 3]
    assert totals.skipped_rows.tolist() == [0, 4]


def test_totals_count_every_hit_once():
    profile = qsort_profile()
    totals = process_totals(event_hits(profile, 0), len(profile.processes), 0.02, 0.02)
    assert totals.hits.sum() == profile.hits.count.sum()
    assert np.isclose(totals.seconds.sum(), profile.hits.period.sum() * 1e-9)
