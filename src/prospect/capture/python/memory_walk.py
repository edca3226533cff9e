"""The Python frames of a thread, read from its process's memory while that runs on.

`walker` does the same in the kernel; this is for users who may not load programs there. The thread
is found by its number among those of all interpreters. The memory may change meanwhile, or be
hostile: every loop is bounded, and a walk that fails is repeated once.

The pages of a thread's frames at its last walk are read together with its state, so most walks see
the frames of one moment. The call copies for some microseconds, in which the thread may leave a
frame. Up to CPython 3.10 that cuts the chain there, and reading again does not help if functions
call each other all the time.

Defined by: `abi.cpython`.
"""

from __future__ import annotations

import struct

from prospect.abi import cpython
from prospect.abi import runtime_frames as wire
from prospect.capture.capture_limits import (
    MOST_INTERPRETERS,
    MOST_KEPT_PAGES,
    MOST_PYTHON_THREADS,
    MOST_WALK_PAGES,
)
from prospect.capture.python.interpreters import layouts_of
from prospect.capture.runtimes.process_memory import PAGE, Snapshot, UnreadableError
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.runtimes.process_memory import ProcessMemory
    from prospect.capture.runtimes.runtime import Placed

    # Address of each code object → its signature, and the 8 bytes that it is made of.
    Codes = dict[int, tuple[int, bytes]]

_ATTEMPTS = 2
_MOST_COPIES = 1 << 16
_WORD, _HALF = struct.Struct("<Q"), struct.Struct("<I")


class Walk(NamedTuple):
    """The result of a walk.

    Attributes:
        status: as in `abi.runtime_frames`.
        rows: a `wire.FRAME` of each frame, the innermost first.
        read_ns: when its frames were read.
    """

    status: int
    rows: tuple[bytes, ...] = ()
    read_ns: int = 0
    codes: Codes = {}  # noqa: RUF012 - nobody changes it


class FrameReader:
    """Reads the frames of one process's threads."""

    def __init__(self, memory: ProcessMemory, interpreter: Placed) -> None:
        self._memory = memory
        # The pointer to the first interpreter.
        self._first = interpreter.addresses[1]
        _, self._frame, self._code, self._threads = layouts_of(interpreter)
        threads, frame = self._threads, self._frame
        has_native = threads.native != cpython.NO_OFFSET
        self._id = threads.native if has_native else threads.number
        self._has_native = has_native
        self._state_bytes = 8 + max(self._id, frame.thread_frame, threads.next_thread)
        # Thread → the addresses of its state, and of its number if that is elsewhere.
        self._known: dict[int, tuple[int, int]] = {}
        # The interpreter, if there is only one.
        self._only = 0
        # Thread → the pages of its last walk.
        self._kept: dict[int, list[int]] = {}

    def forget(self, tid: int) -> None:
        """Forget the places of the state and the frames of a thread that has ended."""
        self._known.pop(tid, None)
        self._kept.pop(tid, None)

    def walk(self, tid: int) -> Walk:
        """Return the frames of a thread, by its number in the process's own PID namespace.

        Raises:
            UnreadableError: the process has ended, or its memory may not be read.
        """
        walk = Walk(wire.NO_THREAD)
        for _ in range(_ATTEMPTS):
            snapshot = Snapshot(self._memory, MOST_WALK_PAGES)
            status, frame = self._innermost(tid, snapshot)
            if not frame:
                return Walk(status, read_ns=monotonic_ns())
            walk = self._walk(frame, snapshot)
            if walk.status != wire.FAULT:
                self._kept[tid] = list(snapshot.used)[:MOST_KEPT_PAGES]
                break
            self._kept.pop(tid, None)
        return walk

    def _innermost(self, tid: int, snapshot: Snapshot) -> tuple[int, int]:
        """Return the innermost frame of a thread, or a status and 0 if there is none.

        `snapshot` gets the pages that were read at the same moment.
        """
        state, place = self._known.get(tid, (0, 0))
        if state and self._only:
            kept = self._kept.get(tid, [])
            pieces = [
                (self._first, 8),
                (self._only + self._threads.next_interpreter, 8),
                (place or state + self._id, _HALF.size),
                # The frames are copied right after the state that leads to them.
                (state, self._state_bytes),
                *((page, PAGE) for page in kept),
            ]
            try:
                first, following, number, content, *pages = self._memory.read_pieces(pieces)
            except UnreadableError:
                self._kept.pop(tid, None)
                return self._search(tid)
            is_only = first == _WORD.pack(self._only) and following == bytes(8)
            (thread,) = _WORD.unpack_from(content, self._id)
            is_place = not place or place - thread in cpython.PTHREAD_TID_OFFSETS
            if is_only and is_place and number == _HALF.pack(tid):
                snapshot.hold(dict(zip(kept, pages, strict=True)))
                return self._frame_of(content)
        return self._search(tid)

    def _search(self, tid: int) -> tuple[int, int]:
        """Search all interpreters, the newest first: it runs calls of the older ones."""
        self._known.pop(tid, None)
        status = wire.NO_THREAD
        interpreters: list[int] = []
        at = self._memory.number(self._first)
        while at and len(interpreters) < MOST_INTERPRETERS:
            interpreters.append(at)
            at = self._memory.number(at + self._threads.next_interpreter)
        self._only = interpreters[0] if len(interpreters) == 1 else 0
        try:
            for state, content in self._states(interpreters):
                place = self._place_of(content, tid)
                if place is not None:
                    self._known[tid] = state, place
                    status, frame = self._frame_of(content)
                    if frame:
                        return status, frame
        except UnreadableError:
            return wire.FAULT, 0  # a thread has just ended
        return status, 0

    def _states(self, interpreters: list[int]) -> Iterator[tuple[int, bytes]]:
        """Give the addresses of thread states, and their first bytes."""
        left = MOST_PYTHON_THREADS
        for interpreter in interpreters:
            at = self._memory.number(interpreter + self._threads.threads)
            while at and left:
                left -= 1
                content = self._memory.read(at, self._state_bytes)
                yield at, content
                (at,) = _WORD.unpack_from(content, self._threads.next_thread)

    def _place_of(self, content: bytes, tid: int) -> int | None:
        """Return the address of the number of thread `tid`, 0 if in its state; None for others."""
        (number,) = _WORD.unpack_from(content, self._id)
        if self._has_native:
            return 0 if number == tid else None
        for offset in cpython.PTHREAD_TID_OFFSETS:
            try:
                if self._memory.read(number + offset, _HALF.size) == _HALF.pack(tid):
                    return int(number + offset)
            except UnreadableError:
                continue
        return None

    def _frame_of(self, content: bytes) -> tuple[int, int]:
        """Return the innermost frame of a thread's state, or a status and 0 for none."""
        (at,) = _WORD.unpack_from(content, self._frame.thread_frame)
        if at and self._frame.cframe != cpython.NO_OFFSET:
            try:
                at = self._memory.number(at + self._frame.cframe)
            except UnreadableError:
                return wire.FAULT, 0
        return wire.NO_FRAME, at

    def _walk(self, at: int, snapshot: Snapshot) -> Walk:
        frames: list[tuple[int, int, int]] = []
        status = wire.WALKED
        layout = self._frame
        try:
            while at:
                if len(frames) == wire.MOST_FRAMES:
                    status = wire.TRUNCATED
                    break
                content, begin = snapshot.at(at + layout.base, layout.size)
                code = _WORD.unpack_from(content, begin + layout.code)[0] & -4
                last = _WORD.unpack_from(content, begin + layout.last)[0]
                (at,) = _WORD.unpack_from(content, begin + layout.back)
                if layout.last_is_address:
                    last -= self._bytecode_of(code, content, begin)
                frames.append((code, last & 0xFFFFFFFF, content[begin + layout.owner]))
        except UnreadableError:
            status = wire.FAULT
        codes = self._signatures({code for code, _, _ in frames})
        if codes is None:
            return Walk(wire.FAULT, read_ns=snapshot.read_ns)
        rows = tuple(
            wire.FRAME.pack(code, last, owner | codes[code][0] << wire.SIGNATURE_SHIFT)
            for code, last, owner in frames
        )
        return Walk(status, rows, snapshot.read_ns, codes)

    def _bytecode_of(self, code: int, content: bytes, begin: int) -> int:
        """Return the origin of the offsets of instructions: the code object, but for copies.

        Without the global lock each thread may run a copy of the bytecode, whose number the frame
        has.
        """
        if self._frame.copy == cpython.NO_OFFSET:
            return code
        (number,) = _HALF.unpack_from(content, begin + self._frame.copy)
        if not 0 < number < _MOST_COPIES:
            return code
        copies = self._memory.number(code + self._code.copies)
        # the number of copies, then their addresses
        return self._memory.number(copies + 8 + 8 * number) - self._code.instructions

    def _signatures(self, codes: set[int]) -> Codes | None:
        """Return the signatures of code objects; None if one of them cannot be read."""
        order = list(codes)
        if not order:
            return {}
        try:
            found = self._memory.read_pieces([(one + self._code.signature, 8) for one in order])
        except UnreadableError:
            return None
        return {
            code: (wire.signature_of(int.from_bytes(one, "little")), one)
            for code, one in zip(order, found, strict=True)
        }
