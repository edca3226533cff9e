"""The process that sends windows of a store to a collector, and ends.

It takes the memory of a report, for a moment. Its arguments are the descriptor of the store's
directory and that of a pipe whose end is its own; a line of JSON on standard input says where to
and which windows, one on standard output how many of them are done, and why no more.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

_US = 10**6


def main() -> int:
    """Send; return the exit status."""
    os.umask(0o077)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from prospect.daemon.rights import keep_nothing  # noqa: PLC0415 - behind the environment
    from prospect.errors import ProspectError, StoreError  # noqa: PLC0415 - likewise
    from prospect.files.child import die_with  # noqa: PLC0415 - likewise
    from prospect.fleet.otlp import otlp_document, push  # noqa: PLC0415 - likewise
    from prospect.store.directory import StoreDirectory  # noqa: PLC0415 - likewise
    from prospect.store.part import Apart, read_part  # noqa: PLC0415 - likewise
    from prospect.store.specification import Specification  # noqa: PLC0415 - likewise

    descriptor, lifeline = map(int, sys.argv[1:])
    die_with(lifeline)
    sent, complaint = 0, ""
    try:
        keep_nothing()
        url, windows = json.loads(sys.stdin.read())
        with StoreDirectory(f"/proc/self/fd/{descriptor}/.") as store:
            for begin_s, session in windows:
                # The window that begins in this second.
                chosen = Specification(begin_s * _US, (begin_s + 1) * _US, {"session": (session,)})
                with suppress(StoreError):  # without hits, or gone: there is nothing to send
                    push(url, otlp_document(read_part(store, chosen, Apart(stacks=True)), "4"))
                sent += 1
    except ProspectError as error:
        complaint = str(error)
    sys.stdout.write(json.dumps([sent, complaint]) + "\n")
    return 0


if __name__ == "__main__":
    # What the interpreter would tidy up ends with the process.
    status = main()
    sys.stdout.flush()
    os._exit(status)
