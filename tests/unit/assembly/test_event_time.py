"""How the hits of an event become seconds, if they can."""

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordingInfo
from prospect.assembly.tables.run_facts import event_info

BREAKPOINT, TRACEPOINT, HARDWARE = (
    abi.PERF_TYPE_BREAKPOINT,
    abi.PERF_TYPE_TRACEPOINT,
    abi.PERF_TYPE_HARDWARE,
)
PAGE_FAULTS = 2  # enum perf_sw_ids


def info(kind, config, *, frequency_hz=0, period=0, flags=0, **extras):
    flags |= abi.FLAG_FREQ if frequency_hz else 0
    attr = EventAttr(type=kind, config=config, sample_period=frequency_hz or period, flags=flags)
    return event_info(EventDescription(attr, name="e"), RecordingInfo(extras=extras))


@pytest.mark.parametrize("clock", [abi.PERF_COUNT_SW_CPU_CLOCK, abi.PERF_COUNT_SW_TASK_CLOCK])
def test_a_clocks_periods_are_nanoseconds(clock):
    found = info(abi.PERF_TYPE_SOFTWARE, clock, period=250_000)
    assert (found.seconds_per_period, found.frequency_hz) == (1e-9, 4000.0)


def test_the_rate_of_a_bank_of_clocks_is_the_one_that_was_asked_for():
    found = info(abi.PERF_TYPE_SOFTWARE, 0, period=1_100_000)
    assert found.frequency_hz == pytest.approx(909.09, abs=0.01)
    attr = EventAttr(type=abi.PERF_TYPE_SOFTWARE, config=0, sample_period=1_100_000)
    asked = event_info(EventDescription(attr), RecordingInfo(extras={"frequency_hz": 1000}))
    assert asked.frequency_hz == 1000


def test_a_counter_with_a_rate_is_extrapolated_from_hits():
    found = info(HARDWARE, abi.PERF_COUNT_HW_CPU_CYCLES, frequency_hz=4000)
    assert (found.seconds_per_period, found.seconds_per_hit) == (0.0, 1 / 4000)
    assert info(HARDWARE, 0, period=1_000_000).seconds_per_hit == 0.0


@pytest.mark.parametrize(
    ("kind", "config"), [(abi.PERF_TYPE_SOFTWARE, PAGE_FAULTS), (TRACEPOINT, 7), (BREAKPOINT, 0)]
)
def test_what_only_happens_now_and_then_has_no_time_even_with_a_rate(kind, config):
    found = info(kind, config, frequency_hz=500)
    assert (found.seconds_per_period, found.seconds_per_hit) == (0.0, 0.0)
    assert found.frequency_hz == 500


def test_an_event_of_user_space_only_says_so():
    assert info(HARDWARE, 0, frequency_hz=1, flags=abi.FLAG_EXCLUDE_KERNEL).excludes_kernel
    assert not info(HARDWARE, 0, frequency_hz=1).excludes_kernel
