"""Choose the hits of segments that match a specification, added up over windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.grouping import exact_sums
from prospect.dimensions import BY_NAME, EVENTS, FUNCTIONS, OF_WORD, SEGMENTS, WORDS
from prospect.errors import StoreError
from prospect.figures.processes import IDLE_ENTRY_REASONS, are_idle
from prospect.figures.sample_filter import event_name
from prospect.profile.model import ENTRY_REASON_IDLE
from prospect.store.conditions import column_of, conditions_in, is_one_of, sql_of
from prospect.store.file_schema import SAMPLE_KEYS, SAMPLE_SUMS
from prospect.store.segments import HOUR_US
from prospect.store.specification import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.figures.sample_filter import Condition
    from prospect.store.directory import StoreDirectory
    from prospect.store.segment_reading import Part
    from prospect.store.specification import Specification
    from prospect.store.tables import Queries

# Keys that a report shows separately. Hits are added up over the other keys.
_KEYS = tuple(name for name in SAMPLE_KEYS if name not in ("t", "tid", "cpu", "stack"))
CLASS = "class"
HOST_HOUR = ("host", "hour")
_MOST_SHOWN = 5


def chosen_rows(
    store: StoreDirectory, engine: Queries, part: Part, *, stacks: bool, apart: Sequence[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return the matching hits, added up over time, thread and CPU.

    If the hosts are a share of all hosts, hits are also separate by `HOST_HOUR`. The order is that
    of the names of programs, then of the other keys.

    Args:
        stacks: whether hits of different stacks are separate.
        apart: dimensions that hits are also separate by. The values are in columns such as
            ``class_cpu`` if no key has them. The value of "session" is the segment.

    Raises:
        StoreError: nothing matches; says what there is.
        EngineError: a segment cannot be read.
    """
    chosen = part.chosen
    dimensions = [BY_NAME[name] for name in apart]
    asked = [*chosen.numbers]
    for one in dimensions:
        asked += [word.name for word in WORDS.values() if one.stored == word.column != ""]
    _refuse_unless_separate(store, part, asked)
    conditions, parameters = conditions_of(part, chosen)
    keys = (*_KEYS, "stack") if stacks else _KEYS
    columns = ", ".join(keys)
    for one in dimensions:
        if one.kept_as:
            keys = (*keys, f"{CLASS}_{one.name}")
            columns += f", {one.stored} AS {CLASS}_{one.name}"
    if part.is_share_of_hosts:
        # The choice of hosts contributes to the error.
        keys, columns = (*keys, *HOST_HOUR), f"{columns}, host, t // {HOUR_US} AS hour"
    sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in SAMPLE_SUMS)
    # The threads of an engine group rows in a different order each time.
    rows = engine.columns(
        f"SELECT {columns}, {sums} FROM samples WHERE {' AND '.join(conditions)}"
        f" GROUP BY {', '.join(keys)} ORDER BY {', '.join(('process', *keys))}",
        parameters,
    )
    if not len(rows["n"]) and (chosen.texts or chosen.numbers):
        there_is = _there_is(engine, part, chosen)
        raise StoreError(f"{store.path}: nothing matches {' '.join(chosen.words)}{there_is}")
    return rows


def busy_by_event(
    engine: Queries, part: Part, rows: dict[str, NDArray[Any]]
) -> tuple[tuple[int, int], ...]:
    """Return the samples of busy CPUs and their periods by event, for all hits of the span.

    `part` and `rows` are those of `chosen_rows`.

    Raises:
        EngineError: a segment cannot be read.
    """
    events, chosen = len(part.heads[-1].events), part.chosen
    if all(one.word.table == SEGMENTS for one in conditions_in(chosen)):
        busy = np.flatnonzero(~are_idle(rows["cause_kind"], rows["pid"] == 0))
        event = rows["event"].take(busy)
        count, period = (exact_sums(event, rows[name].take(busy), events) for name in ("n", "w"))
        return tuple(zip(count.tolist(), period.tolist(), strict=True))
    conditions, parameters = conditions_of(part, chosen._replace(texts={}, numbers={}))
    idle, kinds = is_one_of("cause_kind", IDLE_ENTRY_REASONS)
    sums = engine.rows(
        "SELECT event, sum(n)::BIGINT, sum(w)::BIGINT FROM samples"
        f" WHERE {' AND '.join(conditions)} AND cause_kind <> ? AND NOT (pid = 0 AND {idle})"
        " GROUP BY event",
        [*parameters, ENTRY_REASON_IDLE, *kinds],
    )
    of_event = {event: (count, period) for event, count, period in sums}
    return tuple(of_event.get(event, (0, 0)) for event in range(events))


def hits_by_step(
    store: StoreDirectory, engine: Queries, part: Part, step_us: int
) -> dict[int, int]:
    """Return the number of matching hits in each step of time, without those of idle CPUs.

    Raises:
        StoreError: a word needs a key that the store does not keep separate.
        EngineError: a segment cannot be read.
    """
    _refuse_unless_separate(store, part, part.chosen.numbers)
    conditions, parameters = conditions_of(part, part.chosen)
    rows = engine.rows(
        "SELECT t // ? AS step, sum(n)::BIGINT FROM samples"
        f" WHERE {' AND '.join(conditions)} AND pid <> 0 GROUP BY step",
        [step_us, *parameters],
    )
    return dict(rows)


def conditions_of(part: Part, chosen: Specification) -> tuple[list[str], list[Any]]:
    """Return the conditions of a specification on rows of `samples`, and their parameters."""
    conditions, parameters = ["1 = 1"], []
    if (chosen.since_us, chosen.until_us) != (-ALWAYS, ALWAYS):
        # A whole store needs no such condition: reading all times is a fifth of the work.
        conditions, parameters = ["t >= ? AND t < ?"], [chosen.since_us, chosen.until_us]
    for one in conditions_in(chosen):
        if one.word.table != SEGMENTS:
            condition, values = sql_of(one, part.heads[-1].events)
            conditions.append(condition)
            parameters += values
    return conditions, parameters


def _refuse_unless_separate(store: StoreDirectory, part: Part, words: Iterable[str]) -> None:
    for word in words:
        one = OF_WORD[word]
        if one.separate and not all(set(one.separate) & set(head.separate) for head in part.heads):
            raise StoreError(
                f"{store.path}: {word}: the store does not keep this separate;"
                f" prospect daemon --separate {one.separate[0]} does from then on"
            )


def _there_is(engine: Queries, part: Part, chosen: Specification) -> str:
    """Return what there is instead for each word that matches nothing by itself."""
    hints = []
    asked = [one for one in conditions_in(chosen) if one.word.table != SEGMENTS]
    for one in asked:
        condition, values = sql_of(one, part.heads[-1].events)
        ((found,),) = engine.rows(
            "SELECT count(*) FROM (SELECT n FROM samples"
            f" WHERE t >= ? AND t < ? AND {condition} LIMIT 1) AS first_rows",
            [chosen.since_us, chosen.until_us, *values],
        )
        if not found:
            there = ", ".join(_commonest(engine, part, chosen, one)) or "no sample in this span"
            hints.append(f"{one.word.name}: there is {there}")
    if not hints and len(asked) > 1:
        hints.append("each word matches some samples, but no sample matches all")
    return "".join(f"; {hint}" for hint in hints)


def _commonest(engine: Queries, part: Part, chosen: Specification, one: Condition) -> list[str]:
    """Return the commonest values of a word in the chosen span."""
    if one.word.table == EVENTS:
        events = part.heads[-1].events[:_MOST_SHOWN]
        return [event_name(event, one.word) for event in events]
    column = column_of(one.word)
    names = " JOIN functions USING (function)" if one.word.table == FUNCTIONS else ""
    rows = engine.rows(
        f"SELECT {column} AS name, sum(n) AS hits FROM samples{names} WHERE t >= ? AND t < ?"
        f" GROUP BY {column} ORDER BY hits DESC, {column} LIMIT {_MOST_SHOWN}",
        [chosen.since_us, chosen.until_us],
    )
    return [str(value) or "none" for value, _ in rows]
