"""The process that writes one window to a store, and ends.

DuckDB takes 60 MB, which only this process has, for a moment. Its first argument is the descriptor
of the store's directory, whose lock the parent holds; the window comes by standard input. It ends
with status 0 and nothing to say, or with another and a line on standard output: why it failed.
"""

from __future__ import annotations

import os
import sys

_MEMORY = "128MB"
_NO_SPACE, _FAILED = 3, 1


def main() -> int:
    """Write a window; return the exit status."""
    # Numpy's linear algebra would start a thread for each CPU; nothing here uses it.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.umask(0o077)
    from prospect.daemon.hand_over import unpacked  # noqa: PLC0415 - numpy is imported behind that
    from prospect.daemon.rights import keep_nothing  # noqa: PLC0415 - likewise
    from prospect.errors import CaptureError, StoreError  # noqa: PLC0415 - likewise
    from prospect.store.directory import StoreDirectory  # noqa: PLC0415 - likewise
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - likewise
    from prospect.store.writing import write_segment  # noqa: PLC0415 - likewise

    descriptor = int(sys.argv[1])
    try:
        keep_nothing()
        with StoreDirectory(f"/proc/self/fd/{descriptor}/.") as store:
            engine = Engine(store, memory=_MEMORY)
            write_segment(store, engine, *unpacked(sys.stdin.buffer.read()))
    except (CaptureError, StoreError, EngineError, OSError) as error:
        said = str(error)
        sys.stdout.write(said + "\n")
        return _NO_SPACE if "No space left" in said or "Disk quota" in said else _FAILED
    return 0


if __name__ == "__main__":
    # What the interpreter would tidy up ends with the process.
    status = main()
    sys.stdout.flush()
    os._exit(status)
