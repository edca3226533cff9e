"""What profiling cost, from the recorder's own hits and from the cost of a sample."""

from __future__ import annotations

import math

import pytest

from builders.profile import qsort_profile
from builders.profile_builder import ProfileBuilder, run_info
from prospect.estimate.finished_report import Report
from prospect.figures.report.accounting import own_cost
from prospect.profile.model import CPUMODE_KERNEL
from prospect.render.text.quality_sections import sample_accounting_lines
from prospect.render.text.style import Style


def recording(*, accounting=None, **facts):
    build = ProfileBuilder(run_info(cpus=2, accounting=accounting or {}, **facts))
    image = build.object("/bin/x")
    function = build.function("f", image, 0x1000)
    build.hit(build.process("work", 7), function, 2560)
    build.hit(build.process("prospect", 8, is_recorder=True), function, 256, CPUMODE_KERNEL)
    return build.build()


def test_recorders_hits_are_time_and_a_share_of_all_cpus():
    cost = own_cost(recording(wall_seconds=10.0))
    assert cost.recorder_hits == 256
    assert cost.recorder.seconds == pytest.approx(1.0)
    assert cost.recorder.share == pytest.approx(0.05)


def test_cost_of_sampling_is_that_of_each_sample_where_it_hit():
    known = {
        "sample_cost_ns": 1000.0,
        "kernel_sample_cost_ns": 2000.0,
        "sample_cost_spread_ns": 100.0,
    }
    cost = own_cost(recording(accounting=known, wall_seconds=10.0))
    assert cost.sampling.seconds == pytest.approx(1e-9 * (2560 * 1000 + 256 * 2000))
    assert cost.sampling_spread_s == pytest.approx(0.1 * cost.sampling.seconds)
    assert cost.sample_cost_ns == pytest.approx((2560 * 1000 + 256 * 2000) / 2816)


def test_sampling_took_no_more_than_all_the_time_that_there_was():
    view = Report(recording(accounting={"sample_cost_ns": 7e6}, wall_seconds=5.0))
    cost = own_cost(view.profile)
    assert (cost.sampling.seconds, cost.sampling.share) == (10.0, 1.0)
    assert cost.sample_cost_ns == pytest.approx(7e6)
    lines = sample_accounting_lines(view, Style(colour=False))
    (line,) = [line for line in lines if line.startswith("Sampling")]
    assert "at most 10.000 Sec = 100.00% of the CPUs' time" in line


@pytest.mark.parametrize("system_wide", [True, False])
def test_bar_of_sampling_is_no_wider_than_the_time_that_there_was(system_wide):
    known = {"sample_cost_ns": 1e5, "sample_cost_spread_ns": 4.3e6}
    cost = own_cost(recording(accounting=known, wall_seconds=0.5, system_wide=system_wide))
    assert cost.sampling.seconds == pytest.approx(0.2816)
    assert cost.sampling_spread_s == pytest.approx(1.0 - 0.2816)


def test_what_a_recording_does_not_tell_is_unknown():
    cost = own_cost(recording(accounting={"sample_cost_ns": math.nan, "recorder_user_s": "much"}))
    assert cost.sampling is None
    assert cost.counted_calls is None
    assert cost.recorder_accounted_s is None


def test_recording_by_others_has_no_recorder():
    build = ProfileBuilder()
    build.hit(build.process("work", 7), build.function("f", build.object("/x"), 1), 10)
    assert own_cost(build.build()).recorder is None


def test_run_that_saw_one_command_has_no_share_of_the_machine():
    cost = own_cost(recording(system_wide=False, wall_seconds=10.0))
    assert cost.recorder.share is None


@pytest.mark.parametrize("wall_seconds", [0.0, math.nan, math.inf])
def test_interval_that_is_no_time_gives_no_share(wall_seconds):
    assert own_cost(recording(wall_seconds=wall_seconds)).recorder.share is None


def test_recorders_processor_time_is_both_of_its_parts():
    known = {"recorder_user_s": 0.25, "recorder_system_s": 0.125}
    assert own_cost(recording(accounting=known)).recorder_accounted_s == 0.375
    assert own_cost(qsort_profile()).recorder_hits == 3
