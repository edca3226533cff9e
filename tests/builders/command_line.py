"""The command line as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from builders.another_user import prospect_of_another_user

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PROSPECT = (sys.executable, "-m", "prospect")
BURN = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
"""A shell's loop that takes some tenths of a second of a CPU."""


def run(*arguments: str, **keywords: Any) -> subprocess.CompletedProcess[str]:
    """Run `prospect ARGUMENTS` to its end, as another user with the keyword `user`."""
    prospect = prospect_of_another_user() if "user" in keywords else PROSPECT
    return subprocess.run(
        [*prospect, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **keywords,
    )


@contextmanager
def running(words: Sequence[object], **keywords: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a program beside a test, and end it with the test, however that ends.

    `Popen` by itself waits for the program's own end: a test that fails would wait for ever for a
    program that loops.
    """
    with subprocess.Popen([str(word) for word in words], **keywords) as program:
        try:
            yield program
        finally:
            program.kill()


def names(directory: Path) -> list[str]:
    """Return the names of what is in a directory."""
    return sorted(path.name for path in directory.iterdir())
