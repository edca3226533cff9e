"""A process on a target for one command of Prospect, from its start to its answer.

Two commands run over one connection. The relay, which begins it, has the agent in memory and sends
the agent's output. The agent has the standard files, terminal and exit status of COMMAND. They
start at the same time, because a login may take longer than everything else, and meet there (see
`joining`). docs/target.md gives the reasons.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import zlib
from contextlib import contextmanager, suppress
from importlib.util import MAGIC_NUMBER
from typing import TYPE_CHECKING

from prospect import errors
from prospect.errors import CaptureError, CommandError, UsageError
from prospect.light import Closing
from prospect.target import joining, relay
from prospect.target.relay_stream import Fetched, FrameError, Frames, greeting_lines
from prospect.target.ssh import NO_CONNECTION, Connection, pipe_of
from prospect.target.target_limits import ANSWER_S, END_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType
    from typing import Any, NoReturn, Protocol

    class Receiver(Protocol):
        """Takes the agent's output."""

        def write(self, content: bytes) -> None:
            """Take an offset (u64), and the bytes there."""

        def truncate(self, content: bytes) -> None:
            """Take a smaller size (u64)."""


# A shim of pyenv or asdf runs a shell script first, for 65 ms: the system's Python of this version
# is as good. Status 127 means that there is none.
_FIND_PYTHON = (
    f"p=$(command -v python3) || exit 127; s=/usr/bin/python3.{sys.version_info[1]}; "
    'case $p in */shims/*) [ -x $s ] && p=$s;; esac; exec "$p" "$@"'
)
# Without additions of a distribution or a user to the standard library.
_PYTHON = (*("exec", "sh", "-c", _FIND_PYTHON, "sh"), *("-IS", "-X", "utf8", "-c"))
# Reads the relay and runs it; a Python that is too old for it, before 3.8, only greets.
_BOOTSTRAP = (
    "import sys; v=list(sys.version_info[:3]); i=sys.stdin.buffer; s=i.read(int(i.readline()));"
    """exec(s) if v >= [3, 8] else print('{"python": %s, "magic": ""}' % v)"""
)
_NOT_FOUND = 127
_STREAM_BYTES = 1 << 16
_LOOK_S = 0.005
_NEEDS = "Prospect's recorder needs Python 3.9 or later there"
_SILENT = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NoPythonError(CaptureError):
    """There is no Python on the target, or it is too old."""


class Remote(Closing):
    """The relay and the agent, until `close`."""

    def __init__(
        self, target: str, agent: str, wanted: dict[str, Any], *, is_silent: bool = False
    ) -> None:
        """Connect, and start them.

        Args:
            target: ``USER@HOST``, as ssh takes it.
            agent: the module whose `main` runs there.
            is_silent: whether its standard files are /dev/null instead of this process's.

        Raises:
            UsageError: this is no name of a target, or there is no ssh.
            NoPythonError: there is no Python there that can run it.
            CaptureError: there is no connection, or another program answers.
        """
        self.target = target
        self._connection = Connection(target)
        self._recorder: subprocess.Popen[bytes] | None = None
        self._pump: subprocess.Popen[bytes] | None = None
        self._frames = Frames()
        self._fetched = Fetched(-1)
        self._fetched.fail()
        self._has_ended = False
        self._name = f"prospect-{os.urandom(16).hex()}"
        try:
            self._begin()
            files = _SILENT if is_silent else {"has_terminal": os.isatty(0) and os.isatty(1)}
            self._start(agent, json.dumps(wanted, default=_as_text).encode("ascii"), files)
        except BaseException:
            if self._recorder:
                self._recorder.kill()  # it waits for the relay
            self.close()
            raise

    def _begin(self) -> None:
        self._pump = self._connection.begin([*_PYTHON, _BOOTSTRAP])
        source = _source(relay, f"main({self._name!r})")
        with suppress(OSError):  # it has ended, which the missing greeting shows
            self._send(b"%d\n" % len(source) + source.encode())

    def _start(self, agent: str, request: bytes, files: Mapping[str, Any]) -> None:
        from prospect.target.package import OLDEST_PYTHON, package  # noqa: PLC0415 - while ssh connects

        packed = package(agent, MAGIC_NUMBER)
        stream = pipe_of(self._started.stdout)
        while not (self._connection.is_made or select.select([stream], [], [], _LOOK_S)[0]):
            pass
        code = _source(joining, f"join({self._name!r}, {agent!r})")
        # Shells other than POSIX's may not allow a line break in a word.
        words = [*_PYTHON, f"exec({code!a})"]
        if self._connection.is_made:
            self._recorder = self._connection.start(words, **files)
        hello = self._greeting(OLDEST_PYTHON)
        if not self._recorder:  # ssh does not share connections
            self._recorder = self._connection.start(words, **files)
        if bytes.fromhex(hello["magic"]) != MAGIC_NUMBER:
            packed = package(agent)
        parts = (packed, zlib.compress(request))
        self._hand_over(b"".join(b"%d\n" % len(part) + part for part in parts))

    def close(self) -> None:
        """End the relay, and with it everything else on the target."""
        if self._pump:
            with suppress(OSError):
                pipe_of(self._pump.stdin).close()
        for process in (self._recorder, self._pump):
            if process:
                try:
                    process.wait(END_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if self._pump:
            pipe_of(self._pump.stdout).close()
        self._connection.close()

    @property
    def exit_status(self) -> int | None:
        """The agent's, which is COMMAND's; None while it runs."""
        return self._recorder.poll() if self._recorder else None

    def run(self, receiver: Receiver) -> dict[str, Any]:
        """Receive the agent's output, and pass signals on, until it has ended.

        Returns: its answer; without "result" if the connection was lost.

        Raises:
            ProspectError: the agent's error on the target.
        """
        with signals_to(self.order):
            return self.follow(receiver)

    def follow(self, receiver: Receiver) -> dict[str, Any]:
        """Do the same as `run` without passing on signals, in any thread."""
        stream = pipe_of(self._started.stdout).fileno()
        ended = os.pidfd_open(self._agent.pid)
        answer: dict[str, Any] = {}
        try:
            watched, timeout_s = [stream, ended], None
            while not answer:
                ready = select.select(watched, [], [], timeout_s)[0]
                if not ready:
                    break
                if ended in ready:
                    watched, timeout_s = [stream], ANSWER_S
                    self.order({"end": True})
                if stream in ready:
                    data = os.read(stream, _STREAM_BYTES)
                    if not data:
                        break
                    answer = self._take_in(data, receiver)
        finally:
            os.close(ended)
            self._has_ended = True
            self._fetched.fail()
        if "error" in answer:
            _raise(self.target, answer)
        return answer

    def fetch(self, path: str, descriptor: int) -> bool:
        """Write a file of the target to a descriptor; return whether there is one.

        Only the sections of an ELF file with names arrive; the rest is holes. Call this after the
        agent has ended.
        """
        self._fetched = Fetched(descriptor)
        self.order({"file": path})
        stream = pipe_of(self._started.stdout).fileno()
        while not self._fetched.is_over.is_set() and select.select([stream], [], [], ANSWER_S)[0]:
            data = os.read(stream, _STREAM_BYTES)
            if not data:
                break
            self._take_in(data, None)
        return self._fetched.is_whole

    def fetch_meanwhile(self, file: Mapping[str, object], descriptor: int) -> bool:
        """Do the same as `fetch`, while another thread follows the agent.

        Args:
            file: has the path as "file"; maybe "pid", a process that sees it there, and "inode".
        """
        self._fetched = Fetched(descriptor)
        if self._has_ended:
            return False
        self.order(dict(file))
        return self._fetched.is_over.wait(ANSWER_S) and self._fetched.is_whole

    def order(self, order: dict[str, Any]) -> None:
        """Send the relay an order."""
        with suppress(OSError):  # the connection is lost, and the stream ends as well
            self._send(json.dumps(order).encode("ascii") + b"\n")

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        assert self._pump is not None  # noqa: S101 - started by `_start`
        return self._pump

    @property
    def _agent(self) -> subprocess.Popen[bytes]:
        assert self._recorder is not None  # noqa: S101 - started by `_start`
        return self._recorder

    def _take_in(self, data: bytes, receiver: Receiver | None) -> dict[str, Any]:
        """Handle received data; return the agent's answer, which comes last."""
        for letter, content in self._frames.feed(data):
            if self._fetched.take_in(letter, content):
                continue
            if letter == b"A":
                return _answer_in(content)
            if receiver and letter == b"D":
                receiver.write(content)
            elif receiver and letter == b"T":
                receiver.truncate(content)
        return {}

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[pipe_of(self._started.stdin).write(rest) :]

    def _hand_over(self, data: bytes) -> None:
        """Send data for which the relay waits; it must not send anything meanwhile."""
        stream, pipe = (
            pipe_of(one).fileno() for one in (self._started.stdout, self._started.stdin)
        )
        os.set_blocking(pipe, False)
        rest = memoryview(data)
        while rest:
            talking, taking, _ = select.select([stream], [pipe], [], ANSWER_S)
            if talking or not taking:
                self._started.kill()
                raise FrameError("the target's answer is damaged: it differs from the data sent")
            rest = rest[os.write(pipe, rest[:_STREAM_BYTES]) :]
        os.set_blocking(pipe, True)

    def _greeting(self, oldest: tuple[int, ...]) -> dict[str, Any]:
        """Return the relay's greeting, and skip lines before it, such as a shell's banner."""
        pipe = pipe_of(self._started.stdout)
        for line in greeting_lines(pipe.fileno()):
            hello = _hello_in(line)
            if hello is None:
                continue
            if tuple(hello["python"]) < oldest:
                version = ".".join(map(str, hello["python"]))
                raise NoPythonError(f"{self.target} has Python {version}: {_NEEDS}")
            return hello
        if select.select([pipe], [], [], 0)[0] and os.read(pipe.fileno(), 1):
            self._started.kill()  # it still prints, and may not end
        pipe.close()
        try:
            status = self._started.wait(END_S)
        except subprocess.TimeoutExpired:
            self._started.kill()
            status = self._started.wait()
        if status == NO_CONNECTION:
            raise CaptureError(f"no connection to {self.target}: ssh says why above")
        if status == _NOT_FOUND:
            raise NoPythonError(f"{self.target} has no python3: {_NEEDS}")
        raise CaptureError(f"{self.target} did not start python3: {_NEEDS}")


def _source(module: ModuleType, call: str) -> str:
    """Return a module's source, with a call at its end."""
    with open(str(module.__file__), encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs milliseconds
        return f"{file.read()}\n{call}\n"


def _hello_in(line: bytes) -> dict[str, Any] | None:
    try:
        hello = json.loads(line)
        is_whole = all(isinstance(number, int) for number in hello["python"])
        bytes.fromhex(hello["magic"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return hello if is_whole else None


def _answer_in(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return {"pid": 0}
    return answer if isinstance(answer, dict) and answer else {"pid": 0}


def _raise(target: str, answer: dict[str, Any]) -> NoReturn:
    """Raise the agent's error, with its class."""
    message = f"{target}: {answer['error']}"
    kind = getattr(errors, str(answer.get("kind")), None)
    if kind is CommandError:
        status = answer.get("status")
        raise CommandError(message, status & 0xFF if isinstance(status, int) and status else 1)
    raise UsageError(message) if kind is UsageError else CaptureError(message)


@contextmanager
def signals_to(order: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Pass signals that would end this process on to the target's, whose end ends this one."""
    old = {}

    def pass_on(number: int, _frame: object) -> None:
        order({"signal": signal.Signals(number).name})

    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            old[number] = signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _as_text(value: object) -> str:
    """Return the text for a word of the command that is bytes."""
    if isinstance(value, bytes):
        return os.fsdecode(value)
    raise TypeError(value)
