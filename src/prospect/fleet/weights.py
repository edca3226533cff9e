"""Segments of a host that was chosen among others → the same with weights, as they are sent.

A host that is one of a share p stands for 1/p of them (Horvitz and Thompson, J. Am. Stat. Assoc.
47 (1952)): the sums of periods are divided by p, which the segment's head says, too. Numbers of
samples and the books stay as they were counted.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from prospect.fleet.sending import DamagedError, whole_file
from prospect.store.segments import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.fleet.sending import Contents
    from prospect.store.directory import StoreDirectory
    from prospect.store.segments import Segment

_MADE = "unsent/weighted.made"
_MEMORY = "256MB"


@contextmanager
def contents_to_send(store: StoreDirectory, share: float) -> Iterator[Contents]:
    """Yield what returns the files of segments as they are sent.

    Args:
        store: that they are of.
        share: of hosts that send an hour.

    Raises:
        StoreError: DuckDB is not installed.
    """
    if share >= 1:
        yield whole_file(store)
        return
    from prospect.records import replace  # noqa: PLC0415 - behind the engine
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - 60 MB
    from prospect.store.reading import checked  # noqa: PLC0415 - 60 MB
    from prospect.store.schema import COLUMNS, ORDER, SAMPLE_KEYS  # noqa: PLC0415 - 60 MB
    from prospect.store.writing import Content, copy_to_file  # noqa: PLC0415 - 60 MB

    keys = ", ".join(f'"{name}"::{COLUMNS[SAMPLES][name]} AS "{name}"' for name in SAMPLE_KEYS)
    query = (
        f"SELECT {keys}, n::BIGINT AS n, q::BIGINT AS q, round(w / ?)::BIGINT AS w"
        f" FROM read_parquet(?, hive_partitioning=false) ORDER BY {ORDER[SAMPLES]}"
    )
    plain = whole_file(store)
    with closing(Engine(store, memory=_MEMORY)) as engine:

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
