"""The processes of runtimes among the sampled ones, each found at its first sample.

Defined by: proc(5); pid_namespaces(7) for the numbers of threads.
"""

from __future__ import annotations

import errno
import os
from itertools import chain, islice

from prospect.abi import runtime_frames as wire
from prospect.abi.cpython import PTHREAD_TID_OFFSETS
from prospect.capture.capture_limits import (
    MOST_CANDIDATES,
    MOST_FAILURES,
    MOST_KNOWN_PROCESSES,
    MOST_KNOWN_THREADS,
    MOST_LINKED,
    MOST_REFUSALS,
    MOST_SEARCHED_BYTES,
    MOST_SEARCHED_MAPPINGS,
)
from prospect.capture.kernel.procfs import read_if_there, read_maps
from prospect.capture.machine.runtime_processes import (
    READ_FROM_MEMORY,
    WORDS,
    process_key,
    runtime_of,
)
from prospect.capture.python.memory_walk import FrameReader
from prospect.capture.runtimes.first_runtime import mappings_of
from prospect.capture.runtimes.image_reader import ImageReader
from prospect.capture.runtimes.process_memory import ProcessMemory, UnreadableError, refusal
from prospect.capture.runtimes.runtime import Unknown
from prospect.capture.runtimes.users import Users, user_of
from prospect.light import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.machine.mapping_records import MappingRecord
    from prospect.capture.runtimes.runtime import Placed
    from prospect.capture.runtimes.walk_state import WalkState
    from prospect.capture.v8.sampled_stacks import StackWalker

# The time until another look at a process whose files could not be read.
_AGAIN_NS, _NEVER_NS = 1_000_000_000, 1 << 63


class SampledProcess:
    """A process of a runtime.

    Attributes:
        image: number of its runtime, which forked processes share.
        python: reads the frames of CPython's threads.
        v8: reads those of V8's.
        pointers: the thread pointers, for other runtimes.
        before: thread → the time of its last sample that was read at once, and the record.
    """

    def __init__(self, pid: int, image: int, placed: Placed) -> None:
        self.pid = pid
        self.image = image
        self.placed = placed
        self.memory = ProcessMemory(pid)
        self.python = FrameReader(self.memory, placed) if placed.runtime == wire.CPYTHON else None
        self.v8: StackWalker | None = None
        if placed.runtime == wire.V8:
            from prospect.capture.v8.sampled_stacks import StackWalker  # noqa: PLC0415 - once V8 is met

            self.v8 = StackWalker(self.memory, image, placed)
        self.pointers = ThreadPointers(self.memory)
        self._shares_numbers = _pid_namespace(str(pid)) == _pid_namespace("self")
        self._own: dict[int, int] = {}
        self.before: dict[int, tuple[int, bytes]] = {}

    def note(self, tid: int, time_ns: int, record: bytes) -> None:
        """Keep the record of a thread at a sample."""
        if len(self.before) >= MOST_KNOWN_THREADS and tid not in self.before:
            self.before.clear()
        self.before[tid] = time_ns, record

    def runs(self, tid: int) -> bool:
        """Return whether a thread runs or is runnable."""
        stat = read_if_there(f"/proc/{self.pid}/task/{tid}/stat")
        return stat.rpartition(b") ")[2][:1] == b"R"

    def own_tid(self, tid: int) -> int:
        """Return the number that a thread has in the PID namespace of its process."""
        if self._shares_numbers:
            return tid
        if tid not in self._own:
            if len(self._own) >= MOST_KNOWN_THREADS:
                self._own.clear()
            self._own[tid] = tid
            for line in read_if_there(f"/proc/{self.pid}/task/{tid}/status").splitlines():
                if line.startswith(b"NSpid:"):
                    self._own[tid] = int(line.split()[-1])
        return self._own[tid]

    def forget(self, tid: int) -> None:
        """Forget a thread that has ended."""
        self._own.pop(tid, None)
        self.before.pop(tid, None)
        if self.python:
            self.python.forget(tid)


def _pid_namespace(process: str) -> str:
    try:
        return os.readlink(f"/proc/{process}/ns/pid")
    except OSError:
        return ""


class SampledProcesses:
    """The sampled processes that are of a runtime, by their records.

    A process without records is looked at once.

    Attributes:
        used_s: user and system time of the child that reads files, once it has ended.
    """

    def __init__(self, state: WalkState) -> None:
        """Prepare; `state` counts what could not be read."""
        self._state = state
        self._files = ImageReader(state.reads_by)
        self._users = Users()
        # None for a process of no runtime, or one that cannot be read.
        self._known: dict[int, SampledProcess | None] = {}
        self._again_ns: dict[int, int] = {}
        self._images: dict[bytes, tuple[int, Placed]] = {}
        self._pids: dict[int, int] = {}
        self._met = 0
        self._refused: dict[int, str] = {}
        self.used_s = (0.0, 0.0)

    def of(self, pid: int) -> SampledProcess | None:
        """Return a process, after a look at a new one; None if it is of no runtime."""
        if self._again_ns.get(pid, _NEVER_NS) <= monotonic_ns():
            del self._again_ns[pid]
            self._known.pop(pid, None)
        if pid not in self._known:
            while len(self._known) >= MOST_KNOWN_PROCESSES:
                del self._known[next(iter(self._known))]
            self._known[pid] = self._found(pid)
        return self._known[pid]

    def may_be_runtime(self, pid: int) -> bool:
        """Return whether a process may be of a runtime, as far as is known."""
        return self._known.get(pid, self) is not None

    def forked(self, pid: int, parent: int) -> None:
        """Note a new process: a process of no runtime forks none."""
        if self._known.get(parent, self) is None:
            self._known.setdefault(pid, None)

    def executed(self, pid: int) -> None:
        """Note that a process executes another program."""
        self._known.pop(pid, None)

    def mapped(self, pid: int, record: bytes) -> None:
        """Note that a process maps a file, which may be a runtime's library."""
        if any(word in record for word in WORDS) and not self._known.get(pid):
            self._known.pop(pid, None)
        elif (process := self._known.get(pid)) and process.v8 and b"//anon" not in record:
            process.v8.forget_files()

    def ended(self, pid: int, tid: int) -> None:
        """Note the end of a thread, or of a process."""
        if pid == tid:
            self._known.pop(pid, None)
        elif process := self._known.get(pid):
            process.forget(tid)

    def refused(self, pid: int) -> None:
        """Note that a process may not be read."""
        self._known[pid] = None
        if len(self._refused) < MOST_REFUSALS:
            self._refused[pid] = refusal(pid)

    def pid_of(self, image: int) -> int:
        """Return a process with a runtime, by the number of the latter."""
        return self._pids.get(image, 0)

    @property
    def refusals(self) -> list[str]:
        """Sentences on processes that may not be read, one for each reason."""
        by_reason: dict[str, list[int]] = {}
        for pid, reason in self._refused.items():
            by_reason.setdefault(reason, []).append(pid)
        return [
            f"Functions of process {pids[0]}"
            f"{f' and {len(pids) - 1} more' if len(pids) > 1 else ''} were not read: {reason}."
            for reason, pids in by_reason.items()
        ]

    def close(self) -> None:
        """End the child that reads files."""
        self._files.close()
        self.used_s = self._files.used_s

    def _found(self, pid: int) -> SampledProcess | None:
        key = process_key(pid)
        if not key:
            return None
        if key not in self._images:
            interpreter = self._interpreter(pid)
            if interpreter is None:
                return None
            while len(self._images) >= MOST_KNOWN_PROCESSES:
                del self._images[next(iter(self._images))]
                self._pids.pop(self._met - MOST_KNOWN_PROCESSES, None)
            self._met += 1
            self._images[key] = self._met, interpreter
            self._pids[self._met] = pid
        image, interpreter = self._images[key]
        process = SampledProcess(pid, image, interpreter)
        try:
            process.memory.number(interpreter.text[0])
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
                self.refused(pid)
                return None
        return process

    def _interpreter(self, pid: int) -> Placed | None:
        """Return the runtime among the files that a process has mapped."""
        try:
            mappings = list(mappings_of(pid))
        except OSError:
            return None  # it has ended, or is another user's
        found = (self._in_file(one) for one in mappings if runtime_of(one.path) in READ_FROM_MEMORY)
        return next(filter(None, found), None)

    def _in_file(self, mapping: MappingRecord) -> Placed | None:
        uid = user_of(mapping.pid)
        may_look = self._users.may_look(uid)
        answer = self._users.read(self._files, mapping, uid) if may_look else None
        if answer is None:
            self._state.count(missed=1)
            return None
        if answer.is_held_up or answer.is_missing:
            while len(self._again_ns) >= MOST_KNOWN_PROCESSES:
                del self._again_ns[next(iter(self._again_ns))]
            self._again_ns[mapping.pid] = monotonic_ns() + _AGAIN_NS
        self._state.count(missed=answer.is_missing, held_up=answer.is_held_up)
        if isinstance(answer.image, Unknown):
            self._state.unknown(answer.image.runtime, answer.image.version, mapping.pid)
            return None
        return answer.image and answer.image.placed(mapping.start, mapping.offset)


# Users cannot read the register with a thread's pointer. It points to the C library's struct
# pthread, which begins with its own address, twice, and has the number that gettid() returns. A new
# thread's is at the end of its stack, the first one's in its own pages. Since glibc 2.42 several
# stacks may be one mapping. The structures of all threads but the first are in one list, so another
# thread's leads to it.
#
# Defined by: ``sysdeps/x86_64/nptl/tls.h`` (tcbhead_t) and ``nptl/descr.h`` of glibc.

_TID_OFFSET = PTHREAD_TID_OFFSETS[0]
_SELF_OFFSET = 16
_LIST_OFFSET, _ALIGNMENT = _TID_OFFSET - 16, 64


class ThreadPointers:
    """Finds the thread pointers of one process in its memory."""

    def __init__(self, memory: ProcessMemory) -> None:
        self._memory = memory
        self._known: dict[int, int] = {}
        self._failures = 0

    def of(self, tid: int) -> int:
        """Return the pointer of a thread, by its number in its PID namespace; 0 if not found."""
        found = self._known.get(tid, 0)
        if found and self._is_of(found, tid):
            return found
        self._known.pop(tid, None)
        if self._failures >= MOST_FAILURES:
            return 0
        candidates = islice(self._candidates(tid), MOST_CANDIDATES)
        found = next((one for one in candidates if self._is_of(one, tid)), 0)
        found = found or self._linked(tid)
        if not found:
            self._failures += 1
        elif len(self._known) < MOST_KNOWN_THREADS:
            self._known[tid] = found
        return found

    def _candidates(self, tid: int) -> Iterator[int]:
        number = tid.to_bytes(4, "little")
        for begin, content in self._ends():
            # This makes no system call for each: the memory may be full of such numbers.
            at = content.find(number, _TID_OFFSET)
            while at >= 0:
                own = (begin + at - _TID_OFFSET).to_bytes(8, "little")
                if content.startswith(own, at - _TID_OFFSET):
                    yield begin + at - _TID_OFFSET
                at = content.find(number, at + 1)

    def _linked(self, tid: int) -> int:
        """Return the pointer of a thread, found by those of others; 0 if none leads to it."""
        known = list(self._known.values())[-MOST_CANDIDATES:]
        for other in chain(known, islice(self._others(), MOST_CANDIDATES)):
            at = other
            for _ in range(MOST_LINKED):
                try:
                    at = self._memory.number(at + _LIST_OFFSET) - _LIST_OFFSET
                except OSError:
                    break
                if at <= 0 or at == other:
                    break
                if self._is_of(at, tid):
                    return at
        return 0

    def _others(self) -> Iterator[int]:
        """Give likely pointers of any threads."""
        for begin, content in self._ends():
            for at in range(0, len(content) - _TID_OFFSET, _ALIGNMENT):
                own = (begin + at).to_bytes(8, "little")
                if content.startswith(own, at) and content.startswith(own, at + _SELF_OFFSET):
                    yield begin + at

    def _ends(self) -> Iterator[tuple[int, bytes]]:
        """Give the beginnings and contents of the ends of mappings that may have structures."""
        for mapped, end in self._mappings():
            begin = max(mapped, end - MOST_SEARCHED_BYTES)
            try:
                yield begin, self._memory.read(begin, end - begin)
            except UnreadableError:
                continue

    def _mappings(self) -> Iterator[tuple[int, int]]:
        """Give begin and end of writable memory without a file."""
        left = MOST_SEARCHED_MAPPINGS
        try:
            lines = read_maps(self._memory.pid).splitlines()
        except OSError:
            return
        for line in lines:
            fields = line.split(None, 5)
            # The structure of a static program's first thread is in the heap.
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
