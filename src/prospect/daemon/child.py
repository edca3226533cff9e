"""The process that writes one window to a store, and ends.

DuckDB takes 60 MB, which only this process has, for a moment. Its arguments are the descriptor of
the store's directory, whose lock the parent holds, and that of a pipe whose end is its own; the
window comes by standard input. It ends with status 0 and nothing to say, or with another and a line
on standard output: why it failed.
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
    from prospect.files.child import die_with  # noqa: PLC0415 - likewise
    from prospect.store.directory import PART_SUFFIX, StoreDirectory  # noqa: PLC0415 - likewise
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - likewise
    from prospect.store.writing import write_segment  # noqa: PLC0415 - likewise

    descriptor, lifeline = map(int, sys.argv[1:])
    # The lock goes with the parent: nobody else may begin to write before this one has ended.
    die_with(lifeline)
    try:
        keep_nothing()
        with StoreDirectory(f"/proc/self/fd/{descriptor}/.") as store:
            engine = Engine(store, memory=_MEMORY)
            write_segment(store, engine, *unpacked(sys.stdin.buffer.read()))
    except (CaptureError, StoreError, EngineError, OSError) as error:
        # Which file it is differs each time, and is nobody's.
        said = str(error).rpartition(f'{PART_SUFFIX}": ')[2]
        sys.stdout.write(said + "\n")
        return _NO_SPACE if "No space left" in said or "Disk quota" in said else _FAILED
    return 0


if __name__ == "__main__":
    # What the interpreter would tidy up ends with the process.
    status = main()
    sys.stdout.flush()
    os._exit(status)
