"""A terminal of its own for `prospect top`."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

from builders.another_user import python_of_another_user

# What xterm's alternate screen and its cursor are left with (xterm control sequences, DECSET).
SCREEN_LEFT = (b"\x1b[?1049l", b"\x1b[?25h")
PATIENCE_S = 30.0


class Terminal:
    """A terminal that runs `prospect top`."""

    def __init__(self, directory, *options, user=0, environment=os.environ):
        python = python_of_another_user() if user else sys.executable
        self.pid, self._fd = pty.fork()
        if not self.pid:
            os.chdir(directory)
            if user:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            # Not execv: readline, which pytest may load, sets the size of its own terminal in C.
            environment = {**environment, "TERM": "xterm-256color"}
            os.execve(python, [python, "-m", "prospect", "top", *options], environment)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.seen = b""

    def press(self, keys):
        os.write(self._fd, keys if isinstance(keys, bytes) else keys.encode())

    def until(self, words, keys=""):
        """Read until `words` were shown; fail if they do not come. Press keys now and then."""
        begin = time.monotonic()
        while words not in self.seen:
            assert time.monotonic() < begin + PATIENCE_S, (words, self.seen[-2000:])
            self.press(keys)
            if not self._read():
                raise AssertionError((words, self.seen[-2000:]))

    def end(self):
        """Read what is left, and return the exit status."""
        while self._read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self):
        if not select.select([self._fd], [], [], PATIENCE_S)[0]:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.seen += data
        return bool(data)
