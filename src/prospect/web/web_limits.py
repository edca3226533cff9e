"""Bounds on the cost of a browser: connections, sizes of a request, waiting times.

Anyone on this machine can connect. SECURITY.md lists the bounds on input.
"""

from __future__ import annotations

# Browsers open six connections to a server; an idle one gives way to a new one.
MOST_CONNECTIONS = 16
# If a flood fills the queue of waiting connections, the kernel drops a browser's packets, and the
# browser tries again after 1, 2, 4, 8 seconds.
MOST_QUEUED = 256
# Browsers send a few KB at once.
LARGEST_HEAD_BYTES = 1 << 15
ARRIVAL_S = 5.0
# A page of some MB over a slow connection.
TAKING_S = 60.0
# A dropped connection makes room within this time.
DROPPED_S = 1.0

# A query: no page sends more fields. Numbers have 64 bits, times are before the year 4147.
MOST_FIELDS = 16
MOST_DIGITS = 18
LATEST_S = 1 << 36
# Four times as many frames as an unwound stack has.
MOST_PATH_FRAMES = 4096
# Characters of a search, which is tried on every name.
LONGEST_SEARCH = 256

# Profiles of parts of a store that stay in memory: this one, and two to go back to.
MOST_PARTS = 3
