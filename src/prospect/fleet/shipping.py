"""All that waits in a store → a place of many hosts' stores, once.

If only a share p of hosts sends an hour, each represents 1/p of them (Horvitz and Thompson, J. Am.
Stat. Assoc. 47 (1952)): the sums of periods are divided by p, which the segment's head says, too.
Numbers of samples and the accounting of windows stay as they were counted.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from prospect.errors import StoreError
from prospect.fleet.fleet_limits import MOST_LOOKS
from prospect.fleet.lost import clean_aside, latest_head, send_lost
from prospect.fleet.sending import (
    DamagedError,
    GoneError,
    Shipment,
    host_name,
    send,
    send_damaged,
    waiting,
    whole_file,
)
from prospect.fleet.targets import target_of
from prospect.records import NamedTuple
from prospect.store.segments import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.fleet.sending import Contents
    from prospect.store.directory import StoreDirectory
    from prospect.store.segments import Segment

_MEMORY = "128MB"
_MADE = "unsent/weighted.made"
_WEIGHING_MEMORY = "256MB"


class Shipped(NamedTuple):
    """The result of sending.

    Attributes:
        sent_bytes: that the target has taken.
        lost_windows: of which only the accounting was left to send.
        complaint: why the rest waits, "" if nothing does.
    """

    sent_bytes: int
    lost_windows: int
    complaint: str


def ship(
    store: StoreDirectory, shipment: Shipment, now_s: float, *, checks_sent: bool = False
) -> Shipped:
    """Send what waits, as far as the target takes it.

    Without a host in `shipment`, that of the latest segment counts, as a store may have been made
    on another machine. `checks_sent`: whether the target is asked for each file that was sent
    before.
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
    """Yield what returns the files of segments as they are sent.

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
