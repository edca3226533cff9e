"""A process whose main thread has ended while another one goes on: a zombie that runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# exit(2), which ends one thread; ctypes lets go of the lock around the call.
_EXIT = {"x86_64": 60}.get(os.uname().machine, 93)
_PROGRAM = f"""
import ctypes, sys, threading, time
def work(is_busy, end=time.monotonic() + 60):
    while time.monotonic() < end:
        is_busy or time.sleep(60)
threading.Thread(target=work, args=(int(sys.argv[1]),)).start()
ctypes.CDLL(None).syscall({_EXIT}, 0)
"""


@contextlib.contextmanager
def process_without_main_thread(*, busy: bool = False) -> Iterator[int]:
    """Start one, and yield its pid once its main thread has ended; `busy` keeps a CPU so."""
    child = subprocess.Popen([sys.executable, "-c", _PROGRAM, f"{busy:d}"])
    try:
        deadline = time.monotonic() + 30
        while b") Z" not in Path(f"/proc/{child.pid}/stat").read_bytes():
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.01)
        yield child.pid
    finally:
        child.kill()
        child.wait()
