"""A daemon in another process, and what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from builders.command_line import run_here
from prospect.daemon.control_socket import NoAnswerError, ask
from prospect.store.directory import StoreDirectory

BUSY = "while True: sum(i * i for i in range(100000))"
# A hundred hits a second are enough, and half of a processor is for those who test beside it.
HALF_BUSY = "import time\nwhile True: sum(i * i for i in range(100000)), time.sleep(0.005)"


class RunningDaemon:
    """A daemon in another process, and a load.

    Each window costs a process that writes it: unless told otherwise, it ends when a test says so.
    """

    def __init__(self, store, *options, log="", load=HALF_BUSY, **environment):
        self.store = store
        self._log = log or f"{store}.log"
        words = ["daemon", "--store", str(store), "--window", "60", "-H", "199", *options]
        self._lines = open(self._log, "w+")  # noqa: PTH123, SIM115 - closed with it
        self.process = subprocess.Popen(
            [sys.executable, "-m", "prospect", *words],
            stderr=self._lines,
            env={**os.environ, **environment},
        )
        with suppress(PermissionError):  # what writes a window yields, and would to all workers
            os.setpriority(os.PRIO_PROCESS, self.process.pid, -10)
        self.load = subprocess.Popen([sys.executable, "-c", load])

    def __enter__(self):
        for _ in range(600):
            # The socket may be that of a daemon that was killed.
            if "SIGTERM ends it" in self.said() or self.process.poll() is not None:
                break
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self.load.kill()
        self.load.wait()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGCONT)  # a test may have stopped it
        self.process.wait(60)
        self._lines.close()

    def ask(self, *words):
        """Ask it as `prospect control` does, without a process for each question."""
        with StoreDirectory(str(self.store)) as store:
            for _ in range(600):
                with suppress(NoAnswerError):  # a loaded machine: its status does not wait
                    return ask(store, list(words))
                time.sleep(0.1)
            return ask(store, list(words))

    def control(self, *words):
        return control(self.store, *words)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(60)

    def said(self):
        with open(self._log) as lines:  # noqa: PTH123 - as above
            return lines.read()


def children_of(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def control(store, *words):
    """Run `prospect control WORDS`; return its status and what it wrote."""
    ran = run_here("control", *words, "--store", store)
    return subprocess.CompletedProcess(
        ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode()
    )


def status(daemon):
    return daemon.ask("status")


def until(said, wanted, *, seconds=60):
    """Ask until an answer is as wanted; return the last one."""
    for _ in range(10 * seconds):
        if wanted(answer := said()):
            break
        time.sleep(0.1)
    return answer
