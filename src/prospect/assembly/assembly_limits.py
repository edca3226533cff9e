"""Bounds on the cost of assembling a profile. A recording may come from anyone.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# Memory maps kept in a recording, unpacked. They are in memory.
MOST_MAP_BYTES = 1 << 24

# `Samples.clock` has 8 bits; no recorder has more than a few.
MOST_CLOCKS = 64

# The time of a recording, in seconds since 1970: the year 2242. A damaged one may have any time.
LATEST_S = 1 << 33

# Processes among which one that still runs is searched.
MOST_PIDS = 8

# Kernel addresses that are named for their entry reason: far more than the calls in a kernel's busy
# paths.
MOST_ADDRESSES = 1 << 19

# Labels of samples; the size of a file of marks (--label), which is in memory as a whole; and the
# marks of a thread that are open at the same time.
MOST_LABELS = 1 << 14
MOST_MARKS_BYTES = 1 << 28
DEEPEST_LABELS = 64

# Columns and texts that the decoder of a PMU's raw data may make.
MOST_COLUMNS = 64
MOST_TEXTS = 4096

# Addresses further above the stack pointer are in another stack: a thread has so much by default
# (`ulimit -s`, pthread_attr_setstacksize(3)).
MOST_STACK_BYTES = 8 << 20

# Computing the unwinding rules of another user's file: time, and a share of the remaining memory.
LONGEST_RULES_S = 60.0
MOST_RULES_SHARE = 0.5

# Copies of stacks share their pieces, so a small recording may have many; further ones get call
# chains.
MOST_COPIED_BYTES = 1 << 30

# A recording of a thousand processes with a jitdump file each is an attack on the reader's memory.
MOST_DUMPS = 256

# Copies of map and jitdump files, unpacked: the size of one, their number, and the size of all,
# which are in memory together.
LARGEST_COPY_BYTES = 1 << 26
MOST_COPIES = 1024
MOST_COPIED_FILE_BYTES = 1 << 28

# Processes whose samples are searched for unread functions of runtimes, one by one.
MOST_PROCESSES = 1000

# Functions and lines that are kept from one part of a session to the next: 5,000 of usual size.
MOST_KEPT_BYTES = 12 << 20

# Lines of source files, and the first line of a function, each of whose lines has an address.
MOST_LINE = 1 << 24
MOST_FIRST = 1 << 22

# V8's processes whose mapped files are found, functions inlined at a place, and frames with those:
# a small table may have them at every sample.
MOST_V8_PROCESSES = 4096
MOST_INLINED = 32
MOST_FRAMES = 1 << 27

# Code that is disassembled: a function, and the surroundings of hits without a function. The
# largest functions of interpreters and of generated parsers have some 200 KB.
LARGEST_FUNCTION_BYTES = 1 << 20
LARGEST_NAMELESS_BYTES = 1 << 16

# GDB takes a minute for 10 MB. A range larger than any function has no names and contains data: it
# is not disassembled a second time.
LARGEST_DOUBTED_BYTES = 1 << 18

# The debug information in so many bytes of images is read in about a second.
LARGEST_INLINED_BYTES = 32 << 20
