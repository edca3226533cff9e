"""``prospect store``: what is in a store, and whether it is whole."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.cli.store_place import usual_store
from prospect.cli.terminal import show
from prospect.errors import StoreError, UsageError
from prospect.records import contents as contents_by_name
from prospect.render.escape import escaped
from prospect.render.text.columns import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from prospect.options import Settings
    from prospect.store.contents import Contents, Health

_CHANGES = ("compact", "drop", "export", "ship")
_WORDS = ("list", "check", *_CHANGES)
_MOST_DROPPED = 10


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Show what is in a store, check, merge or send it: 1 where something cannot be read or sent.

    Raises:
        ProspectError: the words mean nothing, nothing fits, or the store cannot be read.
    """
    word = words[0] if words else "list"
    if word not in _WORDS:
        from prospect.spelling import suggestion

        raise UsageError(f"store: give one of {', '.join(_WORDS)}{suggestion(word, _WORDS)}")
    if word != "compact" and settings.engine != "local":
        raise UsageError(
            f"--engine adds up many hosts: it works with prospect store compact, not with {word}"
        )
    if word in _CHANGES:
        from prospect.cli.store_changes import change

        return change(word, settings, words[1:])
    from prospect.dimensions import SEGMENTS, WORDS
    from prospect.fleet.opening import opened
    from prospect.store.contents import contents_of, health_of
    from prospect.store.engine import EngineError
    from prospect.store.hosts import asked
    from prospect.store.specification import parse_specifications

    chosen = parse_specifications(words[1:])
    if word == "check" and chosen.words:
        raise UsageError("store check: checks the whole store; drop the specifications")
    asked_for = (*chosen.texts, *chosen.numbers)
    if unknown := [each for each in asked_for if WORDS[each].table != SEGMENTS]:
        raise UsageError(f"store list: {unknown[0]}: chooses hits; prospect report --store does")
    with opened(settings.store or usual_store()) as store:
        try:
            if word == "list":
                contents = asked(store, lambda store: contents_of(store, chosen))
                is_whole, fields, lines = True, contents_fields(contents), _listed(contents)
            else:
                health = health_of(store)
                is_whole, fields, lines = (
                    not health.damaged,
                    health_fields(health),
                    _checked(health),
                )
        except EngineError as error:
            raise StoreError(f"{store.path}: cannot be read: {error}") from None
    if settings.format == "json":
        show(json.dumps(fields, indent=1) + "\n")
    else:
        show("".join(f"{line}\n" for line in lines))
    return 0 if is_whole else 1


def contents_fields(contents: Contents) -> dict[str, Any]:
    """Return what is in a store as JSON has it."""
    return {
        "days": [contents_by_name(day) for day in contents.days],
        "services": [{"service": name, "samples": hits} for name, hits in contents.services],
        "events": contents.events,
        "separate": list(contents.separate),
        "remarks": contents.remarks,
    }


def health_fields(health: Health) -> dict[str, Any]:
    """Return whether a store is whole as JSON has it."""
    return {
        "segments": health.segments,
        "damaged": health.damaged,
        "nameless": [contents_by_name(one) for one in health.nameless],
        "hits": health.hits,
        "nameless_hits": health.nameless_hits,
        "dropped": [one._asdict() for one in health.dropped],
    }


def _listed(contents: Contents) -> Iterator[str]:
    days = contents.days
    yield from table_lines(
        [
            Column("Day", [day.day for day in days], right=False),
            Column("Session", [escaped(day.session) for day in days], right=False),
            Column("Host", [escaped(day.host) for day in days], right=False),
            Column("Windows", [str(day.windows) for day in days]),
            Column("Hours", [f"{day.measured_s / 3600:.2f}" for day in days]),
            Column("Samples", [str(day.samples) for day in days]),
            Column("Lost", [str(day.lost) for day in days]),
            Column("MB", [f"{day.size_bytes / 1e6:.2f}" for day in days]),
        ]
    )
    services = [(name, hits) for name, hits in contents.services if name]
    if services:
        yield ""
        named = Column("Service", [escaped(name) for name, _ in services], right=False)
        yield from table_lines([named, Column("Samples", [str(hits) for _, hits in services])])
    yield ""
    kept = ", ".join(escaped(one) for one in contents.separate) or "nothing"
    yield f"Events: {', '.join(map(escaped, contents.events))}; kept apart: {kept}"
    for remark in contents.remarks:
        yield f"Note: {escaped(remark)}"


def _checked(health: Health) -> Iterator[str]:
    for sentence in health.damaged:
        yield f"Damaged: {escaped(sentence)}"
    for one in health.dropped[-_MOST_DROPPED:]:
        begin, end = (time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) for at in one[:2])
        yield f"Removed: {counted(one.windows, 'window')}, {begin} to {end} ({escaped(one.why)})"
    if health.nameless:
        nameless = health.nameless
        yield from table_lines(
            [
                Column("Nameless", [str(one.hits) for one in nameless]),
                Column("Object", [escaped(one.path) for one in nameless], right=False),
                Column("Why", [escaped(one.why) for one in nameless], right=False),
            ]
        )
        yield ""
    share = 100.0 * health.nameless_hits / max(health.hits, 1)
    state = "damaged" if health.damaged else "whole"
    yield (
        f"{counted(health.segments, 'segment')}, {state}; {share:.1f} % of {health.hits} hits"
        " without a name"
    )
