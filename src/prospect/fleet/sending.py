"""Finished segments of a store → a place of many hosts' stores.

    TARGET/host=NAME/store=ID/TIER/date=…/STEM.KIND.DIGEST.parquet

A name follows from the host, the store, the windows and the content: what is sent twice is stored
once. Windows go in the order of their numbers, and a segment's samples last, so that one number
says what was sent: that of the first window that was not. Another one is for days, which are
summaries besides their hours. Both are in a file of the store, written after each directory, so
that a sender that is killed sends little again. A hash of host and hour chooses which hosts send an
hour, if only a share of them does.
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

    # Returns what a file of a segment is sent as.
    Contents = Callable[[Segment, str], bytes]
    from prospect.store.segments import Segment

STATE = "shipped.json"
_HOUR_S = 3600
_WHOLE = 1 << 64


class Shipment(NamedTuple):
    """A target for a store's segments, and which of them go there.

    Attributes:
        share: of hosts that send an hour.
        everything: whether the hour that is not over is sent too.
    """

    url: str
    share: float = 1.0
    everything: bool = False
    host: str = ""


class Waiting(NamedTuple):
    """Segments that were not sent yet.

    Attributes:
        segments: in the order of their windows.
        size_bytes: of their files.
        oldest_s: when the first of them began, in seconds since 1970; 0 for none.
    """

    segments: list[Segment]
    size_bytes: int
    oldest_s: int


class SentBefore(NamedTuple):
    """The numbers of the first windows that were not sent, in segments finer than days, in days."""

    next: int = 0
    day: int = 0

    def of(self, segment: Segment) -> int:
        """Return the number that holds for a segment's tier."""
        return self.day if segment.tier == DAY else self.next

    def after(self, segment: Segment) -> SentBefore:
        """Return what holds once a segment is sent."""
        number = segment.last + 1
        return self._replace(day=number) if segment.tier == DAY else self._replace(next=number)


class GoneError(Exception):
    """A segment was removed while it was to be sent."""


class DamagedError(Exception):
    """A segment cannot be made what is to be sent; no reader could use it."""


def waiting(store: StoreDirectory, shipment: Shipment, now_s: float) -> Waiting:
    """Find what is to be sent.

    Raises:
        StoreError: the store cannot be read.
    """
    state = sent_before(store, shipment.url)
    this_hour = now_s // _HOUR_S
    found = [
        one
        for one in _to_send(store, shipment)
        if one.last >= state.of(one)
        and (shipment.everything or one.begin_s // _HOUR_S != this_hour)
    ]
    size = sum(map(store.size_bytes, found))
    return Waiting(found, size, min((one.begin_s for one in found), default=0))


def _to_send(store: StoreDirectory, shipment: Shipment) -> list[Segment]:
    """Return what a store has that is sent, now or before."""
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
        GoneError: one was removed meanwhile.
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
    """Send the files of a segment, that which makes it whole last; return their bytes.

    Raises:
        StoreError: the target does not take one.
        GoneError: it is not there.
        DamagedError: `content` says so.
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
        DamagedError: `content` says so.
    """
    here = segment._replace(place="")
    for kind in KINDS:
        try:
            data = content(here, kind)
        except FileNotFoundError:
            if kind == SAMPLES:
                raise GoneError from None
            continue  # its names are in the file of an earlier one
        except OSError as error:
            raise StoreError(f"{here.path(kind)}: {error.strerror}") from None
        digest = blake2b(data, digest_size=DIGEST_DIGITS // 2).hexdigest()
        yield segment._replace(digests=(digest,) * len(KINDS)).path(kind), data


def send_damaged(
    store: StoreDirectory, target: Target, shipment: Shipment, content: Contents
) -> int:
    """Send segments again if the target has lost a file of them or a part; return the bytes.

    Raises:
        StoreError: the target does not answer, or does not take a file.
    """
    state, place, size = sent_before(store, shipment.url), place_in_target(store, shipment.host), 0
    for one in _to_send(store, shipment):
        if one.last < state.of(one):
            with suppress(GoneError, DamagedError):
                placed = one._replace(place=place)
                if any(
                    target.size(path) not in (len(data), -2)
                    for path, data in _objects(placed, content)
                ):
                    size += send_segment(target, placed, content)
    return size


def whole_file(store: StoreDirectory) -> Contents:
    """Return what reads the files of a store's segments as they are."""

    def content(segment: Segment, kind: str) -> bytes:
        data = store.read_bytes(segment.path(kind), LARGEST_SENT_BYTES + 1)
        if len(data) > LARGEST_SENT_BYTES:
            raise StoreError(f"{segment.path(kind)} is too large")
        return data

    return content


def place_in_target(store: StoreDirectory, host: str) -> str:
    """Return the directory that a host's store has among those of many hosts."""
    # A machine of the same name, or a store that was begun again, numbers other windows alike.
    # Those of a copy are the same ones, from any sender.
    made_on = store.made_on or this_machine()
    number = blake2b(f"{store.made_at!r}\0{made_on}".encode(), digest_size=8).hexdigest()
    return f"{HOST_PREFIX}{quote(host, safe='')}/{STORE_PREFIX}{number}"


def host_name() -> str:
    """Return what this machine calls itself, which need not be the host of a store that is here."""
    return os.uname().nodename


def sent_before(store: StoreDirectory, url: str) -> SentBefore:
    """Return what was sent to a target."""
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
    """Whether a host sends a segment: as a hash of host and hour says, the same for everybody."""
    if share >= 1:
        return True
    if segment.tier == DAY:  # of many hours
        return False
    words = f"{host}\0{segment.begin_s // _HOUR_S}".encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(words, digest_size=8).digest(), "little") < share * _WHOLE
