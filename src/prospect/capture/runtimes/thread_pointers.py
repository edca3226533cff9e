"""Finds the thread pointers of another process's threads in its memory, by what is around them.

The kernel does not say to users what it loads into the register. It points to the C library's
struct pthread, which begins with its own address, twice, and has the number that gettid() returns.
For a new thread that is at the end of its stack, for the first one in pages of their own.

Defined by: ``sysdeps/x86_64/nptl/tls.h`` (tcbhead_t) and ``nptl/descr.h`` of glibc.
"""

from __future__ import annotations

from itertools import islice

from prospect.abi.cpython import PTHREAD_TID_OFFSETS
from prospect.capture.kernel.procfs import read_maps
from prospect.capture.runtimes.process_memory import UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.runtimes.process_memory import ProcessMemory

_TID_OFFSET = PTHREAD_TID_OFFSETS[0]
_SELF_OFFSET = 16
# What one search looks at: so much at the end of each mapping without a file, the first of them.
_MOST_BYTES, _MOST_MAPPINGS = 1 << 15, 256
# Searches for threads that were not found, of a process.
_MOST_FAILURES = 16
_MOST_THREADS = 1 << 12
_MOST_CANDIDATES = 16


class ThreadPointers:
    """The thread pointers of one process."""

    def __init__(self, memory: ProcessMemory) -> None:
        self._memory = memory
        self._known: dict[int, int] = {}
        self._failures = 0

    def of(self, tid: int) -> int:
        """Return that of a thread, by its number in its own PID namespace; 0 if not found."""
        found = self._known.get(tid, 0)
        if found and self._is_of(found, tid):
            return found
        self._known.pop(tid, None)
        if self._failures >= _MOST_FAILURES:
            return 0
        candidates = islice(self._candidates(tid), _MOST_CANDIDATES)
        found = next((one for one in candidates if self._is_of(one, tid)), 0)
        if not found:
            self._failures += 1
        elif len(self._known) < _MOST_THREADS:
            self._known[tid] = found
        return found

    def _candidates(self, tid: int) -> Iterator[int]:
        number = tid.to_bytes(4, "little")
        for mapped, end in self._mappings():
            begin = max(mapped, end - _MOST_BYTES)
            try:
                content = self._memory.read(begin, end - begin)
            except UnreadableError:
                continue
            # No call of the kernel for each: the memory may be full of such numbers.
            at = content.find(number, _TID_OFFSET)
            while at >= 0:
                own = (begin + at - _TID_OFFSET).to_bytes(8, "little")
                if content.startswith(own, at - _TID_OFFSET):
                    yield begin + at - _TID_OFFSET
                at = content.find(number, at + 1)

    def _mappings(self) -> Iterator[tuple[int, int]]:
        """Give begin and end of writable memory without a file."""
        left = _MOST_MAPPINGS
        try:
            lines = read_maps(self._memory.pid).splitlines()
        except OSError:
            return
        for line in lines:
            fields = line.split(None, 5)
            # The first thread of a static program has it in the heap.
            if fields[1] != b"rw-p" or fields[5:] not in ([], [b"[heap]"]) or not left:
                continue
            left -= 1
            begin, end = (int(number, 16) for number in fields[0].split(b"-"))
            yield begin, end

    def _is_of(self, pointer: int, tid: int) -> bool:
        pieces = [(pointer, 8), (pointer + _SELF_OFFSET, 8), (pointer + _TID_OFFSET, 4)]
        try:
            found = self._memory.read_pieces(pieces)
        except UnreadableError:
            return False
        own = pointer.to_bytes(8, "little")
        return found == [own, own, tid.to_bytes(4, "little")]
