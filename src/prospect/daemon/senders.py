"""Sends a daemon's store elsewhere, by a child at a time, and keeps count of waiting files.

`Shipping` sends finished hours to a directory or bucket of many hosts. `Pushing` sends each window
to a collector.
"""

from __future__ import annotations

import json
import select
import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from prospect.daemon.daemon_limits import (
    FIRST_SENDING_S,
    KILLED_S,
    LONGEST_RETRY_S,
    LONGEST_SENDING_S,
    MOST_WINDOWS_WAITING,
    RETRY_S,
    SENDING_SPREAD_S,
    WINDOWS_AT_ONCE,
)
from prospect.daemon.store_children import StoreChild
from prospect.daemon.store_work import PUSH, SHIP
from prospect.errors import StoreError
from prospect.fleet.sending import Shipment, host_name, is_chosen, sent_before, waiting
from prospect.fleet.shipping import Shipped, accounting_aside, set_aside
from prospect.store.segments import DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.daemon.daemon_options import DaemonOptions
    from prospect.store.directory import StoreDirectory
    from prospect.store.segments import Segment

_HOUR_S = 3600


class _Sender:
    """Sends by one child at a time."""

    def __init__(self, store: StoreDirectory, say: Callable[[str], None]) -> None:
        self._store = store
        self._say = say
        self._child: StoreChild | None = None

    @property
    def answer_fd(self) -> int:
        """Becomes readable when it is time to call `finish`; -1 without a child."""
        return self._child.answer_fd if self._child else -1

    def finish(self) -> None:
        """Take the result of a child that has ended."""
        child, self._child = self._child, None
        if child is not None:
            self._note(*child.ended())

    def _note(self, status: int, said: str) -> None:
        raise NotImplementedError

    def _ends(self, within_s: float) -> bool:
        """Wait for the child, if there is one, or kill it; return whether it has ended."""
        if self._child:
            if not _has_ended(self._child, within_s):
                self._child.kill()
                if not _has_ended(self._child, KILLED_S):
                    return False  # a file system blocks it
            self.finish()
        return True


class Shipping(_Sender):
    """Sends finished hours.

    Attributes:
        sent_bytes: bytes that targets have taken since the daemon began.
        lost_windows: windows that were removed before they could be sent; the target has their
            number.
        complaint: why the last attempt to send failed, "" if it did not.
    """

    def __init__(
        self, store: StoreDirectory, options: DaemonOptions, say: Callable[[str], None]
    ) -> None:
        """Begin; send waiting files at once."""
        super().__init__(store, say)
        self.sent_bytes = self.lost_windows = 0
        self.complaint = ""
        self._failures = 0
        self._waiting_bytes = self._oldest_s = 0
        self._due_s = self._killed_s = time.monotonic()
        self._shipment = Shipment("")
        self.follow(options)

    def follow(self, options: DaemonOptions) -> None:
        """Use other settings from now on."""
        if (options.ship, options.host_share) != self._shipment[:2]:
            host = options.target.rpartition("@")[2] or host_name()
            self._shipment = Shipment(options.ship, options.host_share, host=host)
            self._due_s, self._failures = time.monotonic(), 0

    def due_s(self) -> float:
        """Return the seconds until `go_on` has something to do."""
        if not self._shipment.url:
            return float("inf")
        return (self._killed_s if self._child else self._due_s) - time.monotonic()

    def go_on(self) -> None:
        """Do the work that is due."""
        if self.due_s() > 0:
            return
        if self._child:
            self._child.kill()
            self._killed_s = float("inf")
        else:
            self._begin(self._shipment)

    def _note(self, status: int, said: str) -> None:
        try:
            shipped = Shipped(*json.loads(said))
        except (ValueError, TypeError):
            why = "it took too long" if status < 0 else said or f"status {status}"
            shipped = Shipped(0, 0, f"{self._shipment.url}: {why}")
        self.sent_bytes += shipped.sent_bytes
        self.lost_windows += shipped.lost_windows
        if shipped.complaint and shipped.complaint != self.complaint:
            self._say(f"finished files wait: {shipped.complaint}")
        elif self.complaint and not shipped.complaint:
            self._say("finished files are sent again")
        self.complaint = shipped.complaint
        self._failures = self._failures + 1 if shipped.complaint else 0
        self._plan()

    def end(self, until_s: float) -> None:
        """Send everything, with the part of the current hour.

        Args:
            until_s: the end of the time for this, in CLOCK_MONOTONIC; the next daemon sends the
                rest.
        """
        if not self._shipment.url:
            return
        for is_last in (False, True):
            if is_last:
                self._begin(self._shipment._replace(everything=True))
            if not self._ends(until_s - time.monotonic()):
                return

    def set_aside(self, segment: Segment) -> None:
        """Keep the accounting of a removed segment that should have been sent and was not."""
        url, share, _, host = self._shipment
        if (
            url
            and segment.tier != DAY  # its hours were sent, or their loss is reported
            and segment.last >= sent_before(self._store, url).next
            and is_chosen(segment, host, share)
        ):
            set_aside(self._store, segment)

    def figures(self) -> dict[str, Any]:
        """Return its figures: destination, sent and waiting files."""
        oldest_s = self._oldest_s
        return {
            "ship": self._shipment.url,
            "ship_sent_bytes": self.sent_bytes,
            "ship_waiting_bytes": self._waiting_bytes,
            "ship_waiting_s": max(time.time() - oldest_s, 0.0) if oldest_s else 0.0,
            "ship_lost_windows": self.lost_windows,
            "ship_complaint": self.complaint,
        }

    def _begin(self, shipment: Shipment) -> None:
        self._look(shipment)
        try:
            if self._waiting_bytes or accounting_aside(self._store):
                self._child = StoreChild(SHIP, self._store, json.dumps(shipment).encode())
                self._killed_s = time.monotonic() + LONGEST_SENDING_S
                return
            self.complaint, self._failures = "", 0
        except StoreError as error:
            self.complaint = str(error)
            self._failures += 1
        self._plan()

    def _look(self, shipment: Shipment) -> None:
        with suppress(StoreError):  # the writer of the store reports it
            found = waiting(self._store, shipment, time.time())
            self._waiting_bytes, self._oldest_s = found.size_bytes, found.oldest_s

    def _plan(self) -> None:
        now_s = time.time()
        self._look(self._shipment)
        if self._failures:
            wait_s = min(RETRY_S * 2.0 ** min(self._failures - 1, 10), LONGEST_RETRY_S)
        else:
            spread = blake2b(
                self._shipment.host.encode("utf-8", "surrogateescape"), digest_size=4
            ).digest()
            wait_s = _HOUR_S - now_s % _HOUR_S
            wait_s += FIRST_SENDING_S + int.from_bytes(spread, "little") % SENDING_SPREAD_S
        self._due_s = time.monotonic() + wait_s


class Pushing(_Sender):
    """Sends each window after it is written."""

    def __init__(
        self, store: StoreDirectory, options: DaemonOptions, say: Callable[[str], None]
    ) -> None:
        super().__init__(store, say)
        self._url = options.push
        self._waiting: list[Segment] = []
        self._latest: Segment | None = None
        self._windows = self._lost = 0
        self._complaint = ""

    def follow(self, options: DaemonOptions) -> None:
        """Use other settings from now on."""
        self._url = options.push

    def add(self, segment: Segment) -> None:
        """Send a window of the store, unless it is the same as the last one."""
        if not self._url or segment == self._latest:
            return
        self._latest = segment
        self._waiting.append(segment)
        if len(self._waiting) > MOST_WINDOWS_WAITING:
            del self._waiting[WINDOWS_AT_ONCE if self._child else 0]
            self._lost += 1
        self._begin()

    def _note(self, status: int, said: str) -> None:
        """Send further windows only if all were sent."""
        try:
            sent, complaint = json.loads(said)
        except (ValueError, TypeError):
            sent, complaint = 0, f"{self._url}: {said or f'status {status}'}"
        del self._waiting[:sent]
        self._windows += sent
        if complaint and complaint != self._complaint:
            self._say(f"windows wait for the collector: {complaint}")
        elif self._complaint and not complaint:
            self._say("the collector takes windows again")
        self._complaint = complaint
        if not complaint:
            self._begin()

    def end(self, until_s: float) -> None:
        """Wait for the child, until a time in CLOCK_MONOTONIC."""
        for _ in range(2):  # the child, and the one with the last window
            if not self._ends(until_s - time.monotonic()):
                return

    def figures(self) -> dict[str, Any]:
        """Return its figures: destination, and numbers of sent, waiting and lost windows."""
        return {
            "push": self._url,
            "push_windows": self._windows,
            "push_waiting": len(self._waiting),
            "push_lost": self._lost,
            "push_complaint": self._complaint,
        }

    def _begin(self) -> None:
        if self._child or not self._waiting:
            return
        begins = [(one.begin_s, one.session) for one in self._waiting[:WINDOWS_AT_ONCE]]
        try:
            self._child = StoreChild(PUSH, self._store, json.dumps([self._url, begins]).encode())
        except StoreError as error:
            self._complaint = str(error)


def _has_ended(child: StoreChild, within_s: float) -> bool:
    poll = select.poll()
    poll.register(child.answer_fd, select.POLLIN)
    return bool(poll.poll(max(1000 * within_s, 0.0)))
