"""Wall time from the samples of a clock: what the CPUs did at once, and when nothing ran."""

from __future__ import annotations

import numpy as np
import pytest

from prospect.estimate import wall_seconds as wall_seconds_module
from prospect.estimate.wall_seconds import wall_seconds
from prospect.profile.model import NO_CPU
from prospect.records import NamedTuple

TICK_NS = 5_000_000
TICK_S = 0.005


class Samples(NamedTuple):
    hit_index: np.ndarray
    time_ns: np.ndarray
    cpu: np.ndarray
    tid: np.ndarray | None

    def __len__(self):
        return len(self.hit_index)


class Profile(NamedTuple):
    samples: Samples


class Design(NamedTuple):
    hits: np.ndarray
    seconds: np.ndarray
    clocks: int = 1
    has_time: bool = True


# Hits: the first two are of the command, the last of another program.
SERIAL, PARALLEL, OTHER = range(3)
CHOSEN = np.array([True, True, False])


def wall(*ticks, chosen=CHOSEN, **changes):
    """Return the wall time of each hit; ticks are (number of the tick, CPU, thread, hit)."""
    time, cpu, tid, hit = np.array(sorted(ticks), np.int64).reshape(-1, 4).T
    hits = np.bincount(hit, minlength=3)
    samples = Samples(
        hit.astype(np.int32),
        (1 << 40) + (time * TICK_NS).astype(np.uint64),
        cpu.astype(np.uint16),
        tid.astype(np.int32),
    )
    profile = Profile(samples._replace(**changes))
    return wall_seconds(profile, Design(hits, hits * TICK_S), chosen)


def ticks(hit, cpu, tid, first, last):
    return [(at, cpu, tid, hit) for at in range(first, last)]


def test_a_thread_alone_has_wall_time_as_it_has_cpu_time():
    found = wall(*ticks(SERIAL, 0, 1, 0, 10), *ticks(OTHER, 1, 9, 0, 10))
    assert found.tolist() == pytest.approx([10 * TICK_S, 0, 0])


def test_two_threads_at_once_share_the_wall_time():
    parallel = ticks(PARALLEL, 0, 1, 10, 20) + ticks(PARALLEL, 1, 2, 10, 20)
    found = wall(*ticks(SERIAL, 0, 1, 0, 10), *parallel)
    assert found[SERIAL] == pytest.approx(10 * TICK_S, abs=TICK_S)
    assert found[PARALLEL] == pytest.approx(10 * TICK_S, abs=TICK_S)
    assert found.sum() == pytest.approx(20 * TICK_S, abs=TICK_S)


def test_a_thread_that_moves_to_another_cpu_is_not_two():
    moves = [(at, at % 2, 1, SERIAL) for at in range(20)]
    assert wall(*moves)[SERIAL] == pytest.approx(20 * TICK_S)


def test_a_cpu_without_a_tick_for_long_is_idle():
    early, late = ticks(PARALLEL, 1, 2, 0, 5), ticks(PARALLEL, 1, 2, 95, 100)
    found = wall(*ticks(SERIAL, 0, 1, 0, 100), *early, *late)
    assert found[SERIAL] == pytest.approx(95 * TICK_S, abs=TICK_S)


def test_clocks_of_threads_count_threads():
    found = wall(
        *ticks(PARALLEL, 0, 1, 0, 10), *ticks(PARALLEL, 0, 2, 0, 10), cpu=np.full(20, NO_CPU)
    )
    assert found[PARALLEL] == pytest.approx(10 * TICK_S, abs=TICK_S)


def test_it_is_not_known_without_threads_or_samples():
    assert wall(*ticks(SERIAL, 0, 1, 0, 5), tid=None) is None
    assert wall() is None
    assert wall(*ticks(OTHER, 0, 9, 0, 5)) is None


def test_times_that_cannot_be_give_none():
    last = np.uint64(2**64 - 1)
    for span in (1 << 47, (1 << 63) + 1, 2**64 - 1):
        time_ns = np.array([last - np.uint64(span), last], np.uint64)
        assert wall(*ticks(SERIAL, 0, 1, 0, 2), time_ns=time_ns) is None


def test_no_hit_has_more_wall_time_than_cpu_time():
    rng = np.random.default_rng(7)
    several = [
        (at, cpu, 10 + cpu, int(rng.integers(0, 3))) for at in range(200) for cpu in range(4)
    ]
    found = wall(*several)
    cpu_s = np.bincount([hit for *_, hit in several], minlength=3) * TICK_S
    assert (found <= cpu_s + 1e-12).all()
    assert found.sum() <= 200 * TICK_S + 1e-12


def test_a_long_recording_is_estimated_from_some_of_its_blocks(monkeypatch):
    parallel = ticks(PARALLEL, 0, 1, 1000, 3000) + ticks(PARALLEL, 1, 2, 1000, 3000)
    every = [*ticks(SERIAL, 0, 1, 0, 1000), *parallel]
    whole = wall(*every)
    monkeypatch.setattr(wall_seconds_module, "_MOST_SAMPLES", 1 << 9)
    monkeypatch.setattr(wall_seconds_module, "_BLOCK", 1 << 5)
    assert wall(*every).tolist() == pytest.approx(whole.tolist(), rel=0.05)
