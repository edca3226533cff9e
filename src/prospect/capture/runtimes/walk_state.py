"""The walker's state, in memory that the recorder and its watcher share."""

from __future__ import annotations

import mmap
import struct

_FAILED, _DETACHED = 1, 2
_PPM = 1_000_000
_NAMES = (
    *("stage", "code", "attached", "missed", "held_up", "lost", "beside", "refused"),
    *("refused_pid", "unknown", "unknown_runtime", "unknown_version", "unknown_pid", "reader"),
)
_COUNTS = ("missed", "held_up", "lost", "refused", "unknown")
_PAGE = struct.Struct(f"={len(_NAMES)}q")


class WalkState:
    """Why the walker does not run, and the counts of what could not be read."""

    def __init__(self, fd: int = -1) -> None:
        """Make it, in a memory file of a page if another program shares it, -1 for none."""
        self._page = mmap.mmap(fd, mmap.PAGESIZE)

    def fail(self, code: int) -> None:
        """Note that the walker cannot run: an errno, 0 for an unknown kernel."""
        self._put(stage=_FAILED, code=code)

    def attached(self) -> None:
        """Note that the walker is about to write."""
        self._put(attached=1)

    def detached(self) -> None:
        """Note that the walker was detached, as other tracers' programs cost too many samples."""
        self._put(stage=_DETACHED)

    def count(self, **more: int) -> None:
        """Add to counts: mappings `missed` or `lost`, or of a file system that was `held_up`."""
        now = self._numbers
        self._put(**{name: now[name] + one for name, one in more.items()})

    def refused(self, names: int, pid: int) -> None:
        """Note the number of names without room, and the process with most; 0 for a user's."""
        self._put(refused=names, refused_pid=pid)

    def unknown(self, runtime: int, version: int, pid: int) -> None:
        """Count a process with an unknown version of a runtime."""
        self._put(
            unknown=self["unknown"] + 1,
            unknown_runtime=runtime,
            unknown_version=version,
            unknown_pid=pid,
        )

    def reads_by(self, pid: int) -> None:
        """Note the process that reads files."""
        self._put(reader=pid)

    def beside(self, share: float) -> None:
        """Note the share of the CPUs' busy time of other tracers' programs, 0 to 1."""
        self._put(beside=max(self["beside"], round(_PPM * share)))

    def __getitem__(self, name: str) -> int:
        """Return a number by its name."""
        return self._numbers[name]

    @property
    def counts(self) -> dict[str, int]:
        """Counts of what was left out so far."""
        now = self._numbers
        return {name: now[name] for name in _COUNTS}

    @property
    def failure(self) -> int:
        """The errno, 0 for an unknown kernel, -1 if the walker did not fail."""
        return self["code"] if self["stage"] == _FAILED else -1

    @property
    def is_detached(self) -> bool:
        """Whether the walker was detached."""
        return self["stage"] == _DETACHED

    @property
    def most_beside(self) -> float:
        """The largest share of the CPUs' time noted, 0 to 1."""
        return self["beside"] / _PPM

    @property
    def _numbers(self) -> dict[str, int]:
        return dict(zip(_NAMES, _PAGE.unpack_from(self._page), strict=True))

    def _put(self, **changed: int) -> None:
        _PAGE.pack_into(self._page, 0, *(self._numbers | changed).values())
