"""The Java functions of one recording: the child that reads JVMs (`jvm_watcher`), its result."""

from __future__ import annotations

import marshal
import os

from prospect.capture.capture_limits import JAVA_LAST_WORD_S, MOST_ENDED_BYTES
from prospect.capture.java.jvm_messages import KIND_END, KIND_STATE, MessageReader
from prospect.files.child import Child
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PROGRAM = "prospect.capture.java.jvm_watcher"


class JavaFunctions(Closing):
    """The reader of one recording or session.

    Attributes:
        pids: the processes that work for it, or have.
    """

    def __init__(self) -> None:
        self.child = Child()
        self.pids: list[int] = []
        self._failure = ""
        self._result_fd = os.memfd_create("java", os.MFD_CLOEXEC)
        self._messages = MessageReader(self._result_fd)
        self._files: dict[tuple[int, int], list[bytes]] = {}
        self._copies: dict[tuple[int, int], dict[str, Any]] = {}
        self._grown: set[tuple[int, int]] = set()
        # JVMs that have ended since the last `files`, and those that had ended by then.
        self._ended: dict[tuple[int, int], None] = {}
        self._leaving: dict[tuple[int, int], None] = {}
        self._forgotten = 0
        self._state: dict[str, Any] = {}

    def start(
        self,
        news_fd: int = -1,
        *,
        with_stacks: bool = False,
        session_hz: float = 0.0,
        is_program: bool = False,
    ) -> None:
        """Start the child.

        Args:
            news_fd: a pipe's end that gives processes that map a JVM; -1 without: they are then
                found in /proc alone.
            with_stacks: whether stacks are copied, which have interpreted frames.
            session_hz: the rate of a session, 0 for a recording. A session forgets a JVM that has
                ended after the next part, which may have records of its end.
            is_program: whether the child is a separate program, without pages of this process: a
                daemon has much memory when it begins another session.
        """
        fds = news_fd, self._result_fd
        kept = [fd for fd in fds if fd >= 0]

        def serve(stop_fd: int) -> None:
            # The import costs the command nothing here.
            from prospect.capture.java.jvm_watcher import serve  # noqa: PLC0415 - in the child alone

            serve(stop_fd, *fds, with_classes=with_stacks, session_hz=session_hz)

        try:
            if is_program:
                self.child.start_program(_PROGRAM, kept, (*fds, with_stacks, session_hz))
            else:
                self.child.start(serve, kept)
            self.pids.append(self.child.pid)
        except OSError as error:
            self._failure = os.strerror(error.errno or 0)

    @property
    def used_s(self) -> tuple[float, float]:
        """User and system time of the child, once it has ended."""
        return self.child.used_s

    @property
    def limits(self) -> list[str]:
        """Sentences on what could not be read so far."""
        self._listen()
        said = []
        if self._failure:
            said.append(f"Java functions were not read: {self._failure}.")
        by_reason: dict[str, list[int]] = {}
        for pid, reason in self._state.get("refused", {}).items():
            by_reason.setdefault(reason, []).append(pid)
        for reason, pids in by_reason.items():
            said.append(f"Java functions of {_processes(pids)} were not read: {reason}.")
        unknown = self._state.get("unknown", {})
        if unknown:
            pid, version = next(iter(unknown.items()))
            which = f"JVM {version}" if version else "JVM"
            others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            said.append(
                f"{which} (process {pid}{others}): this version of Prospect does not know its"
                " structures, so Java functions were not read."
            )
        for pid, count in self._state.get("left_out", {}).items():
            said.append(
                f"Process {pid}: {count} pieces of compiled Java code have no names, which would"
                " take more memory than a process or its user may."
            )
        if count := self._state.get("too_many", 0):
            said.append(f"Java functions: processes beyond the first ones, not read: {count}.")
        if self._forgotten:
            said.append(
                "Java functions: JVMs that ended and whose names were forgotten early, as there"
                f" were too many: {self._forgotten}."
            )
        return said

    def stop(self) -> None:
        """Ask the child to end, before `finish`."""
        self.child.stop()

    def finish(self) -> None:
        """End the child, and read its last messages."""
        if self.child.pid:
            self.child.stop()
            ended = self.child.reap(JAVA_LAST_WORD_S)
            if ended and self.child.status:
                self._failure = f"their reader failed with status {self.child.status}"
            elif not ended:
                self.child.kill()
                self._failure = "their reader did not end in time"
        self._listen()

    def files(self) -> list[dict[str, Any]]:
        """Return the file of each JVM, for the description: see docs/recording.md."""
        # This import takes as long as the rest of this method.
        import base64  # noqa: PLC0415 - few recordings have such files

        self._listen()
        for key in self._grown:
            packed = base64.b64encode(b"".join(self._files[key])).decode("ascii")
            self._copies[key] = {"pid": key[0], "kind": "hotspot", "zlib": packed}
        self._grown.clear()
        files = list(self._copies.values())
        for key in self._leaving:
            self._forget(key)
        self._leaving, self._ended = self._ended, {}
        return files

    def close(self) -> None:
        """Leave nothing behind."""
        self.child.kill()
        if self._result_fd >= 0:
            os.close(self._result_fd)
            self._result_fd = -1

    def _listen(self) -> None:
        if self._result_fd < 0:
            return
        for pid, number, kind, content in self._messages.messages():
            key = pid, number
            if kind == KIND_STATE:
                self._state = marshal.loads(content)  # noqa: S302 - by a fork of this process
            elif kind == KIND_END:
                self._ended[key] = None
            else:
                self._files.setdefault(key, []).append(content)
                self._grown.add(key)
        self._keep_small()

    def _keep_small(self) -> None:
        """Forget JVMs that ended first while the files of all that ended are too large."""
        ended = [*self._leaving, *self._ended]
        sizes = [sum(map(len, self._files.get(key, ()))) for key in ended]
        left = sum(sizes)
        for key, size in zip(ended, sizes, strict=True):
            if left <= MOST_ENDED_BYTES:
                break
            left -= size
            self._forgotten += 1
            self._forget(key)
            self._leaving.pop(key, None)
            self._ended.pop(key, None)

    def _forget(self, key: tuple[int, int]) -> None:
        self._files.pop(key, None)
        self._copies.pop(key, None)
        self._grown.discard(key)


def _processes(pids: list[int]) -> str:
    more = f" and {len(pids) - 1} more" if len(pids) > 1 else ""
    return f"process {pids[0]}{more}"
