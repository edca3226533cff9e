"""The process that does work on a store for the daemon: one piece, or window after window.

The daemon starts it with the name of the work (a key of `_WORKS`), the descriptor of the store's
directory, whose lock the daemon holds, that of a pipe that ends with the daemon, and that of a file
in memory with the order; see `store_children.StoreChild`. Its status, its memory and a line go to
standard output as the answer. A byte on standard input means that there is another order: loading
DuckDB takes five times as long as writing a window. The process has no rights of the daemon and
none of its memory: DuckDB takes 60 MB to write a window and a few hundred to merge those of a large
machine, a window for a collector takes as much as a report.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.daemon.daemon_limits import MERGING_MEMORY, MOST_SAID, WRITING_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from prospect.store.directory import StoreDirectory

    # Given the store and standard input; returns an exit status and a line to say, "" for none.
    Work = Callable[[StoreDirectory, bytes], tuple[int, str]]

WRITE, MERGE, PUSH, SHIP = "write", "merge", "push", "ship"
# Exit statuses; 0 if all is well.
FAILED, NO_SPACE, HAS_MORE = 1, 3, 4
_US = 10**6


def run(words: list[str]) -> NoReturn:
    """Do the work that the arguments of the process name, without any rights, and end."""
    from prospect.columns.process import start_numpy  # noqa: PLC0415 - once it is known whose

    start_numpy()
    os.umask(0o077)
    from prospect.files.child import die_with  # noqa: PLC0415 - behind numpy

    name, descriptor, lifeline, memory_fd = words
    # The lock goes with the parent: nobody else may begin to write before this one has ended.
    die_with(int(lifeline))
    _serve(_WORKS[name](), int(descriptor), int(memory_fd))
    # The process ends anyway: the interpreter need not tidy up.
    os._exit(0)


def _serve(work: Work, descriptor: int, memory_fd: int) -> None:
    """Follow one order after the other, as long as all is well and there is another one."""
    from prospect.daemon.daemon_rights import keep_nothing  # noqa: PLC0415 - behind numpy
    from prospect.errors import ProspectError  # noqa: PLC0415 - behind numpy
    from prospect.store.directory import StoreDirectory  # noqa: PLC0415 - behind numpy

    try:
        keep_nothing()
        with StoreDirectory(f"/proc/self/fd/{descriptor}/.") as store:
            while True:
                status, said = work(store, os.pread(memory_fd, os.fstat(memory_fd).st_size, 0))
                _answer(status, said)
                if status or not os.read(sys.stdin.fileno(), 1):
                    return
    except (ProspectError, OSError) as error:
        _answer(FAILED, str(error))


def _answer(status: int, said: str) -> None:
    line = said.partition("\n")[0].encode(errors="backslashreplace")[:MOST_SAID]
    os.write(sys.stdout.fileno(), b"%d %d %b\n" % (status, _own_bytes(), line))


def _own_bytes() -> int:
    """Return the most memory that this process had, without the pages of files.

    Source: proc_pid_status(5); getrusage(2) would have that of the parent, before exec.
    """
    with open("/proc/self/status", "rb") as file:
        kb = dict.fromkeys((b"VmHWM", b"RssFile"), 0)
        for line in file:
            name, _, value = line.partition(b":")
            if name in kb:
                kb[name] = int(value.split()[0])
    return 1024 * (kb[b"VmHWM"] - kb[b"RssFile"])


# Each of these imports what its work needs while the process still has the rights of the daemon:
# files of the program may be readable for root alone.


def _writing() -> Work:
    """Write one window, as `packed` gives it; `NO_SPACE` on a full disk."""
    from prospect.errors import StoreError  # noqa: PLC0415 - behind numpy
    from prospect.store.directory import PART_SUFFIX  # noqa: PLC0415 - behind numpy
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - behind numpy
    from prospect.store.writing import unpacked, write_segment  # noqa: PLC0415 - behind numpy

    engines: list[Engine] = []  # one, from the first window on

    def write(store: StoreDirectory, window: bytes) -> tuple[int, str]:
        try:
            if not engines:
                engines.append(Engine(store, memory=WRITING_MEMORY))
            write_segment(store, engines[0], *unpacked(window))
        except (StoreError, EngineError, OSError) as error:
            # Which file it is differs each time, and is nobody's.
            said = str(error).rpartition(f'{PART_SUFFIX}": ')[2]
            is_full = "No space left" in said or "Disk quota" in said
            return (NO_SPACE if is_full else FAILED), said
        return 0, ""

    return write


def _merging() -> Work:
    """Merge one hour or day that is over at a time, in seconds since 1970; `HAS_MORE` if any."""
    from prospect.store.compaction import compact  # noqa: PLC0415 - behind numpy
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - behind numpy

    def merge(store: StoreDirectory, now_s: bytes) -> tuple[int, str]:
        os.nice(10)  # nobody waits for it
        try:
            made = compact(store, Engine(store, memory=MERGING_MEMORY), int(now_s), most=1)
        except EngineError as error:
            return FAILED, str(error)
        return (HAS_MORE if any(made) else 0), ""

    return merge


def _pushing() -> Work:
    """Send windows to a collector: [URL, windows] → [how many are done, why no more], as JSON."""
    from prospect.errors import ProspectError, StoreError  # noqa: PLC0415 - behind numpy
    from prospect.fleet.pushing import document_for, push  # noqa: PLC0415 - behind numpy
    from prospect.store.part import Apart, read_part  # noqa: PLC0415 - behind numpy
    from prospect.store.specification import Specification  # noqa: PLC0415 - behind numpy

    def send(store: StoreDirectory, order: bytes) -> tuple[int, str]:
        url, windows = json.loads(order)
        sent, complaint = 0, ""
        try:
            for begin_s, session in windows:
                # The window that begins in this second.
                chosen = Specification(begin_s * _US, (begin_s + 1) * _US, {"session": (session,)})
                with suppress(StoreError):  # without hits, or gone: there is nothing to send
                    part = read_part(store, chosen, Apart(stacks=True))
                    push(url, document_for(url, part, "4"))
                sent += 1
        except ProspectError as error:
            complaint = str(error)
        return 0, json.dumps([sent, complaint])

    return send


def _shipping() -> Work:
    """Send what waits in the store: a `Shipment` → a `Shipped`, as JSON."""
    from prospect.fleet.sending import Shipment  # noqa: PLC0415 - behind numpy
    from prospect.fleet.shipping import ship  # noqa: PLC0415 - behind numpy

    def send(store: StoreDirectory, shipment: bytes) -> tuple[int, str]:
        return 0, json.dumps(ship(store, Shipment(*json.loads(shipment)), time.time()))

    return send


_WORKS: dict[str, Callable[[], Work]] = {
    WRITE: _writing,
    MERGE: _merging,
    PUSH: _pushing,
    SHIP: _shipping,
}

if __name__ == "__main__":
    run(sys.argv[1:])
