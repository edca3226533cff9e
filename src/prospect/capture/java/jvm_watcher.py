"""The process that reads JVMs: it looks at the code cache of each from time to time.

A look at a code cache that has not changed takes about a millisecond. The time between two looks
follows from what they cost and from how much they find: code that is compiled, and thrown away
again, between two looks has no name. Nothing stops a JVM meanwhile, and no file of its is opened.
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
from prospect.capture.java.told import Teller
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

# Between two looks at a process: at first, and at most. A session at a low rate goes on for months:
# as many seconds more as it takes to sample a CPU so often.
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
        result_fd: a file in memory, see `told`.
        with_classes: whether methods that are only interpreted are wanted too.
        session_hz: of a session, samples a second and CPU: its recorder forgets JVMs that have
            ended, so that others have their room, and looks cost no more than its samples do; 0
            for a recording.
    """
    # Code that was compiled and is gone before a look has no name. The time that looks take is
    # bounded.
    come_first()
    watcher = _Watcher(Teller(result_fd), with_classes=with_classes, session_hz=session_hz)
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
    watcher.say()


class _Process:
    """A JVM, and when it is looked at next."""

    def __init__(self, jvm: Jvm, key: bytes, number: int) -> None:
        self.jvm = jvm
        self.key = key
        self.number = number
        self.failures = 0
        self.used_s = 0.0
        self.due_s = self.begun_s = time.monotonic()
        self.wait_s = _SOON_S


class _Watcher:
    def __init__(self, teller: Teller, *, with_classes: bool, session_hz: float) -> None:
        self._teller = teller
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
        self._said: dict[str, Any] = {}

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
        """Look at the processes that are due; the last time at all, those that are due first."""
        if is_last and self._forgets:
            return  # nobody asks any more
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
        self.say()

    def wait_ms(self) -> int:
        """Return when to look again."""
        due = min([self._search_s, *(one.due_s for one in self._processes.values())])
        return max(0, int((due - time.monotonic()) * 1000)) + 1

    def say(self) -> None:
        """Say what could not be read, if that has changed."""
        said = {
            "refused": self._refused,
            "unknown": self._unknown,
            "left_out": self._left_out,
            "too_many": self._too_many,
        }
        if said != self._said:
            self._said = {
                name: dict(one) if isinstance(one, dict) else one for name, one in said.items()
            }
            self._teller.state(said)

    def _look_at(self, process: _Process) -> None:
        jvm = process.jvm
        if not jvm.has_begun and not self._begin(process):
            return
        changes = jvm.look()
        packed = jvm.file.take() if changes else b""
        if packed:
            self._teller.tell(jvm.pid, process.number, packed)
        if jvm.left_out:
            self._left_out[jvm.pid] = jvm.left_out
        process.wait_s = _SOON_S if changes else min(self._late_s, process.wait_s * _SLOWER)

    def _begin(self, process: _Process) -> bool:
        """Find the structures of a JVM; return whether it has them by now."""
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
        """Read a process no longer, if it has ended or cannot be read for good."""
        process = self._processes[pid]
        is_refused = isinstance(error, OSError) and error.errno in _NOT_ALLOWED
        process.failures += 1
        # It goes on while it is read: what is read once may not fit together.
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
            self._teller.end(pid, process.number)
            self._bounds.give_back(process.jvm.uid, process.jvm.file.taken_bytes)
            for said in (self._refused, self._unknown, self._left_out):
                said.pop(pid, None)


# CPU seconds that reading a user's processes may take each second: in a session at a low rate as
# much as its samples take, but never less than the second one.
_SHARE, _LEAST_SHARE = 0.02, 0.005


class _Use:
    """The rest of one user's bounds."""

    def __init__(self, now_s: float) -> None:
        self.at_s = now_s
        self.left_s = JVM_AT_ONCE_S
        self.bytes = 0


def _share_for(session_hz: float) -> float:
    """Return which part of a CPU the processes of a user may take."""
    if not session_hz:
        return _SHARE
    return min(max(share_for(session_hz) * (os.cpu_count() or 1), _LEAST_SHARE), _SHARE)


class Bounds:
    """The room that each user has left.

    Args:
        share: of a CPU, that reading a user's processes may take.
    """

    def __init__(self, share: float = _SHARE) -> None:
        self._share = share
        self._uses: dict[int, _Use] = {}
        self._bytes = 0

    def may_read(self, uid: int) -> bool:
        """Return whether there is time left for a user's processes."""
        return self._use(uid).left_s > 0

    def has_read(self, uid: int, used_s: float) -> None:
        """Count CPU time."""
        self._use(uid).left_s -= used_s

    def take(self, uid: int, size: int, of_process: int) -> bool:
        """Take room for bytes of a process, which has so many; return whether there is any."""
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
        """Give back the room of a process that has ended."""
        self._use(uid).bytes -= size
        self._bytes -= size

    def _use(self, uid: int) -> _Use:
        now_s = time.monotonic()
        use = self._uses.get(uid)
        if use is None:
            if len(self._uses) >= MOST_JVM_USERS:
                uid = -1  # all further ones share a room
            use = self._uses.setdefault(uid, _Use(now_s))
        use.left_s = min(JVM_AT_ONCE_S, use.left_s + self._share * (now_s - use.at_s))
        use.at_s = now_s
        return use


if __name__ == "__main__":  # `java_reader` says when
    _stop_fd, (_news_fd, _result_fd, _with_classes, _session_hz) = given()
    serve(_stop_fd, _news_fd, _result_fd, with_classes=_with_classes, session_hz=_session_hz)
