"""The directory of the user's cache, and whether its files are the user's own.

Files that another user can write count as missing. Cheap to import: needed before COMMAND starts.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

OFF_VARIABLE = "PROSPECT_NO_CACHE"

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def cache_path(environment: Mapping[str, str] = os.environ) -> str:
    """Return the cache's directory, which may not exist, "" if there is no cache.

    Root has none below another user's directory (a HOME that sudo kept): that user could put a
    link there to another directory of root.
    Source: XDG Base Directory Specification 0.8, which ignores relative paths.
    """
    return _path_or_obstacle(environment)[0]


def cache_obstacle(environment: Mapping[str, str] = os.environ) -> str:
    """Return why there is no cache, "" if there is one."""
    return _path_or_obstacle(environment)[1]


def _path_or_obstacle(environment: Mapping[str, str]) -> tuple[str, str]:
    if environment.get(OFF_VARIABLE):
        return "", f"{OFF_VARIABLE} is set"
    variable, above = "XDG_CACHE_HOME", environment.get("XDG_CACHE_HOME", "")
    base = above
    if not base.startswith("/"):
        variable, above = "HOME", environment.get("HOME", "")
        base = os.path.join(above, ".cache")
    if not base.startswith("/"):
        return "", "HOME is not an absolute path" if above else "HOME is not set"
    if os.geteuid() == 0 and _is_anothers(base):
        return "", f"{variable} is {above}, which others can change"
    return os.path.join(base, "prospect"), ""


def _is_anothers(path: str) -> bool:
    """Return whether users other than root can change which directory a path leads to."""
    for whole in {path, os.path.realpath(path)}:
        at = "/"
        for part in whole.split("/"):
            at = os.path.join(at, part)
            try:
                status = os.lstat(at)
            except OSError:
                break  # root makes it, in a directory of root
            writers = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid else 0)
            is_shared = status.st_mode & writers and not status.st_mode & stat.S_ISVTX
            if status.st_uid or (is_shared and not stat.S_ISLNK(status.st_mode)):
                return True
    return False


def is_own(status: os.stat_result, kind: int) -> bool:
    """Return whether we own a file of this kind (stat.S_IF*) that nobody else can write."""
    return (
        stat.S_IFMT(status.st_mode) == kind
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def read_own(directory: str, name: str, most_bytes: int) -> bytes:
    """Return the first bytes of a file of the cache, empty unless it and its directory are ours."""
    try:
        directory_fd = os.open(directory, _OPEN | os.O_DIRECTORY)
    except OSError:
        return b""
    try:
        if not is_own(os.fstat(directory_fd), stat.S_IFDIR):
            return b""
        fd = os.open(name, _OPEN, dir_fd=directory_fd)
    except OSError:
        return b""
    finally:
        os.close(directory_fd)
    try:
        return os.read(fd, most_bytes) if is_own(os.fstat(fd), stat.S_IFREG) else b""
    finally:
        os.close(fd)
