"""Bounds on the cost of a perf.data file or stream, which is untrusted.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# Files of a directory: perf makes one for each thread of --threads, at most one a CPU.
MOST_FILES = 4096

# Refuse a stream that unpacks to more than this and MOST_RATIO times its size. Stack copies of
# 64 KiB at level 22 reach a ratio of 1500; a decompression bomb comes close to 32768.
FREE_BYTES = 64 << 20
MOST_RATIO = 4096

# Formats of tracepoints come first and take a few kilobytes each; in older perf kallsyms follow.
MOST_TRACING_BYTES = 8 << 20

# Fields precede the print format, which may be long; those read end within 2 KiB.
MOST_FORMAT_BYTES = 1 << 16

# A mapped file that a recording keeps: it has a piece for each kept section
# (see `capture.machine.image_copies`).
MOST_PIECES = 1 << 14
LARGEST_FILE_BYTES = 1 << 40
LARGEST_KEPT_BYTES = 1 << 30
