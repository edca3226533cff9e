"""Windows of a daemon's store → a collector, by a child at a time; those that wait, and why."""

from __future__ import annotations

import json
import select
from typing import TYPE_CHECKING, Any

from prospect.daemon.encoding import StoreChild
from prospect.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.daemon.options import DaemonOptions
    from prospect.store.directory import StoreDirectory
    from prospect.store.segments import Segment

_CHILD = "prospect.daemon.push_child"
# A collector that is away longer gets the newest; all of them are in the store.
_MOST_WAITING = 60
_AT_ONCE = 10
_LAST_S, _KILLED_S = 15.0, 1.0


class Pushing:
    """Sends each window once it is written."""

    def __init__(
        self, store: StoreDirectory, options: DaemonOptions, say: Callable[[str], None]
    ) -> None:
        self._store = store
        self._say = say
        self._url = options.otlp
        self._child: StoreChild | None = None
        self._waiting: list[Segment] = []
        self._latest: Segment | None = None
        self._windows = self._lost = 0
        self._complaint = ""

    @property
    def pid_fd(self) -> int:
        """Becomes readable when `finish` is to be called; -1 where nothing is under way."""
        return self._child.pid_fd if self._child else -1

    def follow(self, options: DaemonOptions) -> None:
        """Go on with other settings."""
        self._url = options.otlp

    def add(self, segment: Segment) -> None:
        """Send a window, unless it is the last one that was given; the store has it."""
        if not self._url or segment == self._latest:
            return
        self._latest = segment
        self._waiting.append(segment)
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[_AT_ONCE if self._child else 0]
            self._lost += 1
        self._begin()

    def finish(self) -> None:
        """See what a child that ended has sent; go on with others only if it sent all."""
        child, self._child = self._child, None
        if child is None:
            return
        status, said = child.ended()
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

    def end(self) -> None:
        """Wait for what is under way; this takes 15 s at most."""
        for _ in range(2):  # what is under way, and the last window behind it
            if self._child:
                poll = select.poll()
                poll.register(self._child.pid_fd, select.POLLIN)
                if not poll.poll(1000 * _LAST_S):
                    self._child.kill()
                    if not poll.poll(1000 * _KILLED_S):
                        return
                self.finish()

    def figures(self) -> dict[str, Any]:
        """Return what is said of it: where to, how many windows were sent, wait, were given up."""
        return {
            "otlp": self._url,
            "otlp_windows": self._windows,
            "otlp_waiting": len(self._waiting),
            "otlp_lost": self._lost,
            "otlp_complaint": self._complaint,
        }

    def _begin(self) -> None:
        if self._child or not self._waiting:
            return
        begins = [(one.begin_s, one.session) for one in self._waiting[:_AT_ONCE]]
        try:
            self._child = StoreChild(_CHILD, self._store, json.dumps([self._url, begins]).encode())
        except StoreError as error:
            self._complaint = str(error)
