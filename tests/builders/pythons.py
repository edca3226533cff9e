"""The CPythons of this machine, by version, for what has to run by any of them."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
# As parameters: every day the first and the last.
EVERY_VERSION = [
    pytest.param(one, marks=[pytest.mark.nightly] * (one in VERSIONS[1:-1])) for one in VERSIONS
]
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


class Python(NamedTuple):
    """An interpreter: its path, in the file system whose root is `root`."""

    path: str
    root: str = ""

    def line(self, program: Path, *words: str) -> list[str]:
        """Return the command line that runs a program, which is copied into another root."""
        if not self.root:
            return [self.path, str(program), *words]
        copy = Path(self.root, "tmp", f"{os.getpid()}-{program.name}")
        copy.write_bytes(program.read_bytes())
        inside = str(copy).removeprefix(self.root.rstrip("/"))
        return ["chroot", self.root, self.path, inside, *words]

    def __str__(self) -> str:
        """Return its identity in the names of tests."""
        return "-".join([Path(self.root).name, *Path(self.path).parts[-3:]]).lstrip("-")


def every_python() -> list[Any]:
    """Return as parameters each CPython 3.8 to 3.16 that there is, or else the one of the tests.

    With the lock and without, and builds for debugging; of pyenv, of the system, and in the roots
    of other systems that PROSPECT_TEST_ROOTS names, separated by colons. Of each version here one
    is tried every day, the system's where it has one; but 3.9 and 3.10, laid out nearly as 3.8, and
    3.12, laid out nearly as 3.11.
    """
    names = [f"python3.{minor}{flag}" for minor in range(8, 17) for flag in ("", "t", "d")]
    found = {}
    for name in names:
        here = {str(path.resolve()): Python(str(path)) for path in installed(name)}
        *others, every_day = [*here.items()] or [None]
        found |= {path: pytest.param(one, marks=pytest.mark.nightly) for path, one in others}
        if every_day:
            path, one = every_day
            is_like_another = name in {"python3.9", "python3.10", "python3.12"} and bool(found)
            found[path] = pytest.param(one, marks=[pytest.mark.nightly] * is_like_another)
    roots = filter(None, os.environ.get("PROSPECT_TEST_ROOTS", "").split(":"))
    there = [
        Python(f"/usr/bin/{name}", root)
        for root in (roots if os.geteuid() == 0 else ())
        for name in names
        if Path(root, "usr/bin", name).is_file()
    ]
    return [*found.values(), *there] or [Python(sys.executable)]


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
