"""A directory of files written for a person, whose names come from debug information.

The directory comes from a command line; anyone may have written the names. Prospect writes only
below that directory: it follows no link on the way, and ``..`` is a name like any other. It
replaces only files of an earlier run.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.errors import RenderError
from prospect.files.files_limits import MOST_WRITTEN_PARTS
from prospect.files.outputs import PRIVATE, give_to_caller, shared_mode
from prospect.light import Closing, Descriptor

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRESENT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PARENT, _PARENT_SHOWN = "..", "%.."


class OutputTree(Closing):
    """A directory to write files into; closes with its `with` block.

    Args:
        path: of the directory, which is made if there is none.
        mark: the first bytes of each file; a file that begins with them may be replaced.

    Raises:
        RenderError: there is no such directory, and it cannot be made.
    """

    def __init__(self, path: str, mark: bytes) -> None:
        self._mark = mark
        try:
            os.makedirs(path, exist_ok=True)  # noqa: PTH103 - as in outputs
            # The person may have named a link.
            self._root = os.open(path, _DIRECTORY & ~os.O_NOFOLLOW)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise RenderError(f"cannot write to the directory '{path}': {reason}") from None

    def close(self) -> None:
        """Close the directory."""
        os.close(self._root)

    def write(self, path: str, write: Callable[[BinaryIO], object], *, is_public: bool) -> str:
        """Write a file below the directory.

        Args:
            path: any; a leading ``/`` means the directory.
            write: writes the content, which begins with the mark.
            is_public: whether others may read it, if the umask allows it. Only root, or the user
                who called sudo, reads a file that root writes.

        Returns:
            "" or why it was not written, as the end of a sentence.
        """
        parts = [
            _PARENT_SHOWN if part == _PARENT else part
            for part in path.split("/")
            if part not in ("", ".")
        ]
        if not parts or len(parts) > MOST_WRITTEN_PARTS:
            return "its path has too many parts" if parts else "it has no name"
        try:
            with Descriptor(self._open_directory(parts[:-1])) as directory:
                mode = shared_mode() if is_public else PRIVATE
                return self._write_in(directory, parts[-1], write, mode)
        except OSError as error:
            return error.strerror or str(error)
        except (ValueError, RenderError) as error:  # a NUL character; a full disk
            return str(error)

    def _open_directory(self, parts: list[str]) -> int:
        directory = os.dup(self._root)
        try:
            for part in parts:
                is_new = False
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700 if os.geteuid() == 0 else 0o777, dir_fd=directory)
                    is_new = True
                inner = os.open(part, _DIRECTORY, dir_fd=directory)
                if is_new and os.fstat(inner).st_uid == os.geteuid():
                    give_to_caller(inner)
                os.close(directory)
                directory = inner
        except BaseException:
            os.close(directory)
            raise
        return directory

    def _write_in(
        self, directory: int, name: str, write: Callable[[BinaryIO], object], mode: int
    ) -> str:
        if not self._is_free(directory, name):
            return "a file that is not an annotation is already there"
        temporary = f".{os.urandom(16).hex()}.part"
        descriptor = os.open(temporary, _NEW, mode, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as out:
                write(out)
                give_to_caller(descriptor)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
        return ""

    def _is_free(self, directory: int, name: str) -> bool:
        """Return whether this name is free, or is a file of an earlier run."""
        try:
            descriptor = os.open(name, _PRESENT, dir_fd=directory)
        except FileNotFoundError:
            return True
        with Descriptor(descriptor):
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return is_file and os.read(descriptor, len(self._mark)) == self._mark
