"""Samples of groups of events (``{a,b}:S``) → samples of every member.

Comes in: words, positions of samples, and `Samples`. Goes out: `Samples` in which each member of a
group has a row where its leader has one, with what it counted since the leader's sample before.
Source: ``struct read_format`` in ``include/uapi/linux/perf_event.h``; ``deliver_sample_group()``
and ``deliver_sample_value()`` in ``tools/perf/util/session.c``, Linux 6.18: a member that counted
nothing has no sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct
from prospect.events.selection import chosen_samples
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.columns.buffers import Scalar
    from prospect.events.columns import Samples
    from prospect.events.group_layout import GroupLayout
    from prospect.events.schema import IdTable

    Words = NDArray[np.uint64]
    Rows = NDArray[np.int64]


# Each member gets a copy of its leader's chain: a bound to what a small file can make of that.
_MOST_MEMBERS = 64


class GroupSamples(NamedTuple):
    """Samples: i64[n] where headers stand and samples end, their events; u64[n] their tasks."""

    begin: Rows
    end: Rows
    rows: Rows
    task: Words


class _Reads(NamedTuple):
    """Values: the row of the sample, the counter's id, what it had counted, and of whom.

    `owner` u64 is the thread where each has its own values, else 0.
    """

    sample: Rows
    id: Words
    value: Words
    owner: Words


class GroupReads:
    """The values of all groups met so far.

    Attributes:
        damaged: number of samples whose values could not be read.
    """

    def __init__(self, layouts: Sequence[GroupLayout | None]) -> None:
        self._layouts = layouts
        self._reads: list[_Reads] = []
        self.damaged = 0
        self.is_wanted = any(layouts)

    @property
    def mark(self) -> tuple[int, int]:
        """What `rewind` needs to return to this moment."""
        return len(self._reads), self.damaged

    def rewind(self, mark: tuple[int, int]) -> None:
        """Forget what was appended since `mark`."""
        reads, self.damaged = mark
        del self._reads[reads:]

    def append(self, words: Words, met: GroupSamples, first_sample: int) -> None:
        """Take in the values of samples that stand next to each other in the recording.

        A group that would end behind its sample, or has too many members, is left out.

        Args:
            words: u64 the block.
            met: the samples.
            first_sample: the row of the first among all samples.
        """
        for row in distinct(met.rows).tolist():
            layout = self._layouts[row]
            if layout is None:
                continue
            of_event = np.flatnonzero(met.rows == row)
            at = met.begin.take(of_event) + layout.begin
            values = at + layout.values
            room = np.maximum(met.end.take(of_event) - values, 0) // layout.each
            count = words.take(at, mode="clip")
            is_whole = count <= np.minimum(room, _MOST_MEMBERS).astype(np.uint64)
            self.damaged += int(np.count_nonzero(~is_whole))
            count = np.where(is_whole, count.view(np.int64), 0)
            place = segments(values, layout.each * count)[:: layout.each]
            owner = met.task.take(of_event) if layout.is_inherited else np.zeros(len(at), np.uint64)
            self._reads.append(
                _Reads(
                    np.repeat(first_sample + of_event, count),
                    words.take(place + 1),
                    words.take(place),
                    np.repeat(owner, count),
                )
            )

    def add_members(self, samples: Samples, ids: IdTable) -> Samples:
        """Return the samples with those of the other members behind each leader's."""
        if not self._reads:
            return samples
        columns = [np.concatenate(column) for column in zip(*self._reads, strict=True)]
        # Those of a window stand event by event.
        in_order = np.argsort(columns[0], kind="stable")
        reads = _Reads(*(column.take(in_order) for column in columns))
        counted = _since_last(reads)
        event, clock = ids.events_of(reads.id)
        is_member = (event != samples.event.take(reads.sample)) & np.isin(reads.id, ids.ids)
        is_member &= counted > 0
        kept = np.flatnonzero(is_member)
        rows = np.concatenate((np.arange(len(samples)), reads.sample.take(kept)))
        order = np.argsort(rows, kind="stable")

        def merged(own: NDArray[Scalar], of_members: NDArray[Any]) -> NDArray[Scalar]:
            return np.concatenate((own, of_members.take(kept).astype(own.dtype))).take(order)

        return replace(
            chosen_samples(samples, rows.take(order)),
            event=merged(samples.event, event),
            clock=merged(samples.clock, clock),
            period=merged(samples.period, counted),
        )


def _since_last(reads: _Reads) -> Words:
    """Return what each counter counted since it was last read, or at all, u64[m]."""
    order = np.lexsort((np.arange(len(reads.id)), reads.owner, reads.id))
    id_, owner, value = reads.id.take(order), reads.owner.take(order), reads.value.take(order)
    before = np.zeros(len(value), np.uint64)
    before[1:] = np.where((id_[1:] == id_[:-1]) & (owner[1:] == owner[:-1]), value[:-1], 0)
    counted = np.empty(len(value), np.uint64)
    # Only a counter that was reset has less than before.
    counted[order] = np.where(value >= before, value - before, value)
    return counted
