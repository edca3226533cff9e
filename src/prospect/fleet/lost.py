"""Windows that were removed before they could be sent: their accounting is sent instead.

Retention goes by age and bytes, whatever was sent: a target that is away costs the disk no more
than the store may have. The accounting of unsent windows stays, a few KB a window, until they are
sent
with every sample counted as lost: so readers of the target do not take a host that lost an hour for
one that was idle.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from prospect.fleet.fleet_limits import MOST_ASIDE, MOST_LOST_BYTES, UNFINISHED_S
from prospect.fleet.sending import place_in_target, send_segment
from prospect.store.segments import COVERAGE, MINUTE, SAMPLES, SUFFIX, segment_of

if TYPE_CHECKING:
    from prospect.fleet.sending import Shipment
    from prospect.fleet.targets import Target
    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Engine
    from prospect.store.file_schema import Head
    from prospect.store.segments import Segment

FOLDER = "unsent"
_MEMORY = "128MB"


def set_aside(store: StoreDirectory, segment: Segment) -> None:
    """Keep the accounting of a segment that is removed unsent; takes no space on a full disk."""
    aside = accounting_aside(store)
    with suppress(OSError):
        for one in aside[: max(len(aside) + 1 - MOST_ASIDE, 0)]:
            os.unlink(_path(one), dir_fd=store.descriptor)
        store.move(segment.path(COVERAGE), _path(segment))


def accounting_aside(store: StoreDirectory) -> list[Segment]:
    """Return the segments whose accounting waits to be sent, by their windows' numbers."""
    with suppress(OSError), os.scandir(store.root + FOLDER) as entries:
        stems = [entry.name.removesuffix(f".{COVERAGE}{SUFFIX}") for entry in entries]
        found = (segment_of(MINUTE, f"{stem}.{SAMPLES}{SUFFIX}") for stem in stems)
        return sorted((one for one in found if one), key=lambda one: one.first)
    return []


def clean_aside(store: StoreDirectory) -> None:
    """Remove what a sender that was killed has left unfinished."""
    with suppress(OSError), os.scandir(store.root + FOLDER) as entries:
        for entry in entries:
            is_old = time.time() - entry.stat(follow_symlinks=False).st_mtime > UNFINISHED_S
            if is_old and not entry.name.endswith(SUFFIX):
                os.unlink(f"{FOLDER}/{entry.name}", dir_fd=store.descriptor)


def send_lost(store: StoreDirectory, target: Target, shipment: Shipment) -> int:
    """Send what is aside, as segments without samples; return how many windows that is.

    Raises:
        StoreError: the target does not take one, or DuckDB is not installed.
        OSError: the disk has no room for them.
    """
    aside = accounting_aside(store)
    if not aside:
        return 0
    from prospect.records import replace  # noqa: PLC0415 - only if there is any
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - 60 MB, rarely needed

    with closing(Engine(store, memory=_MEMORY)) as engine:
        head = latest_head(store, engine)
        if head is None:
            return 0
        head, windows = replace(head, host_share=shipment.share), 0
        place = place_in_target(store, shipment.host)
        for run in _runs(aside):
            with suppress(EngineError):  # one that is damaged says nothing
                windows += _send_run(
                    store, target, engine, head, [one._replace(place=place) for one in run]
                )
            for one in run:
                os.unlink(_path(one), dir_fd=store.descriptor)
    return windows


def _runs(segments: list[Segment]) -> list[list[Segment]]:
    """Return segments that follow each other in one session and hour together."""
    runs: list[list[Segment]] = []
    for one in segments:
        last = runs[-1][-1] if runs else None
        if last and (last.last + 1, last.session, last.directory) == (
            one.first,
            one.session,
            one.directory,
        ):
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def _send_run(
    store: StoreDirectory, target: Target, engine: Engine, head: Head, run: list[Segment]
) -> int:
    """Make one segment of several, without samples, and send it; return how many windows."""
    from prospect.store.file_schema import COLUMNS, ORDER  # noqa: PLC0415 - after the engine
    from prospect.store.writing import Content, copy_to_file  # noqa: PLC0415 - after the engine

    sums = {name: f'"{name}"' for name in COLUMNS[COVERAGE]}
    sums |= {"lost": "lost + recorded", "recorded": "0"}
    accounting = ", ".join(
        f'({sums[name]})::{type_} AS "{name}"' for name, type_ in COLUMNS[COVERAGE].items()
    )
    listed = ", ".join(f"'{store.root}{_path(one)}'" for one in run)
    nothing = ", ".join(f'NULL::{type_} AS "{name}"' for name, type_ in COLUMNS[SAMPLES].items())
    source = f"read_parquet([{listed}], hive_partitioning=false)"
    queries = {
        COVERAGE: f"SELECT {accounting} FROM {source} ORDER BY {ORDER[COVERAGE]}",
        SAMPLES: f"SELECT {nothing} WHERE false",
    }
    whole = run[0]._replace(end_s=max(one.end_s for one in run), last=run[-1].last)
    made = {kind: f"{FOLDER}/{kind}.made" for kind in queries}

    def content(_: Segment, kind: str) -> bytes:
        if kind not in made:
            raise FileNotFoundError
        return store.read_bytes(made[kind], MOST_LOST_BYTES)

    try:
        for kind, query in queries.items():
            copy_to_file(
                store, engine, Content(query), made[kind], head if kind == SAMPLES else None
            )
        send_segment(target, whole, content)
    finally:
        for path in made.values():
            with suppress(OSError):
                os.unlink(path, dir_fd=store.descriptor)
    return sum(one.last - one.first + 1 for one in run)


def latest_head(store: StoreDirectory, engine: Engine) -> Head | None:
    """Return the head of the latest segment that is whole, None for none."""
    from prospect.store.segment_reading import checked  # noqa: PLC0415 - after the engine

    for one in sorted(store.segments(), key=lambda one: one.begin_s, reverse=True):
        if head := checked(store, engine, [one])[0].get(one):
            return head
    return None


def _path(segment: Segment) -> str:
    return f"{FOLDER}/{segment.stem}.{COVERAGE}{SUFFIX}"
