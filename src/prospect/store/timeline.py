"""Compute a store over time, in the steps of a picture: samples, expected and lost ticks."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from prospect.errors import StoreError
from prospect.records import NamedTuple
from prospect.store.choosing import hits_by_step
from prospect.store.engine import EngineError
from prospect.store.file_schema import LOST_SAMPLES
from prospect.store.hosts import asked
from prospect.store.segment_reading import choose
from prospect.store.segments import COVERAGE, DAY, FUNCTIONS, SAMPLES
from prospect.store.tables import local_engine, make_tables

if TYPE_CHECKING:
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker, Queries

_US = 10**6
_KINDS = (SAMPLES, FUNCTIONS, COVERAGE)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS_S = (
    *(1, 2, 5, 10, 20, 30),
    *(_MINUTE * each for each in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * each for each in (1, 2, 3, 6, 12)),
    *(_DAY * each for each in (1, 2, 5, 10, 30, 100, 1000)),
)


class Step(NamedTuple):
    """A step of time that has windows.

    Attributes:
        begin_s, end_s: since 1970. A window that was written late may be longer than a step.
        expected, lost: ticks of all CPUs; throttled ones count as lost.
        hits: the matching ones, without those of idle CPUs.
    """

    begin_s: int
    end_s: int
    expected: int
    lost: int
    hits: int


class Timeline(NamedTuple):
    """A store over time.

    Attributes:
        begin_s, end_s: of all steps, in seconds since 1970.
        step_s: the least length of a step.
        steps: those that have windows, in order.
        remarks: a sentence for each thing that is left out.
    """

    begin_s: int
    end_s: int
    step_s: int
    steps: list[Step]
    remarks: list[str]


def timeline(
    store: StoreDirectory, chosen: Specification, most: int, make_engine: EngineMaker = local_engine
) -> Timeline:
    """Compute a store over time, in about `most` steps.

    Raises:
        StoreError: nothing matches, or nothing can be read.
    """

    def answer(store: StoreDirectory) -> Timeline:
        with closing(make_engine(store)) as engine:
            return _timeline(store, engine, chosen, most)

    try:
        return asked(store, answer)
    except EngineError as error:
        raise StoreError(f"{store.path}: cannot be read: {error}") from None


def _timeline(store: StoreDirectory, engine: Queries, chosen: Specification, most: int) -> Timeline:
    part = choose(store, engine.planner, chosen, fine=False)
    make_tables(store, engine, part, _KINDS)
    chosen = part.chosen
    parameters = [chosen.since_us, chosen.until_us]
    source = "FROM coverage WHERE t >= ? AND t < ?"
    ((first, last),) = engine.rows(f'SELECT min(t), max("until") {source}', parameters)
    if first is None:
        raise StoreError(f"{store.path}: nothing was measured in this part")
    first_s, last_s = first // _US, -(-last // _US)
    least_s = max((last_s - first_s) / most, max(head.window_us for head in part.heads) / _US)
    step_s = next((step for step in _STEPS_S if step >= least_s), _STEPS_S[-1])
    begin_s = first_s // step_s * step_s
    end_s = max(-(-last_s // step_s) * step_s, begin_s + step_s)
    accounting = engine.rows(
        "SELECT t // ? AS step, sum(expected)::BIGINT,"
        f' ({LOST_SAMPLES} + sum(throttled))::BIGINT, max("until") {source}'
        " GROUP BY step ORDER BY step",
        [step_s * _US, *parameters],
    )
    if step_s < _HOUR and any(one.tier == DAY for one in part.segments):
        part = choose(store, engine.planner, chosen)
        make_tables(store, engine, part, _KINDS)
    hits = hits_by_step(store, engine, part, step_s * _US)
    begins = [step for step, *_ in accounting]
    steps = [
        Step(step * step_s, _end_s(step, after, step_s, until), expected, lost, hits.get(step, 0))
        for (step, expected, lost, until), after in zip(
            accounting, [*begins[1:], end_s // step_s], strict=True
        )
    ]
    # A clock that was set, or a damaged file, may give too many steps.
    return Timeline(begin_s, end_s, step_s, steps[: 2 * most], part.remarks)


def _end_s(step: int, after: int, step_s: int, until_us: int) -> int:
    """Return the end of a step: that of its last window, but not after the next step begins."""
    last = max(round(until_us / (step_s * _US)), step + 1)
    return min(last, max(after, step + 1)) * step_s
