"""Another user of this machine, and a Python with Prospect that this user can run.

The Python that runs the tests may be in a home that others cannot enter (pyenv in /root). Then the
interpreter is copied to a place that everybody can read, as hard links where that is possible.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

NOBODY = 65534
WHO = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
"""Keywords of `subprocess.run` that make it run a program as another user."""
_UNUSED = shutil.ignore_patterns("test", "site-packages", "dist-packages", "idlelib", "config-*")
_copies: list[Path] = []


def prospect_of_another_user() -> tuple[str, ...]:
    """Return the words of `prospect` for another user; skip the test if no Python can be had."""
    return (python_of_another_user(), "-m", "prospect")


def python_of_another_user() -> str:
    """Return a Python that another user can run, with what this one imports, or skip the test."""
    path, problem = _find_python()
    if problem:
        pytest.skip(f"needs root, and an environment that other users can read: {problem}")
    return path


def remove_copies() -> None:
    """Remove the copied interpreters; called at the end of the tests."""
    _find_python.cache_clear()
    while _copies:
        shutil.rmtree(_copies.pop(), ignore_errors=True)


@functools.cache
def _find_python() -> tuple[str, str]:
    """Return a Python and an empty string, or why there is none."""
    if not _problem(sys.executable):
        return sys.executable, ""
    if os.geteuid():
        return "", "not root"
    path = _copy_interpreter(Path(tempfile.mkdtemp(prefix="prospect-python-", dir="/var/tmp")))
    return path, _problem(path)


def _problem(python: str) -> str:
    try:
        imports = [python, "-c", "import prospect, numpy"]
        subprocess.run(imports, check=True, cwd="/", capture_output=True, text=True, **WHO)
    except OSError as error:
        return str(error)
    except subprocess.CalledProcessError as error:
        return error.stderr.rpartition("\n")[0].rpartition("\n")[2]
    return ""


def _copy_interpreter(directory: Path) -> str:
    """Copy the base interpreter, and have it look for packages where this one finds them."""
    _copies.append(directory)
    directory.chmod(0o755)
    library = directory / "lib" / f"python{sysconfig.get_python_version()}"
    shutil.copytree(
        sysconfig.get_path("stdlib"), library, ignore=_UNUSED, copy_function=_link_or_copy
    )
    (library / "site-packages").mkdir()
    (directory / "lib" / "python3").mkdir()
    (directory / "lib" / "python3" / "dist-packages").symlink_to(
        library / "site-packages"
    )  # Debian
    found = [one for one in sys.path if one.endswith("-packages")]
    packages = [f"import site; site.addsitedir({one!r})\n" for one in found]
    (library / "site-packages" / "packages_of_the_tests.pth").write_text("".join(packages))
    for shared in Path(sys.base_prefix, "lib").glob("libpython*.so*"):
        _link_or_copy(shared, directory / "lib" / shared.name)
    (directory / "bin").mkdir()
    program = directory / "bin" / Path(sys.executable).resolve().name
    _link_or_copy(Path(sys.executable).resolve(), program)
    # An interpreter with a shared library looks for it where it was installed.
    python = directory / "bin" / "python-of-the-tests"
    python.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={directory}/lib exec {program} "$@"\n')
    python.chmod(0o755)
    return str(python)


def _link_or_copy(source: str | Path, target: str | Path) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copy2(source, target)
