"""Bounds on what the files of a store may cost: sizes, counts. Other hosts wrote some of them.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# A line.
MOST_FORMAT_BYTES = 1 << 16
# Files of one directory: an hour has 60 windows of a minute; more are somebody else's.
MOST_FILES = 200_000
# Hosts of one store, as many as a fleet may have.
MOST_HOSTS = 200_000
# Hosts that are left out of one question because their files take all memory: each costs a try.
MOST_EXHAUSTING = 8

# A day of a host with 64 CPUs takes about 100 MB. A file that claims to be larger is none of ours.
LARGEST_SEGMENT_BYTES = 1 << 32
# What another host's file may unpack to: this, as files of a few KB have dictionaries, and in
# addition so many times its size. Ours unpack to some twenty times their size, and each value of a
# number takes eight bytes then.
BASE_UNPACKED_BYTES = 32 << 20
MOST_UNPACKED_TIMES = 300
# Read to recognize a file: a footer has a few KB.
MOST_HEAD_BYTES = 1 << 22

# The list of removed windows: 1,000 rows; the oldest are forgotten.
MOST_REMOVED_BYTES = 1 << 18
MOST_REMOVED = 1000
# A store that is told to be smaller would lose each window at once.
LEAST_STORE_BYTES = 1 << 20
# Functions and stacks that one file's writer remembers; an hour of very many different ones begins
# to write them twice.
MOST_KNOWN = 500_000

# Runs of files whose segments follow each other, each of which makes a query longer by a condition.
MOST_RUNS = 32
