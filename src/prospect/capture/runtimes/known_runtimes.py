"""The runtimes whose frames are read: how each is found in a file, and how it is walked.

Each is imported when the first process of it is met.
"""

from __future__ import annotations

import os
import struct

from prospect.abi import runtime_frames as wire
from prospect.capture.machine.runtime_processes import runtime_of
from prospect.capture.runtimes.elf_lookup import File

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.capture.runtimes.runtime import Image, Runtime, Unknown

# ELF machines whose processes are read, by the name of the machine that this runs on.
_MACHINES = {"x86_64": 62, "aarch64": 183}


def walk_of(runtime: int) -> Runtime:
    """Return how a runtime is walked, by its number.

    Raises:
        KeyError: it is not known.
    """
    # ruff: noqa: PLC0415 - of most runtimes no process is met
    if runtime == wire.CPYTHON:
        from prospect.capture.python.python_runtime import RUNTIME

        return RUNTIME
    if runtime == wire.RUBY:
        from prospect.capture.runtimes.ruby_runtime import RUNTIME

        return RUNTIME
    if runtime == wire.PHP:
        from prospect.capture.runtimes.php_runtime import RUNTIME

        return RUNTIME
    if runtime == wire.V8:
        from prospect.capture.v8.v8_runtime import RUNTIME

        return RUNTIME
    raise KeyError(runtime)


def read_image(fd: int, path: bytes) -> Image | Unknown | None:
    """Return the runtime in an ELF file, None if there is none.

    Args:
        path: the file's name, by which its runtime is chosen.

    Raises:
        ValueError: the file takes too much to read.
    """
    find = _detector(runtime_of(path))
    if find is None:
        return None
    try:
        file = File(fd)
        is_ours = file.machine == _MACHINES.get(os.uname().machine)
        return find(file, path) if is_ours else None
    except (struct.error, OverflowError, OSError):
        return None


def _detector(runtime: int) -> Callable[[File, bytes], Image | Unknown | None] | None:
    if runtime == wire.CPYTHON:
        from prospect.capture.python.interpreters import find_python

        return find_python
    if runtime == wire.RUBY:
        from prospect.capture.runtimes.ruby_runtime import find_ruby

        return find_ruby
    if runtime == wire.PHP:
        from prospect.capture.runtimes.php_runtime import find_php

        return find_php
    if runtime == wire.V8:
        from prospect.capture.v8.images import find_v8

        return find_v8
    return None
