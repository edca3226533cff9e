"""Bounds on what a store of many hosts and its servers may cost: sizes, counts, time.

SECURITY.md lists those on input. The rows that an answer shows are in `fleet.answers`.
"""

from __future__ import annotations

# A bucket: 10,000 hosts with 400 files each. A day of a very busy host is one file.
MOST_OBJECTS = 4_000_000
LARGEST_OBJECT_BYTES = 1 << 30
LARGEST_SENT_BYTES = 1 << 30
# The note on sent files has a few lines, and so has a file of credentials.
MOST_STATE_BYTES = 1 << 16
MOST_CREDENTIAL_BYTES = 1 << 20
# The list of segments that were removed unsent, 20,000 of them.
MOST_LOST_BYTES = 1 << 26
MOST_ASIDE = 20_000
# Names in the sums of a day of all hosts: an engine returns no more. Those with least time are in
# the total alone.
MOST_KEPT_ROWS = 1_000_000
# Copies of a bucket's files on disk, unless the user gives another size.
CACHE_BYTES = 4 << 30

# A bucket that is slow or silent: until a connection, between two pieces of an answer, and for all
# of an answer, which may be an object of 1 GB.
CONNECT_S = 5.0
SILENT_S = 20.0
WHOLE_S = 300.0
# A collector: one step, both tries together, and the pause between them. The windows that it misses
# are in the store.
STEP_S = 5.0
PUSH_S = 15.0
PUSH_PAUSE_S = 1.0
# Messages do not repeat a collector's answer.
MOST_ANSWER_BYTES = 1 << 16
# A Spark master answers at once, or is not there. Its messages end with the reason.
SPARK_CONNECT_S = 5.0
MOST_SPARK_MESSAGE = 1 << 16

# Segments that are merged or removed while they are sent: what waits is looked for again so often.
MOST_LOOKS = 8
# No sender takes longer; its list is of one that was killed.
UNFINISHED_S = 3600.0

# Programs and functions that a question compares, those with most time first: with 500 functions
# and 2,000 hosts a million numbers.
MOST_COMPARED_FILES = 50
MOST_FUNCTIONS_OF_A_FILE = 200
MOST_COMPARED_FUNCTIONS = 500
MOST_CELLS = 1_000_000
# Of two spans, before and after.
MOST_CELLS_OF_A_DEPLOY = 500_000
