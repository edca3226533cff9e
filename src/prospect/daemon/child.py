"""The process that writes one window to a store, and ends.

DuckDB takes 60 MB, which only this process has, for a moment. The window comes by standard input.
It ends with status 0 and nothing to say, with `_NO_SPACE` on a full disk, or with another and a
line on standard output: why it failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.daemon import at_work

if TYPE_CHECKING:
    from prospect.store.directory import StoreDirectory

_MEMORY = "128MB"
_NO_SPACE = 3


def _prepared() -> at_work.Work:
    from prospect.daemon.hand_over import unpacked  # noqa: PLC0415 - numpy is imported behind that
    from prospect.errors import StoreError  # noqa: PLC0415 - numpy is imported behind that
    from prospect.store.directory import PART_SUFFIX  # noqa: PLC0415 - numpy is imported behind that
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - numpy is imported behind that
    from prospect.store.writing import write_segment  # noqa: PLC0415 - numpy is imported behind that

    def write(store: StoreDirectory, window: bytes) -> tuple[int, str]:
        try:
            write_segment(store, Engine(store, memory=_MEMORY), *unpacked(window))
        except (StoreError, EngineError, OSError) as error:
            # Which file it is differs each time, and is nobody's.
            said = str(error).rpartition(f'{PART_SUFFIX}": ')[2]
            is_full = "No space left" in said or "Disk quota" in said
            return (_NO_SPACE if is_full else at_work.FAILED), said
        return 0, ""

    return write


if __name__ == "__main__":
    at_work.do(_prepared)
