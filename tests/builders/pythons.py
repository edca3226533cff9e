"""The CPythons of this machine, by version, for what has to run by any of them."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
_TELL = "import sys; print('%d.%d' % sys.version_info[:2])"


def python_of(version: str) -> Path:
    """Return an interpreter of a version, such as "3.9"; skip the test where there is none."""
    found = _found(version)
    if found is None:
        pytest.skip(f"no CPython {version} is installed, neither on PATH nor by pyenv")
    return found


def installed(name: str) -> list[Path]:
    """Return the interpreters of a name, such as "python3.13t": of pyenv, then of the system.

    Those of pyenv are the files themselves, not the scripts that pyenv puts on PATH.
    """
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    on_path = shutil.which(name, path="/usr/bin:/usr/local/bin")
    return [*sorted(versions.glob(f"*/bin/{name}")), *([Path(on_path)] if on_path else [])]


def every_python() -> list[str]:
    """Return each CPython 3.8 to 3.16 of pyenv and the system, or else the one of the tests.

    With the lock and without, and builds for debugging.
    """
    found = {
        str(path.resolve()): str(path)
        for minor, flag in itertools.product(range(8, 17), ("", "t", "d"))
        for path in installed(f"python3.{minor}{flag}")
    }
    return list(found) or [sys.executable]


@functools.cache
def _found(version: str) -> Path | None:
    name = f"python{version}"
    on_path = shutil.which(name)
    for path in (*installed(name), *([Path(on_path)] if on_path else [])):
        words = [path, "-IS", "-c", _TELL]
        ran = subprocess.run(words, check=False, timeout=30, capture_output=True, text=True)
        if (ran.returncode, ran.stdout.strip()) == (0, version):
            return path
    return None
