"""Bounds on the size and number of a store's files, some of which other hosts wrote.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# The format file has one line.
MOST_FORMAT_BYTES = 1 << 16
# Files of one directory. An hour has 60 windows of a minute.
MOST_FILES = 200_000
# Hosts of one store, as many as a fleet may have.
MOST_HOSTS = 200_000
# Hosts that one question leaves out because their files exhaust the memory. Each costs a try.
MOST_EXHAUSTING = 8

# A day of a host with 64 CPUs takes about 100 MB.
LARGEST_SEGMENT_BYTES = 1 << 32
# An untrusted file may unpack to these bytes, because small files have dictionaries, plus this many
# times its size. Our files unpack to about twenty times their size, and eight bytes a number.
BASE_UNPACKED_BYTES = 32 << 20
MOST_UNPACKED_TIMES = 300
# A head has a few KB.
MOST_HEAD_BYTES = 1 << 22

# The list of removed windows: 1,000 rows; the oldest are forgotten.
MOST_REMOVED_BYTES = 1 << 18
MOST_REMOVED = 1000
# A smaller store would lose each window at once.
LEAST_STORE_BYTES = 1 << 20
# Functions and stacks that a writer remembers for a directory. Beyond this it writes some twice.
MOST_KNOWN = 500_000

# Runs of files with consecutive segments. Each adds a condition to a query.
MOST_RUNS = 32
