"""Bounds on what symbol tables, map files, names and debug-file servers may cost.

Anybody may have written them. SECURITY.md lists those on input; `PROSPECT_MEMORY` bounds what a
report holds of all together.
"""

from __future__ import annotations

# A symbol: C++ names have up to a few KB.
LONGEST_NAME_BYTES = 1 << 16
# Linkers that fold equal functions put thousands of names at one address.
MOST_ALIASES = 16
# Characters by which aliases are ranked: a rank has 16 bits for the name's length, and 4 for the
# underscores before it.
LONGEST_COMPARED_BYTES = (1 << 16) - 1
MOST_UNDERSCORES = 15
# Two names with a whole program between them do not say where to look.
MOST_BETWEEN = 500
# .gnu_debugdata, unpacked, and the memory that unpacking it takes.
LARGEST_MINI_DEBUG_BYTES = 64 << 20
MOST_LZMA_BYTES = 128 << 20
# The vdso has two pages.
LARGEST_VDSO_BYTES = 1 << 20
# If programs are built and run all day, new images never end.
MOST_IMAGES = 1 << 12

# A name that is demangled: a demangler's time grows faster than the name.
LONGEST_MANGLED_BYTES = 1 << 13
# A demangled name of Rust: short names unfold to any length, and in many steps.
LONGEST_RUST_TEXT = 1 << 14
MOST_RUST_STEPS = 1 << 13
DEEPEST_RUST_NAME = 150

# A JIT's map file: files of about 100 MB fit. It is read in some 0.03 to 0.25 s of a CPU a MB.
LARGEST_MAP_BYTES = 1 << 28
MOST_MAP_LINES = 1 << 22
LEAST_MAP_S = 5.0
MAP_S_A_MB = 1.0
# A jitdump file is read once, in blocks.
LARGEST_DUMP_BYTES = 1 << 30
MOST_DUMP_RECORDS = 1 << 22
# Functions that were at one address after each other: 16 bits of a row.
MOST_GENERATIONS = 1 << 16
# V8's names that hold a path, and lines of one function.
LONGEST_JIT_NAME = 1 << 13
MOST_JIT_LINES = 1 << 20
# Methods inlined in each other at an address: the JVM stops before. Lines of one method.
MOST_INLINED_METHODS = 64
MOST_METHOD_LINES = 1 << 14

# Tables that are kept on disk; the least recently used are removed.
MOST_TABLE_BYTES = 1 << 30

# A download, even if `DEBUGINFOD_MAXSIZE` is larger, and files of servers on disk, and of each
# target: a download has to fit the cache. Without the variable it may be half as large.
LARGEST_DOWNLOAD_BYTES = 1 << 30
USUAL_DOWNLOAD_BYTES = 512 << 20
# How long debug-file servers may delay a report, unless an option changes it; how long one may
# take to send the first 100 KB, and to connect.
DEBUG_SERVERS_S = 30.0
PROMPT_S = 10.0
CONNECT_S = 5.0
# As elfutils: so long nobody is asked again for what no server had.
ABSENT_FOR_S = 600.0
# Files that are fetched at the same time.
MOST_DOWNLOADS = 4
# Each new address is checked.
MOST_REDIRECTS = 5
