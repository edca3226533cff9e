"""What became of the walker, in memory that the recorder and its watcher share."""

from __future__ import annotations

import mmap
import struct

_PAGE = struct.Struct("=IIIII")
_WAITING, _ATTACHED, _FAILED, _DETACHED = 0, 1, 2, 3
_PPM = 1_000_000


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

    def detached(self) -> None:
        """Say that it runs no more, because other tracers' programs cost too many samples."""
        self._put(stage=_DETACHED)

    def beside(self, share: float) -> None:
        """Note what part of the CPUs' busy time other tracers' programs take, 0 to 1."""
        self._put(beside=max(self._numbers[4], round(_PPM * share)))

    @property
    def is_attached(self) -> bool:
        """Whether it runs."""
        return self._numbers[0] == _ATTACHED

    @property
    def failure(self) -> int:
        """The errno, 0 for none that is known, -1 where it did not fail."""
        stage, code, *_ = self._numbers
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
    def is_detached(self) -> bool:
        """Whether it ran, and does no more."""
        return self._numbers[0] == _DETACHED

    @property
    def most_beside(self) -> float:
        """The largest part that was noted of the CPUs' time, 0 to 1."""
        return self._numbers[4] / _PPM

    @property
    def _numbers(self) -> tuple[int, int, int, int, int]:
        stage, code, registered, missed, beside = _PAGE.unpack_from(self._page)
        return stage, code, registered, missed, beside

    def _put(self, **changed: int) -> None:
        names = ("stage", "code", "registered", "missed", "beside")
        now = dict(zip(names, self._numbers, strict=True)) | changed
        _PAGE.pack_into(self._page, 0, *now.values())
