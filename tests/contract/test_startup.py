"""What each command loads: modules are most of the time until it does anything.

The bounds leave room for a module or two. Whoever must load more raises one, and says why.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
bare = set(sys.modules)
sys.argv = ["prospect", *{words!r}]
from prospect.__main__ import main
{body}
print(*sorted(set(sys.modules) - bare), file=sys.stderr)
"""
TOO_HEAVY_BEFORE_EXEC = {
    "argparse",
    "contextlib",
    "dataclasses",
    "enum",
    "functools",
    "getopt",
    "inspect",
    "json",
    "logging",
    "numpy",
    "pathlib",
    "random",
    "re",
    "shutil",
    "subprocess",
    "tempfile",
    "threading",
    "typing",
}


def loaded(*words, body="main()"):
    ran = subprocess.run(
        [sys.executable, "-I", "-c", LOADED.format(words=words, body=body)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    return ran.stderr.splitlines()[-1].split()


@pytest.mark.parametrize(
    ("module", "most"),
    [("prospect.cli.profile", 64), ("prospect.cli.record", 63)],
)
def test_little_is_loaded_before_the_command_runs(module, most):
    modules = loaded("true", body=f"import prospect.cli.main, {module}")
    assert len(modules) <= most, modules
    assert TOO_HEAVY_BEFORE_EXEC.isdisjoint(modules)


@pytest.mark.live
def test_nothing_more_is_loaded_between_there_and_the_start(tmp_path):
    """What is imported within functions counts as well."""
    body = """
import os
from prospect.capture.loop.command import Command
def release(command):
    print(*sorted(set(sys.modules) - bare), file=sys.stderr, flush=True)
    os._exit(0)
Command.release = release
main()
"""
    modules = loaded("true", body=body)
    assert len(modules) <= 64, modules
    assert TOO_HEAVY_BEFORE_EXEC.isdisjoint(modules)


@pytest.mark.parametrize(
    ("words", "most"),
    [(("--version",), 24), (("--help",), 48), (("completion", "bash"), 44)],
)
def test_what_only_says_something_loads_little(words, most):
    modules = loaded(*words)
    assert len(modules) <= most, modules
