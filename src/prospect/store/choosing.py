"""The hits of segments that fit a specification, added up over windows.

All that comes from a person is a parameter of the query; its text is made of names of ours.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from prospect.errors import StoreError
from prospect.store.reading import hit_files, name_files
from prospect.store.schema import SAMPLE_KEYS, SAMPLE_SUMS
from prospect.store.segments import FUNCTIONS
from prospect.store.specification import NUMBER_WORDS, OF_SEGMENTS, TEXT_WORDS
from prospect.store.windows import CPU, PROCESS, THREAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Engine
    from prospect.store.reading import Part
    from prospect.store.specification import Specification

# What a report shows separately; the rest is added up.
_KEYS = tuple(name for name in SAMPLE_KEYS if name not in ("t", "tid", "cpu", "stack"))
_OF_FUNCTIONS = ("lib-image", "symbol")
_APART = {"tgid": (PROCESS, THREAD), "tid": (THREAD,), "cpu": (CPU,)}
_MOST_SHOWN = 5


def chosen_rows(
    store: StoreDirectory,
    engine: Engine,
    part: Part,
    *,
    stacks: bool,
) -> dict[str, NDArray[Any]]:
    """Return the hits that fit, by everything but time, thread and CPU.

    Args:
        store: that is read.
        engine: to query it with.
        part: its segments, and what the hits have to fit.
        stacks: whether hits of different stacks are to be told apart.

    Raises:
        StoreError: nothing fits; says what there is.
        EngineError: a segment cannot be read.
    """
    chosen = part.chosen
    _refuse_what_was_not_kept_apart(store, part, chosen)
    conditions, parameters = _conditions(store, engine, part, chosen)
    keys = (*_KEYS, "stack") if stacks else _KEYS
    sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in SAMPLE_SUMS)
    paths = hit_files(store, part.segments, stacks=stacks)
    rows = engine.columns(
        f"SELECT {', '.join(keys)}, {sums} FROM read_parquet(?, hive_partitioning=false)"
        f" WHERE {' AND '.join(conditions)} GROUP BY {', '.join(keys)}",
        [paths, *parameters],
    )
    if not len(rows["n"]) and (chosen.texts or chosen.numbers):
        there_is = _there_is(store, engine, part, paths, chosen)
        raise StoreError(f"{store.path}: nothing fits {' '.join(chosen.words)}{there_is}")
    return rows


def hits_by_step(store: StoreDirectory, engine: Engine, part: Part, step_us: int) -> dict[int, int]:
    """Return how many hits fit in each step of time, but not those of idle CPUs.

    Raises:
        StoreError: a word chooses by what the store does not keep separate.
        EngineError: a segment cannot be read.
    """
    _refuse_what_was_not_kept_apart(store, part, part.chosen)
    conditions, parameters = _conditions(store, engine, part, part.chosen)
    rows = engine.rows(
        "SELECT t // ? AS step, sum(n)::BIGINT FROM read_parquet(?, hive_partitioning=false)"
        f" WHERE {' AND '.join(conditions)} AND pid <> 0 GROUP BY step",
        [step_us, hit_files(store, part.segments), *parameters],
    )
    return dict(rows)


def _conditions(
    store: StoreDirectory, engine: Engine, part: Part, chosen: Specification
) -> tuple[list[str], list[Any]]:
    conditions = ["t >= ? AND t < ?"]
    parameters: list[Any] = [chosen.since_us, chosen.until_us]
    for word, patterns in chosen.texts.items():
        if word in OF_SEGMENTS:
            continue
        if word == "event":
            events = enumerate(part.heads[-1].events)
            fits = [row for row, one in events if any(fnmatchcase(one.name, p) for p in patterns)]
            conditions.append("list_contains(?::BIGINT[], event)")
            parameters.append(fits)
            continue
        condition = " OR ".join([f"{TEXT_WORDS[word]} GLOB ?"] * len(patterns))
        if word in _OF_FUNCTIONS:
            condition = (
                "function IN (SELECT function FROM read_parquet(?, hive_partitioning=false)"
                f" WHERE {condition})"
            )
            parameters.append(name_files(store, engine, part.segments, FUNCTIONS))
        conditions.append(f"({condition})")
        parameters += patterns
    for word, numbers in chosen.numbers.items():
        conditions.append(f"list_contains(?::BIGINT[], {NUMBER_WORDS[word]})")
        parameters.append(list(numbers))
    return conditions, parameters


def _refuse_what_was_not_kept_apart(
    store: StoreDirectory, part: Part, chosen: Specification
) -> None:
    for word in chosen.numbers:
        if not all(set(_APART[word]) & set(head.separate) for head in part.heads):
            raise StoreError(
                f"{store.path}: {word}: the store does not keep this separate;"
                f" prospect daemon --separate {_APART[word][0]} does from then on"
            )


def _there_is(
    store: StoreDirectory, engine: Engine, part: Part, paths: list[str], chosen: Specification
) -> str:
    """Say of the words that fit nothing by themselves what there is instead."""
    said = []
    for word in (*chosen.texts, *chosen.numbers):
        if word in OF_SEGMENTS:
            continue
        texts = {word: chosen.texts[word]} if word in chosen.texts else {}
        numbers = {word: chosen.numbers[word]} if word in chosen.numbers else {}
        alone = chosen._replace(texts=texts, numbers=numbers)
        conditions, parameters = _conditions(store, engine, part, alone)
        ((found,),) = engine.rows(
            "SELECT count(*) FROM (SELECT 1 FROM read_parquet(?, hive_partitioning=false)"
            f" WHERE {' AND '.join(conditions)} LIMIT 1)",
            [paths, *parameters],
        )
        if not found:
            there = _commonest(store, engine, part, chosen, word)
            said.append(f"{word}: there is {', '.join(there) or 'nothing'}")
    more = [word for word in (*chosen.texts, *chosen.numbers) if word not in OF_SEGMENTS]
    if not said and len(more) > 1:
        said.append("each of them fits something, but nothing fits all")
    return "".join(f"; {one}" for one in said)


def _commonest(
    store: StoreDirectory,
    engine: Engine,
    part: Part,
    chosen: Specification,
    word: str,
) -> list[str]:
    """Return the commonest values of a word in the span that was asked for."""
    if word == "event":
        return [one.name for one in part.heads[-1].events][:_MOST_SHOWN]
    column = (TEXT_WORDS | NUMBER_WORDS)[word]
    source = "read_parquet(?, hive_partitioning=false)"
    parameters = [hit_files(store, part.segments)]
    if word in _OF_FUNCTIONS:
        names = name_files(store, engine, part.segments, FUNCTIONS)
        if not names:
            return []
        source += (
            f" JOIN (SELECT function, any_value({column}) AS {column}"
            " FROM read_parquet(?, hive_partitioning=false) GROUP BY function) USING (function)"
        )
        parameters.append(names)
    rows = engine.rows(
        f"SELECT {column}, sum(n) AS hits FROM {source} WHERE t >= ? AND t < ?"
        f" GROUP BY {column} ORDER BY hits DESC, {column} LIMIT {_MOST_SHOWN}",
        [*parameters, chosen.since_us, chosen.until_us],
    )
    return [str(value) or "none" for value, _ in rows]
