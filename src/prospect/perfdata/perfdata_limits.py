"""Bounds on what a perf.data file or stream may cost. Anybody may have written it.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# Files of a directory: perf makes one for each thread of --threads, of which a CPU has one.
MOST_FILES = 4096

# Refuse a stream that unpacks to more than this and so many times its size. Stack copies of 64 KiB
# at level 22 reach a ratio of 1500; a decompression bomb comes close to 32768.
FREE_BYTES = 64 << 20
MOST_RATIO = 4096

# Formats of tracepoints come first and take some kilobytes each; then older perf has kallsyms.
MOST_TRACING_BYTES = 8 << 20

# Fields come before what may be long, how they are printed; those wanted end within 2 KiB.
MOST_FORMAT_BYTES = 1 << 16

# A mapped file that a recording keeps: it has as many pieces as sections, and only these take
# memory (see `capture.machine.image_copies`).
MOST_PIECES = 1 << 14
LARGEST_FILE_BYTES = 1 << 40
LARGEST_KEPT_BYTES = 1 << 30
