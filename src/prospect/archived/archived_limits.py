"""Bounds on what an archive may cost: sizes, counts. It may come from anybody.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# The unpacked section, which is in memory. As of compressed records: beyond a small size, honest
# content never reaches this ratio.
MOST_UNPACKED_BYTES = 4 << 30
MOST_RATIO = 256
SLACK_BYTES = 64 << 20
# What the unpacker looks back to, in memory: zstd's own bound unless it is told otherwise.
WINDOW_BYTES = 128 << 20
# Processes of an object.
MOST_PIDS = 1 << 16
# Seconds since 1970, beyond which a time is damage.
LATEST_S = 1e12
# No compiler inlines as deeply; a damaged archive may.
DEEPEST = 250
# The address range of a file: only its pieces take memory.
LARGEST_IMAGE_BYTES = 16 << 30
# A build id takes 36 bytes.
LARGEST_NOTE_BYTES = 1 << 16
