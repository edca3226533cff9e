"""What became of the walker, in memory that the recorder and its watcher share."""

from __future__ import annotations

import mmap
import struct

_PAGE = struct.Struct("=IIII")
_WAITING, _ATTACHED, _FAILED = 0, 1, 2


class WalkState:
    """Whether the walker runs, and how many processes it was told of."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def attached(self) -> None:
        """Say that it runs."""
        self._put(stage=_ATTACHED)

    def fail(self, code: int) -> None:
        """Say that it cannot run: an errno, 0 for a kernel that is not known."""
        self._put(stage=_FAILED, code=code)

    def told(self) -> None:
        """Count a process that it was told of."""
        self._put(told=self._numbers[2] + 1)

    def missed(self) -> None:
        """Count a process that it could not be told of."""
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
        """Of how many programs it was told."""
        return self._numbers[2]

    @property
    def missing(self) -> int:
        """Of how many it could not be."""
        return self._numbers[3]

    @property
    def _numbers(self) -> tuple[int, int, int, int]:
        stage, code, told, missed = _PAGE.unpack_from(self._page)
        return stage, code, told, missed

    def _put(self, **changed: int) -> None:
        now = dict(zip(("stage", "code", "told", "missed"), self._numbers, strict=True)) | changed
        _PAGE.pack_into(self._page, 0, *now.values())
