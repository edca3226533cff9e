"""The process that works on a store for the daemon: one piece of work, or all windows.

The daemon starts it with the name of the work (a key of `_WORKS`) and descriptors: of the store's
directory, whose lock the daemon has, of a pipe that ends with the daemon, and of a file in memory
with the order; see `store_children.StoreChild`. The answer on standard output is a status, the
memory and a line. A byte on standard input announces another order: loading DuckDB takes five times
as long as writing a window.

The process has neither the daemon's rights nor its memory. DuckDB takes 60 MB to write a window and
a few hundred to merge those of a large machine. A window for a collector takes as much as a report.
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

    # (store, order) → exit status and a line for a person, "" for none
    Work = Callable[[StoreDirectory, bytes], tuple[int, str]]

WRITE, MERGE, PUSH, SHIP = "write", "merge", "push", "ship"
# Exit statuses; 0 for success.
FAILED, NO_SPACE, HAS_MORE = 1, 3, 4
_US = 10**6


def run(words: list[str]) -> NoReturn:
    """Do the work in the arguments of the process, without capabilities, and exit."""
    from prospect.columns.process import start_numpy  # noqa: PLC0415 - in the child alone

    start_numpy()
    os.umask(0o077)
    from prospect.files.child import die_with  # noqa: PLC0415 - behind numpy

    name, descriptor, lifeline, memory_fd = words
    # The lock ends with the parent: this process must not write after that.
    die_with(int(lifeline))
    _serve(_WORKS[name](), int(descriptor), int(memory_fd))
    os._exit(0)  # without the interpreter's clean-up


def _serve(work: Work, descriptor: int, memory_fd: int) -> None:
    """Follow orders until one fails or there is none."""
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
    """Return the peak memory of this process, without pages of files.

    Source: proc_pid_status(5); getrusage(2) would include the parent's, from before exec.
    """
    with open("/proc/self/status", "rb") as file:
        kb = dict.fromkeys((b"VmHWM", b"RssFile"), 0)
        for line in file:
            name, _, value = line.partition(b":")
            if name in kb:
                kb[name] = int(value.split()[0])
    return 1024 * (kb[b"VmHWM"] - kb[b"RssFile"])


# Each of these imports the modules of its work while the process still has the daemon's rights: the
# program's files may be readable for root only.


def _writing() -> Work:
    """Write one window, packed by `store.writing.packed`; `NO_SPACE` on a full disk."""
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
            # Without the name of the temporary file, which differs each time.
            said = str(error).rpartition(f'{PART_SUFFIX}": ')[2]
            is_full = "No space left" in said or "Disk quota" in said
            return (NO_SPACE if is_full else FAILED), said
        return 0, ""

    return write


def _merging() -> Work:
    """Merge one hour or day that ended before a time, in seconds since 1970; `HAS_MORE` if any."""
    from prospect.store.compaction import compact  # noqa: PLC0415 - behind numpy
    from prospect.store.engine import Engine, EngineError  # noqa: PLC0415 - behind numpy

    def merge(store: StoreDirectory, now_s: bytes) -> tuple[int, str]:
        os.nice(10)  # nothing waits for it
        try:
            made = compact(store, Engine(store, memory=MERGING_MEMORY), int(now_s), most=1)
        except EngineError as error:
            return FAILED, str(error)
        return (HAS_MORE if any(made) else 0), ""

    return merge


def _pushing() -> Work:
    """Send windows to a collector: [URL, windows] → [number of sent windows, error], as JSON."""
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
                with suppress(StoreError):  # without hits, or removed: there is nothing to send
                    part = read_part(store, chosen, Apart(stacks=True))
                    push(url, document_for(url, part, "4"))
                sent += 1
        except ProspectError as error:
            complaint = str(error)
        return 0, json.dumps([sent, complaint])

    return send


def _shipping() -> Work:
    """Send waiting files of the store: a `Shipment` → a `Shipped`, as JSON."""
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
