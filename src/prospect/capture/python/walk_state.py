"""What became of the walker, in memory that the recorder and its watcher share."""

from __future__ import annotations

import mmap
import struct

_PAGE = struct.Struct("=IIII")
_WAITING, _ATTACHED, _FAILED = 0, 1, 2


class WalkState:
    """Whether the walker runs, and how many processes are registered with it."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def attached(self) -> None:
        """Say that it runs."""
        self._put(stage=_ATTACHED)

    def fail(self, code: int) -> None:
        """Say that it cannot run: an errno, 0 for a kernel that is not known."""
        self._put(stage=_FAILED, code=code)

    def registered(self) -> None:
        """Count a process that was registered."""
        self._put(registered=self._numbers[2] + 1)

    def missed(self) -> None:
        """Count a process that could not be registered."""
        self._put(missed=self._numbers[3] + 1)

    @property
    def is_attached(self) -> bool:
        """Whether it runs."""
        return self._numbers[0] == _ATTACHED

    @property
    def failure(self) -> int:
        """The errno, 0 for none that is known, -1 where it did not fail."""
        stage, code, _, _ = self._numbers
        return code if stage == _FAILED else -1

    @property
    def processes(self) -> int:
        """How many programs were registered."""
        return self._numbers[2]

    @property
    def missing(self) -> int:
        """How many could not be."""
        return self._numbers[3]

    @property
    def _numbers(self) -> tuple[int, int, int, int]:
        stage, code, registered, missed = _PAGE.unpack_from(self._page)
        return stage, code, registered, missed

    def _put(self, **changed: int) -> None:
        now = (
            dict(zip(("stage", "code", "registered", "missed"), self._numbers, strict=True))
            | changed
        )
        _PAGE.pack_into(self._page, 0, *now.values())
