"""A target that is this machine, without sshd: what plays ssh runs the command by a shell here."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from builders.recordings import PROSPECT

if TYPE_CHECKING:
    from pathlib import Path

# Makes the socket that shows a shared connection, as ssh does; then COMMAND, all after the host.
_SSH = """#!/bin/sh
while [ "$1" != -- ]; do
    case $1 in -o) shift; case $1 in ControlPath=*) : >>"${1#ControlPath=}" ;; esac ;; esac
    shift
done
shift 2
exec env -i HOME="$HOME" PATH=%s:/usr/bin:/bin sh -c "$*"
"""


class LocalTarget:
    """`prospect --target there` runs there by the Python of a directory.

    Attributes:
        environment: for a process that is to reach it.
    """

    def __init__(self, directory: Path, python: Path) -> None:
        names = directory / "python"
        names.mkdir()
        (names / "python3").symlink_to(python)
        ssh = directory / "ssh"
        ssh.write_text(_SSH % names)
        ssh.chmod(0o755)
        self.environment = os.environ | {
            "PROSPECT_SSH": str(ssh),
            "XDG_CACHE_HOME": str(directory / "cache"),
            "XDG_STATE_HOME": str(directory / "state"),
        }

    def prospect(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run `prospect WORDS`."""
        return subprocess.run(
            [*PROSPECT, *map(str, words)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
