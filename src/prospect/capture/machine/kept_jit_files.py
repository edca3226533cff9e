"""Keeps files in which JITs name their code until the recording ends.

The holder (`jit_file_holder`) is a child: it looks into the /tmp of other processes, where a mount
may block it for ever, by accident or on purpose. A holder that is held up is abandoned, and another
continues without that place. Memory that it shares with the recorder names the place that it waits
for.
"""

from __future__ import annotations

import os
import time

from prospect.capture.capture_limits import JIT_WHOLE_S, MOST_JIT_CHILDREN
from prospect.capture.kernel.procfs import stat_fields
from prospect.files.child import Child, Progress, told
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class JitFiles(Closing):
    """Keeps the files of one recording.

    Attributes:
        pids: of all holders.
        used_s: user and system time of those that have ended.
        limits: sentences about files that were not kept.
    """

    def __init__(self, own_tmp: bytes = b"/tmp") -> None:
        self._own_tmp = own_tmp
        self._child = Child()
        self._left: list[Child] = []
        self._progress = Progress()
        self._silent: set[int] = set()
        self._result_fd = -1
        self.pids: list[int] = []
        self.used_s = (0.0, 0.0)
        self._told_s: tuple[float, float] | None = None
        self.limits: list[str] = []

    def start(self) -> None:
        """Start a holder."""
        if self._result_fd < 0:
            self._result_fd = os.memfd_create("jit-files", os.MFD_CLOEXEC)
        self._progress.at(0)
        self._child = Child()

        def serve(stop_fd: int) -> None:
            from prospect.capture.machine.jit_file_holder import serve  # noqa: PLC0415 - in the child alone

            serve(stop_fd, self._result_fd, self._progress, self._silent, self._own_tmp)

        try:
            self._child.start(serve, (self._result_fd,))
            self.pids.append(self._child.pid)
        except OSError as error:
            self.limits.append(
                f"Files with names of JIT code were not kept ({os.strerror(error.errno or 0)})."
            )

    def look(self) -> bool:
        """Replace a holder that is held up, and return whether there was one.

        Call it after each pass over the rings.
        """
        place = self._progress.late_place
        is_late = place and place not in self._silent
        # A holder that only waits for a CPU, however long, is not held up.
        if not is_late or stat_fields(f"/proc/{self._child.pid}")[:1] == [b"R"]:
            return False
        if not self._silent:
            self.limits.append(
                "A file system below some process's /tmp did not answer in time: names of JIT"
                " code that are in files there were not kept."
            )
        self._silent.add(place)
        self._child.kill(wait_s=0.0)
        self._left.append(self._child)
        if len(self._left) < MOST_JIT_CHILDREN:
            self.start()
            return True
        return False

    def stop(self) -> None:
        """Ask the holder to finish, before `collect`."""
        self._child.stop()

    def collect(self) -> list[dict[str, Any]]:
        """Return copies of the files, for the recording's description; see docs/recording.md."""
        self._child.stop()
        until_s = time.monotonic() + JIT_WHOLE_S
        while not self._progress.result_bytes and self._child.pid and time.monotonic() < until_s:
            self._child.reap(0.002)  # the result may come long before its end
            if self.look():
                self._child.stop()
        if not self._progress.result_bytes:
            if not self.limits:
                why = "in time"
                if not self._child.pid and self._child.status:
                    why = f"(their reader failed with status {self._child.status})"
                self.limits.append(f"Files with names of JIT code were not kept {why}.")
            return []
        found = told(self._result_fd)
        self.limits += found["limits"]
        self._told_s = found["used_s"]
        copies: list[dict[str, Any]] = found["copies"]
        return copies

    def close(self) -> None:
        """End all holders that can be ended.

        This does not wait for a holder that has written its result: the kernel takes 11 to 25 ms to
        remove its watches, and a file that it closes may hold it up.
        Source: ``fs/notify/mark.c`` (Linux 6.18), fsnotify_wait_marks_destroyed().
        """
        if self._told_s is None:
            self._child.kill()
        else:
            self._child.kill(wait_s=0.0)
        for child in (self._child, *self._left):
            child.reap(0.0)
        own_s = self._told_s if self._told_s and self._child.pid else self._child.used_s
        used_s = [own_s, *(child.used_s for child in self._left)]
        self.used_s = sum(user_s for user_s, _ in used_s), sum(system_s for _, system_s in used_s)
        if self._result_fd >= 0:
            os.close(self._result_fd)
            self._result_fd = -1
