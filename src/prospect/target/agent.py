"""The recorder on the target: `package` packs it, `session` reads what it says.

Comes in: the pid of the pump that ``ssh`` started before it, and the numbers of three files without
a name that the pump holds: the recording, what is to be recorded, the answer. Goes out: the
recording, the command's exit status, and the answer, one JSON document.

It runs by the target's own Python, 3.9 or later, with the standard library alone.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import sys
import time

from prospect.capture.sink import RecordSink
from prospect.errors import ProspectError
from prospect.recording.events import RecordOptions
from prospect.recording.run import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# Of the recording this much may wait in memory for a slow connection; then the kernel's own
# buffers fill up, and it counts the samples that it loses.
_MOST_WAITING_BYTES = 64 << 20
_BLOCK_BYTES = 512  # of st_blocks, stat(2)
_LOOK_S = 0.05
_MOST_REQUEST_BYTES = 1 << 24
_INTERRUPTED = 128 + 2


def main(arguments: list[str]) -> int:
    """Record as the pump was asked to; return the command's exit status."""
    pump, *numbers = map(int, arguments)
    places = [f"/proc/{pump}/fd/{number}" for number in numbers]
    output, request, answer = (os.open(place, os.O_RDWR | os.O_CLOEXEC) for place in places)
    _answer(answer, {"pid": os.getpid()})
    wanted = json.loads(os.pread(request, _MOST_REQUEST_BYTES, 0))
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()
    }
    watched = _Watched(output, pump)
    try:
        result = record(RecordOptions(**options), output, _say, watched.sink)
    except ProspectError as error:
        said = {"error": str(error), "kind": type(error).__name__, "status": error.exit_status}
        _answer(answer, said)
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED
    _answer(answer, {"result": result._asdict()})
    return result.exit_status


class _Watched:
    """The recording's file in the pump, which empties it as fast as the connection takes it."""

    def __init__(self, output: int, pump: int) -> None:
        self._output = output
        self._pump = os.pidfd_open(pump)

    def sink(self, output: int, bound_bytes: int) -> RecordSink:
        """Return a sink that waits for the pump."""
        watched = self

        class Sink(RecordSink):
            def append(self, buffers: Sequence[memoryview | bytes]) -> None:
                watched.wait()
                super().append(buffers)

        return Sink(output, bound_bytes)

    def wait(self) -> None:
        """Wait until there is room.

        Raises:
            OSError: the pump has ended: nobody will read what is recorded.
        """
        while True:
            if select.select([self._pump], [], [], 0)[0]:
                # As a hang-up of a terminal: for COMMAND too.
                os.kill(os.getpid(), signal.SIGHUP)
                raise ConnectionResetError(errno.ECONNRESET, "the connection was lost")
            if os.fstat(self._output).st_blocks * _BLOCK_BYTES <= _MOST_WAITING_BYTES:
                return
            time.sleep(_LOOK_S)


def _say(message: str) -> None:
    sys.stderr.write(f"prospect: {message}\n")


def _answer(descriptor: int, answer: dict[str, Any]) -> None:
    """Write an answer over the last one."""
    text = json.dumps(answer).encode("ascii")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)
