"""One connection to a target by OpenSSH's client, and commands over it.

Comes in: ``USER@HOST`` as ssh takes it, whose configuration, keys, agents and questions are ssh's
own. Goes out: processes of ssh, all over one connection that is made once.

Defined by: ssh(1), ssh_config(5) "ControlMaster"; $PROSPECT_SSH is for ssh what $GIT_SSH_COMMAND is
for git(1), but no shell reads it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.errors import CaptureError, UsageError
from prospect.light import Closing

if TYPE_CHECKING:
    from typing import IO

VARIABLE = "PROSPECT_SSH"
_CLOSE_S = 5


class Connection(Closing):
    """A connection, which ends with `close`.

    Attributes:
        target: where to.
    """

    def __init__(self, target: str) -> None:
        """Begin to connect; `established` waits for it.

        Raises:
            UsageError: this is no name of a target, or there is no ssh.
        """
        if not target or target.startswith("-") or any(c.isspace() or c == "\0" for c in target):
            raise UsageError(f"--target: '{target}' is not USER@HOST, as ssh takes it")
        self.target = target
        self._ssh = _ssh_words()
        self._directory = tempfile.mkdtemp(prefix="prospect-")
        self._control = ["-o", f"ControlPath={self._directory}/s"]
        options = ["-fN", "-o", "ControlMaster=yes", "-o", "ControlPersist=no"]
        try:
            # Keys' passwords and hosts' fingerprints are asked for on the terminal, by ssh.
            self._master = subprocess.Popen(
                [*self._ssh, *options, *self._control, "--", target],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except OSError as error:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise UsageError(
                f"--target needs ssh (Debian: apt install openssh-client): {self._ssh[0]}:"
                f" {error.strerror}"
            ) from error

    def established(self) -> Connection:
        """Wait until the connection stands.

        Raises:
            CaptureError: it cannot be made; ssh has said why.
        """
        if self._master.wait():
            raise CaptureError(f"no connection to {self.target}: ssh says why above")
        return self

    def start(
        self,
        words: list[str],
        *,
        has_terminal: bool = False,
        stdin: int | IO[bytes] | None = None,
        stdout: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Run a command on the target.

        Args:
            words: of the command; the target's shell gets them quoted.
            has_terminal: whether the target gives it a terminal of its own.
            stdin: as of `subprocess.Popen`.
            stdout: likewise.
        """
        line = " ".join(map(shlex.quote, words))
        # Ctrl-C is the terminal's there; without one, `session` passes signals on.
        return subprocess.Popen(
            [*self._ssh, *self._control, "-tt" if has_terminal else "-T", "--", self.target, line],
            stdin=stdin,
            stdout=stdout,
            bufsize=0,
            start_new_session=not has_terminal,
        )

    def close(self) -> None:
        """End the connection, and what still runs over it."""
        if self._master.poll() is None:
            self._master.terminate()
            self._master.wait()
        else:
            words = [*self._ssh, *self._control, "-O", "exit", "--", self.target]
            with suppress(OSError, subprocess.TimeoutExpired):  # then the server ends it
                subprocess.run(words, check=False, timeout=_CLOSE_S, capture_output=True)
        shutil.rmtree(self._directory, ignore_errors=True)


def _ssh_words() -> list[str]:
    """Return the ssh to run, with options of the user's own.

    Raises:
        UsageError: $PROSPECT_SSH has a quotation mark without its other.
    """
    try:
        return shlex.split(os.environ.get(VARIABLE, "")) or ["ssh"]
    except ValueError as error:
        raise UsageError(f"{VARIABLE}: {error}") from None
