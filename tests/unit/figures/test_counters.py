import numpy as np
import pytest

from builders.profile import empty_profile, qsort_profile, rowless_profile
from builders.profile_builder import ProfileBuilder, run_info
from builders.ticks import FULL, USER, Ticking
from prospect.estimate.accounting.sample_accounting import sample_accounting
from prospect.figures.remarks import run_warnings
from prospect.figures.report.counters import run_counters
from prospect.profile.complete import complete
from prospect.records import replace


def test_the_counters_of_the_talk():
    counters = run_counters(qsort_profile())
    expected = {
        "samples": 1014,
        "system_samples": 622,
        "user_samples": 392,
        "unknown_samples": 0,
        "recorder_samples": 3,
        "kernel_module_samples": 1,
        "kernel_samples": 622,
        "process_0_samples": 611,
        "process_0_unique": 2,
        "samples_per_buffer": 338.0,
        "buffers_read": 3,
        "processes": 6,
        "kernel_threads": 1,
    }
    assert {name: counters[name] for name in expected} == expected


def test_two_hits_of_one_instruction_are_one_unique_address():
    # do_anonymous_page was hit at two instructions, schedule in three processes at one.
    assert run_counters(qsort_profile())["kernel_unique"] == 5


def test_user_system_and_unknown_hits_are_all_samples():
    for profile in (qsort_profile(), complete(rowless_profile()), empty_profile()):
        counters = run_counters(profile)
        parts = ("user_samples", "system_samples", "unknown_samples")
        assert sum(counters[name] for name in parts) == counters["samples"]


def test_what_is_not_known_is_left_out():
    counters = run_counters(empty_profile())
    assert "recorder_samples" not in counters
    assert "buffers_read" not in counters
    assert "lost" not in counters


def test_losses_are_summed_over_cpus():
    build = ProfileBuilder(run_info(statistics={"lost": 1}))
    build.losses += [(0, 5, 1), (3, 7, 0)]
    counters = run_counters(build.build())
    assert (counters["lost"], counters["throttled"]) == (12, 1)


def flooded(periods_ns, *, full, others):
    """Return a profile one of whose clocks lost `others` other records beside its samples."""
    ticking = Ticking(np.random.default_rng(3))
    for clock, period_ns in enumerate(periods_ns):
        fates = [(USER, 2000), (FULL, full), (USER, 2000)]
        lost = others if clock == 0 else 0
        ticking.clock(fates, clock=clock, period_ns=period_ns, other_losses=lost)
    profile = complete(ticking.profile())
    losses = replace(
        profile.losses,
        cpu=np.array([0], np.int32),
        lost=np.array([int(profile.clocks.lost.sum())]),
        throttled=np.array([0]),
    )
    return replace(profile, losses=losses)


@pytest.mark.parametrize("periods_ns", [(4_742_358, 4_225_681, 3_706_485), (4_000_000,)])
@pytest.mark.parametrize("full", [0, 40])
def test_records_of_mappings_that_were_lost_are_no_samples(periods_ns, full):
    profile = flooded(periods_ns, full=full, others=37_290)
    counters = run_counters(profile)
    lost = full * len(periods_ns)
    assert counters["lost"] == pytest.approx(lost, abs=1)
    assert counters["lost"] + counters["lost_beside"] == 37_290 + lost
    accounting = sample_accounting(profile)
    assert int(accounting.by_cpu.lost.sum()) == lost
    warnings = " ".join(run_warnings(profile, counters))
    assert f"{counters['lost_beside']} records of mappings," in warnings
    assert (f"{counters['lost']} of " in warnings) == bool(counters["lost"])


def test_lost_switches_are_neither_samples_nor_mappings():
    profile = flooded((4_742_358, 4_225_681), full=0, others=100)
    run = replace(profile.run, statistics={**profile.run.statistics, "lost_switches": 165_000})
    losses = replace(profile.losses, lost=profile.losses.lost + 165_000)
    counters = run_counters(replace(profile, run=run, losses=losses))
    assert counters["lost"] == 0
    assert (counters["lost_switches"], counters["lost_beside"]) == (165_000, 100)
    warnings = run_warnings(profile, counters)
    assert any("100 records of mappings" in warning for warning in warnings)
    (switches,) = [warning for warning in warnings if "165000 records of switches" in warning]
    assert "names are not affected" in switches
