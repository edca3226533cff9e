"""Bounds on the cost of debug information and source files, which are untrusted.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# The reader needs several times a file's size as memory, and its addresses and offsets have 32
# bits. `PROSPECT_MEMORY` bounds sections together.
LARGEST_DEBUG_BYTES = 4 << 30
LARGEST_SECTION_BYTES = 512 << 20
# A .dwo or .dwp file is in memory.
LARGEST_SPLIT_BYTES = 1 << 30
# Each reader needs several times the memory of its file.
MOST_READERS = 4
# Sources are far smaller.
LARGEST_SOURCE_BYTES = 16 << 20

# CPU time for one file: at least, for each MB, at most; for all files of other users in a report.
LEAST_READING_S = 5.0
READING_S_A_MB = 1.0
MOST_READING_S = 60.0
ALL_READING_S = 180.0

# The names of DWARF's sections are shorter.
LONGEST_SECTION_NAME_BYTES = 32
# 64 bits take 10 bytes.
LONGEST_LEB_BYTES = 10
# PATH_MAX.
LONGEST_STRING_BYTES = 4096
# A longer name has no namespaces.
LONGEST_SCOPED_NAME_BYTES = 4096
# C++ names have up to a few KB.
LONGEST_TEXT_BYTES = 1 << 16
# The largest C++ programs have inlining about 50 deep; a damaged chain may be a cycle.
DEEPEST = 250

# DWARF 5 has 140 attributes. A unit has thousands of abbreviations at most.
MOST_ATTRIBUTES = 256
MOST_ABBREVIATIONS = 1 << 20
# Abbreviations and their attributes up to those of the units' own entries, in all units together:
# damaged units may all refer to one long table. Reading them takes about two seconds.
MOST_UNIT_ABBREVIATIONS = 1 << 22
# Units of a file: each is a step in Python.
MOST_UNITS = 1 << 17
# Units of one .dwo file, and its last sections of units: whole-program optimization makes several.
MOST_SPLIT_UNITS = 64
# Columns of a .dwp file's index, whose kinds of sections have the numbers 1 to 8.
MOST_COLUMNS = 16
# Ranges of all units, in which functions are searched.
MOST_RANGES = 1 << 20
# A name is at a few places; a hostile file may repeat one.
MOST_PLACES = 100_000
