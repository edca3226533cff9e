"""Bounds on untrusted files: sizes, paths, and the time that a file system may take.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# A file that is read or mapped. `PROSPECT_MEMORY` bounds all of them together.
LARGEST_READ_BYTES = 1 << 31

# A file of a network file system is copied, and the copy is in memory.
LARGEST_COPY_BYTES = 1 << 30

# A request to the child that opens files: two paths; the kernel's PATH_MAX is 4096.
LONGEST_REQUEST = 1 << 14

# A file system that takes longer does not answer; a copy that grows may take longer as a whole.
ANSWER_S = 2.0
WHOLE_ANSWER_S = 20.0

# Links in a path: the kernel's MAXSYMLINKS.
MOST_LINKS = 40

# Parts of a path, each of which is opened.
MOST_PARTS = 128

# Bytes read of /proc/self/fdinfo: one of its first lines has the number of the mount.
LONGEST_FDINFO = 1 << 12

# Parts of the path of a file whose name comes from debug information.
MOST_WRITTEN_PARTS = 100
