"""What the processes have in common that the daemon starts for work on its store, one at a time.

The arguments of each are the descriptor of the store's directory, whose lock the parent holds, and
that of a pipe whose end is the process's own; what it is to do comes by standard input, and it says
at most one line on standard output. See `encoding.StoreChild`, which starts them.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from prospect.store.directory import StoreDirectory

    Work = Callable[[StoreDirectory, bytes], tuple[int, str]]

FAILED = 1


def do(prepare: Callable[[], Work]) -> NoReturn:
    """Work on the store without any rights, and end.

    Args:
        prepare: imports what the work needs, while files of the program can be read whosever they
            are. The work is given the store and standard input; it returns an exit status and what
            is to be said, "" for nothing.
    """
    from prospect.columns.process import start_numpy  # noqa: PLC0415 - once it is known whose

    start_numpy()
    os.umask(0o077)
    from prospect.files.child import die_with  # noqa: PLC0415 - behind numpy

    descriptor, lifeline = map(int, sys.argv[1:])
    # The lock goes with the parent: nobody else may begin to write before this one has ended.
    die_with(lifeline)
    status, said = _done(prepare(), descriptor)
    if said:
        sys.stdout.write(said + "\n")
        sys.stdout.flush()
    # What the interpreter would tidy up ends with the process.
    os._exit(status)


def _done(work: Work, descriptor: int) -> tuple[int, str]:
    from prospect.daemon.rights import keep_nothing  # noqa: PLC0415 - behind numpy
    from prospect.errors import ProspectError  # noqa: PLC0415 - behind numpy
    from prospect.store.directory import StoreDirectory  # noqa: PLC0415 - behind numpy

    try:
        keep_nothing()
        with StoreDirectory(f"/proc/self/fd/{descriptor}/.") as store:
            return work(store, sys.stdin.buffer.read())
    except (ProspectError, OSError) as error:
        return FAILED, str(error)
