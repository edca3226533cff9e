"""A target over a real sshd on loopback, with keys of its own, whose sessions a script begins."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from builders.local_target import share_recorders
from builders.recordings import PROSPECT

SSHD = "/usr/sbin/sshd"
PLAIN = 'exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"'


class SshTarget:
    """`prospect --target there` reaches it in the environment that `environment` is.

    Attributes:
        directory: has the script ``begin`` that sessions begin with, and keys.
        cache: where that lets Prospect keep what it learns.
    """

    name = "there"

    def __init__(self, directory: Path) -> None:
        if not Path(SSHD).exists() or not shutil.which("ssh"):
            pytest.skip("openssh-server is not installed")
        self.directory = directory
        self.cache = directory / "cache"
        share_recorders(self.cache)
        for key in ("host_key", "user_key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / key]
            subprocess.run(words, check=True, timeout=30)
        self.begin_sessions_by(PLAIN)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        Path("/run/sshd").mkdir(exist_ok=True)
        (directory / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host_key\n"
            f"AuthorizedKeysFile {directory}/user_key.pub\nStrictModes no\nUsePAM yes\n"
            f"PidFile none\nPermitRootLogin yes\nForceCommand {directory}/begin\n"
        )
        (directory / "ssh_config").write_text(
            f"Host {self.name}\n HostName 127.0.0.1\n Port {port}\n User root\n"
            f" IdentityFile {directory}/user_key\n UserKnownHostsFile /dev/null\n"
            " StrictHostKeyChecking no\n LogLevel ERROR\n"
        )
        self.environment = os.environ | {
            "PROSPECT_SSH": f"ssh -F {directory}/ssh_config",
            "XDG_CACHE_HOME": str(self.cache),
        }
        self._server = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", directory / "sshd_config"], stderr=subprocess.DEVNULL
        )
        self._await(port)

    def _await(self, port: int) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.02)
        pytest.fail("sshd does not answer")

    def begin_sessions_by(self, script: str) -> None:
        """Run a shell script as each session, for which $SSH_ORIGINAL_COMMAND was asked."""
        begin = self.directory / "begin"
        begin.write_text(f"#!/bin/sh\n{script}\n")
        begin.chmod(0o755)

    def prospect(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run `prospect WORDS`."""
        line = [*PROSPECT, *map(str, words)]
        return subprocess.run(
            line,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )

    def start(self, *words: object) -> subprocess.Popen[str]:
        """Begin to run `prospect WORDS`."""
        return subprocess.Popen(
            [*PROSPECT, *map(str, words)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def drop_connections(self) -> None:
        """End what the server does for those who are connected, as a reset of the network would."""
        for pid in _descendants(self._server.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sshd"):
                    os.kill(pid, 9)

    def close(self) -> None:
        """End the server and its sessions."""
        share_recorders(self.cache)
        for pid in _descendants(self._server.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        self._server.kill()
        self._server.wait()


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in map(int, children) for one in (child, *_descendants(child))]
