"""What reading JVMs may cost: CPU time and bytes, for each process, each user, and all."""

from __future__ import annotations

import time

# CPU seconds that reading a user's processes may take at once, and each second.
_AT_ONCE_S, _SHARE = 2.0, 0.02
# Bytes of records: a large server has 20,000 compiled methods of 2.5 KB.
MOST_PROCESS_BYTES = 60 << 20
_MOST_USER_BYTES = 120 << 20
_MOST_BYTES = 240 << 20
MOST_PROCESSES = 256
_MOST_USERS = 1 << 10


class _Use:
    """What one user has left."""

    def __init__(self, now_s: float) -> None:
        self.at_s = now_s
        self.left_s = _AT_ONCE_S
        self.bytes = 0


class Bounds:
    """The room that each user has left."""

    def __init__(self) -> None:
        self._uses: dict[int, _Use] = {}
        self._bytes = 0

    def may_read(self, uid: int) -> bool:
        """Return whether there is time left for a user's processes."""
        return self._use(uid).left_s > 0

    def has_read(self, uid: int, used_s: float) -> None:
        """Count CPU time."""
        self._use(uid).left_s -= used_s

    def take(self, uid: int, size: int, of_process: int) -> bool:
        """Take room for bytes of a process, which has so many; return whether there is any."""
        use = self._use(uid)
        is_room = (
            of_process + size <= MOST_PROCESS_BYTES
            and use.bytes + size <= _MOST_USER_BYTES
            and self._bytes + size <= _MOST_BYTES
        )
        if is_room:
            use.bytes += size
            self._bytes += size
        return is_room

    def _use(self, uid: int) -> _Use:
        now_s = time.monotonic()
        use = self._uses.get(uid)
        if use is None:
            if len(self._uses) >= _MOST_USERS:
                uid = -1  # all further ones share a room
            use = self._uses.setdefault(uid, _Use(now_s))
        use.left_s = min(_AT_ONCE_S, use.left_s + _SHARE * (now_s - use.at_s))
        use.at_s = now_s
        return use
