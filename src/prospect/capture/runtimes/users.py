"""Bounds on the cost of finding runtimes, for each user whose processes map the files.

Defined by: proc(5), /proc/pid/status.
"""

from __future__ import annotations

import os
import time

from prospect.capture.capture_limits import FILES_S, HELD_UP_S, MOST_HELD_UP, MOST_USERS
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.runtimes.image_reader import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.machine.mapping_records import MappingRecord
    from prospect.capture.runtimes.image_reader import ImageReader

# CPU time for reading files, per second.
_FILES_SHARE = 0.01
# Mappings to look at: at once, and per second and CPU, which starts no more interpreters.
_MAPPINGS, _MAPPINGS_A_S = 500.0, 200.0 * (os.cpu_count() or 1)
_NOBODY = 65534


def user_of(pid: int) -> int:
    """Return the real user id of a process; that of "nobody" if it has ended."""
    for line in read_if_there(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return _NOBODY


class _Use:
    """The room that one user has left, as of `at`."""

    def __init__(self, now: float) -> None:
        self.at = now
        self.files_s = FILES_S
        self.mappings = _MAPPINGS
        self.held_up: dict[tuple[int, int], float] = {}


class Users:
    """The room that each user has left; it grows again with time."""

    def __init__(self) -> None:
        self._uses: dict[int, _Use] = {}

    def may_look(self, uid: int) -> bool:
        """Return whether another mapping of a user may be looked at, and count it."""
        use = self._use(uid)
        use.mappings -= use.mappings >= 1
        return use.mappings >= 1

    def may_use(self, uid: int) -> bool:
        """Return whether a user has CPU time left."""
        return self._use(uid).files_s > 0

    def may_read(self, uid: int, device: tuple[int, int]) -> bool:
        """Return whether a user's files on a device may be read."""
        use = self._use(uid)
        use.held_up = {one: until for one, until in use.held_up.items() if until > use.at}
        is_held_up = device in use.held_up or (uid and len(use.held_up) >= MOST_HELD_UP)
        return use.files_s > 0 and not is_held_up

    def read(self, files: ImageReader, mapping: MappingRecord, uid: int) -> Answer | None:
        """Read a mapped file at the cost of its user; None if that user has no room left."""
        device = mapping.file[:2]
        if not self.may_read(uid, device):
            return None
        try:
            answer = files.read(mapping, uid)
        except OSError:
            answer = Answer(is_missing=True)
        self.has_read(uid, answer.used_s)
        if answer.is_held_up:
            self.was_held_up(uid, device)
        return answer

    def has_read(self, uid: int, used_s: float) -> None:
        """Count the CPU time that reading a file took."""
        self._use(uid).files_s -= used_s

    def was_held_up(self, uid: int, device: tuple[int, int]) -> None:
        """Note that the file system of a user's file did not answer."""
        use = self._use(uid)
        use.held_up[device] = use.at + HELD_UP_S

    def _use(self, uid: int) -> _Use:
        now = time.monotonic()
        use = self._uses.pop(uid, None) or _Use(now)
        self._uses[uid] = use
        if len(self._uses) > MOST_USERS:
            del self._uses[next(iter(self._uses))]
        passed, use.at = now - use.at, now
        use.files_s = min(use.files_s + passed * _FILES_SHARE, FILES_S)
        use.mappings = min(use.mappings + passed * _MAPPINGS_A_S, _MAPPINGS)
        return use
