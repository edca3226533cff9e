"""Which file systems answer at once, because this kernel alone is behind them.

Comes in: /proc/self/mountinfo. Goes out: whether something can be looked up without waiting for a
server, which need not ever answer: FUSE, NFS, 9p, autofs. What is not known to be local is not
taken for it. Source: proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

from prospect.files.held_files import is_local_kind

_KEPT_S = 2.0
_OCTAL = re.compile(rb"\\([0-7]{3})")
# Their files are made by the kernel as they are read.
_OF_THE_KERNEL = frozenset(
    b"proc sysfs devtmpfs devpts cgroup cgroup2 tracefs debugfs securityfs pstore bpf mqueue"
    b" hugetlbfs configfs rootfs".split()
)


class Mounts(NamedTuple):
    """The mounts of this process.

    Attributes:
        waiting: where file systems are mounted that may keep whoever looks waiting.
        read_at_s: when they were read, by `time.monotonic`.
    """

    waiting: frozenset[bytes]
    read_at_s: float


_known: list[Mounts] = []


def own_mounts() -> Mounts:
    """Return the mounts of this process, at most two seconds old."""
    now_s = time.monotonic()
    if not _known or now_s - _known[0].read_at_s > _KEPT_S:
        try:
            with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123 - as in held_files
                _known[:] = [Mounts(waiting_points(file.read()), now_s)]
        except OSError:
            _known[:] = [Mounts(frozenset({b"/"}), now_s)]
    return _known[0]


def waiting_points(mountinfo: bytes) -> frozenset[bytes]:
    """Return where file systems are mounted that may keep whoever looks waiting."""
    points = set()
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(b" - ")
        words, source = fields.split(), rest.split(None, 1)
        if len(words) < 5 or not source:
            continue
        major, _, minor = words[2].partition(b":")
        device = os.makedev(int(major), int(minor))
        if source[0] not in _OF_THE_KERNEL and not is_local_kind(source[0], device):
            points.add(_OCTAL.sub(lambda octal: bytes([int(octal[1], 8) & 255]), words[4]))
    return frozenset(points)
