"""Send finished segments of a store to the stores of many hosts.

    TARGET/host=NAME/store=ID/TIER/date=…/STEM.KIND.DIGEST.parquet

The name follows from the host, the store, the windows and the content, so a file that is sent twice
is stored once. Windows are sent in the order of their numbers, and a segment's samples last. So one
number, that of the first window that was not sent, describes the state; a second number is for
days, which are summaries besides their hours. A file of the store has both. It is written after
each directory, so that a killed sender sends little again. If only a share of hosts sends an hour,
a hash of host and hour selects them.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import quote

from prospect.errors import StoreError
from prospect.fleet.fleet_limits import LARGEST_SENT_BYTES, MOST_STATE_BYTES
from prospect.records import NamedTuple
from prospect.store.directory import this_machine
from prospect.store.hosts import DIGEST_DIGITS, STORE_PREFIX
from prospect.store.segments import DAY, HOST_PREFIX, KINDS, SAMPLES, coarsest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.fleet.targets import Target
    from prospect.store.directory import StoreDirectory
    from prospect.store.segments import Segment

    # Returns the content to send for a segment's file of a kind.
    Contents = Callable[[Segment, str], bytes]

STATE = "shipped.json"
_HOUR_S = 3600
_WHOLE = 1 << 64


class Shipment(NamedTuple):
    """A target, and the selection of a store's segments to send.

    Attributes:
        share: the share of hosts that send an hour.
        everything: whether to send the current hour too.
    """

    url: str
    share: float = 1.0
    everything: bool = False
    host: str = ""


class Waiting(NamedTuple):
    """Segments that were not sent yet.

    Attributes:
        segments: in the order of their windows.
        size_bytes: the size of their files.
        oldest_s: the begin of the first, in seconds since 1970; 0 for none.
    """

    segments: list[Segment]
    size_bytes: int
    oldest_s: int


class SentBefore(NamedTuple):
    """The number of the first window that was not sent, in finer segments and in days."""

    next: int = 0
    day: int = 0

    def has(self, segment: Segment) -> bool:
        """Whether a segment was sent."""
        return segment.last < (self.day if segment.tier == DAY else self.next)

    def after(self, segment: Segment) -> SentBefore:
        """Return the state after a segment is sent."""
        number = segment.last + 1
        return self._replace(day=number) if segment.tier == DAY else self._replace(next=number)


class GoneError(Exception):
    """A segment was removed before it was sent."""


class DamagedError(Exception):
    """A segment is too damaged to be sent."""


def waiting(store: StoreDirectory, shipment: Shipment, now_s: float) -> Waiting:
    """Find the segments to send.

    Raises:
        StoreError: the store cannot be read.
    """
    state = sent_before(store, shipment.url)
    this_hour = now_s // _HOUR_S
    found = [
        one
        for one in _to_send(store, shipment)
        if not state.has(one) and (shipment.everything or one.begin_s // _HOUR_S != this_hour)
    ]
    size = sum(map(store.size_bytes, found))
    return Waiting(found, size, min((one.begin_s for one in found), default=0))


def _to_send(store: StoreDirectory, shipment: Shipment) -> list[Segment]:
    """Return the segments of a store that are sent at any time."""
    every = store.segments()
    segments = [one for one in coarsest(every, fine=True) if one.tier != DAY]
    segments += sorted((one for one in every if one.tier == DAY), key=lambda one: one.first)
    return [one for one in segments if is_chosen(one, shipment.host, shipment.share)]


def send(
    store: StoreDirectory,
    target: Target,
    shipment: Shipment,
    segments: list[Segment],
    content: Contents,
) -> int:
    """Send segments in the order of their windows; return the bytes of their files.

    Raises:
        StoreError: the target does not take one; those before it are sent.
        GoneError: one was removed in the meantime.
    """
    url = shipment.url
    place = place_in_target(store, shipment.host)
    size = 0
    state = sent_before(store, url)
    through: Segment | None = None
    try:
        for one in segments:
            if through is not None and through.directory != one.directory:
                _remember(store, url, state)
            with suppress(DamagedError):
                size += send_segment(target, one._replace(place=place), content)
            state, through = state.after(one), one
    finally:
        if through is not None:
            _remember(store, url, state)
    return size


def send_segment(target: Target, segment: Segment, content: Contents) -> int:
    """Send the files of a segment, last the one that makes it whole; return their bytes.

    Raises:
        StoreError: the target does not take one.
        GoneError: the segment is not there.
        DamagedError: `content` raises it.
    """
    total = 0
    for path, data in _objects(segment, content):
        target.put(path, data)
        if (there := target.size(path)) not in (len(data), -2):
            raise StoreError(
                f"{target.url}: it has {max(there, 0)} of the {len(data)} bytes that it accepted"
            )
        total += len(data)
    return total


def _objects(segment: Segment, content: Contents) -> Iterator[tuple[str, bytes]]:
    """Yield the paths and contents that a segment's files have at the target.

    Raises:
        StoreError: a file cannot be read.
        GoneError: the segment is not there.
        DamagedError: `content` raises it.
    """
    here = segment._replace(place="")
    for kind in KINDS:
        try:
            data = content(here, kind)
        except FileNotFoundError:
            if kind == SAMPLES:
                raise GoneError from None
            continue  # an earlier segment has its names
        except OSError as error:
            raise StoreError(f"{here.path(kind)}: {error.strerror}") from None
        digest = blake2b(data, digest_size=DIGEST_DIGITS // 2).hexdigest()
        yield segment._replace(digests=(digest,) * len(KINDS)).path(kind), data


def send_damaged(
    store: StoreDirectory, target: Target, shipment: Shipment, content: Contents
) -> int:
    """Send segments again if the target has lost all or part of a file; return the bytes.

    Raises:
        StoreError: the target does not answer, or does not take a file.
    """
    state, place, size = sent_before(store, shipment.url), place_in_target(store, shipment.host), 0
    for one in _to_send(store, shipment):
        if state.has(one):
            with suppress(GoneError, DamagedError):
                placed = one._replace(place=place)
                if any(
                    target.size(path) not in (len(data), -2)
                    for path, data in _objects(placed, content)
                ):
                    size += send_segment(target, placed, content)
    return size


def whole_file(store: StoreDirectory) -> Contents:
    """Return the `Contents` that are the files of a store's segments."""

    def content(segment: Segment, kind: str) -> bytes:
        data = store.read_bytes(segment.path(kind), LARGEST_SENT_BYTES + 1)
        if len(data) > LARGEST_SENT_BYTES:
            raise StoreError(f"{segment.path(kind)} is too large")
        return data

    return content


def place_in_target(store: StoreDirectory, host: str) -> str:
    """Return the directory of a host's store among those of many hosts."""
    # Machines of the same name, and a new store, reuse the numbers of windows. A copy of a store
    # has the same windows, whichever machine sends it.
    made_on = store.made_on or this_machine()
    number = blake2b(f"{store.made_at!r}\0{made_on}".encode(), digest_size=8).hexdigest()
    return f"{HOST_PREFIX}{quote(host, safe='')}/{STORE_PREFIX}{number}"


def host_name() -> str:
    """Return this machine's name; a store on it may be about another host."""
    return os.uname().nodename


def sent_before(store: StoreDirectory, url: str) -> SentBefore:
    """Return the state of sending to a target."""
    try:
        state = json.loads(store.read_bytes(STATE, MOST_STATE_BYTES))
        if state["url"] == url:
            return SentBefore(max(int(state["next"]), 0), max(int(state["day"]), 0))
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        pass
    return SentBefore()


def _remember(store: StoreDirectory, url: str, state: SentBefore) -> None:
    with suppress(OSError):  # on a full disk some of it is sent again
        store.write_bytes(STATE, json.dumps({"url": url, **state._asdict()}).encode())


def is_chosen(segment: Segment, host: str, share: float) -> bool:
    """Whether a host sends a segment, by a hash of host and hour."""
    if share >= 1:
        return True
    if segment.tier == DAY:  # it has many hours
        return False
    words = f"{host}\0{segment.begin_s // _HOUR_S}".encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(words, digest_size=8).digest(), "little") < share * _WHOLE
