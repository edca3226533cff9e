"""Bounds on the bytes of names that a process may make Prospect keep, for every reader."""

from __future__ import annotations

from prospect.records import NamedTuple


class Bound(NamedTuple):
    """At most so many bytes at once, and afterwards one each 2^shift ns."""

    most_bytes: int
    shift: int


# Two thousand functions of usual size, then 122 KB/s; the programs of a user 64 MB, then 488 KB/s.
OF_IMAGE = Bound(2 << 20, 13)
OF_USER = Bound(64 << 20, 11)
# All names of a CPU: its ring, which is drained many times a second, has room for samples too.
OF_CPU = Bound(1 << 17, 9)
# Bytes of the headers and samples around a name, a file and lines, however short these are.
NAME_COST = 512
