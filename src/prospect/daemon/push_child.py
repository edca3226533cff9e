"""The process that sends windows of a store to a collector, and ends.

It takes the memory of a report, for a moment. A line of JSON on standard input says where to and
which windows, one on standard output how many of them are done, and why no more.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.daemon import at_work

if TYPE_CHECKING:
    from prospect.store.directory import StoreDirectory

_US = 10**6


def _prepared() -> at_work.Work:
    from prospect.errors import ProspectError, StoreError  # noqa: PLC0415 - behind numpy
    from prospect.fleet.otlp import otlp_document, push  # noqa: PLC0415 - behind numpy
    from prospect.store.part import Apart, read_part  # noqa: PLC0415 - behind numpy
    from prospect.store.specification import Specification  # noqa: PLC0415 - behind numpy

    def send(store: StoreDirectory, order: bytes) -> tuple[int, str]:
        url, windows = json.loads(order)
        sent, complaint = 0, ""
        try:
            for begin_s, session in windows:
                # The window that begins in this second.
                chosen = Specification(begin_s * _US, (begin_s + 1) * _US, {"session": (session,)})
                with suppress(StoreError):  # without hits, or gone: there is nothing to send
                    push(url, otlp_document(read_part(store, chosen, Apart(stacks=True)), "4"))
                sent += 1
        except ProspectError as error:
            complaint = str(error)
        return 0, json.dumps([sent, complaint])

    return send


if __name__ == "__main__":
    at_work.do(_prepared)
