"""Bounds on the cost of parts of ELF files, which are untrusted: counts, sizes.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# Linked images have 30 to 60 sections; only object files, which nothing maps, have more than the
# ELF header can count. Names that are looked up are shorter, with their NUL.
MOST_SECTIONS = 1 << 16
LONGEST_SECTION_NAME_BYTES = 64
# Linkers make one segment of notes for each alignment, and one or two of code. A damaged image may
# have millions.
MOST_NOTE_SEGMENTS = 64
MOST_CODE_SEGMENTS = 64
# A core file has thousands of notes, an image a handful.
MOST_NOTES = 4096
# ld writes 20 bytes (SHA-1), 16 (MD5, UUID) or 8 (lld's fast hash); --build-id=0x… takes any.
LONGEST_BUILD_ID_BYTES = 64
# The largest programs have a few million symbols, and about a million call-frame entries.
MOST_SYMBOLS = 1 << 23
MOST_ENTRIES = 1 << 22

# Call-frame information. Linkers merge equal CIEs: libraries have a handful, programs of many
# languages a few dozen. The instructions of one take 5 to 20 bytes.
MOST_CIES = 1 << 14
LONGEST_INITIAL_BYTES = 128
# An unpacked .debug_frame is in memory.
MOST_UNPACKED_BYTES = 1 << 28
# A number of 64 bits takes 10 bytes; longer ones have padding or are damaged.
LONGEST_LEB128_BYTES = 10
# Expressions of the PLT have 11 bytes.
LONGEST_EXPRESSION_BYTES = 32
# Offsets in a function stay within 64 bits.
LONGEST_FUNCTION_BYTES = 1 << 40
# Places at which the kernel returns from signals: a library has one or two.
MOST_TRAMPOLINES = 64

# An .sframe section. Any number of its functions may refer to the same rows.
MOST_SFRAME_FUNCTIONS = 1 << 22
MOST_SFRAME_ROWS = 1 << 22
# Rows made of repeated ones. A linkage table has two for each function: large programs have 20,000.
MOST_REPEATED_ROWS = 1 << 18
# No form of a row has more words.
MOST_WORDS = 6

# Functions of a Go program's own table; segments in which the table is searched, and places that
# may be its start. There is one.
MOST_GO_FUNCTIONS = 1 << 23
MOST_SEARCHED_SEGMENTS = 64
MOST_CANDIDATES = 64
# Its lists of lines, files and frame sizes: programs of 100 MB have 10 MB. MOST_LIST_BYTES are
# unpacked together, 40,000 lists of usual size; further ones have no lines.
MOST_CONTENT_BYTES = 64 << 20
MOST_LIST_BYTES = 4 << 20
# A number of 32 bits takes 5 bytes. Distances in a function have 31 bits.
LONGEST_NUMBER_BYTES = 5
LONGEST_DISTANCE = 1 << 31
# Assembly functions of Go whose prologues are read, and rows made of its lists.
MOST_ASSEMBLY = 4096
MOST_GO_ROWS = 1 << 22
