"""One connection to a target by OpenSSH's client, and commands over it.

ssh takes ``USER@HOST``, and handles configuration, keys, agents and prompts. All commands share one
connection that is made once.

Defined by: ssh(1), ssh_config(5) "ControlMaster"; $PROSPECT_SSH is for ssh what $GIT_SSH_COMMAND is
for git(1), but no shell reads it.
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
        """Get ready to connect.

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
        """Connect, and run the first command, which all others share, with pipes.

        It ends with NO_CONNECTION if there is none, and ssh has said why.

        Args:
            words: of the command; the target's shell gets them quoted.

        Raises:
            UsageError: there is no ssh.
        """
        # Only the main thread may choose; another one has no terminal to ask on.
        is_main = threading.current_thread() is threading.main_thread()
        ignored = _OF_TERMINALS if is_main else ()
        options = ["-T", "-o", "ControlMaster=yes", "-o", "ControlPersist=no"]
        # Keys' passwords and hosts' fingerprints are asked for on the terminal, by ssh: it stays in
        # the terminal's session, whose Ctrl-C is not meant for it.
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
            stdin: as of `subprocess.Popen`.
            stdout: the same.
            stderr: the same.
        """
        # Ctrl-C is the terminal's there; without one, `target_recording` passes signals on.
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
        """Whether others may go over it, which is before its first command has answered."""
        return os.path.exists(self._socket)  # noqa: PTH110 - asked often

    def close(self) -> None:
        """Remove what the connection was found by; it ends with its commands."""
        shutil.rmtree(self._directory, ignore_errors=True)


def pipe_of(pipe: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe that was asked for when its process was started."""
    assert pipe is not None  # noqa: S101 - asked for, so it is there
    return pipe


def _ssh_words() -> list[str]:
    """Return the ssh to run, with options of the user's own."""
    try:
        return shlex.split(os.environ.get(VARIABLE, "")) or ["ssh"]
    except ValueError as error:
        raise UsageError(f"{VARIABLE}: {error}") from None
