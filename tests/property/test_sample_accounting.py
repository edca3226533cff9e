"""The accounting gives back what was put into the grids, and takes any table."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.ticks import (
    ASLEEP,
    FULL,
    HELD,
    HIT_ROWS,
    IDLE,
    KERNEL,
    START_NS,
    THROTTLED,
    USER,
    Ticking,
    clock_table,
)
from prospect.estimate.accounting.sample_accounting import sample_accounting
from prospect.estimate.finished_report import Report
from prospect.profile.model import ClockStopTable, SampleTable
from prospect.records import replace
from prospect.render.json.report_document import JsonRenderer
from prospect.render.text.text_report import TextRenderer

# A gap lies between samples that tell what the CPU did; a late sample is the first of several.
sampled = st.tuples(st.sampled_from((USER, KERNEL)), st.integers(8, 200))
gap = st.tuples(st.sampled_from((ASLEEP, HELD, FULL, THROTTLED)), st.integers(1, 300))
idle_gap = st.tuples(st.sampled_from((ASLEEP, FULL, THROTTLED)), st.integers(1, 300))
busy_piece = st.tuples(gap, sampled)
idle_piece = st.tuples(idle_gap, st.tuples(st.just(IDLE), st.integers(8, 200)))
fates = st.tuples(sampled, st.lists(st.one_of(busy_piece, idle_piece), max_size=8)).map(
    lambda drawn: [drawn[0], *(part for piece in drawn[1] for part in piece)]
)
periods_ns = st.integers(200_000, 50_000_000)


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(fates, periods_ns, st.floats(0, 0.25)), min_size=1, max_size=5),
    st.integers(0, 2**32),
)
def test_what_was_put_into_the_grids_is_what_the_sample_accounting_says(plans, seed):
    ticking = Ticking(np.random.default_rng(seed))
    for number, (plan, period_ns, delay) in enumerate(plans):
        # A start that took more than half a period would be a tick less than expected.
        phase_ns = round(delay * period_ns)
        ticking.clock(
            plan, cpu=number // 2, clock=number % 2, period_ns=period_ns, phase_ns=phase_ns
        )
    accounting = sample_accounting(ticking.profile(cpu_accounting=ticking.idle_books()))
    assert accounting is not None
    counts = accounting.by_clock
    for position, clock in enumerate(accounting.clock.tolist()):
        told = ticking.told[int(accounting.cpu[accounting.clock_cpu[position]]), clock]
        assert counts.recorded[position] == sum(told[what] for what in HIT_ROWS)
        assert counts.lost[position] == told[FULL]
        assert counts.throttled[position] == told[THROTTLED]
        assert counts.idle[position] == told[ASLEEP]
        assert counts.busy[position] == told[HELD]
        assert counts.closure[position] == 0


@settings(max_examples=examples(60))
@given(st.lists(fates, min_size=1, max_size=4), st.integers(0, 2**32))
def test_parts_add_up_to_what_was_expected(plans, seed):
    ticking = Ticking(np.random.default_rng(seed))
    for cpu, plan in enumerate(plans):
        ticking.clock(plan, cpu=cpu)
    accounting = sample_accounting(ticking.profile())
    assert accounting is not None
    parts = sum(column.sum() for column in accounting.by_cpu[1:])
    assert parts + accounting.by_cpu.closure.sum() == accounting.by_cpu.expected.sum()
    assert accounting.by_cpu.expected.sum() == accounting.by_clock.expected.sum()


TIMES = (0, 1, START_NS, START_NS + 10**9, 2**63 - 1, 2**63, 2**64 - 1)
times_ns = st.one_of(st.sampled_from(TIMES), st.integers(0, 2**64 - 1))
near_ns = st.one_of(times_ns, st.integers(START_NS, START_NS + 10**9))
odd_periods = st.sampled_from((0.0, -1.0, 1e-300, 1.0, 4e6, 1e300, np.inf, np.nan))
odd_clocks = st.tuples(
    st.integers(0, 3),
    st.integers(0, 255),
    st.one_of(st.integers(-2, 3), st.integers(-(2**31), 2**31 - 1)),
    odd_periods,
    near_ns,
    near_ns,
    st.integers(-(2**63), 2**63 - 1),
)
odd_stops = st.tuples(st.integers(0, 3), st.integers(-3, 6), near_ns, near_ns)
odd_samples = st.tuples(st.integers(0, 2), near_ns, st.integers(0, 65535), st.integers(0, 255))
few_samples = st.tuples(st.integers(0, 2), near_ns, st.integers(0, 3), st.integers(0, 2))


@settings(max_examples=examples(80))
@given(
    st.lists(odd_clocks, max_size=6),
    st.lists(odd_stops, max_size=6),
    st.lists(st.one_of(odd_samples, few_samples), max_size=200),
)
def test_any_tables_make_books_and_reports(clocks, stops, samples):
    ticking = Ticking(np.random.default_rng(0))
    ticking.clock([(USER, 3), (KERNEL, 3), (IDLE, 3)])
    profile = ticking.profile()
    profile = replace(
        profile,
        clocks=clock_table(clocks),
        clock_stops=ClockStopTable(
            *(
                np.array([row[position] for row in stops], dtype)
                for position, dtype in enumerate((np.uint8, np.int32, np.uint64, np.uint64))
            )
        ),
        samples=SampleTable(
            *(
                np.array([row[position] for row in samples], dtype)
                for position, dtype in enumerate((np.int32, np.uint64, np.uint16, np.uint8))
            )
        ),
    )
    report = Report(profile, "4")
    for book in ("sample_accounting", "lateness", "cost"):
        getattr(report, book)
    for renderer in (TextRenderer(detail="4"), JsonRenderer(detail="4")):
        renderer.render(profile, io.BytesIO())
