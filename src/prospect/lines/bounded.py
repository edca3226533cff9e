"""Debug information of other users → symcaches, within what a report may spend on it.

Files that neither root nor we own are read one after the other, each by a child with what is left;
one that takes too much has no symcache.
"""

from __future__ import annotations

import threading
import time

from prospect.files.budget import ReadBudget
from prospect.lines.conversion import convert_in_child

_LEAST_S, _S_A_MB, _MOST_S = 5.0, 1.0, 60.0
_ALL_S = 180.0
# The share of the time left by other users' files that those of one user may take.
_SHARE = 2 / 3


class BoundedReader:
    """Reads the debug information that strangers' files have, for one report."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._left_bytes = ReadBudget.of_environment().most_bytes
        self._used_s: dict[int, float] = {}

    def convert(self, data: bytes | memoryview, uid: int) -> bytes | None:
        """Make a symcache; None for what cannot be read within what is left.

        Args:
            data: a whole ELF file. It gets a second for each MB, and some more.
            uid: whose it is.
        """
        with self._turn:
            used_s = self._used_s.get(uid, 0.0)
            left_s = (_ALL_S - sum(self._used_s.values()) + used_s) * _SHARE - used_s
            seconds = min(_LEAST_S + len(data) / 1e6 * _S_A_MB, _MOST_S, left_s)
            if seconds <= 0 or len(data) > self._left_bytes:
                return None
            began_s = time.monotonic()
            made = convert_in_child(data, self._left_bytes, seconds)
            self._used_s[uid] = used_s + time.monotonic() - began_s
            self._left_bytes -= len(made or b"")
            return made
