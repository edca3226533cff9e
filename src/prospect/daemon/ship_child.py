"""The process that sends what waits in a store, and ends.

What reaches other machines has no rights and none of the daemon's memory. Its arguments are the
descriptor of the store's directory and that of a pipe whose end is its own; a line of JSON on
standard input is the shipment, one on standard output what became of it.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> int:
    """Send; return the exit status."""
    os.umask(0o077)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from prospect.daemon.rights import keep_nothing  # noqa: PLC0415 - behind the environment
    from prospect.errors import ProspectError  # noqa: PLC0415 - likewise
    from prospect.files.child import die_with  # noqa: PLC0415 - likewise
    from prospect.fleet.sending import Shipment  # noqa: PLC0415 - likewise
    from prospect.fleet.shipping import ship  # noqa: PLC0415 - likewise
    from prospect.store.directory import StoreDirectory  # noqa: PLC0415 - likewise

    descriptor, lifeline = map(int, sys.argv[1:])
    die_with(lifeline)
    try:
        keep_nothing()
        with StoreDirectory(f"/proc/self/fd/{descriptor}/.") as store:
            shipped = ship(store, Shipment(*json.loads(sys.stdin.read())), time.time())
    except ProspectError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(shipped) + "\n")
    return 0


if __name__ == "__main__":
    # What the interpreter would tidy up ends with the process.
    status = main()
    sys.stdout.flush()
    os._exit(status)
