"""How often the watcher looks at new mappings: at once, but for no more than a part of the CPUs.

Where programs start all the time there are thousands of mappings a second, each of which would
wake it. It rests behind a look for so long that its looks take no more than their share. A program
that begins meanwhile has no Python functions until the rest is over.
"""

from __future__ import annotations

import os
import select
import time

# Of all CPUs, for each sample a second and CPU: as much as taking the samples costs.
_SHARE_OF_A_SAMPLE = 10e-6
_LEAST_SHARE, _MOST_SHARE = 0.001, 0.02
_LONGEST_S = 0.1


def share_for(rate_hz: float) -> float:
    """Return which part of the CPUs looks may take where so many samples a second are taken."""
    return min(max(_SHARE_OF_A_SAMPLE * rate_hz, _LEAST_SHARE), _MOST_SHARE)


class Pace:
    """Rests between looks."""

    def __init__(self, share: float) -> None:
        """Begin; `share` is of all CPUs."""
        self._cpus_share = share * (os.cpu_count() or 1)
        self._looked_s = time.monotonic()
        self._used_s = time.process_time()

    def rest(self, stop_fd: int) -> bool:
        """Rest, if it is too early for another look; return whether the end came meanwhile."""
        now_s, used_s = time.monotonic(), time.process_time()
        due_s = self._looked_s + (used_s - self._used_s) / self._cpus_share
        self._looked_s, self._used_s = max(now_s, min(due_s, now_s + _LONGEST_S)), used_s
        rest_s = self._looked_s - now_s
        return rest_s > 0 and bool(select.select((stop_fd,), (), (), rest_s)[0])
