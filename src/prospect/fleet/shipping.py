"""All that waits in a store → a place of many hosts' stores, once."""

from __future__ import annotations

from contextlib import closing

from prospect.errors import StoreError
from prospect.fleet.lost import clean_aside, latest_head, send_lost
from prospect.fleet.sending import (
    GoneError,
    Shipment,
    host_name,
    send,
    send_damaged,
    waiting,
)
from prospect.fleet.targets import target_of
from prospect.fleet.weights import contents_to_send
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.store.directory import StoreDirectory

# Segments that are merged or removed meanwhile: how often what waits is looked for anew.
_MOST_LOOKS = 8
_MEMORY = "128MB"


class Shipped(NamedTuple):
    """What became of it.

    Attributes:
        sent_bytes: that the target has taken.
        lost_windows: of which only the books were left to send.
        complaint: why the rest waits, "" if nothing does.
    """

    sent_bytes: int
    lost_windows: int
    complaint: str


def ship(
    store: StoreDirectory, shipment: Shipment, now_s: float, *, checks_sent: bool = False
) -> Shipped:
    """Send what waits, as far as the target takes it.

    Args:
        store: to send.
        shipment: where to, and how much of it; without a host that of the latest segment, as a
            store may have been made on another machine.
        now_s: seconds since 1970.
        checks_sent: whether the target is asked for each file that was sent before.
    """
    size = lost = 0
    try:
        if not shipment.host:
            shipment = shipment._replace(host=_host_of(store))
        with (
            closing(target_of(shipment.url)) as target,
            contents_to_send(store, shipment.share) as content,
        ):
            clean_aside(store)
            lost = send_lost(store, target, shipment)
            if checks_sent:
                size += send_damaged(store, target, shipment, content)
            for _ in range(_MOST_LOOKS):
                due = waiting(store, shipment, now_s)
                if not due.segments:
                    break
                try:
                    size += send(store, target, shipment, due.segments, content)
                except GoneError:
                    continue
    except StoreError as error:
        return Shipped(size, lost, str(error))
    except OSError as error:
        return Shipped(size, lost, f"the store: {error.strerror}")
    return Shipped(size, lost, "")


def _host_of(store: StoreDirectory) -> str:
    from prospect.store.engine import Engine  # noqa: PLC0415 - 60 MB, which a daemon does not need

    with closing(Engine(store, memory=_MEMORY)) as engine:
        head = latest_head(store, engine)
    return (str(head.run["hostname"]) if head else "") or host_name()
