"""Bounds on the cost of other tools' profiles, which are untrusted: sizes, counts.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# The size that a compressed file may unpack to. Real ones unpack to about ten times their size.
LARGEST_UNPACKED_BYTES = 1 << 30
# bgzip makes a member of each 64 KB. Even an empty member takes time.
MOST_MEMBERS = 65_536
# The line of a stack is far shorter.
LONGEST_LINE_BYTES = 1 << 22
# C++ names have up to a few KB.
LONGEST_NAME_BYTES = 1 << 13
# Frames of a stack: the kernel records 127 by default.
DEEPEST_STACK = 1 << 13
# Frames of all stacks together; reading each takes about 50 bytes.
MOST_FRAMES = 1 << 24
# Kinds of values of a pprof profile: real ones have one to four.
MOST_EVENTS = 1 << 10
# Parts of a pprof profile, and labels of its samples: Python reads each.
MOST_MESSAGES = 1 << 23
