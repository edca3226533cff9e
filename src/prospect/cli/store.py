"""``prospect store``: list, check, merge, remove, copy or send the windows of a store."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.cli.operands import usual_store
from prospect.cli.terminal import show
from prospect.errors import StoreError, UsageError
from prospect.render.escape import escaped
from prospect.render.json.document_fields import indented
from prospect.render.json.machine_documents import CONTENTS, HEALTH
from prospect.render.text.text_table import Column, table_lines
from prospect.store.directory import StoreDirectory
from prospect.store.retention import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.options import Settings
    from prospect.store.contents import Contents, Health
    from prospect.store.hosts import HostsDirectory
    from prospect.store.specification import Specification

_CHANGES = ("compact", "drop", "export", "ship")
_WORDS = ("list", "check", *_CHANGES)
_MOST_DROPPED = 10


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Execute a word on a store; return 1 if a check finds damage, else 0.

    Raises:
        ProspectError: the words are invalid, nothing matches, or the store cannot be read.
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
        return _change(word, settings, words[1:])
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
        raise UsageError(f"store list: {unknown[0]}: chooses samples; prospect report --store does")
    with opened(settings.store or usual_store()) as store:
        try:
            if word == "list":
                contents = asked(store, lambda store: contents_of(store, chosen))
                is_whole, document, lines = True, indented(CONTENTS, contents), _listed(contents)
            else:
                health = health_of(store)
                is_whole, document = not health.damaged, indented(HEALTH, health)
                lines = _checked(health)
        except EngineError as error:
            raise StoreError(f"{store.path}: cannot be read: {error}") from None
    show(document if settings.format == "json" else "".join(f"{line}\n" for line in lines))
    return 0 if is_whole else 1


def _listed(contents: Contents) -> Iterator[str]:
    days = contents.days
    yield from table_lines(
        Column("Day", [day.day for day in days], right=False),
        Column("Session", [escaped(day.session) for day in days], right=False),
        Column("Host", [escaped(day.host) for day in days], right=False),
        Column("Windows", [str(day.windows) for day in days]),
        Column("Hours", [f"{day.measured_s / 3600:.2f}" for day in days]),
        Column("Samples", [str(day.samples) for day in days]),
        Column("Lost", [str(day.lost) for day in days]),
        Column("MB", [f"{day.size_bytes / 1e6:.2f}" for day in days]),
    )
    services = [(name, hits) for name, hits in contents.services if name]
    if services:
        yield ""
        named = Column("Service", [escaped(name) for name, _ in services], right=False)
        yield from table_lines(named, Column("Samples", [str(hits) for _, hits in services]))
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
        yield f"Removed: {pluralize(one.windows, 'window')}, {begin} to {end} ({escaped(one.why)})"
    if health.nameless:
        nameless = health.nameless
        yield from table_lines(
            Column("Nameless", [str(one.hits) for one in nameless]),
            Column("Object", [escaped(one.path) for one in nameless], right=False),
            Column("Why", [escaped(one.why) for one in nameless], right=False),
        )
        yield ""
    share = 100.0 * health.nameless_hits / max(health.hits, 1)
    state = "damaged" if health.damaged else "whole"
    yield (
        f"{pluralize(health.segments, 'segment')}, {state}; {share:.1f} % of {health.hits} samples"
        " without a name"
    )


def _change(word: str, settings: Settings, words: list[str]) -> int:
    """Execute a word, and report the result."""
    does = {"compact": _compact, "drop": _drop, "export": _export, "ship": _ship}[word]
    try:
        fields, sentence = does(settings, words)
    except OSError as error:
        path = settings.store or usual_store()
        raise StoreError(f"{path}: cannot be written: {error.strerror}") from None
    show(json.dumps(fields, indent=1) + "\n" if settings.format == "json" else f"{sentence}\n")
    return 0


def _compact(settings: Settings, words: list[str]) -> tuple[dict[str, int], str]:
    """Merge finished hours and days of a store, or make sums of all of many hosts."""
    from prospect.store.compaction import compact
    from prospect.store.engine import Engine, EngineError

    if words:
        raise UsageError("store compact: merges all finished windows; drop the specifications")
    path = settings.store or usual_store()
    if (of_hosts := _of_hosts(path)) is not None:
        return _compact_fleet(of_hosts, settings.engine)
    if settings.engine != "local":
        raise UsageError("store compact: --engine adds up many hosts; one host's store needs none")
    with StoreDirectory(path) as store:
        store.lock()
        clean(store)
        try:
            with closing(Engine(store)) as engine:
                made = compact(store, engine)
        except EngineError as error:
            raise StoreError(f"{store.path}: cannot be merged: {error}") from None
    return (made._asdict(), f"made: {pluralize(made.hours, 'hour')}, {pluralize(made.days, 'day')}")


def _of_hosts(path: str) -> HostsDirectory | None:
    """Return stores of many hosts, None if one host's store is named."""
    from prospect.fleet.opening import opened
    from prospect.fleet.store_places import FILE, place_of
    from prospect.store.hosts import HostsDirectory

    if place_of(path).scheme != FILE:
        raise UsageError("store compact: days of a fleet are made in a directory, not in a bucket")
    store = opened(path)
    if isinstance(store, HostsDirectory):
        return store
    store.close()
    return None


def _compact_fleet(store: HostsDirectory, engine: str) -> tuple[dict[str, int], str]:
    from prospect.fleet.keeping import keep_days
    from prospect.fleet.opening import engine_of

    with store:
        made = keep_days(store, engine_of(engine), time.time())
    sentence = f"made: {pluralize(made.days, 'day')} of all hosts"
    if made.left:
        left = pluralize(made.left, "segment")
        sentence += f"; left out, because other segments of their day are gone: {left}"
    return made._asdict(), sentence


def _drop(settings: Settings, words: list[str]) -> tuple[dict[str, int], str]:
    """Remove windows for good."""
    from prospect.store.retention import drop_portion

    if not words:
        raise UsageError("store drop: choose a part: until:-30d, or session:NAME")
    chosen = _chosen("drop", words)
    with StoreDirectory(settings.store or usual_store()) as store:
        store.lock()
        windows, stay = drop_portion(store, chosen)
    sentence = f"removed: {pluralize(windows, 'window')}"
    if stay:
        kept = pluralize(stay, "segment")
        sentence += f"; kept, because their hours have other windows too: {kept}"
    return {"windows": windows, "segments_left": stay}, sentence


def _export(settings: Settings, words: list[str]) -> tuple[dict[str, int], str]:
    """Copy hours to a new store."""
    from prospect.store.retention import copy_portion

    if not words or ":" in words[0]:
        raise UsageError(
            "store export: give a directory: prospect store export DIRECTORY since:-1d"
        )
    path, chosen = words[0], _chosen("export", words[1:])
    with StoreDirectory(settings.store or usual_store()) as store:
        try:
            with StoreDirectory(path, create=True) as target:
                target.lock()
                count = copy_portion(store, target, chosen)
        except OSError as error:
            raise StoreError(f"{path}: cannot be written: {error.strerror}") from None
    return {"segments": count}, f"copied to {path}: {pluralize(count, 'segment')}, of whole hours"


def _chosen(word: str, words: list[str]) -> Specification:
    from prospect.store.specification import parse_specifications

    chosen = parse_specifications(words)
    for each in (*chosen.texts, *chosen.numbers):
        if each != "session":
            raise UsageError(
                f"store {word}: {each}: takes whole hours, so since:, until:, session:"
            )
    return chosen


def _ship(settings: Settings, words: list[str]) -> tuple[dict[str, object], str]:
    """Send the waiting segments."""
    if words or not settings.ship:
        raise UsageError("store ship: give a URL: prospect store ship --ship s3://BUCKET/PREFIX")
    from prospect.fleet.sending import Shipment
    from prospect.fleet.shipping import ship

    with StoreDirectory(settings.store or usual_store()) as store:
        shipment = Shipment(settings.ship, settings.host_share)
        shipped = ship(store, shipment, time.time(), checks_sent=True)
    if shipped.complaint:
        raise StoreError(shipped.complaint)
    if not shipped.sent_bytes:
        sentence = f"nothing waits for {settings.ship}: an hour is sent once it is over"
    else:
        sentence = f"{shipped.sent_bytes / 1e6:.2f} MB sent to {settings.ship}"
    return shipped._asdict(), sentence
