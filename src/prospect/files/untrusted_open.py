"""The door: every file that another file or a process names is opened here, and nowhere else.

The rule: such a file is read with no more rights than the owner of what names it has, and never
through a link that others can change. Only regular files are read; a refusal has a reason. A child
process opens what may keep its reader waiting, or needs other rights than ours (`opener`).
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
    Refusal,
    Request,
    open_place,
    refusal_of,
    walk_to,
)
from prospect.files.rights import EVERYBODY, is_trusted, weakest
from prospect.files.walk import PATH_ONLY, MayBlockError
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
        speaks_for: user id, with whose rights files that it names are read: never more than those
            of whom it was named by.
        changed_ns: when its inode last changed, which nobody can set; 0 if unknown.
        root: the root directory that it was found below.
        extents: where it holds data, as begin and end; the rest are holes of a sparse file.
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
        """The user whose rights apply to paths that it names, if they are looked for in our root.

        Paths that a container's file names are of that container: here they grant no rights.
        """
        return self.speaks_for if self.root == OWN_ROOT else EVERYBODY

    @property
    def held_bytes(self) -> int:
        """How many bytes of data it holds: a hole is none."""
        if self.extents is None:
            return len(self.data)
        return sum(end - begin for begin, end in self.extents)

    def without_holes(self) -> bytes:
        """Return its data, with a line's end for each hole."""
        if self.extents is None:
            return bytes(self.data)
        return b"\n".join(self.data[begin:end] for begin, end in self.extents)


class _Found(NamedTuple):
    """The request, and a descriptor that is to be closed, with facts."""

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
) -> OpenFile | Refusal:
    """Open a file that another file or a process names.

    Args:
        path: absolute, as seen from `root`; any bytes.
        named_by: the user whose word the path is: the owner of the process, or `speaks_for` of
            the file.
        root: such as ``/proc/PID/root``, below which no link is followed, or for a received file
            the directory that it was unpacked into, which no link leads out of.
        follow_last: whether the last name may be a link.
        largest_bytes: refuse a bigger file, unless only root and we can change it.
        is_received: whether it came from another machine; see `open_received`.
    """
    request = _request(path, named_by, root, largest_bytes, follow_last=follow_last)
    if isinstance(request, Request):
        request = request._replace(links_below=is_received)
    found = request if isinstance(request, Refusal) else _find(request)
    if isinstance(found, Refusal):
        return found
    return _with_word_of(named_by, _taken(*(_of_nobody(found) if is_received else found)))


def held_bytes_of(
    path: bytes, named_by: int, *, root: bytes = OWN_ROOT, follow_last: bool = True
) -> int:
    """Return how many bytes of data a file holds without reading them, 0 if it is refused.

    Arguments as for `open_named`.
    """
    request = _request(path, named_by, root, LARGEST_READ_BYTES, follow_last=follow_last)
    found = request if isinstance(request, Refusal) else _find(request)
    if isinstance(found, Refusal):
        return 0
    try:
        size = os.fstat(found[1]).st_size
        return sum(end - begin for begin, end in data_extents(found[1], size))
    except OSError:
        return 0
    finally:
        os.close(found[1])


def _request(
    path: bytes, named_by: int, root: bytes, largest_bytes: int, *, follow_last: bool
) -> Request | Refusal:
    if not path.startswith(b"/") or b"\0" in path:
        return Refusal.MISSING
    is_ours = is_trusted(named_by)
    may_switch = os.geteuid() == 0
    uid = OWN_RIGHTS if is_ours or not may_switch else named_by
    return Request(
        path,
        root,
        uid,
        largest_bytes,
        as_everybody=not is_ours and not may_switch,
        follow_last=follow_last,
    )


def _find(request: Request) -> _Found | Refusal:
    """Open what another names: here if that cannot keep us waiting, else by the child."""
    if request.uid == OWN_RIGHTS and request.root == OWN_ROOT:
        try:
            return _open_here(request, lambda: walk_to(request, OWN_ROOT, _mounts.may_wait))
        except MayBlockError:
            pass
    return _ask(request)


def open_chosen(path: bytes, *, largest_bytes: int = LARGEST_READ_BYTES) -> OpenFile | Refusal:
    """Open a file that a person names, or Prospect itself: with our rights, by any link."""
    request = Request(path, OWN_ROOT, OWN_RIGHTS, largest_bytes)
    found = _open_here(request, lambda: os.open(path, PATH_ONLY))
    return found if isinstance(found, Refusal) else _taken(*found)


def open_received(path: bytes, *, largest_bytes: int = LARGEST_READ_BYTES) -> OpenFile | Refusal:
    """Open a copy of a file from elsewhere that Prospect, perf or elfutils' client keeps here.

    The copy is ours, but its content is untrusted: it belongs to nobody and grants no rights.
    """
    request = Request(path, OWN_ROOT, OWN_RIGHTS, largest_bytes)
    found = _open_here(request, lambda: os.open(path, PATH_ONLY))
    return found if isinstance(found, Refusal) else _taken(*_of_nobody(found))


def _of_nobody(found: _Found) -> _Found:
    return found._replace(facts=found.facts._replace(owner=EVERYBODY, speaks_for=EVERYBODY))


def open_link(path: bytes, *, largest_bytes: int = LARGEST_READ_BYTES) -> OpenFile | Refusal:
    """Open the file that a link of /proc leads to: the very one, wherever its path may lead now.

    Args:
        path: ``/proc/PID/exe``, or one of ``/proc/PID/map_files``.
        largest_bytes: as for `open_named`.
    """
    found = _ask(Request(path, OWN_ROOT, OWN_RIGHTS, largest_bytes, is_link=True))
    return found if isinstance(found, Refusal) else _taken(*found)


def _with_word_of(named_by: int, file: OpenFile | Refusal) -> OpenFile | Refusal:
    """Let a file speak for no more than the one who has led to it, be it root's own."""
    if isinstance(file, Refusal):
        return file
    return file._replace(speaks_for=weakest(file.speaks_for, named_by))


def _open_here(request: Request, find: Callable[[], int]) -> _Found | Refusal:
    """Open in this process what `find` finds, a descriptor of the path only."""
    try:
        opened = open_place(find(), request.largest_bytes)
    except FAILURES as error:
        return refusal_of(error)
    return _Found(request, *opened)


def _ask(request: Request) -> _Found | Refusal:
    answer = _opener.open(request)
    return answer if isinstance(answer, Refusal) else _Found(request, *answer)


def _taken(request: Request, descriptor: int, facts: FileFacts) -> OpenFile | Refusal:
    try:
        extents = tuple(data_extents(descriptor, os.fstat(descriptor).st_size))
        account = None if is_trusted(facts.owner) else of_others
        data = hold_contents(descriptor, account=account)
    except CostlyError:
        return Refusal.COSTLY
    except FAILURES as error:
        return refusal_of(error)
    finally:
        os.close(descriptor)
    return OpenFile(
        path=request.path, data=data, root=request.root, extents=extents, **facts._asdict()
    )
