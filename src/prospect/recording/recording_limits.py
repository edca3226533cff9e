"""Bounds on the costs of a recording apart from its records: functions, bytes, lines.

SECURITY.md lists the bounds on input.
"""

from __future__ import annotations

# Functions that --count-calls counts: each has a probe.
MOST_COUNTED_FUNCTIONS = 2000
# The cost of a sample is a line in a file of the user's cache.
LONGEST_COST_LINE_BYTES = 4096
# Records from which mappings of other processes are dropped. They are in memory, and are read one
# by one, 1000 in at most 2.7 ms.
LARGEST_COMPACTED_BYTES = 16 << 20
MOST_COMPACTED_RECORDS = 200_000
