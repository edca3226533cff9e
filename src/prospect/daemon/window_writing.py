"""Windows of a daemon → its store, by a child at a time, and the number of lost windows.

Sampling continues meanwhile: a window that ends while a child works waits in a queue. When the
child has ended, all waiting windows are written as one segment.
"""

from __future__ import annotations

import time
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.daemon.daemon_limits import MOST_DROPPED, MOST_QUEUED, MOST_QUEUED_BYTES, TIDY_S
from prospect.daemon.store_children import Encoder, Merger, Outcome
from prospect.errors import StoreError
from prospect.records import NamedTuple
from prospect.store.file_schema import kind_of
from prospect.store.retention import ASKED_FOR, FULL_DISK, drop, expired, next_to_go
from prospect.store.segments import CURRENT
from prospect.store.writing import joined, next_number, packed, segment_for, without_known

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.store.directory import StoreDirectory
    from prospect.store.retention import Keep
    from prospect.store.segments import Segment
    from prospect.store.windows import Window
    from prospect.store.writing import Known

_HOUR_S = 3600
# A reference to text that most rows share.
_TEXT_BYTES = 8


class _Queued(NamedTuple):
    window: Window
    segment: Segment
    size_bytes: int

    @property
    def kind(self) -> object:
        """The common facts of one segment's windows."""
        return self.segment.directory, self.segment.session, kind_of(self.window.head)


class _Written(NamedTuple):
    window: Window
    segment: Segment
    known: Known
    tries: int

    @property
    def windows(self) -> int:
        """The number of its windows."""
        return self.segment.last - self.segment.first + 1


class StoreWriting:
    """Writes windows.

    Attributes:
        session: the name of the next window's session.
        windows: the number of written windows.
        failed: the number of lost windows.
        merged: the number of windows in the segment of the one before, because the child was busy.
        dropped: the number of segments that were removed because the disk was full.
        child_bytes: the memory of the last child that wrote a window, without pages of files.
        newest: the segment of the last written window, None for none yet.
        newest_s: the end of the last written window, in seconds since 1970; 0 for none.
        complaint: why the last window was not written, "" if it was.
    """

    def __init__(
        self,
        store: StoreDirectory,
        keep: Keep,
        say: Callable[[str], None],
        set_aside: Callable[[Segment], None] | None = None,
    ) -> None:
        """Append to a store, whose lock the caller has.

        Args:
            keep: the bounds of the store.
            say: called with each line for a person.
            set_aside: called with each segment that is removed for its age or for lack of room.
        """
        self._set_aside = set_aside
        self._store = store
        self._say = say
        self.keep = keep
        self.session = CURRENT
        self.windows = self.failed = self.merged = self.dropped = self.newest_s = 0
        self.child_bytes = 0
        self.complaint = ""
        self.newest: Segment | None = None
        self._number = next_number(store)
        self._known: Known | None = None
        self._encoder: Encoder | None = None
        self._merger: Merger | None = None
        self._written: _Written | None = None
        self._queue: list[_Queued] = []
        self._tidied_s = -TIDY_S
        self._hour = -1
        self._may_merge = False
        self._merges = True
        self._merge_complaint = ""

    @property
    def answer_fd(self) -> int:
        """Becomes readable when it is time to call `finish`; -1 if no child works."""
        child = self._at_work
        return child.answer_fd if child else -1

    @property
    def pids(self) -> list[int]:
        """The process that writes, or waits for the next window."""
        return [self._encoder.pid] if self._encoder else []

    @property
    def _at_work(self) -> Encoder | Merger | None:
        return self._encoder if self._written else self._merger

    @property
    def has_room(self) -> bool:
        """Whether another window may wait."""
        size_bytes = sum(one.size_bytes for one in self._queue)
        return len(self._queue) < MOST_QUEUED and size_bytes < MOST_QUEUED_BYTES

    def add(self, window: Window) -> None:
        """Write a window, after those that wait.

        Raises:
            StoreError: the store was removed or replaced, or no process can be started.
        """
        self._check_place()
        segment = segment_for(window.span, self.session, self._number)
        self._number += 1
        self._queue.append(_Queued(window, segment, _size_bytes(window)))
        if self.answer_fd < 0:
            self._write_next()

    def close(self) -> None:
        """End the process that waits for the next window."""
        encoder, self._encoder = self._encoder, None
        if encoder:
            encoder.end()

    def hurry(self) -> None:
        """Write waiting windows, and leave merging of hours and days to the next daemon."""
        self._merges = False
        merger, self._merger = self._merger, None
        if merger:
            merger.give_up()
            if self._queue:
                self._write_next()

    def give_up(self) -> None:
        """Stop writing: end the child, and count waiting windows as lost."""
        lost = len(self._queue)
        self._queue.clear()
        self._may_merge = False
        child = self._at_work
        if child:
            child.give_up()
            lost += self._written.windows if self._written else 0
            self._merger = None
            if self._written:
                self._encoder = self._written = None
        if lost:
            self.failed += lost
            self._say(f"{pluralize(lost, 'window')} lost: the store took too long to write")

    def finish(self) -> None:
        """Take the child's answer, and start the next work if there is any; raises as `add`."""
        merger, self._merger = self._merger, None
        if merger:
            self._note_merge(*merger.outcome())
        written, encoder = self._written, self._encoder
        if written is None or encoder is None:
            if self._queue:  # a window ended during a merge
                self._check_place()
                self._write_next()
            return
        outcome = encoder.outcome()
        self.child_bytes = encoder.own_bytes
        if not encoder.goes_on:
            self.close()
        if outcome.is_full and written.tries < MOST_DROPPED and self._drop_oldest():
            # Packed again: the removed segment may have had names that this window lacks.
            self._write(written.window, written.segment, written.tries + 1)
            return
        if outcome.complaint and written.segment in self._store.segments():
            outcome = Outcome("", is_full=False)  # it was killed after its work
        self._written = None
        self._note(outcome, written)
        self._tidy()
        if self._queue:
            self._check_place()
            self._write_next()
        elif self._may_merge and self._merges:
            self._check_place()
            self.close()  # the merge takes as much memory as everything else
            # Hours that ended before the newest window: the clock may have been set since.
            self._merger = Merger(self._store, written.segment.begin_s)

    def forget(self) -> int:
        """Remove all segments of the session, while no child works; return their number."""
        ours = [one for one in self._store.segments() if one.session == self.session]
        self._known = None
        return drop(self._store, [(one, ASKED_FOR) for one in ours])

    def _write_next(self) -> None:
        """Write the first waiting window, with those that can be in its segment."""
        wanted = self._queue[0].kind
        taken = list(takewhile(lambda one: one.kind == wanted, self._queue))
        del self._queue[: len(taken)]
        last = taken[-1].segment
        segment = taken[0].segment._replace(end_s=last.end_s, last=last.last)
        self.merged += len(taken) - 1
        self._write(joined([one.window for one in taken]), segment)

    def _write(self, window: Window, segment: Segment, tries: int = 0) -> None:
        """Let a child write a window, without the names that its directory already has."""
        tables, known = without_known(window, segment.directory, self._known)
        self._written = _Written(window, segment, known, tries)
        order = packed(segment, window.head, tables)
        if self._encoder:
            try:
                self._encoder.again(order)
            except StoreError:  # it was killed
                self.close()
        self._encoder = self._encoder or Encoder(self._store, order)

    def _note(self, outcome: Outcome, written: _Written) -> None:
        if outcome.complaint:
            self.failed += written.windows
            if outcome.complaint != self.complaint:
                self._say(f"a window is lost: {outcome.complaint}")
            # Its names are not in the store.
            self._known = None
        else:
            if self.complaint:
                self._say("windows are written again")
            self.windows += written.windows
            # It may be the first window of an hour.
            hour = written.segment.begin_s // _HOUR_S
            self._may_merge |= hour != self._hour
            self._hour = hour
            self.newest, self.newest_s = written.segment, written.segment.end_s
            self._known = written.known
        self.complaint = outcome.complaint

    def _note_merge(self, complaint: str, has_more: bool) -> None:  # noqa: FBT001 - as it ended
        """Take the result of a merge; another one may follow after the next window."""
        self._may_merge = has_more
        if has_more:
            self._known = None  # the merge has moved names of windows
        if complaint and complaint != self._merge_complaint:
            self._say(f"hours and days cannot be made of windows: {complaint}")
        self._merge_complaint = complaint

    def _drop_oldest(self) -> bool:
        ordered = sorted(self._store.segments(), key=lambda one: one.first)
        oldest = next_to_go({one: self._store.size_bytes(one) for one in ordered})
        count = drop(self._store, [(oldest, FULL_DISK)] if oldest else [], self._set_aside)
        if count and not self.dropped:
            self._say(f"{self._store.path}: the disk is full; the oldest windows make room")
        self.dropped += count
        if oldest and self._known and oldest.directory == self._known.directory:
            # Its names are gone: the next packed window has all of its names.
            self._known = None
        return count > 0

    def _tidy(self) -> None:
        now_s = time.monotonic()
        if now_s - self._tidied_s < TIDY_S:
            return
        self._tidied_s = now_s
        gone = expired(self._store, self._store.segments(), self.keep, time.time())
        drop(self._store, gone, self._set_aside)

    def _check_place(self) -> None:
        if not self._store.is_in_place():
            raise StoreError(
                f"{self._store.path}: the store was removed or replaced while the daemon ran;"
                " start it again"
            )


def _size_bytes(window: Window) -> int:
    """Return the approximate memory of a window."""
    return sum(
        column.nbytes if isinstance(column, np.ndarray) else _TEXT_BYTES * len(column)
        for columns in window.tables.values()
        for column in columns.values()
    )
