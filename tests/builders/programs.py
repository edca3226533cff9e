"""Kinds of programs, as schedules: each function makes many runs of one, a CPU each.

Run r has its own rows, from r times the number of states on, so that every run is judged by itself.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from builders.sampling import Schedule


def switching(
    random: np.random.Generator,
    runs: int,
    length_s: float,
    stays_s: tuple[float, ...],
    shares: tuple[float, ...],
) -> Schedule:
    """States at random: state k stays for `stays_s[k]` on average, and is entered next by chance.

    `shares` are how often each is entered.
    """
    likely = np.array(shares) / sum(shares)
    stays = np.array(stays_s)
    mean_s = float(stays @ likely)
    count = int(1.3 * length_s / mean_s + 6 * np.sqrt(length_s / mean_s) + 20)
    state = random.choice(len(stays), size=(runs, count), p=likely)
    stay_s = random.exponential(1.0, state.shape) * stays.take(state)
    start_s = np.cumsum(stay_s, axis=1) - stay_s
    return Schedule(start_s, _own_rows(state, len(stays)), length_s, runs * len(stays))


def periodic(
    random: np.random.Generator, length_s: float, rate_hz: np.ndarray, share: np.ndarray
) -> Schedule:
    """State 0 for `share` f64[r] of each period, state 1 for the rest, from a random phase on."""
    runs = len(rate_hz)
    periods = int(np.ceil(length_s * rate_hz.max())) + 2
    begin = (np.arange(periods) - random.random((runs, 1))) / rate_hz[:, None]
    start_s = np.stack([begin, begin + (share / rate_hz)[:, None]], axis=2)
    state = np.tile([0, 1], (runs, periods))
    return Schedule(start_s.reshape(runs, -1), _own_rows(state, 2), length_s, 2 * runs)


def migrating(random: np.random.Generator, program: Schedule, stay_s: float) -> Schedule:
    """The same runs on two CPUs each, CPU 2r and 2r + 1, between which they move at random.

    A CPU without its run is idle, which is no row.
    """
    runs, width = program.what.shape
    moves = int(2.0 * program.length_s / stay_s) + 10
    move_s = np.cumsum(random.exponential(stay_s, (runs, moves)), axis=1)
    start_s = np.concatenate([program.start_s, move_s], axis=1)
    order = np.argsort(start_s, axis=1, kind="stable")
    place = np.concatenate([np.tile(np.arange(width), (runs, 1)), np.zeros((runs, moves), int)], 1)
    place = np.maximum.accumulate(np.take_along_axis(place, order, 1), axis=1)
    what = np.take_along_axis(program.what, place, 1)
    on_second = np.cumsum(order >= width, axis=1) % 2 == 1
    halves = [np.where(on_second == second, what, -1) for second in (False, True)]
    both = np.stack(halves, axis=1).reshape(2 * runs, -1)
    start_s = np.repeat(np.take_along_axis(start_s, order, 1), 2, axis=0)
    return Schedule(start_s, both, program.length_s, program.rows)


def in_turn(*programs: Schedule) -> Schedule:
    """Run programs of as many runs, with the same states, one after the other."""
    lengths = [program.length_s for program in programs]
    ends = np.cumsum([0.0, *lengths])
    start, what = [], []
    for program, (begin_s, end_s) in zip(programs, pairwise(ends), strict=True):
        start.append(np.clip(program.start_s + begin_s, begin_s, end_s))
        what.append(program.what)
    return Schedule(
        np.concatenate(start, 1), np.concatenate(what, 1), float(ends[-1]), programs[0].rows
    )


def _own_rows(state: np.ndarray, states: int) -> np.ndarray:
    return state + states * np.arange(len(state))[:, None]
