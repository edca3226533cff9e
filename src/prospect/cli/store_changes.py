"""``prospect store compact``, ``drop``, ``export``, ``ship``: what changes or copies a store."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.cli.store_place import usual_store
from prospect.cli.terminal import show
from prospect.errors import StoreError, UsageError
from prospect.store.directory import StoreDirectory
from prospect.store.removal import clean

if TYPE_CHECKING:
    from prospect.options import Settings
    from prospect.store.hosts import HostsDirectory
    from prospect.store.specification import Specification


def change(word: str, settings: Settings, words: list[str]) -> int:
    """Do what a word says, and say what was done.

    Raises:
        ProspectError: the words mean nothing, nothing fits, or a store cannot be read or written.
    """
    does = {"compact": _compact, "drop": _drop, "export": _export, "ship": _ship}[word]
    try:
        fields, sentence = does(settings, words)
    except OSError as error:
        path = settings.store or usual_store()
        raise StoreError(f"{path}: cannot be written: {error.strerror}") from None
    show(json.dumps(fields, indent=1) + "\n" if settings.format == "json" else f"{sentence}\n")
    return 0


def _compact(settings: Settings, words: list[str]) -> tuple[dict[str, int], str]:
    """Merge what is over by the clock of this machine; of many hosts make sums of all of them."""
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
    return (
        made._asdict(),
        f"made: {counted(made.hours, 'hour')}, {counted(made.days, 'day')}",
    )


def _of_hosts(path: str) -> HostsDirectory | None:
    """Return stores of many hosts, None where one host's store is named."""
    from prospect.fleet.opening import opened
    from prospect.fleet.places import FILE, place_of
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
    sentence = f"made: {counted(made.days, 'day')} of all hosts"
    if made.left:
        sentence += f"; left, for others of their day are gone: {counted(made.left, 'segment')}"
    return made._asdict(), sentence


def _drop(settings: Settings, words: list[str]) -> tuple[dict[str, int], str]:
    """Remove windows for good."""
    from prospect.store.portions import drop_portion

    if not words:
        raise UsageError("store drop: choose a part: until:-30d, or session:NAME")
    chosen = _chosen("drop", words)
    with StoreDirectory(settings.store or usual_store()) as store:
        store.lock()
        windows, stay = drop_portion(store, chosen)
    sentence = f"removed: {counted(windows, 'window')}"
    if stay:
        sentence += f"; kept, because their hours hold more: {counted(stay, 'segment')}"
    return {"windows": windows, "segments_left": stay}, sentence


def _export(settings: Settings, words: list[str]) -> tuple[dict[str, int], str]:
    """Copy hours to a store that is made."""
    from prospect.store.portions import copy_portion

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
    return {"segments": count}, f"copied to {path}: {counted(count, 'segment')}"


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
    """Send what was not sent yet."""
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
