"""Bounds on what a recording costs apart from its records: functions, bytes, lines.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# Functions that --count-calls counts: each has a probe.
MOST_COUNTED_FUNCTIONS = 2000
# The child that measures the cost of a sample prints a line.
LONGEST_COST_LINE_BYTES = 4096
# Records from which mappings of other processes are dropped. They are in memory, and are read one
# by one, 1000 in 2.7 ms at most.
LARGEST_COMPACTED_BYTES = 16 << 20
MOST_COMPACTED_RECORDS = 200_000
