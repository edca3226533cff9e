"""Opens every file that another file or a process names, and those that a person names.

Prospect reads such a file with no more rights than the owner of the file or process that names it,
and never through a link that others can change. It reads only regular files; a refusal is a reason
that a report shows. A child process opens files that may block, or that need other rights than ours
(`opener`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.files.budget import CostlyError, of_others
from prospect.files.files_limits import LARGEST_READ_BYTES
from prospect.files.held_files import data_extents, hold_contents
from prospect.files.mounts import OwnMounts
from prospect.files.opener import (
    FAILURES,
    OWN_RIGHTS,
    FileFacts,
    Opener,
    Request,
    open_place,
    refusal_of,
    walk_to,
)
from prospect.files.rights import EVERYBODY, is_trusted, weakest
from prospect.files.walk import PATH_ONLY, MayBlockError
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

OWN_ROOT = b"/"

_opener = Opener()
_mounts = OwnMounts()


class OpenFile(NamedTuple):
    """A regular file's bytes and identity.

    Attributes:
        path: where it was opened, as seen from `root`.
        data: its bytes; while this lives, a process that changes a mapped file waits.
        device, inode: as in `os.stat_result`.
        modified_ns: since the epoch.
        speaks_for: the user id with whose rights files that it names are read: never more rights
            than those of the user who named it.
        changed_ns: when its inode last changed, which nobody can set; 0 if unknown.
        root: the root directory that it was found below.
        extents: begin and end of each run of data; the rest are holes of a sparse file.
    """

    path: bytes
    data: memoryview
    device: int
    inode: int
    modified_ns: int
    owner: int
    speaks_for: int
    changed_ns: int
    root: bytes = OWN_ROOT
    extents: tuple[tuple[int, int], ...] | None = None

    @property
    def speaks_here(self) -> int:
        """The user whose rights apply to paths that it names, if they are opened in our root.

        A container's file names paths of that container. They grant no rights in our root.
        """
        return self.speaks_for if self.root == OWN_ROOT else EVERYBODY

    @property
    def held_bytes(self) -> int:
        """The bytes of data that it holds, without its holes."""
        if self.extents is None:
            return len(self.data)
        return sum(end - begin for begin, end in self.extents)

    def without_holes(self) -> bytes:
        """Return its data, with a newline for each hole."""
        if self.extents is None:
            return bytes(self.data)
        return b"\n".join(self.data[begin:end] for begin, end in self.extents)


class _Found(NamedTuple):
    """The answer to a request: a descriptor, which the caller closes, and facts of the file."""

    request: Request
    descriptor: int
    facts: FileFacts


def start_opener() -> None:
    """Start the process that opens files, as `Opener.start`."""
    _opener.start()


def opener_pids() -> list[int]:
    """Return the process that opens files, if there is one."""
    return [_opener.pid] if _opener.pid else []


def open_named(  # noqa: PLR0913 - a keyword for each
    path: bytes,
    named_by: int,
    *,
    root: bytes = OWN_ROOT,
    follow_last: bool = True,
    largest_bytes: int = LARGEST_READ_BYTES,
    is_received: bool = False,
) -> OpenFile | NameSource:
    """Open a file that another file or a process names.

    Args:
        path: absolute, as seen from `root`; any bytes.
        named_by: the user who named the path: the owner of the process, or `speaks_for` of the
            file.
        root: such as ``/proc/PID/root``, below which no link is followed, or for a received file
            the directory that it was unpacked into, which no link leads out of.
        follow_last: whether the last name may be a link.
        largest_bytes: refuse a bigger file, unless only root and we can change it.
        is_received: whether it came from another machine; see `open_received`.

    Returns:
        The file, or NO_FILE, NO_PERMISSION, NO_ELF for what is not a regular file or too big,
        NO_ANSWER, or NO_BUDGET.
    """
    found = _find(
        path, named_by, root, largest_bytes, follow_last=follow_last, links_below=is_received
    )
    if isinstance(found, NameSource):
        return found
    file = _read(_of_nobody(found) if is_received else found)
    if isinstance(file, NameSource):
        return file
    # A file grants no more rights than the user who named it, even if root owns the file.
    return file._replace(speaks_for=weakest(file.speaks_for, named_by))


def held_bytes_of(
    path: bytes, named_by: int, *, root: bytes = OWN_ROOT, follow_last: bool = True
) -> int:
    """Return how many bytes of data a file holds without reading them, 0 if it is refused.

    Arguments as for `open_named`.
    """
    found = _find(path, named_by, root, follow_last=follow_last)
    if isinstance(found, NameSource):
        return 0
    try:
        size = os.fstat(found.descriptor).st_size
        return sum(end - begin for begin, end in data_extents(found.descriptor, size))
    except OSError:
        return 0
    finally:
        os.close(found.descriptor)


def _find(  # noqa: PLR0913 - as `open_named`
    path: bytes,
    named_by: int,
    root: bytes,
    largest_bytes: int = LARGEST_READ_BYTES,
    *,
    follow_last: bool,
    links_below: bool = False,
) -> _Found | NameSource:
    """Open a file that another names: here if that cannot block, else in the child."""
    if not path.startswith(b"/") or b"\0" in path:
        return NameSource.NO_FILE
    is_ours = is_trusted(named_by)
    may_switch = os.geteuid() == 0
    request = Request(
        path,
        root,
        OWN_RIGHTS if is_ours or not may_switch else named_by,
        largest_bytes,
        as_everybody=not is_ours and not may_switch,
        follow_last=follow_last,
        links_below=links_below,
    )
    if request.uid == OWN_RIGHTS and root == OWN_ROOT:
        try:
            return _open_here(request, lambda: walk_to(request, OWN_ROOT, _mounts.may_wait))
        except MayBlockError:
            pass
    return _ask(request)


def open_file(path: bytes) -> OpenFile | NameSource:
    """Open a file that a person or Prospect itself names: with our rights, by any link."""
    found = _open_chosen(path)
    return found if isinstance(found, NameSource) else _read(found)


def open_received(path: bytes) -> OpenFile | NameSource:
    """Open a copy of a file from elsewhere that Prospect, perf or elfutils' client keeps here.

    The copy is ours, but its content is untrusted: it belongs to nobody and grants no rights.
    """
    found = _open_chosen(path)
    return found if isinstance(found, NameSource) else _read(_of_nobody(found))


def _open_chosen(path: bytes) -> _Found | NameSource:
    request = Request(path, OWN_ROOT, OWN_RIGHTS, LARGEST_READ_BYTES)
    return _open_here(request, lambda: os.open(path, PATH_ONLY))


def _of_nobody(found: _Found) -> _Found:
    return found._replace(facts=found.facts._replace(owner=EVERYBODY, speaks_for=EVERYBODY))


def open_link(path: bytes) -> OpenFile | NameSource:
    """Open the very file that a link of /proc leads to, even if its path now means another.

    Args:
        path: ``/proc/PID/exe``, or one of ``/proc/PID/map_files``.
    """
    found = _ask(Request(path, OWN_ROOT, OWN_RIGHTS, LARGEST_READ_BYTES, is_link=True))
    return found if isinstance(found, NameSource) else _read(found)


def _open_here(request: Request, find: Callable[[], int]) -> _Found | NameSource:
    """Open in this process the O_PATH descriptor that `find` returns."""
    try:
        opened = open_place(find(), request.largest_bytes)
    except FAILURES as error:
        return refusal_of(error)
    return _Found(request, *opened)


def _ask(request: Request) -> _Found | NameSource:
    answer = _opener.open(request)
    return answer if isinstance(answer, NameSource) else _Found(request, *answer)


def _read(found: _Found) -> OpenFile | NameSource:
    request, descriptor, facts = found
    try:
        extents = tuple(data_extents(descriptor, os.fstat(descriptor).st_size))
        account = None if is_trusted(facts.owner) else of_others
        data = hold_contents(descriptor, account=account)
    except CostlyError:
        return NameSource.NO_BUDGET
    except FAILURES as error:
        return refusal_of(error)
    finally:
        os.close(descriptor)
    return OpenFile(
        path=request.path, data=data, root=request.root, extents=extents, **facts._asdict()
    )
