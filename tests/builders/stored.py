"""Stores with windows whose content is known."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from builders.stacks import stacks_profile
from prospect.profile.complete import complete
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine
from prospect.store.segments import SAMPLES
from prospect.store.windows import Span, Window, window_of
from prospect.store.writing import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prospect.profile.model import Profile
    from prospect.store.segments import Segment

US = 10**6
# 2026-11-22 14:05:00 UTC
BEGIN_S = 1_795_356_300


def window_at(minute: int, profile: Profile | None = None, **options: object) -> Window:
    begin_us = (BEGIN_S + 60 * minute) * US
    span = Span(begin_us, begin_us + 60 * US)
    return window_of(profile or stacks_profile(), span, **options)


def fill(path: Path, windows: Iterable[Window], session: str = "current") -> list[Segment]:
    """Write windows to a store, which is made if it is not there."""
    with StoreDirectory(str(path), create=True) as store:
        store.lock()
        engine = Engine(store)
        try:
            writer = Writer(store, engine, session)
            return [writer.add(window) for window in windows]
        finally:
            engine.close()


def samples_file(path: Path, segment: Segment) -> Path:
    return path / segment.path(SAMPLES)


def by_routine(profile: Profile, times: int = 1) -> Counter[tuple[str, ...]]:
    """Return the hits of each process, thread, mode, cause, routine and object."""
    whole = complete(profile)
    hits, functions = whole.hits, whole.functions
    function = whole.locations.function_index.take(hits.location_index)
    counted: Counter[tuple[str, ...]] = Counter()
    for process, comm, mode, cause, routine, count in zip(
        hits.process_index.tolist(),
        hits.comm_index.tolist(),
        hits.mode.tolist(),
        hits.cause_index.tolist(),
        function.tolist(),
        hits.count.tolist(),
        strict=True,
    ):
        key = (
            whole.processes.name[process],
            whole.comms[comm],
            str(mode),
            whole.causes.name[cause],
            functions.name[routine],
            whole.objects.path[functions.object_index[routine]],
        )
        counted[key] += count * times
    return counted
