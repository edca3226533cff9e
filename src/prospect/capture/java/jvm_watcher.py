"""The process that reads JVMs: it looks at the code cache of each from time to time.

A look at a code cache that has not changed takes about a millisecond. The time between two looks
depends on their cost and on how much they find: code that is compiled and discarded between two
looks has no name. The JVM runs meanwhile, and none of its files is opened.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import time

from prospect.capture.capture_limits import (
    JVM_AT_ONCE_S,
    JVM_FIRST_S,
    JVM_FIRST_SESSION_S,
    JVM_LAST_S,
    JVM_READY_S,
    MOST_JVM_BYTES,
    MOST_JVM_FAILURES,
    MOST_JVM_REFUSALS,
    MOST_JVM_USER_BYTES,
    MOST_JVM_USERS,
    MOST_JVMS,
    MOST_JVMS_BYTES,
    MOST_NEWS_BYTES,
)
from prospect.capture.java.jvm import Jvm
from prospect.capture.java.jvm_messages import MessageWriter
from prospect.capture.java.vm_tables import UnknownError
from prospect.capture.kernel.own_process import come_first
from prospect.capture.machine.runtime_processes import PID, NewProcesses, jvm_base, process_key
from prospect.capture.runtimes.first_runtime import share_for
from prospect.capture.runtimes.process_memory import UnreadableError, refusal
from prospect.capture.runtimes.users import user_of
from prospect.files.child import given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The time between two looks at a process: at first, and at most. A session, which may go on for
# months at a low rate, adds the time of so many samples of a CPU.
_SOON_S, _LATE_S, _SESSION_SAMPLES = 0.005, 0.25, 100.0
_SLOWER = 1.3
_SEARCH_S = 1.0
_NOT_ALLOWED = (errno.EPERM, errno.EACCES, errno.ENOSYS)


def serve(
    stop_fd: int, news_fd: int, result_fd: int, *, with_classes: bool, session_hz: float
) -> None:
    """Read until `stop_fd` is at its end.

    Args:
        stop_fd: a pipe's end.
        news_fd: a pipe's end that gives processes that map a JVM; -1 for none.
        result_fd: a file in memory, see `jvm_messages`.
        with_classes: whether methods that are only interpreted are read too.
        session_hz: samples a second and CPU of a session, 0 for a recording. The recorder of a
            session forgets JVMs that have ended, which frees room for others, and looks cost no
            more than its samples.
    """
    # Code that is gone before a look has no name. The CPU time of looks is bounded.
    come_first()
    watcher = _Watcher(MessageWriter(result_fd), with_classes=with_classes, session_hz=session_hz)
    poll = select.poll()
    for fd in (stop_fd, news_fd):
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    is_over = False
    while not is_over:
        ready = dict(poll.poll(watcher.wait_ms()))
        is_over = stop_fd in ready
        if news_fd in ready:
            news = os.read(news_fd, MOST_NEWS_BYTES) if ready[news_fd] & select.POLLIN else b""
            if not news:
                poll.unregister(news_fd)
            for at in range(0, len(news) - len(news) % PID.size, PID.size):
                watcher.add(PID.unpack_from(news, at)[0])
        watcher.look(is_last=is_over)
    watcher.send_state()


class _Process:
    """A JVM, and the time of the next look at it."""

    def __init__(self, jvm: Jvm, key: bytes, number: int) -> None:
        self.jvm = jvm
        self.key = key
        self.number = number
        self.failures = 0
        self.used_s = 0.0
        self.due_s = self.begun_s = time.monotonic()
        self.wait_s = _SOON_S


class _Watcher:
    def __init__(self, messages: MessageWriter, *, with_classes: bool, session_hz: float) -> None:
        self._messages = messages
        self._forgets = session_hz > 0
        self._with_classes = with_classes
        share = _share_for(session_hz)
        self._bounds = Bounds(share)
        self._rest = 1 / share
        self._first_s = JVM_FIRST_SESSION_S if session_hz else JVM_FIRST_S
        self._late_s = _LATE_S + (_SESSION_SAMPLES / session_hz if session_hz else 0.0)
        self._processes: dict[int, _Process] = {}
        self._new = NewProcesses()
        self._search_s = 0.0
        self._refused: dict[int, str] = {}
        self._unknown: dict[int, int] = {}
        self._left_out: dict[int, int] = {}
        self._met = self._too_many = 0
        self._sent: dict[str, Any] = {}

    def add(self, pid: int) -> None:
        """Begin to read a process."""
        key = process_key(pid)
        known = self._processes.get(pid)
        if not key or (known and known.key == key):
            return
        if len(self._processes) >= MOST_JVMS:
            self._too_many += 1
            return
        if known:
            self._end(pid)
        uid = user_of(pid)
        jvm = Jvm(
            *(pid, uid, lambda size, has: self._bounds.take(uid, size, has)),
            with_classes=self._with_classes,
        )
        self._met += 1
        self._processes[pid] = _Process(jvm, key, self._met)

    def look(self, *, is_last: bool = False) -> None:
        """Look at the processes that are due; the last time at all, in the order of their times."""
        if is_last and self._forgets:
            return  # a session reads no more
        now_s = time.monotonic()
        if now_s >= self._search_s:
            begun_s = time.thread_time()
            for pid in self._new.look():
                if pid not in self._processes and jvm_base(pid):
                    self.add(pid)
            rest_s = self._rest * (time.thread_time() - begun_s)
            self._search_s = now_s + max(_SEARCH_S, self._late_s, rest_s)
        for pid, process in sorted(self._processes.items(), key=lambda one: one[1].due_s):
            if process.due_s > now_s and not is_last:
                break
            if is_last and time.monotonic() > now_s + JVM_LAST_S:
                break
            begun_s = time.thread_time()
            if is_last or self._bounds.may_read(process.jvm.uid):
                try:
                    self._look_at(process)
                except (OSError, ValueError, struct.error, IndexError, OverflowError) as error:
                    self._fail(pid, error)
            used_s = time.thread_time() - begun_s
            self._bounds.has_read(process.jvm.uid, used_s)
            process.used_s += used_s
            rest = self._rest if process.used_s > self._first_s else 1.0
            process.due_s = time.monotonic() + max(process.wait_s, rest * used_s)
        self.send_state()

    def wait_ms(self) -> int:
        """Return the time until the next look."""
        due = min([self._search_s, *(one.due_s for one in self._processes.values())])
        return max(0, int((due - time.monotonic()) * 1000)) + 1

    def send_state(self) -> None:
        """Send the reader's state, if it has changed."""
        state = {
            "refused": self._refused,
            "unknown": self._unknown,
            "left_out": self._left_out,
            "too_many": self._too_many,
        }
        if state != self._sent:
            self._sent = {
                name: dict(one) if isinstance(one, dict) else one for name, one in state.items()
            }
            self._messages.state(state)

    def _look_at(self, process: _Process) -> None:
        jvm = process.jvm
        if not jvm.has_begun and not self._begin(process):
            return
        changes = jvm.look()
        packed = jvm.file.take() if changes else b""
        if packed:
            self._messages.add(jvm.pid, process.number, packed)
        if jvm.left_out:
            self._left_out[jvm.pid] = jvm.left_out
        process.wait_s = _SOON_S if changes else min(self._late_s, process.wait_s * _SLOWER)

    def _begin(self, process: _Process) -> bool:
        """Find the structures of a JVM; return whether it has them yet."""
        jvm = process.jvm
        base = jvm_base(jvm.pid)
        if not base:
            raise UnreadableError
        if jvm.begin(base):
            return True
        if time.monotonic() > process.begun_s + JVM_READY_S:
            raise UnknownError("it does not begin")
        return False

    def _fail(self, pid: int, error: Exception) -> None:
        """Stop reading a process if it has ended or can never be read."""
        process = self._processes[pid]
        is_refused = isinstance(error, OSError) and error.errno in _NOT_ALLOWED
        process.failures += 1
        # It runs meanwhile, so a reading may be inconsistent once.
        if (
            process.failures < MOST_JVM_FAILURES
            and not is_refused
            and process_key(pid) == process.key
        ):
            return
        self._end(pid)
        if is_refused and len(self._refused) < MOST_JVM_REFUSALS:
            self._refused[pid] = refusal(pid)
        elif process_key(pid) == process.key and len(self._unknown) < MOST_JVM_REFUSALS:
            self._unknown[pid] = process.jvm.version

    def _end(self, pid: int) -> None:
        process = self._processes.pop(pid)
        if self._forgets:
            self._messages.end(pid, process.number)
            self._bounds.give_back(process.jvm.uid, process.jvm.file.taken_bytes)
            for reported in (self._refused, self._unknown, self._left_out):
                reported.pop(pid, None)


# CPU seconds for reading a user's processes each second. In a session at a low rate they are those
# of its samples, but at least the second number.
_SHARE, _LEAST_SHARE = 0.02, 0.005


class _Use:
    """The rest of one user's bounds."""

    def __init__(self, now_s: float) -> None:
        self.at_s = now_s
        self.left_s = JVM_AT_ONCE_S
        self.bytes = 0


def _share_for(session_hz: float) -> float:
    """Return the share of a CPU for reading the processes of a user."""
    if not session_hz:
        return _SHARE
    return min(max(share_for(session_hz) * (os.cpu_count() or 1), _LEAST_SHARE), _SHARE)


class Bounds:
    """The CPU time and memory that each user has left."""

    def __init__(self, share: float = _SHARE) -> None:
        """Prepare; `share` of a CPU is for reading a user's processes."""
        self._share = share
        self._uses: dict[int, _Use] = {}
        self._bytes = 0

    def may_read(self, uid: int) -> bool:
        """Return whether a user has CPU time left."""
        return self._use(uid).left_s > 0

    def has_read(self, uid: int, used_s: float) -> None:
        """Count CPU time."""
        self._use(uid).left_s -= used_s

    def take(self, uid: int, size: int, of_process: int) -> bool:
        """Take room for bytes of a process, which has `of_process`; return whether that worked."""
        use = self._use(uid)
        is_room = (
            of_process + size <= MOST_JVM_BYTES
            and use.bytes + size <= MOST_JVM_USER_BYTES
            and self._bytes + size <= MOST_JVMS_BYTES
        )
        if is_room:
            use.bytes += size
            self._bytes += size
        return is_room

    def give_back(self, uid: int, size: int) -> None:
        """Free the room of a process that has ended."""
        self._use(uid).bytes -= size
        self._bytes -= size

    def _use(self, uid: int) -> _Use:
        now_s = time.monotonic()
        use = self._uses.get(uid)
        if use is None:
            if len(self._uses) >= MOST_JVM_USERS:
                uid = -1  # all further users share a room
            use = self._uses.setdefault(uid, _Use(now_s))
        use.left_s = min(JVM_AT_ONCE_S, use.left_s + self._share * (now_s - use.at_s))
        use.at_s = now_s
        return use


if __name__ == "__main__":  # started by `java_reader`
    _stop_fd, (_news_fd, _result_fd, _with_classes, _session_hz) = given()
    serve(_stop_fd, _news_fd, _result_fd, with_classes=_with_classes, session_hz=_session_hz)
