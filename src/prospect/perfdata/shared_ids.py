"""Replaces ids of other recorders' events in samples by those of the samples' own events.

If two recorders sample the same software event on a CPU, the kernel prepares a sample once for
both, with the id of the first event (`events.samples`). Prospect knows the event of such samples.
perf finds the event by the id, uses another event's layout, and refuses the file.

Source: __perf_event_header__init_id() in ``kernel/events/core.c``, Linux 6.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.events.decode import looks_of
from prospect.events.record_starts import Ignored, find_records
from prospect.events.sample_schema import IdTable, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.attr import EventDescription
    from prospect.columns.array_types import I64, U64
    from prospect.perfdata.program_records import Records


def mend_shared_ids(data: Records, begin: int, events: Sequence[EventDescription]) -> int:
    """Give samples of unknown ids the id of their event, in place; return the number of samples.

    `data` has whole records from `begin` on, up to a file's last one.

    Raises:
        RecordingError: samples of these events cannot be distinguished.
    """
    schema, ids = schema_of(events), IdTable.build(events, None)
    if schema.shared_event < 0 or not schema.id_word or ids is None:
        return 0
    words = np.frombuffer(data, "<u8", (len(data) - begin) // 8, begin)
    samples = _Foreign(ids, schema.id_word)
    find_records(words, looks_of(schema), samples, Ignored())
    places = samples.places()
    words[places] = np.uint64(events[schema.shared_event].ids[0])
    return len(places)


class _Foreign:
    """Receives samples, and keeps the places of unknown ids, in words."""

    def __init__(self, ids: IdTable, id_word: int) -> None:
        self._ids, self._id_word = ids, id_word
        self._found: list[I64] = []
        self._batch: list[I64] = []

    def begin_batch(self, *_: int | None) -> None:
        """Keep the last batch."""
        self._found += self._batch
        self._batch = []

    def rewind(self) -> None:
        """Forget this batch: these were no samples."""
        self._batch = []

    def append(self, words: U64, positions: range | I64) -> None:
        """Check the samples whose headers are at `positions`."""
        at = np.asarray(positions, np.int64) + self._id_word
        ids = words.take(at)
        is_foreign = (ids != 0) & ~self._ids.knows(ids)
        if is_foreign.any():
            self._batch.append(at[is_foreign])

    def places(self) -> I64:
        """Return the places of unknown ids."""
        return np.concatenate([np.empty(0, np.int64), *self._found, *self._batch])
