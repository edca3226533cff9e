import numpy as np
import pytest

from builders.profile import interrupted_profile, perf_profile, qsort_profile
from prospect.errors import RenderError
from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES, entry_reason_figures
from prospect.figures.modes import event_hits
from prospect.figures.processes import process_totals
from prospect.profile.complete import complete
from prospect.records import replace


def figures_of(profile, threshold_s=0.0, event=0):
    profile = complete(profile)
    totals = process_totals(event_hits(profile, event), len(profile.processes), 0.0, 0.0)
    return entry_reason_figures(profile, event, totals, threshold_s)


def told(rows):
    return {
        (ENTRY_REASON_KIND_NAMES[kind], name): hits
        for kind, name, hits in zip(rows.kind.tolist(), rows.name, rows.hits.tolist(), strict=True)
    }


def test_the_system_adds_up_its_processes():
    rows = figures_of(interrupted_profile()).of_system()
    assert told(rows)["softirq", "NET_RX"] == 350 + 60 + 20 + 49
    assert told(rows)["interrupt", "e1000_intr"] == 40 + 35
    assert (rows.total_hits, sum(told(rows).values())) == (1500, 1500)
    assert rows.seconds.sum() == pytest.approx(1500 / 256)
    assert rows.share.sum() == pytest.approx(1.0)
    assert (np.diff(rows.hits) <= 0).all()


def test_a_process_can_have_its_calls_in_one_row():
    profile = interrupted_profile()
    spin = profile.processes.name.index("cpuspin")
    assert told(figures_of(profile).of_process(spin)) == {
        ("softirq", "NET_RX"): 410,
        ("interrupt", "e1000_intr"): 40,
        ("interrupt", "local timer"): 11,
        ("system call", "write"): 7,
        ("exception", "page fault"): 6,
        ("system call", "(entry and exit)"): 2,
    }
    in_one = told(figures_of(profile).of_process(spin, calls_in_one=True))
    assert in_one["system call", ""] == 9
    assert sum(in_one.values()) == 476


def test_rows_under_the_threshold_are_counted_and_not_shown():
    rows = figures_of(interrupted_profile(), 0.02).of_system()
    assert (rows.shown, len(rows)) == (8, 10)
    assert (rows.skipped_hits, rows.skipped_seconds) == (3, pytest.approx(3 / 256))


def test_without_chains_nothing_is_told():
    figures = figures_of(qsort_profile())
    assert not figures.is_known
    assert figures.of_system().total_hits == 622


def test_an_event_without_time_is_shown_by_hits():
    profile = perf_profile()
    rows = figures_of(profile, 0.02, event=1).of_system()
    assert (len(rows), rows.shown) == (0, 0)
    untimed = replace(profile, hits=replace(profile.hits, mode=np.ones_like(profile.hits.mode)))
    rows = figures_of(untimed, 0.02, event=1).of_system()
    assert (rows.hits.tolist(), rows.shown, rows.seconds.tolist()) == ([20], 1, [0.0])


def test_totals_that_do_not_match_are_a_defect():
    profile = complete(interrupted_profile())
    totals = process_totals(event_hits(profile, 0), len(profile.processes), 0.0, 0.0)
    wrong = replace(totals, hits=totals.hits + 1)
    with pytest.raises(RenderError, match="entry reasons"):
        entry_reason_figures(profile, 0, wrong, 0.0)
