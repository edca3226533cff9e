"""Segments → sentences for lost names of hits: damaged files, and numbers without a row.

A file of names that is emptied, or replaced by another one, leaves its segment readable. So each
function and stack that a hit refers to has to be in one of the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.store.segment_reading import files, name_files
from prospect.store.segments import FUNCTIONS, SAMPLES, STACKS

if TYPE_CHECKING:
    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Engine
    from prospect.store.segments import Segment

_READ = "read_parquet(?, hive_partitioning=false)"
# By kind of file, the column that hits refer to, and which of its values refer to none.
_KEYS = {FUNCTIONS: ("function", "true"), STACKS: ("stack", "stack <> 0")}


def lost_names(store: StoreDirectory, engine: Engine, segments: list[Segment]) -> list[str]:
    """Return a sentence for each thing that is missing; none where all names are there.

    Args:
        store: that they are in.
        engine: of this store; damage within a file shows if it `reads_all`.
        segments: whose samples can be read.

    Raises:
        EngineError: they cannot.
    """
    said: list[str] = []
    samples = files(store, segments, SAMPLES)
    for kind, (key, refers) in _KEYS.items():
        known = name_files(store, engine, segments, kind, said)
        query = f"SELECT sum(n)::BIGINT FROM {_READ} WHERE {refers}"
        ((hits,),) = (
            engine.rows(f"{query} AND {key} NOT IN (SELECT {key} FROM {_READ})", [samples, known])
            if known
            else engine.rows(query, [samples])
        )
        if hits:
            said.append(
                f"{pluralize(int(hits), 'hit')} of {segments[0].directory} and later have"
                f" {key}s that are in no file: their names are lost"
            )
    return said
