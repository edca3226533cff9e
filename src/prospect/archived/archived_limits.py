"""Bounds on the sizes and counts in an archive, which may come from anyone.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# The unpacked section, which is in memory. Beyond a small size, honest content never reaches this
# ratio, as with compressed records.
MOST_UNPACKED_BYTES = 4 << 30
MOST_RATIO = 256
SLACK_BYTES = 64 << 20
# The unpacker's window, in memory: zstd's default bound.
WINDOW_BYTES = 128 << 20
# Processes of an object.
MOST_PIDS = 1 << 16
# Seconds since 1970; a later time is damage.
LATEST_S = 1e12
# Levels of inlined functions; no compiler makes so many.
DEEPEST = 250
# The address range of a file: only its pieces take memory.
LARGEST_IMAGE_BYTES = 16 << 30
# A build id takes 36 bytes.
LARGEST_NOTE_BYTES = 1 << 16
