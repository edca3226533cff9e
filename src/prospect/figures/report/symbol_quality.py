"""Symbol quality: how many hits have a name and from where, how many have none and why.

Each source that can be mended lists the objects with most of its hits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.columns.sorting import distinct
from prospect.profile.model import KIND_ANON
from prospect.profile.naming import REMEDIES, NameSource
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.figures.modes import EventHits
    from prospect.profile.complete import ProfileByFunction

_OBJECTS_SHOWN = 5


class ObjectHits(Record):
    """Hits of one name source in one object (`object_index` is a row of the objects).

    Anonymous memory is many processes' own under one name: there `process_index` is the row of the
    process whose hits they are, elsewhere -1.
    """

    object_index: int
    hits: int
    process_index: int = -1


class SourceHits(Record):
    """Hits whose names came from one source, or have none for one reason.

    Attributes:
        source: where the name came from, or why there is none.
        hits, seconds: of this source.
        share: part of all hits, 0 to 1.
        objects: the objects with the most hits, heaviest first; empty if nothing needs mending.
        objects_left_out: how many further objects there are.
    """

    source: NameSource
    hits: int
    seconds: float
    share: float
    objects: tuple[ObjectHits, ...]
    objects_left_out: int


class SymbolQuality(Record):
    """Hits with and without a name; `sources` has named ones first, each part by falling hits."""

    hits: int
    named_hits: int
    sources: tuple[SourceHits, ...]


def symbol_quality(profile: ProfileByFunction, hits: EventHits) -> SymbolQuality:
    """Sum an event's hits by the source of their names."""
    source = profile.functions.source.astype(np.int64)
    object_index = profile.functions.object_index.astype(np.int64)
    in_object = object_index.take(hits.function)
    is_anonymous = (profile.objects.kind == KIND_ANON).take(in_object)
    (of_source, of_object, of_process), (count, period) = group_sums(
        (source.take(hits.function), in_object, np.where(is_anonymous, hits.process + 1, 0)),
        (hits.count, hits.period),
    )
    seconds = hits.seconds(count, period)
    total = int(count.sum())
    found = []
    for value in distinct(of_source).tolist():
        rows = np.flatnonzero(of_source == value)
        rows = rows[np.argsort(-count.take(rows), kind="stable")]
        shown = rows[:_OBJECTS_SHOWN] if NameSource(value) in REMEDIES else rows[:0]
        found.append(
            SourceHits(
                source=NameSource(value),
                hits=int(count.take(rows).sum()),
                seconds=float(seconds.take(rows).sum()),
                share=int(count.take(rows).sum()) / total if total else 0.0,
                objects=tuple(
                    ObjectHits(int(of_object[row]), int(count[row]), int(of_process[row]) - 1)
                    for row in shown.tolist()
                ),
                objects_left_out=len(rows) - len(shown) if len(shown) else 0,
            )
        )
    found.sort(key=lambda entry: (not entry.source.named, -entry.hits))
    return SymbolQuality(
        hits=total,
        named_hits=sum(entry.hits for entry in found if entry.source.named),
        sources=tuple(found),
    )
