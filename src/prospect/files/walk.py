"""Walks an untrusted, absolute path one name at a time, to judge each link on the way.

The result is an O_PATH descriptor. The walk follows a link only if nobody but root and the user
whose rights count could have put it there. It reads the link's text and walks that, so that a link
of /proc leads only where its text says.
Source: path_resolution(7), symlink(7); open(2), O_PATH and O_NOFOLLOW.
"""

from __future__ import annotations

import errno
import os
import stat

from prospect.files.files_limits import MOST_LINKS, MOST_PARTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

PATH_ONLY = os.O_PATH | os.O_CLOEXEC
_STEP = PATH_ONLY | os.O_NOFOLLOW
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class MayBlockError(Exception):
    """The path leads to a file system on which a look-up may have to wait."""


def walk(  # noqa: PLR0913 - a keyword for each rule
    path: bytes,
    owners: AbstractSet[int],
    *,
    root: bytes = b"/",
    may_wait: Callable[[int], bool] | None = None,
    follow_last: bool = True,
    as_everybody: bool = False,
    links_below: bool = False,
) -> int:
    """Open a path as an O_PATH descriptor.

    Args:
        path: absolute, as seen from `root`.
        owners: users whose links are followed, in directories that only they can change.
        root: a directory. Below any other than "/" no link is followed, unless `links_below`.
        may_wait: whether the file system of a descriptor may block; the walk ends there. None if
            the walk may block.
        follow_last: whether the last name may be a link.
        as_everybody: refuse what not every user may reach.
        links_below: whether to follow any user's links below another root. None leads out of it,
            as with chroot(2).

    Raises:
        MayBlockError: the walk came to a file system that may block.
        OSError: there is no such file, or it may not be reached.
    """
    steps = _Steps(may_wait)
    todo = path.split(b"/")[::-1]
    links = 0
    try:
        steps.begin(root)
        while todo:
            part = todo.pop()
            if part in (b"", b"."):
                continue
            if part == b"..":
                steps.back()
                continue
            at = steps.take(part)
            status = os.fstat(at)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                text = os.readlink(b"", dir_fd=at)
                steps.back()
                is_below = links_below and root != b"/"
                is_refused = not is_below and (root != b"/" or not steps.trusts(status, owners))
                is_last = not follow_last and not any(todo)
                if is_refused or is_last or links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if text.startswith(b"/"):
                    steps.restart()
                todo += text.split(b"/")[::-1]
                continue
            if as_everybody and not _everybody_may(status):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return steps.last()
    finally:
        steps.close()


class _Steps:
    """The directories that the walk has come through, each held open until `close`."""

    def __init__(self, may_wait: Callable[[int], bool] | None) -> None:
        self._may_wait = may_wait
        self._open: list[int] = []

    def begin(self, root: bytes) -> None:
        """Open the root."""
        self._held(os.open(root, PATH_ONLY | os.O_DIRECTORY))

    def take(self, part: bytes) -> int:
        """Open a name in the present directory, and go there."""
        if len(self._open) > MOST_PARTS:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        return self._held(os.open(part, _STEP, dir_fd=self._open[-1]))

    def _held(self, at: int) -> int:
        """Keep a descriptor, and return it unless its file system may block.

        Opening a mount's root with O_PATH does not ask its server. Any other call may, and may
        fail, so the descriptor is kept first.
        Source: ``fs/namei.c`` (Linux 6.18), step_into() and do_o_path().
        """
        self._open.append(at)
        if self._may_wait is not None and self._may_wait(at):
            raise MayBlockError
        return at

    def trusts(self, link: os.stat_result, owners: AbstractSet[int]) -> bool:
        """Return whether nobody but `owners` could have put a link into this directory."""
        directory = os.fstat(self._open[-1])
        # In a sticky directory only the link's owner, and the directory's, can replace it.
        is_closed = not directory.st_mode & _OTHERS_WRITE or directory.st_mode & stat.S_ISVTX
        return bool(link.st_uid in owners and directory.st_uid in owners and is_closed)

    def back(self) -> None:
        if len(self._open) > 1:
            os.close(self._open.pop())

    def restart(self) -> None:
        while len(self._open) > 1:
            self.back()

    def last(self) -> int:
        return self._open.pop()

    def close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)


def _everybody_may(status: os.stat_result) -> bool:
    needed = stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else stat.S_IROTH
    return bool(status.st_mode & needed)
