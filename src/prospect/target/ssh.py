"""One connection to a target by OpenSSH's client, and commands over it.

ssh takes ``USER@HOST``, and handles configuration, keys, agents and prompts. All commands share one
connection.

Defined by: ssh(1), ssh_config(5) "ControlMaster"; $PROSPECT_SSH has the same purpose as
$GIT_SSH_COMMAND for git(1), but without a shell.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from typing import TYPE_CHECKING

from prospect.errors import UsageError
from prospect.light import Closing

if TYPE_CHECKING:
    from typing import IO

VARIABLE = "PROSPECT_SSH"
NO_CONNECTION = 255
_OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


class Connection(Closing):
    """A connection, which `begin` makes and `close` ends."""

    def __init__(self, target: str) -> None:
        """Prepare to connect.

        Raises:
            UsageError: this is no name of a target.
        """
        if not target or target.startswith("-") or any(c.isspace() or c == "\0" for c in target):
            raise UsageError(f"--target: '{target}' is not USER@HOST, as ssh takes it")
        self.target = target
        self._ssh = _ssh_words()
        self._directory = tempfile.mkdtemp(prefix="prospect-")
        self._socket = f"{self._directory}/s"
        self._control = ["-o", f"ControlPath={self._socket}"]

    def begin(self, words: list[str]) -> subprocess.Popen[bytes]:
        """Connect, and run the first command, with pipes; all others share its connection.

        It ends with NO_CONNECTION if there is none, after a message of ssh.

        Args:
            words: of the command; the target's shell gets them quoted.

        Raises:
            UsageError: there is no ssh.
        """
        # Only the main thread may set signal handlers; others do not use the terminal.
        is_main = threading.current_thread() is threading.main_thread()
        ignored = _OF_TERMINALS if is_main else ()
        options = ["-T", "-o", "ControlMaster=yes", "-o", "ControlPersist=no"]
        # ssh asks for passwords and fingerprints on the terminal, so it stays in the terminal's
        # session, and ignores Ctrl-C.
        before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
        try:
            return subprocess.Popen(
                [*self._ssh, *options, *self._control, "--", self.target, shlex.join(words)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=not is_main,
            )
        except OSError as error:
            raise UsageError(
                f"--target needs ssh (Debian: apt install openssh-client): {self._ssh[0]}:"
                f" {error.strerror}"
            ) from error
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(
        self,
        words: list[str],
        *,
        has_terminal: bool = False,
        stdin: int | IO[bytes] | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Run another command on the target, once the connection is made.

        Args:
            words: of the command; the target's shell gets them quoted.
            has_terminal: whether the target gives it its own terminal.
            stdin, stdout, stderr: as for `subprocess.Popen`.
        """
        # The terminal there handles Ctrl-C; without one, `target_process` passes signals on.
        return subprocess.Popen(
            [
                *(*self._ssh, *self._control, "-tt" if has_terminal else "-T", "--"),
                *(self.target, shlex.join(words)),
            ],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            start_new_session=not has_terminal,
        )

    @property
    def is_made(self) -> bool:
        """Whether other commands may use it, perhaps before the first one has answered."""
        return os.path.exists(self._socket)  # noqa: PTH110 - asked often

    def close(self) -> None:
        """Remove the socket of the connection, which ends with its commands."""
        shutil.rmtree(self._directory, ignore_errors=True)


def pipe_of(pipe: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe of a process that was started with one."""
    assert pipe is not None  # noqa: S101 - see above
    return pipe


def _ssh_words() -> list[str]:
    try:
        return shlex.split(os.environ.get(VARIABLE, "")) or ["ssh"]
    except ValueError as error:
        raise UsageError(f"{VARIABLE}: {error}") from None
