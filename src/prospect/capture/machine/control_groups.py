"""The control groups that there are as the events begin, by the ids that samples carry.

Comes in: the hierarchy that perf events follow. Goes out: PERF_RECORD_CGROUP records of time 0; of
groups that are made later the kernel writes them itself.

Defined by: cgroups(7): controller perf_event, which version 2 has always on unless version 1 has
it. An id is the number of the group's directory: kernfs_id_ino() in ``include/linux/kernfs.h``
(Linux 6.18), where numbers of inodes have 64 bits.
"""

from __future__ import annotations

import os

from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine.synthesis import control_group_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Of machines with very many containers; later ones go by no name.
_MOST_GROUPS = 20_000
_PORTION = 256


def control_group_records(mountinfo: str = "/proc/self/mountinfo") -> Iterator[bytes]:
    """Return the records, in portions; none where there is no hierarchy to be seen."""
    root = _root(read_if_there(mountinfo))
    if not root:
        return
    portion: list[bytes] = []
    for number, (id_, path) in enumerate(_groups(root)):
        if number == _MOST_GROUPS:
            break
        portion.append(control_group_record(id_, path))
        if len(portion) == _PORTION:
            yield b"".join(portion)
            portion = []
    yield b"".join(portion)


def _root(mountinfo: bytes) -> bytes:
    """Return where the hierarchy is mounted, empty where it is not."""
    unified = b""
    for line in mountinfo.splitlines():
        where, _, what = line.partition(b" - ")
        kind, _, options = what.partition(b" ")
        point = where.split()[4] if len(where.split()) > 4 else b""
        if kind == b"cgroup" and b"perf_event" in options.split()[-1].split(b","):
            return point
        if kind == b"cgroup2" and not unified:
            unified = point
    return unified


def _groups(root: bytes) -> Iterator[tuple[int, bytes]]:
    """Return ids and paths below the root, parents before their children."""
    waiting = [b""]
    while waiting:
        path = waiting.pop()
        try:
            yield os.stat(root + path).st_ino, path or b"/"
            with os.scandir(root + path) as entries:
                waiting += [
                    path + b"/" + entry.name
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False)
                ]
        except OSError:
            continue  # it has just been removed
