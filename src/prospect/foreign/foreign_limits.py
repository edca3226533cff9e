"""Bounds on what profiles of other tools may cost: sizes, counts.

Anybody may have written them. SECURITY.md lists those on input.
"""

from __future__ import annotations

# The size that a compressed file may unpack to. Real ones unpack to some ten times their size.
LARGEST_UNPACKED_BYTES = 1 << 30
# bgzip makes a member of each 64 KB. A member takes time even if it is empty.
MOST_MEMBERS = 65_536
# A stack is far shorter.
LONGEST_LINE_BYTES = 1 << 22
# C++ names have up to a few KB.
LONGEST_NAME_BYTES = 1 << 13
# Frames of a stack: the kernel records 127 unless it is told otherwise.
DEEPEST_STACK = 1 << 13
# In all stacks together; reading them takes about 50 bytes each.
MOST_FRAMES = 1 << 24
# Kinds of values of a pprof profile: there are one to four.
MOST_EVENTS = 1 << 10
# Parts of a pprof profile, and labels of its samples, which are read one by one.
MOST_MESSAGES = 1 << 23
