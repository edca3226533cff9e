"""A target that is this machine, without sshd: what plays ssh runs the command by a shell here."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from builders.recordings import PROSPECT

# Makes the socket that shows a shared connection, as ssh does; then COMMAND, all after the host.
_SSH = """#!/bin/sh
while [ "$1" != -- ]; do
    case $1 in -o) shift; case $1 in ControlPath=*) : >>"${1#ControlPath=}" ;; esac ;; esac
    shift
done
shift 2
exec env -i HOME="$HOME" PATH=%s:/usr/bin:/bin sh -c "$*"
"""


def share_recorders(cache: Path) -> None:
    """Let a cache and that of all tests have each other's packed recorders: each takes a second."""
    kept = Path(os.environ["XDG_CACHE_HOME"], "prospect")
    for one in (kept, cache / "prospect"):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)
    for source, there in ((kept, cache / "prospect"), (cache / "prospect", kept)):
        for recorder in source.glob("*.recorder"):
            with suppress(FileExistsError):
                (there / recorder.name).hardlink_to(recorder)


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
        self._cache = directory / "cache"
        share_recorders(self._cache)
        self.environment = os.environ | {
            "PROSPECT_SSH": str(ssh),
            "XDG_CACHE_HOME": str(self._cache),
            "XDG_STATE_HOME": str(directory / "state"),
        }

    def prospect(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run `prospect WORDS`."""
        ran = subprocess.run(
            [*PROSPECT, *map(str, words)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
        share_recorders(self._cache)
        return ran
