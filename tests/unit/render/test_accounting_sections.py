"""The sample accounting, late samples and own cost in the text report and in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from builders.json_schema import schema_errors
from builders.profile import qsort_profile
from builders.ticks import ASLEEP, FULL, HELD, IDLE, KERNEL, THROTTLED, USER, Ticking
from prospect.estimate.finished_report import Report
from prospect.records import replace
from prospect.render.json.report_document import JsonRenderer
from prospect.render.text.quality_sections import accounting_lines, sample_accounting_lines
from prospect.render.text.style import Figures, Style

SCHEMA = Path(__file__).parents[3] / "docs" / "report.schema.json"
PERIODS_NS = (4_742_358, 4_225_681, 3_706_485, 3_537_459)
COST = {
    "sample_cost_ns": 900.0,
    "sample_cost_spread_ns": 45.0,
    "kernel_sample_cost_ns": 1500.0,
    "recorder_user_s": 0.05,
    "recorder_system_s": 0.01,
}
BOOKED = {"user_s": 4.6, "nice_s": 0.0, "system_s": 1.2, "idle_s": 7.4, "iowait_s": 0.0}


def profile(cpus=2, **facts):
    ticking = Ticking(np.random.default_rng(5))
    for cpu in range(cpus):
        for clock, period_ns in enumerate(PERIODS_NS):
            piece = [(USER, 300), (IDLE, 200), (ASLEEP, 300), (KERNEL, 80)]
            fates = [*piece, (HELD, 2 * cpu), (USER, 200), (FULL, 150 * (cpu == 0)), (USER, 50)]
            fates += [(THROTTLED, 40 * (cpu == 1)), (USER, 100)]
            ticking.clock(
                [fate for fate in fates if fate[1]], cpu=cpu, clock=clock, period_ns=period_ns
            )
    booked = {cpu: {"idle_s": 2.4, "iowait_s": 0.0, "steal_s": 0.01} for cpu in range(cpus)}
    facts = {"cpus": cpus, "wall_seconds": 5.6, "cpu_accounting": booked} | facts
    return ticking.profile(**{"accounting": COST | BOOKED} | facts)


def lines_of(found, style=Style(colour=False)):  # noqa: B008 - a value without a state
    return list(sample_accounting_lines(Report(found), style))


def test_report_is_as_it_was(golden):
    golden("report/sample_accounting.txt", "\n".join([*lines_of(profile()), ""]).encode())


def test_columns_line_up_and_add_up_to_the_last_row():
    table = lines_of(profile())[1:5]
    heads = [line.split() for line in table]
    assert len({len(line) for line in table}) == 1
    for position in range(1, 8):
        *parts, total = [int(row[position]) for row in heads[1:]]
        assert sum(parts) == total


def test_many_cpus_are_cut_to_those_that_matter_and_say_so():
    lines = lines_of(profile(20))
    rows = [line for line in lines if line[:3].strip().isdigit()]
    assert len(rows) == 16
    assert any("4 CPUs with smaller errors: only in" in line for line in lines)
    assert lines_of(profile(20))[18].split()[0] == "all"


def test_books_that_do_not_close_are_warned_of():
    found = profile(1)
    clocks = replace(found.clocks, lost=np.array([0, 900, 900, 900]))
    lines = lines_of(replace(found, clocks=clocks), Style(colour=True))
    assert any("are unaccounted for" in line and line.startswith("\x1b[33m") for line in lines)


def test_losses_that_were_no_samples_and_strays_are_told():
    found = profile(1)
    clocks = replace(found.clocks, lost=found.clocks.lost + np.array([70, 0, 0, 0]))
    samples = replace(found.samples, cpu=np.where(np.arange(len(found.samples)) < 3, 8, 0))
    text = "\n".join(lines_of(replace(found, clocks=clocks, samples=samples)))
    assert "Lost besides samples: 70 other records." in text
    assert "Samples of an unknown clock: 3." in text


def test_recording_without_a_timer_says_why_it_has_no_sample_accounting():
    lines = lines_of(qsort_profile())
    assert "missing ticks are unknown" in lines[1]
    assert lines[1].startswith("1014 recorded, 0 lost, 0 throttles")
    assert not any(line.startswith(("Late samples", "Sampling:")) for line in lines)


def test_accounting_says_what_differs_and_by_how_much_it_may():
    (event,) = Report(profile()).events
    lines = list(
        accounting_lines(event.accounting, Figures(1, 1.0, has_time=True), Style(colour=False))
    )
    assert any("Samples are missing for" in line for line in lines)
    assert any(line.endswith("/proc/stat  beyond") for line in lines)


@pytest.mark.parametrize("make", [profile, qsort_profile])
def test_json_keeps_to_its_schema(make, tmp_path):
    with (tmp_path / "r").open("wb") as out:
        JsonRenderer().render(make(), out)
    document = json.loads((tmp_path / "r").read_text())
    schema = json.loads(SCHEMA.read_text())
    assert schema_errors(document, schema, schema) == []
    if make is qsort_profile:
        assert document["sample_accounting"] is None
        return
    for cpu in document["sample_accounting"]["cpus"]:
        for name in ("expected", "recorded", "lost", "throttled", "idle", "busy", "closure"):
            assert sum(clock[name] for clock in cpu["clocks"]) == cpu[name]
    assert document["own_cost"]["sampling"]["seconds"] == pytest.approx(
        1e-9 * (650 * 8 * 900 + 280 * 8 * 1500)
    )
