"""An ELF file with DWARF → a symcache: its lines and inlined functions, ordered by address.

The library `symbolic` reads DWARF 2 to 5; its crate symbolic-symcache describes the result. A child
with little time and memory reads files that belong neither to root nor to us. This file is the
child's program, so it imports no other module of Prospect.
"""

from __future__ import annotations

import math
import resource
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import io

_OWN_BYTES = 256 << 20  # of address space, before anything is read
_PATIENCE = 3  # wall time per CPU time, on a busy machine


def convert(data: bytes | memoryview) -> bytes | None:
    """Make a symcache of a whole ELF file in this process; None if the library cannot read it."""
    import cffi  # noqa: PLC0415 - needed for lines only

    with cffi.FFI().from_buffer("uint8_t[]", data) as view:
        return _symcache_of(view)


def _symcache_of(view: Any) -> bytes | None:
    from symbolic.debuginfo import Archive  # noqa: PLC0415 - 50 ms
    from symbolic.exceptions import SymbolicError  # noqa: PLC0415 - 50 ms

    try:
        for image in Archive.from_bytes(view).iter_objects():
            stream: io.BufferedReader = image.make_symcache().open_stream()
            return stream.read()
    except SymbolicError as error:  # a panic of the library is one too
        # The library raises from a frame that refers to the error: a cycle, which would keep the
        # archive alive until garbage is collected, long after the bytes that it refers to.
        error.__traceback__ = None
    return None


def convert_in_child(data: bytes | memoryview, most_bytes: int, seconds: float) -> bytes | None:
    """Make a symcache in a child, with bounded memory and CPU time; None if it cannot be read."""
    import subprocess  # noqa: PLC0415 - rarely needed, and slow to import

    limits = (str(_OWN_BYTES + most_bytes), str(math.ceil(seconds)))
    command = [sys.executable, "-I", __file__, *limits]
    try:
        done = subprocess.run(
            command,
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE * seconds,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 and done.stdout else None


def _serve() -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most_bytes, seconds = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    symcache = convert(sys.stdin.buffer.read())
    sys.stdout.buffer.write(symcache or b"")
    return 0 if symcache else 1


if __name__ == "__main__":
    sys.exit(_serve())
