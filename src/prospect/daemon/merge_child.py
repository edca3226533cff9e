"""The process that makes one hour or day of a store's windows, and ends.

It takes some hundred MB on a large machine, for some seconds. Its arguments are the descriptor of
the store's directory, whose lock the parent holds, and that of a pipe whose end is its own; a time
comes by standard input, in seconds since 1970: what is over then is merged. It ends with status 0
where nothing was due, `_HAS_MORE` where something was, or with another and a line on standard
output: why it failed.
"""

from __future__ import annotations

import os
import sys

# So much does an hour or a day of 64 processors take.
_MEMORY = "384MB"
_FAILED, _HAS_MORE = 1, 4


def main() -> int:
    """Merge; return the exit status."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.umask(0o077)
    from prospect.daemon.rights import keep_nothing  # noqa: PLC0415 - behind the environment
    from prospect.errors import CaptureError, StoreError  # noqa: PLC0415 - likewise
    from prospect.files.child import die_with  # noqa: PLC0415 - likewise
    from prospect.store.compaction import compact  # noqa: PLC0415 - likewise
    from prospect.store.directory import StoreDirectory  # noqa: PLC0415 - likewise
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - likewise

    descriptor, lifeline = map(int, sys.argv[1:])
    die_with(lifeline)
    try:
        keep_nothing()
        os.nice(10)  # nobody waits for it
        with StoreDirectory(f"/proc/self/fd/{descriptor}/.") as store:
            made = compact(store, Engine(store, memory=_MEMORY), int(sys.stdin.read()), most=1)
    except (CaptureError, StoreError, EngineError, OSError) as error:
        sys.stdout.write(f"{error}\n")
        return _FAILED
    return _HAS_MORE if any(made) else 0


if __name__ == "__main__":
    # What the interpreter would tidy up ends with the process.
    status = main()
    sys.stdout.flush()
    os._exit(status)
