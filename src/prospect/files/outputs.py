"""The files that Prospect writes for a person: recordings and reports.

A path comes from a command line, possibly of root, possibly in a directory where everyone can
write. Prospect never opens another user's file for it. A report gets its name only when it is
complete, so a failed run never destroys an earlier report. Files that root makes hold addresses of
the kernel and data of other users: only root, or the user who called `sudo`, can read them.
"""

from __future__ import annotations

import errno
import os
import stat

from prospect.errors import RecordingError, RenderError
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

PRIVATE = 0o600
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Errors of open(2) if a file system has no O_TMPFILE.
_NO_UNNAMED_FILES = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS}
# Never replaced nor renamed: devices, and links to files that a shell has already opened.
_NEVER_REPLACED = ("/dev/", "/proc/")
_ORDINARY_FILES = "/dev/shm/"  # noqa: S108 - POSIX shared memory: a file system like any other


def are_same_file(path: str, other: str) -> bool:
    """Return whether two paths mean one file, which need not exist; "" means none."""
    return bool(path and other) and os.path.realpath(path) == os.path.realpath(other)


class RecordingFile(Closing):
    """The file of a recording, with a name from the start or without one; only its owner reads it.

    An earlier file of that name becomes ``NAME.old``, as with `perf record`.
    """

    def __init__(self, path: str) -> None:
        """Create the file; "" is one without a name, which ends with its descriptor.

        Raises:
            RecordingError: it cannot be created, or is a directory, a device, a pipe or standard
                output.
        """
        if path == "-":
            raise RecordingError("a recording needs a file that can be rewound, '-' cannot")
        self.path = path
        self._old = ""
        try:
            self.descriptor = self._create(path) if path else _open_scratch()
        except OSError as error:
            where = f"record to '{path}'" if path else "keep the recording: set TMPDIR"
            raise RecordingError(f"cannot {where}: {error.strerror}") from None
        except ValueError as error:  # a NUL character
            raise RecordingError(f"cannot record to {path!r}: {error}") from None

    def keep(self) -> str:
        """Give a recording without a name one, because its report has failed.

        Returns:
            The path of the recording; "" if it cannot be kept.
        """
        if self.path:
            return self.path
        for directory in _scratch_directories():
            path = os.path.join(os.path.abspath(directory), f"prospect-{os.urandom(16).hex()}.data")
            try:
                _name_or_copy(self.descriptor, path)
            except OSError:
                continue
            self.path = path
            return path
        return ""

    def withdraw(self) -> None:
        """Remove an empty recording, and give an earlier file its name back."""
        if self._old:
            os.rename(self._old, self.path)
        elif self.path:
            os.unlink(self.path)

    def close(self) -> None:
        """Close the file, which deletes one without a name."""
        os.close(self.descriptor)

    def _create(self, path: str) -> int:
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _is_fixed(path) or _is_special(path):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if os.path.lexists(path):
            os.rename(path, f"{path}.old")
            self._old = f"{path}.old"
        try:
            return os.open(path, _NEW_FILE, PRIVATE)
        except OSError:
            if self._old:
                os.rename(self._old, path)
            raise


def shared_mode(mode: int = 0o666) -> int:
    """Return the mode, before the umask, of a new file for a person: private if root writes it."""
    return PRIVATE if os.geteuid() == 0 else mode


def give_to_caller(descriptor: int) -> None:
    """Give a new file or directory to the user who called `sudo`, if one did.

    Source: sudo(8), SUDO_UID and SUDO_GID. They count only for root, who could give the file away
    anyway.
    """
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() == 0 and user.isdecimal() and group.isdecimal():
        try:
            os.fchown(descriptor, int(user), int(group))
        except (OSError, OverflowError):
            return  # a file system without owners, or somebody else's server: it stays root's


class ReportFile(Closing):
    """The file of a report: opened before the command runs, and named once it is complete.

    `put` writes a report into it. `close` without `put` leaves nothing.
    """

    def __init__(self, path: str, what: str = "the report", mode: int | None = None) -> None:
        """Open `path`; "" and "-" are standard output.

        Args:
            what: the name of the file in errors.
            mode: of a new file, before the umask; None for `shared_mode()`.

        Raises:
            RenderError: it cannot be written, or is another user's file in a directory where
                everyone can write.
        """
        self._complaint = f"cannot write {what} to '{path}'" if path else f"cannot write {what}"
        self._mode = shared_mode() if mode is None else mode
        self._directory = -1
        self._name = ""
        self._temporary = ""
        self._truncates = False
        self.is_stdout = path in ("", "-")
        if self.is_stdout:
            self.descriptor = 1
            return
        try:
            self._open(path)
        except OSError as error:
            raise RenderError(f"{self._complaint}: {error.strerror}") from None
        except ValueError as error:  # a NUL character
            raise RenderError(f"cannot write {what} to {path!r}: {error}") from None

    def put(self, write: Callable[[BinaryIO], object]) -> None:
        """Let `write` write the report, then give the file its name.

        Raises:
            RenderError: the file takes no more, or cannot get its name; its cause is the OSError.
        """
        try:
            if self._truncates:
                os.ftruncate(self.descriptor, 0)
            with os.fdopen(self.descriptor, "wb", closefd=False) as out:
                write(out)
            if self._directory >= 0:
                self._name_it()
        except OSError as error:
            raise RenderError(f"{self._complaint}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file; a report that was not `put` vanishes."""
        if self.is_stdout:
            return
        os.close(self.descriptor)
        if self._directory >= 0:
            if self._temporary:
                os.unlink(self._temporary, dir_fd=self._directory)
            os.close(self._directory)

    def _name_it(self) -> None:
        if not self._temporary:
            temporary = _unguessable_name()
            # With a descriptor for the source, Python calls linkat(2), which follows the link in
            # /proc; link(2) does not. The path is absolute, so the descriptor is not used.
            os.link(
                f"/proc/self/fd/{self.descriptor}",
                temporary,
                src_dir_fd=self._directory,
                dst_dir_fd=self._directory,
            )
            self._temporary = temporary
        os.rename(
            self._temporary, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory
        )
        self._temporary = ""

    def _open(self, path: str) -> None:
        if _is_fixed(path):
            self.descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
            return
        present = _present(path)
        if present is not None and stat.S_ISLNK(present.st_mode):
            path = os.path.realpath(path)
            present = _present(path)
        if present is not None and not stat.S_ISREG(present.st_mode):
            flags = os.O_WRONLY | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
            self.descriptor = os.open(path, flags)
        elif present is None or _may_be_replaced(path, present):
            self._open_beside(path, present)
        else:
            flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            self.descriptor = os.open(path, flags)
            self._truncates = True

    def _open_beside(self, path: str, present: os.stat_result | None) -> None:
        directory, self._name = os.path.split(path)
        if not self._name:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._directory = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.descriptor, self._temporary = _open_unnamed(
            directory or ".", self._mode, _unguessable_name()
        )
        if present is None:
            give_to_caller(self.descriptor)
        else:
            os.fchmod(self.descriptor, stat.S_IMODE(present.st_mode) & 0o777)
            os.fchown(self.descriptor, present.st_uid, present.st_gid)


def _is_fixed(path: str) -> bool:
    """Return whether `path` is where the system keeps devices and links to open files."""
    place = os.path.abspath(path)
    return place.startswith(_NEVER_REPLACED) and not place.startswith(_ORDINARY_FILES)


def _is_special(path: str) -> bool:
    """Return whether `path` is, or leads to, a device, a pipe or a socket."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False  # nothing there, or a link to nothing


def _open_scratch() -> int:
    for directory in _scratch_directories():
        try:
            return _open_unnamed(directory, PRIVATE)[0]
        except OSError as error:
            refused = error
    raise refused


def _scratch_directories() -> list[str]:
    # /tmp is memory on many systems.
    return [one for one in (os.environ.get("TMPDIR"), "/var/tmp") if one]  # noqa: S108 - nameless


def _name_or_copy(descriptor: int, path: str) -> None:
    """Give an open file without a name, or else a copy of it, the free name `path`."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The descriptor makes Python call linkat(2), as for a report.
        source = f"/proc/self/fd/{descriptor}"
        name = os.path.basename(path)
        os.link(source, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        _copy(descriptor, path)
    finally:
        os.close(directory)


def _copy(descriptor: int, path: str) -> None:
    copy = os.open(path, _NEW_FILE, PRIVATE)
    try:
        done, size = 0, os.fstat(descriptor).st_size
        while done < size and (count := os.sendfile(copy, descriptor, done, size - done)):
            done += count
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(copy)


def _open_unnamed(directory: str, mode: int, fallback: str = "") -> tuple[int, str]:
    """Open a file without a name, or named `fallback` if the file system needs a name.

    Without `fallback`, the file gets a name and loses it at once. Returns the descriptor and the
    name that the file still has.
    """
    try:
        return os.open(directory, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, mode), ""
    except OSError as error:
        if error.errno not in _NO_UNNAMED_FILES:
            raise
    name = fallback or _unguessable_name()
    path = os.path.join(directory, name)
    descriptor = os.open(path, _NEW_FILE, mode)
    if not fallback:
        os.unlink(path)
    return descriptor, fallback


def _unguessable_name() -> str:
    """Return a name that nobody can have used beforehand."""
    return f".prospect-{os.urandom(16).hex()}"


def _present(path: str) -> os.stat_result | None:
    """Return lstat(2) of `path`, None if there is no file; refuse a trap of another user.

    The rule is that of ``fs.protected_symlinks`` and ``fs.protected_regular`` (``fs/namei.c``,
    may_create_in_sticky), which may be off.
    """
    try:
        present = os.lstat(path)
    except FileNotFoundError:
        return None
    parent = os.stat(os.path.dirname(path) or ".")
    shared = parent.st_mode & stat.S_ISVTX and parent.st_mode & stat.S_IWOTH
    if shared and present.st_uid not in (os.geteuid(), parent.st_uid):
        raise PermissionError(
            errno.EPERM,
            f"it belongs to user {present.st_uid}, in a directory where everyone can write",
        )
    return present


def _may_be_replaced(path: str, present: os.stat_result) -> bool:
    # A new file would lose another owner's rights and other hard links.
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    ours = present.st_uid == os.geteuid() or os.geteuid() == 0
    return ours and present.st_nlink == 1 and os.access(os.path.dirname(path) or ".", os.W_OK)
