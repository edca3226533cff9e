"""File systems that answer at once, because only this kernel serves them.

/proc/self/mountinfo shows whether a look-up and a read can wait for a server, which may never
answer: FUSE, NFS, 9p, autofs, an overlay over those. An unknown file system counts as one of them.
Source: proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os
import select
from functools import lru_cache

from prospect.files.files_limits import LONGEST_FDINFO
from prospect.files.rights import EVERYBODY
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE = "/proc/self/mountinfo"
_MOUNT_ID = b"mnt_id:"
# The kernel makes the content of their files as they are read.
_OF_THE_KERNEL = frozenset(
    b"proc sysfs devtmpfs devpts cgroup cgroup2 tracefs debugfs securityfs pstore bpf mqueue"
    b" hugetlbfs configfs rootfs".split()
)
# File systems without a block device whose pages come from this kernel, not from a server.
_LOCAL_WITHOUT_DEVICE = frozenset({b"tmpfs", b"overlay", b"btrfs", b"zfs", b"bcachefs", b"ramfs"})
# Options of an overlay that name its layers. Source: Documentation/filesystems/overlayfs.rst.
_LAYERS = rb"(?s)(?:^|,)(?:lowerdir|upperdir|datadir)\+?=((?:[^,\\]|\\.)*)"


class Mount(NamedTuple):
    """A mount.

    Attributes:
        number: of the mount, as fdinfo has it.
        device: as in `os.stat_result`.
        root: the directory of the file system that is mounted.
        kind: of file system.
        options: of the file system, separated by commas.
        is_local: whether its pages come from this kernel, and so always arrive.
    """

    number: bytes
    device: int
    root: bytes
    point: bytes
    kind: bytes
    options: bytes
    is_local: bool

    @property
    def may_wait(self) -> bool:
        """Whether a look-up there may have to wait."""
        return not self.is_local and self.kind not in _OF_THE_KERNEL

    @property
    def served_by(self) -> int | None:
        """The user whose program serves a FUSE file system, EVERYBODY if unknown, None for others.

        Source: ``fs/fuse/inode.c`` fuse_show_options().
        """
        if self.kind.partition(b".")[0] not in (b"fuse", b"fuseblk"):
            return None
        options = dict(option.partition(b"=")[::2] for option in self.options.split(b","))
        user = options.get(b"user_id", b"")
        return int(user) if user.isdigit() else EVERYBODY


class OwnMounts:
    """The mounts of this process, as they are at each question.

    Numbers identify them: a path means another mount once somebody renames a directory on it, and
    a mount made after the table was read has a new number.
    Source: proc_pid_mountinfo(5), poll(); proc_pid_fdinfo(5), mnt_id. Neither asks a file system.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._prompt: frozenset[bytes] = frozenset()
        self._changes = select.poll()

    def may_wait(self, descriptor: int) -> bool:
        """Return whether a look-up through a descriptor may have to wait."""
        try:
            number = _mount_of(descriptor)
            if self._fd < 0:
                self._fd = os.open(_TABLE, os.O_RDONLY | os.O_CLOEXEC)
                self._changes.register(self._fd, select.POLLPRI)
                self._read()
            elif self._changes.poll(0):
                self._read()
        except OSError:
            return True
        return number not in self._prompt

    def _read(self) -> None:
        os.lseek(self._fd, 0, os.SEEK_SET)
        with open(self._fd, "rb", closefd=False) as file:
            self._prompt = frozenset(one.number for one in mounts(file.read()) if not one.may_wait)


@lru_cache(maxsize=1)  # the table is read at each question and rarely changes
def _local_devices(mountinfo: bytes) -> dict[int, bool]:
    """Return for each device of a mount table whether all its mounts are local."""
    local: dict[int, bool] = {}
    for one in mounts(mountinfo):
        local[one.device] = one.is_local and local.get(one.device, True)
    return local


def is_local(device: int) -> bool:
    """Return whether a file system's pages come from this machine, and so always arrive."""
    try:
        with open(_TABLE, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
            local = _local_devices(file.read())
    except OSError:
        local = {}
    return local.get(device, bool(os.major(device)))


def has_other_root(pid: int) -> bool:
    """Return whether a process has another mount namespace or root than we have."""
    own, other = (link_target(b"/proc/%b/ns/mnt" % who) for who in (b"self", b"%d" % pid))
    if other and own != other:
        return True
    root = link_target(b"/proc/%d/root" % pid)
    return bool(root) and root != link_target(b"/proc/self/root")


def link_target(link: bytes) -> bytes:
    """Return the target of a link of /proc, b"" if it is unknown."""
    try:
        return os.readlink(link)  # noqa: PTH115 - the target may be any bytes
    except OSError:
        return b""


def waiting_points(mountinfo: bytes) -> frozenset[bytes]:
    """Return the mount points of file systems on which a look-up may have to wait."""
    return frozenset(one.point for one in mounts(mountinfo) if one.may_wait)


def mounts(mountinfo: bytes) -> Iterator[Mount]:
    """Yield the mounts of a table, overlays last."""
    points: dict[bytes, bool] = {}
    overlays = []
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(b" - ")
        words, source = fields.split(), rest.split(b" ")
        if len(words) < 5 or not source[0]:
            continue
        major, _, minor = words[2].partition(b":")
        device, kind = os.makedev(int(major), int(minor)), source[0]
        found = Mount(
            number=words[0],
            device=device,
            root=_plain(words[3]),
            point=_plain(words[4]),
            kind=kind,
            options=source[-1],
            is_local=_is_local_kind(kind, device),
        )
        points[found.point] = found.may_wait
        if kind == b"overlay":
            overlays.append(found)
        else:
            yield found
    for found in overlays:
        yield found._replace(is_local=not _is_laid_over_waiting(found.options, points))


def _is_laid_over_waiting(options: bytes, points: dict[bytes, bool]) -> bool:
    """Return whether a look-up in a layer of an overlay may have to wait."""
    if True not in points.values():
        return False
    import re  # noqa: PLC0415 - takes longer to import than all else here, and is rarely needed

    for layers in re.findall(_LAYERS, options):
        for layer in re.split(rb"(?<!\\):", _plain(layers)):
            above = layer.rstrip(b"/")
            while above and above not in points:
                above = above.rpartition(b"/")[0]
            if points.get(above or b"/", False):
                return True
    return False


def _plain(escaped: bytes) -> bytes:
    if b"\\" not in escaped:
        return escaped
    import re  # noqa: PLC0415 - takes longer to import than all else here, and is rarely needed

    return re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8) & 255]), escaped)


def _is_local_kind(kind: bytes, device: int) -> bool:
    if os.major(device):
        return not kind.startswith(b"fuse")
    return kind in _LOCAL_WITHOUT_DEVICE


def _mount_of(descriptor: int) -> bytes:
    """Return the number of the mount that a descriptor is on."""
    info_fd = os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        lines = os.read(info_fd, LONGEST_FDINFO).splitlines()
    finally:
        os.close(info_fd)
    found = [line.removeprefix(_MOUNT_ID) for line in lines if line.startswith(_MOUNT_ID)]
    return found[0].strip() if found else b""
