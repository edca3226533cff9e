"""The runtimes whose frames are read: the detector and the walk of each.

Each is imported when its first process is met.
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
    """Return the walk of a runtime, by its number.

    Raises:
        KeyError: it is unknown.
    """
    # ruff: noqa: PLC0415 - most recordings have no process of most runtimes
    if runtime == wire.CPYTHON:
        from prospect.capture.python.python_runtime import RUNTIME
    elif runtime == wire.RUBY:
        from prospect.capture.runtimes.ruby_runtime import RUNTIME
    elif runtime == wire.PHP:
        from prospect.capture.runtimes.php_runtime import RUNTIME
    elif runtime == wire.V8:
        from prospect.capture.v8.v8_runtime import RUNTIME
    else:
        raise KeyError(runtime)
    return RUNTIME


def read_image(fd: int, path: bytes) -> Image | Unknown | None:
    """Return the runtime in an ELF file, which its name `path` chooses; None if there is none.

    Raises:
        ValueError: the file costs too much to read.
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
        from prospect.capture.python.interpreters import find_python as detector
    elif runtime == wire.RUBY:
        from prospect.capture.runtimes.ruby_runtime import find_ruby as detector
    elif runtime == wire.PHP:
        from prospect.capture.runtimes.php_runtime import find_php as detector
    elif runtime == wire.V8:
        from prospect.capture.v8.images import find_v8 as detector
    else:
        return None
    return detector
