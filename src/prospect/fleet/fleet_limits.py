"""Bounds on the sizes, counts and times of stores of many hosts and their servers.

SECURITY.md lists those on input. `fleet.answers` has the number of rows that an answer shows.
"""

from __future__ import annotations

# A bucket: 10,000 hosts with 400 files each. A day of a very busy host is one file.
MOST_OBJECTS = 4_000_000
LARGEST_OBJECT_BYTES = 1 << 30
LARGEST_SENT_BYTES = 1 << 30
# The record of sent files has a few lines, and so does a file of credentials.
MOST_STATE_BYTES = 1 << 16
MOST_CREDENTIAL_BYTES = 1 << 20
# The list of segments that were removed unsent, 20,000 of them.
MOST_LOST_BYTES = 1 << 26
MOST_ASIDE = 20_000
# Names in the sums of a day of all hosts. Only the total has the rest, those with least time.
MOST_KEPT_ROWS = 1_000_000
# Copies of a bucket's files on disk, unless the user gives another size.
CACHE_BYTES = 4 << 30

# Time-outs of a bucket: for the connection, between two pieces of an answer, and for a whole
# answer, which may be an object of 1 GB.
CONNECT_S = 5.0
SILENT_S = 20.0
WHOLE_S = 300.0
# Time-outs of a collector: one step, both tries together, and the pause between them. The store
# keeps the windows that it misses.
STEP_S = 5.0
PUSH_S = 15.0
PUSH_PAUSE_S = 1.0
# Messages do not repeat a collector's answer.
MOST_ANSWER_BYTES = 1 << 16
# A Spark master answers at once, or not at all. Its messages end with the reason.
SPARK_CONNECT_S = 5.0
MOST_SPARK_MESSAGE = 1 << 16

# If segments are merged or removed while they are sent, the sender looks again this often.
MOST_LOOKS = 8
# Older unfinished files are those of a killed sender.
UNFINISHED_S = 3600.0

# Programs and functions that a question compares, those with most time first. 500 functions and
# 2,000 hosts are a million numbers.
MOST_COMPARED_FILES = 50
MOST_FUNCTIONS_OF_A_FILE = 200
MOST_COMPARED_FUNCTIONS = 500
MOST_CELLS = 1_000_000
# Cells of each of two spans, before and after.
MOST_CELLS_OF_A_DEPLOY = 500_000
