"""What a sample costs: kept once a boot, read with suspicion, and rates chosen by it."""

from __future__ import annotations

import pytest

from prospect.abi.attr import EventAttr
from prospect.capture.events import clock_bank
from prospect.capture.events.event_choice import CLOCK_TIMER, SCOPE_SYSTEM, EventPlan
from prospect.capture.events.sample_cost import SampleCost
from prospect.errors import CaptureError, UsageError
from prospect.recording import sampling_cost
from prospect.recording.sampling_cost import parse_cost, rate_for_overhead, sample_cost

PLAN = EventPlan(EventAttr(sample_type=7), (1, 2, 3, 4), SCOPE_SYSTEM, CLOCK_TIMER, ())
COST = SampleCost(4000.5, 500.25, 7500.0)


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Measuring as a list of costs to give; what is left tells how often it was done."""
    costs = [COST]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PROSPECT_NO_CACHE", raising=False)
    monkeypatch.setattr(sampling_cost, "measure_sample_cost", lambda _: costs.pop())
    return costs


def kept(tmp_path):
    return list((tmp_path / "prospect").glob("*.sample-cost"))


def test_cost_is_measured_once_and_kept(measured, tmp_path):
    assert sample_cost(PLAN, use_cache=True) == COST
    assert sample_cost(PLAN, use_cache=True) == COST
    assert measured == []
    assert len(kept(tmp_path)) == 1


def test_cost_of_another_boot_or_of_other_samples_is_measured_again(measured, monkeypatch):
    sample_cost(PLAN, use_cache=True)
    measured.append(COST._replace(user_ns=1.0))
    other = PLAN._replace(attr=PLAN.attr._replace(sample_type=3))
    assert sample_cost(other, use_cache=True).user_ns == 1.0
    measured.append(COST._replace(user_ns=2.0))
    monkeypatch.setattr(sampling_cost, "read_if_there", lambda _: b"another-boot\n")
    assert sample_cost(other, use_cache=True).user_ns == 2.0


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe 1 2", b"1 2 3 other key"])
def test_damaged_file_is_replaced(measured, tmp_path, content):
    sample_cost(PLAN, use_cache=True)
    (file,) = kept(tmp_path)
    file.write_bytes(content)
    measured.append(COST)
    assert sample_cost(PLAN, use_cache=True) == COST
    assert measured == []
    assert sample_cost(PLAN, use_cache=True) == COST


def test_file_that_others_can_write_is_not_believed(measured, tmp_path):
    sample_cost(PLAN, use_cache=True)
    (file,) = kept(tmp_path)
    file.chmod(0o666)
    measured.append(COST._replace(user_ns=9.0))
    assert sample_cost(PLAN, use_cache=True).user_ns == 9.0


@pytest.mark.parametrize("switch", ["option", "environment"])
def test_nothing_is_kept_without_the_cache(measured, tmp_path, monkeypatch, switch):
    if switch == "environment":
        monkeypatch.setenv("PROSPECT_NO_CACHE", "1")
    assert sample_cost(PLAN, use_cache=switch != "option") == COST
    assert kept(tmp_path) == []


@pytest.mark.parametrize("uncertain", [None, COST._replace(spread_ns=2000.0)])
def test_what_a_busy_machine_left_uncertain_is_tried_again_after_a_while(
    measured, monkeypatch, uncertain
):
    now_s = [1000.0]
    monkeypatch.setattr(sampling_cost.time, "clock_gettime", lambda _: now_s[0])
    measured[:] = [COST, uncertain]
    assert sample_cost(PLAN, use_cache=True) == uncertain
    assert sample_cost(PLAN, use_cache=True) == uncertain
    assert measured == [COST]
    now_s[0] += 601.0
    assert sample_cost(PLAN, use_cache=True) == COST
    assert measured == []


def test_costs_of_samples_that_hold_different_things_are_kept_side_by_side(measured):
    other = PLAN._replace(attr=PLAN.attr._replace(sample_type=3))
    measured[:] = [COST._replace(user_ns=7000.0), COST]
    for _ in range(2):
        assert sample_cost(PLAN, use_cache=True) == COST
        assert sample_cost(other, use_cache=True).user_ns == 7000.0


@pytest.mark.parametrize(
    "line",
    [
        b"", b"1", b"1 2", b"1 2 3", b"nan 1 1 key", b"inf 1 1 key", b"0 1 1 key", b"-1 1 1 key",
        b"1 -1 1 key", b"1 1 1e10 key", b"1 1 1 other", b"1 1 1 key more", b"1 1 x key",
    ],
)  # fmt: skip
def test_only_a_sane_line_of_the_key_is_taken(line):
    assert parse_cost(line, "key") is None
    assert parse_cost(b"1.5 0.0 0.0 9.0 key", "key") == ((1.5, 0.0, 0.0), 9.0)
    assert parse_cost(b"0 0 0 9.0 key", "key") == (None, 9.0)


@pytest.fixture
def machine(measured, monkeypatch):
    monkeypatch.setattr(sampling_cost, "choose_events", lambda *_, **__: PLAN)
    monkeypatch.setattr(clock_bank, "read_setting", lambda _: 100_000)
    return measured


def test_rate_of_an_overhead_holds_for_the_dearer_sample_and_its_spread(machine):
    # 0.5 % of a second are 5 ms; 7500 + 500.25 ns fit into that 624 times.
    assert rate_for_overhead(0.5, 4, use_cache=False) == 624


def test_rate_of_an_overhead_stays_below_the_kernels_limit(machine, monkeypatch):
    monkeypatch.setattr(clock_bank, "read_setting", lambda _: 307)
    # The limit is one of all clocks together.
    assert rate_for_overhead(100.0, 4, use_cache=False) == 307


def test_overhead_below_one_sample_a_second_is_refused_with_what_works(machine):
    with pytest.raises(UsageError, match=r"takes 0\.0008% here"):
        rate_for_overhead(0.0001, 4, use_cache=False)


def test_overhead_needs_a_cost(machine):
    machine[:] = [None]
    with pytest.raises(CaptureError, match="choose a rate"):
        rate_for_overhead(1.0, 4, use_cache=False)
