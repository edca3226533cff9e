"""The process that sends what waits in a store, and ends.

What reaches other machines has no rights and none of the daemon's memory. A line of JSON on
standard input is the shipment, one on standard output what became of it.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from prospect.daemon import at_work

if TYPE_CHECKING:
    from prospect.store.directory import StoreDirectory


def _prepared() -> at_work.Work:
    from prospect.fleet.sending import Shipment  # noqa: PLC0415 - behind numpy
    from prospect.fleet.shipping import ship  # noqa: PLC0415 - behind numpy

    def send(store: StoreDirectory, shipment: bytes) -> tuple[int, str]:
        return 0, json.dumps(ship(store, Shipment(*json.loads(shipment)), time.time()))

    return send


if __name__ == "__main__":
    at_work.do(_prepared)
