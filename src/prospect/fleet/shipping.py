"""Send all waiting segments of a store to the stores of many hosts.

If only a share p of hosts sends an hour, each represents 1/p of them (Horvitz and Thompson, J. Am.
Stat. Assoc. 47 (1952)): the sums of periods are divided by p, and the segment's head has p. The
numbers of samples and the accounting of windows do not change.

Retention ignores what was sent, so an unreachable target does not fill the disk. The accounting of
windows that are removed unsent stays, a few KB a window, until it is sent with every sample counted
as lost. So a host that lost an hour does not look idle.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from prospect.errors import StoreError
from prospect.fleet.fleet_limits import MOST_ASIDE, MOST_LOOKS, MOST_LOST_BYTES, UNFINISHED_S
from prospect.fleet.sending import (
    DamagedError,
    GoneError,
    host_name,
    place_in_target,
    send,
    send_damaged,
    send_segment,
    waiting,
    whole_file,
)
from prospect.fleet.targets import target_of
from prospect.records import NamedTuple
from prospect.store.segments import COVERAGE, MINUTE, SAMPLES, SUFFIX, segment_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.fleet.sending import Contents, Shipment
    from prospect.fleet.targets import Target
    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Engine
    from prospect.store.file_schema import Head
    from prospect.store.segments import Segment

FOLDER = "unsent"
_MEMORY = "128MB"
_MADE = "unsent/weighted.made"
_WEIGHING_MEMORY = "256MB"


def set_aside(store: StoreDirectory, segment: Segment) -> None:
    """Keep the accounting of a segment that is removed unsent; needs no space on a full disk."""
    aside = accounting_aside(store)
    with suppress(OSError):
        for one in aside[: max(len(aside) + 1 - MOST_ASIDE, 0)]:
            os.unlink(_path(one), dir_fd=store.descriptor)
        store.move(segment.path(COVERAGE), _path(segment))


def accounting_aside(store: StoreDirectory) -> list[Segment]:
    """Return the removed segments whose accounting was not sent, in the order of their windows."""
    with suppress(OSError), os.scandir(store.root + FOLDER) as entries:
        stems = [entry.name.removesuffix(f".{COVERAGE}{SUFFIX}") for entry in entries]
        found = (segment_of(MINUTE, f"{stem}.{SAMPLES}{SUFFIX}") for stem in stems)
        return sorted((one for one in found if one), key=lambda one: one.first)
    return []


def clean_aside(store: StoreDirectory) -> None:
    """Remove the unfinished files of a killed sender."""
    with suppress(OSError), os.scandir(store.root + FOLDER) as entries:
        for entry in entries:
            is_old = time.time() - entry.stat(follow_symlinks=False).st_mtime > UNFINISHED_S
            if is_old and not entry.name.endswith(SUFFIX):
                os.unlink(f"{FOLDER}/{entry.name}", dir_fd=store.descriptor)


def send_lost(store: StoreDirectory, target: Target, shipment: Shipment) -> int:
    """Send the accounting that is aside as segments without samples; return their windows.

    Raises:
        StoreError: the target does not take one, or DuckDB is not installed.
        OSError: the disk is full.
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
            with suppress(EngineError):  # a damaged one is lost
                windows += _send_run(
                    store, target, engine, head, [one._replace(place=place) for one in run]
                )
            for one in run:
                os.unlink(_path(one), dir_fd=store.descriptor)
    return windows


def _runs(segments: list[Segment]) -> list[list[Segment]]:
    """Return the runs of consecutive segments of one session and hour."""
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
    """Make one segment of several, without samples, and send it; return its number of windows."""
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
    """Return the head of the latest undamaged segment, None for none."""
    from prospect.store.segment_reading import checked  # noqa: PLC0415 - after the engine

    for one in sorted(store.segments(), key=lambda one: one.begin_s, reverse=True):
        if head := checked(store, engine, [one])[0].get(one):
            return head
    return None


def _path(segment: Segment) -> str:
    return f"{FOLDER}/{segment.stem}.{COVERAGE}{SUFFIX}"


class Shipped(NamedTuple):
    """The result of sending.

    Attributes:
        sent_bytes: the bytes that the target has taken.
        lost_windows: the windows of which only the accounting was left to send.
        complaint: the reason why the rest waits, "" if nothing does.
    """

    sent_bytes: int
    lost_windows: int
    complaint: str


def ship(
    store: StoreDirectory, shipment: Shipment, now_s: float, *, checks_sent: bool = False
) -> Shipped:
    """Send the waiting segments, as far as the target takes them.

    If `shipment` has no host, that of the latest segment counts: another machine may have made the
    store. `checks_sent`: whether to check each file at the target that was sent before.
    """
    size = lost = 0
    try:
        if not shipment.host:
            shipment = shipment._replace(host=_host_of(store))
        with (
            closing(target_of(shipment.url)) as target,
            contents_to_send(store, shipment.share) as content,
        ):
            clean_aside(store)
            lost = send_lost(store, target, shipment)
            if checks_sent:
                size += send_damaged(store, target, shipment, content)
            for _ in range(MOST_LOOKS):
                due = waiting(store, shipment, now_s)
                if not due.segments:
                    break
                try:
                    size += send(store, target, shipment, due.segments, content)
                except GoneError:
                    continue
    except StoreError as error:
        return Shipped(size, lost, str(error))
    except OSError as error:
        return Shipped(size, lost, f"the store: {error.strerror}")
    return Shipped(size, lost, "")


def _host_of(store: StoreDirectory) -> str:
    from prospect.store.engine import Engine  # noqa: PLC0415 - 60 MB, which a daemon does not need

    with closing(Engine(store, memory=_MEMORY)) as engine:
        head = latest_head(store, engine)
    return (str(head.run["hostname"]) if head else "") or host_name()


@contextmanager
def contents_to_send(store: StoreDirectory, share: float) -> Iterator[Contents]:
    """Yield the `Contents` of segments for a share of hosts.

    Raises:
        StoreError: DuckDB is not installed.
    """
    if share >= 1:
        yield whole_file(store)
        return
    from prospect.records import replace  # noqa: PLC0415 - after the engine
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - 60 MB
    from prospect.store.file_schema import COLUMNS, ORDER, SAMPLE_KEYS  # noqa: PLC0415 - 60 MB
    from prospect.store.segment_reading import checked  # noqa: PLC0415 - 60 MB
    from prospect.store.writing import Content, copy_to_file  # noqa: PLC0415 - 60 MB

    keys = ", ".join(f'"{name}"::{COLUMNS[SAMPLES][name]} AS "{name}"' for name in SAMPLE_KEYS)
    query = (
        f"SELECT {keys}, n::BIGINT AS n, q::BIGINT AS q, round(w / ?)::BIGINT AS w"
        f" FROM read_parquet(?, hive_partitioning=false) ORDER BY {ORDER[SAMPLES]}"
    )
    plain = whole_file(store)
    with closing(Engine(store, memory=_WEIGHING_MEMORY)) as engine:

        def content(segment: Segment, kind: str) -> bytes:
            if kind != SAMPLES:
                return plain(segment, kind)
            path = store.root + segment.path(SAMPLES)
            head = checked(store, engine, [segment])[0].get(segment)
            if head is None and not store.has_ours(segment.path(SAMPLES)):
                raise FileNotFoundError
            if head is None:
                raise DamagedError
            try:
                made = Content(query, [share, [path]])
                copy_to_file(store, engine, made, _MADE, replace(head, host_share=share))
                return store.read_bytes(_MADE, os.stat(store.root + _MADE).st_size)
            except EngineError as error:
                raise OSError(0, str(error)) from None
            finally:
                with suppress(OSError):
                    os.unlink(_MADE, dir_fd=store.descriptor)

        yield content
