"""Bounds on the cost of a recording's records, which are untrusted.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# Distinct names of mappings and processes.
MOST_NAME_BYTES = 1 << 28

# Addresses of deferred call chains: one chain may belong to many samples.
MOST_ADDED_BYTES = 1 << 30

# Members of a group, each of which gets a copy of its leader's chain: without a bound, a small file
# could cost much memory.
MOST_MEMBERS = 64

# Texts and images of runtimes. Names in a recording: 128 MB of an interpreter, 512 MB of a user.
# The walker sends far less.
MOST_BLOBS = 1 << 18
MOST_IMAGES = 1 << 16
MOST_RUNTIME_BYTES = 1 << 30
