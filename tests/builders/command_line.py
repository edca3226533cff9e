"""The command line, as a process of its own and in this one."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import tempfile
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

from builders.another_user import prospect_of_another_user
from prospect.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import IO

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


def run_here(*arguments: object, cwd: Path | str = ".") -> subprocess.CompletedProcess[bytes]:
    """Run `prospect ARGUMENTS` in this process, which takes less than half of a process's time.

    For what becomes of a recording or a store; what a process is, has or leaves is not seen so.
    """
    words = [str(word) for word in arguments]
    collects, threshold = gc.isenabled(), gc.get_threshold()
    with chdir(cwd), _written(1) as out, _written(2) as err:
        streams = [io.TextIOWrapper(open(one, "wb", closefd=False)) for one in (1, 2)]  # noqa: SIM115
        try:
            with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
                status = main(words)
        finally:
            for stream in streams:
                stream.close()
            gc.set_threshold(*threshold)
            (gc.enable if collects else gc.disable)()
        said = [os.pread(one.fileno(), os.fstat(one.fileno()).st_size, 0) for one in (out, err)]
    return subprocess.CompletedProcess(words, status, *said)


@contextmanager
def _written(descriptor: int) -> Iterator[IO[bytes]]:
    """Have a descriptor written to a file."""
    kept = os.dup(descriptor)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), descriptor)
        try:
            yield file
        finally:
            os.dup2(kept, descriptor)
            os.close(kept)


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
