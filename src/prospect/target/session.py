"""`record` on another machine: what runs where, and the recording as it arrives.

Comes in: a target, what to record, a file. Goes out: the file whole, and what became of it, as of
`recording.run.record`.

Two commands run over the one connection: the pump, which holds the recorder in memory and sends the
recording as it grows; and the recorder itself, whose standard files, terminal and exit status are
COMMAND's. docs/target.md says what that is for.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import select
import signal
import subprocess
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from prospect import errors
from prospect.capture.sink import default_bound_bytes
from prospect.errors import CaptureError, CommandError, UsageError
from prospect.light import Closing
from prospect.recording.interval import RecordingResult
from prospect.records import contents
from prospect.target import pump
from prospect.target.frames import FrameError, Frames, ReceivedFile
from prospect.target.package import OLDEST_PYTHON, package
from prospect.target.ssh import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO, Any, NoReturn

    from prospect.recording.events import RecordOptions

_PYTHON = ("python3", "-I", "-X", "utf8")
# Reads this much Python and runs it; without a character that any shell looks at.
_BOOTSTRAP = "import sys; i=sys.stdin.buffer; exec(i.read(int(i.readline())))"
_NOT_FOUND = 127
_MOST_GREETING_BYTES = 1 << 16
# Beside the records: what describes them, and the beginning that is sent again.
_MORE_BYTES = 256 << 20
_MOST_FILE_BYTES = 1 << 30
_UNBOUNDED = 1 << 50
_ANSWER_S = 60.0
_STREAM_BYTES = 1 << 16
_END_S = 5.0
_FILES = 4
_MOST_GREETING_LINES = 1000
_NEEDS = (
    "recording there needs Python 3.9 or later; where it has perf: ssh HOST perf record -a -o -"
    " sleep 9 | prospect report -"
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def record_on(target: str, options: RecordOptions, output_fd: int) -> RecordingResult:
    """Run a command on a target, and record all that its kernel lets that user see.

    Args:
        target: ``USER@HOST``, as ssh takes it.
        options: what to record there.
        output_fd: a regular file, opened for writing and reading; the caller closes it.

    Raises:
        UsageError: options that cannot be followed there.
        CommandError: the command cannot be started there.
        CaptureError: nothing can be recorded there, or no connection be made.
    """
    if options.count_calls:
        raise UsageError("--count-calls reads symbol tables, which is not done on a --target")
    if options.compress:
        raise UsageError("-z packs what is recorded on this machine: leave it out with --target")
    if any(event[:1] in ("/", ".") for event in ",".join(options.events).split(",")):
        raise UsageError("probes of files are not recorded on a --target: their symbols are there")
    bound = options.max_bytes or default_bound_bytes(output_fd)
    wanted = contents(options) | {"max_bytes": bound or None}
    with Connection(target) as connection:
        # Made while ssh connects, for the most likely Python there.
        packed = package(importlib.util.MAGIC_NUMBER)
        with _Remote(connection.established(), packed, wanted) as remote:
            file = ReceivedFile(output_fd, bound + _MORE_BYTES if bound else _UNBOUNDED)
            result = remote.run(file)
            if not result.is_cut:
                from prospect.target.names import fetch_names  # noqa: PLC0415 - once COMMAND has ended

                fetch_names(output_fd, remote.fetch)
            return result


class _Remote(Closing):
    """The two commands on the target."""

    def __init__(self, connection: Connection, packed: bytes, wanted: dict[str, Any]) -> None:
        self._connection = connection
        self._target = connection.target
        self._pump = connection.start(
            ["exec", *_PYTHON, "-c", _BOOTSTRAP], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._frames = Frames()
        source = f"{_source()}\nmain()\n".encode()
        with suppress(OSError):  # it is gone: that there is no greeting says so
            self._send(b"%d\n" % len(source) + source)
        hello = self._greeting()
        if bytes.fromhex(hello["magic"]) != importlib.util.MAGIC_NUMBER:
            packed = package()
        request = zlib.compress(json.dumps(wanted, default=_as_text).encode("ascii"))
        self._hand_over(b"".join(b"%d\n" % len(part) + part for part in (packed, request)))
        pid, (recorder, *files) = hello["pid"], hello["files"]
        has_terminal = os.isatty(0) and os.isatty(1)
        self._recorder = connection.start(
            ["exec", *_PYTHON, f"/proc/{pid}/fd/{recorder}", *map(str, (pid, *files))],
            has_terminal=has_terminal,
        )

    def close(self) -> None:
        """End the pump, and with it whatever else is left of this on the target."""
        with suppress(OSError):
            _pipe(self._pump.stdin).close()
        for process in (self._recorder, self._pump):
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, file: ReceivedFile) -> RecordingResult:
        """Take in the recording until it is whole or the connection is lost.

        Raises:
            ProspectError: what the recorder said on the target.
        """
        stream = _pipe(self._pump.stdout).fileno()
        ended = os.pidfd_open(self._recorder.pid)
        answer: dict[str, Any] = {}
        try:
            with _signals_to(self._order):
                watched, timeout_s = [stream, ended], None
                while not answer:
                    ready = select.select(watched, [], [], timeout_s)[0]
                    if not ready:
                        break
                    if ended in ready:
                        watched, timeout_s = [stream], _ANSWER_S
                        self._order({"end": True})
                    if stream in ready:
                        data = os.read(stream, _STREAM_BYTES)
                        if not data:
                            break
                        answer = self._take_in(data, file)
        finally:
            os.close(ended)
        return self._result(answer, file)

    def fetch(self, path: str, descriptor: int) -> bool:
        """Write a file of the target to a descriptor; return whether there is one.

        Of an ELF file only what names are made of arrives; the rest is holes.
        """
        self._order({"file": path})
        file = ReceivedFile(descriptor, _MOST_FILE_BYTES)
        stream = _pipe(self._pump.stdout).fileno()
        while select.select([stream], [], [], _ANSWER_S)[0]:
            data = os.read(stream, _STREAM_BYTES)
            if not data:
                break
            for letter, content in self._frames.feed(data):
                if letter == b"S":
                    file.write(content)
                elif letter == b"T":
                    file.grow(content)
                elif letter in (b"E", b"N"):
                    return letter == b"E" and not file.cut
        return False

    def _take_in(self, data: bytes, file: ReceivedFile) -> dict[str, Any]:
        """Write what arrived; return the recorder's last answer, which comes behind all records."""
        for letter, content in self._frames.feed(data):
            if letter == b"D":
                file.write(content)
            elif letter == b"T":
                file.truncate(content)
            elif letter == b"A":
                return _answer_in(content)
        return {}

    def _result(self, answer: dict[str, Any], file: ReceivedFile) -> RecordingResult:
        """Return what became of the recording, or raise what the target's recorder raised.

        Raises:
            ProspectError: likewise.
        """
        if "error" in answer:
            _raise(self._target, answer)
        status = self._recorder.poll()
        if "result" not in answer:
            lost = f"the connection to {self._target} was lost: the recording ends there"
            return RecordingResult(status or 1, 0, (lost,), {}, cut=lost)
        result = _checked_result(answer["result"])
        if file.cut:
            result = result._replace(cut=file.cut, limits=(*result.limits, file.cut))
        return result

    def _order(self, order: dict[str, Any]) -> None:
        with suppress(OSError):  # the connection is gone: the stream ends as well
            self._send(json.dumps(order).encode("ascii") + b"\n")

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[_pipe(self._pump.stdin).write(rest) :]

    def _hand_over(self, data: bytes) -> None:
        """Send what the pump waits for, without a word, until all of it is there.

        Raises:
            CaptureError: it is no pump: it talks, or takes nothing.
        """
        stream, pipe = (_pipe(one).fileno() for one in (self._pump.stdout, self._pump.stdin))
        os.set_blocking(pipe, False)
        rest = memoryview(data)
        while rest:
            talking, taking, _ = select.select([stream], [pipe], [], _ANSWER_S)
            if talking or not taking:
                self._pump.kill()
                raise FrameError("the target's answer is damaged: it is not what was sent there")
            rest = rest[os.write(pipe, rest[:_STREAM_BYTES]) :]
        os.set_blocking(pipe, True)

    def _greeting(self) -> dict[str, Any]:
        """Return what the pump says of itself; what the target's shell prints first is skipped.

        Raises:
            CaptureError: there is no Python, or none that is recent enough.
        """
        pipe = _pipe(self._pump.stdout)
        for _ in range(_MOST_GREETING_LINES):
            line = pipe.readline(_MOST_GREETING_BYTES)
            if not line:
                break
            hello = _hello_in(line)
            if hello is None:
                continue
            if tuple(hello["python"]) < OLDEST_PYTHON:
                version = ".".join(map(str, hello["python"]))
                raise CaptureError(f"{self._target} has Python {version}: {_NEEDS}")
            return hello
        pipe.close()
        try:
            status = self._pump.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._pump.kill()
            status = self._pump.wait()
        reason = "has no python3" if status == _NOT_FOUND else "did not start python3"
        raise CaptureError(f"{self._target} {reason}: {_NEEDS}")


def _hello_in(line: bytes) -> dict[str, Any] | None:
    try:
        hello = json.loads(line)
        is_whole = (
            isinstance(hello["pid"], int)
            and len(hello["files"]) == _FILES
            and all(isinstance(number, int) for number in (*hello["files"], *hello["python"]))
        )
        bytes.fromhex(hello["magic"])
    except (ValueError, TypeError, KeyError):
        return None
    return hello if is_whole else None


def _answer_in(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        return {"pid": 0}
    return answer if isinstance(answer, dict) and answer else {"pid": 0}


def _checked_result(said: object) -> RecordingResult:
    """Return a result that a target said, of nothing but what belongs there.

    Raises:
        CaptureError: it is none.
    """
    if isinstance(said, dict):
        limits, counters = said.get("limits"), said.get("counters")
        numbers = (said.get("exit_status"), said.get("interrupted_by"))
        if (
            all(isinstance(number, int) for number in numbers)
            and isinstance(limits, list)
            and all(isinstance(limit, str) for limit in limits)
            and isinstance(counters, dict)
            and all(isinstance(count, int) for count in counters.values())
        ):
            status, signal_number = (int(number or 0) & 0xFF for number in numbers)
            cut = str(said.get("cut") or "")
            return RecordingResult(status, signal_number, tuple(limits), counters, cut)
    raise CaptureError("the target's answer is damaged")


def _raise(target: str, answer: dict[str, Any]) -> NoReturn:
    """Raise what the recorder raised there, as what it was.

    Raises:
        ProspectError: always.
    """
    message = f"{target}: {answer['error']}"
    kind = getattr(errors, str(answer.get("kind")), None)
    if kind is CommandError:
        raise CommandError(message, int(answer.get("status") or 1) & 0xFF)
    raise UsageError(message) if kind is UsageError else CaptureError(message)


@contextmanager
def _signals_to(order: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Pass signals that would end this process on to the recorder, whose end ends it."""
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


def _source() -> str:
    return inspect.getsource(pump)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - asked for when it was started
    return pipe


def _as_text(value: object) -> str:
    """Return a word of the command that is bytes as the text that stands for them."""
    if isinstance(value, bytes):
        return os.fsdecode(value)
    raise TypeError(value)
