"""The rights with which Prospect reads a file that another file or process names.

It uses its own rights for names from root's or its own user's files. It uses everybody's rights for
a name that several users could have written. For any other name it uses the rights of the owner of
the name's source, if this process can take them on.
"""

from __future__ import annotations

import os
import stat

# The overflow user id, which owns nothing. Source: user_namespaces(7), "nobody".
EVERYBODY = 65534
ROOT_USER = 0


def speaks_for(status: os.stat_result) -> int:
    """Return the user id with whose rights the files that a file names are read.

    A file that several users can write grants no user's rights. A group counts as one user if it
    is root's, or the owner's own group, which has the same number.
    """
    others_write = status.st_mode & stat.S_IWOTH
    group_writes = status.st_mode & stat.S_IWGRP and status.st_gid not in (0, status.st_uid)
    return EVERYBODY if others_write or group_writes else status.st_uid


def is_trusted(uid: int) -> bool:
    """Return whether a user's names are read with our own rights."""
    return uid in (0, os.geteuid())


def weakest(*users: int) -> int:
    """Return the user whose rights are used to read a file that several users' data led to.

    >>> weakest(0, 4242), weakest(4242, 4243) == EVERYBODY
    (4242, True)
    """
    strangers = {uid for uid in users if not is_trusted(uid)}
    if len(strangers) > 1:
        return EVERYBODY
    return strangers.pop() if strangers else users[0]


class Switch:
    """Takes on other users' rights and returns to our own; for a separate process."""

    def __init__(self) -> None:
        self._own = os.geteuid(), os.getegid(), os.getgroups()
        self._groups: dict[int, tuple[int, list[int]]] = {}

    def take_on(self, uid: int) -> None:
        """Act with the rights of a user until `lay_down`.

        Raises:
            OSError: this process may not.
        """
        if uid not in self._groups:
            self._groups[uid] = _groups_of(uid)
        group, groups = self._groups[uid]
        os.setgroups(groups)
        os.setegid(group)
        os.seteuid(uid)

    def lay_down(self) -> None:
        """Act with our own rights."""
        user, group, groups = self._own
        if os.geteuid() != user or os.getegid() != group:
            os.seteuid(user)
            os.setegid(group)
            os.setgroups(groups)


def _groups_of(uid: int) -> tuple[int, list[int]]:
    """Return a user's first group and all groups; nobody's for an unknown user."""
    import pwd  # noqa: PLC0415 - needed for other users' names only

    try:
        user = pwd.getpwuid(uid)
        return user.pw_gid, os.getgrouplist(user.pw_name, user.pw_gid)
    except (KeyError, OSError):
        return EVERYBODY, []
