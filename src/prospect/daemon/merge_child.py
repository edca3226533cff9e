"""The process that makes one hour or day of a store's windows, and ends.

It takes some hundred MB on a large machine, for some seconds. A time comes by standard input, in
seconds since 1970: what is over then is merged. It ends with status 0 where nothing was due,
`_HAS_MORE` where something was, or with another and a line on standard output: why it failed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.daemon import at_work

if TYPE_CHECKING:
    from prospect.store.directory import StoreDirectory

# So much does an hour or a day of 64 processors take.
_MEMORY = "384MB"
_HAS_MORE = 4


def _prepared() -> at_work.Work:
    from prospect.store.compaction import compact  # noqa: PLC0415 - behind numpy
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - behind numpy

    def merge(store: StoreDirectory, now_s: bytes) -> tuple[int, str]:
        os.nice(10)  # nobody waits for it
        try:
            made = compact(store, Engine(store, memory=_MEMORY), int(now_s), most=1)
        except EngineError as error:
            return at_work.FAILED, str(error)
        return (_HAS_MORE if any(made) else 0), ""

    return merge


if __name__ == "__main__":
    at_work.do(_prepared)
