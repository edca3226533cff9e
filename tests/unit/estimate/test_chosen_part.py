"""The ± of a part that was chosen is that of a sample: nobody counted what it has.

A whole machine's time is known to a tick. A program, a service or some functions of it are what a
few of the ticks hit, and a part of a recording or a store must not take these for all there were.
"""

import numpy as np
import pytest

from builders.examples import nightly, simulated
from builders.profile_builder import ProfileBuilder
from builders.programs import switching
from builders.sampling import sampled_profile
from prospect.capture.events.clock_bank import clock_periods_ns
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import half_widths
from prospect.profile.builder import no_clocks, no_samples
from prospect.profile.complete import complete
from prospect.profile.model import LossTable
from prospect.records import asdict, replace
from prospect.store.recorded import part_of_recording
from prospect.store.specification import parse_specifications

RUNS = simulated(500)


def recording(random, length_s, shares, *, rate_hz=99, clocks=4, stay_s=5e-3, cpus=1):
    """Return a recording with a program for each share on each CPU, and their true seconds."""
    schedule = switching(random, cpus, length_s, (stay_s,) * len(shares), shares)
    profile = sampled_profile(random, schedule, clock_periods_ns(rate_hz, clocks))
    build = ProfileBuilder(profile.run)
    for row in range(schedule.rows):
        build.process(f"program{row}", 100 + row)
    rows = np.arange(schedule.rows, dtype=np.int32)
    return replace(
        profile,
        processes=build.build().processes,
        hits=replace(profile.hits, process_index=rows),
    ), schedule.true_seconds()


def total(profile):
    """Return the time of all hits of a profile, and half of its interval."""
    design = sampling_design(complete(profile), 0)
    every = np.zeros(len(profile.hits), np.int32)
    return float(design.seconds.sum()), float(half_widths(design, every, 1)[0])


@pytest.mark.parametrize(
    ("shares", "options"),
    [
        ((0.33, 0.67), {}),
        pytest.param((0.9, 0.1), {}, marks=pytest.mark.nightly),
        pytest.param(
            (0.33, 0.67), {"rate_hz": 19, "clocks": 1, "stay_s": 3e-3}, marks=pytest.mark.nightly
        ),
    ],
)
def test_the_total_of_a_program_of_a_recording_holds_the_truth(shares, options):
    random = np.random.default_rng(41)
    held, halves = 0, []
    for _ in range(RUNS):
        whole, truth = recording(random, 3.0, shares, **options)
        part = part_of_recording(whole, parse_specifications(["image:program0"]))
        seconds, half = total(part)
        held += abs(seconds - truth[0]) <= half
        halves.append(half)
    assert 0.93 <= held / RUNS <= 0.975
    assert min(halves) > 0.01


def test_a_part_is_as_sure_as_its_row_in_the_whole():
    whole, _ = recording(np.random.default_rng(42), 5.0, (0.3, 0.5, 0.2))
    rows = half_widths(sampling_design(complete(whole), 0), np.arange(3, dtype=np.int32), 3)
    for row in range(3):
        part = part_of_recording(whole, parse_specifications([f"image:program{row}"]))
        assert total(part)[1] == pytest.approx(rows[row], rel=1e-9)


def test_all_of_a_recording_is_known_to_a_tick_as_a_part_too():
    whole, _ = recording(np.random.default_rng(43), 5.0, (0.3, 0.7))
    part = part_of_recording(whole, parse_specifications(["image:*"]))
    assert total(part) == pytest.approx(total(whole))
    assert total(part)[1] < 0.04  # a few ticks


def part_of_store(whole, row, due):
    """Return what a store has of one program of a recording: sums, and how many ticks were due."""
    found = asdict(whole.hits).items()
    one = {name: column[row : row + 1] for name, column in found if column is not None}
    return replace(
        whole,
        run=replace(whole.run, due_ticks=due),
        hits=replace(whole.hits, **one),
        samples=no_samples(),
        clocks=no_clocks(),
    )


@pytest.mark.parametrize("share", [0.02, *nightly(0.33), 0.9])
def test_the_total_of_a_program_of_a_store_holds_the_truth(share):
    # Sums do not say in which order ticks came; each stands for itself. A store of a machine for
    # each CPU: how many ticks it had follows from the clocks.
    random = np.random.default_rng(44)
    shares = (share, 1 - share)
    whole, truth = recording(random, 30.0, shares, rate_hz=19, cpus=2 * RUNS)
    due = whole.hits.count.reshape(-1, 2).sum(axis=1)
    held = 0
    for machine, row in enumerate(range(0, len(truth), 2)):
        seconds, half = total(part_of_store(whole, row, int(due[machine])))
        held += abs(seconds - truth[row]) <= half
    # Of a rare program ± is the wider side of an interval that is not even.
    assert 0.93 <= held / len(due) <= (0.975 if share > 0.1 else 0.985)


def test_lost_ticks_may_have_hit_the_part_too():
    whole, _ = recording(np.random.default_rng(45), 30.0, (0.5, 0.5), rate_hz=19)
    due = int(whole.hits.count.sum())
    part = part_of_store(whole, 0, due)
    seconds, half = total(part)
    lost = LossTable(np.zeros(1, np.int32), np.array([2 * due]), np.zeros(1, np.int64))
    after_loss = replace(part, losses=lost, run=replace(part.run, due_ticks=3 * due))
    assert total(after_loss) == (seconds, pytest.approx(3 * (seconds + half) - seconds, rel=0.05))
