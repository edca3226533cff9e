"""Bounds on what the records of a recording may cost. Anybody may have written them.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# Names of mappings and processes. Paths repeat, and each is kept once.
MOST_NAME_BYTES = 1 << 28

# Addresses of deferred call chains: one such chain may be that of many samples.
MOST_ADDED_BYTES = 1 << 30

# Each event of a group gets a copy of its leader's chain: a bound to what a small file can make of
# that.
MOST_MEMBERS = 64

# Texts and images of runtimes. Names in a recording: 128 MB of an interpreter, 512 MB of a user.
# The walker sends far less.
MOST_BLOBS = 1 << 18
MOST_IMAGES = 1 << 16
MOST_RUNTIME_BYTES = 1 << 30
