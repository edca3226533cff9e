"""The recorder on the target: `package` packs it, `target_recording` reads its answer."""

from __future__ import annotations

import errno
import os
import select
import signal
import time

from prospect.capture.sink import RecordSink
from prospect.recording.opened_events import RecordOptions
from prospect.recording.run import record
from prospect.target.serving import Served, say, serve, with_tuples
from prospect.target.target_limits import MOST_AGENT_WAITING_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_BLOCK_BYTES = 512  # of st_blocks, stat(2)
_LOOK_S = 0.05


def main(held: list[int]) -> int:
    """Record with the options in the request; return the command's exit status."""
    return serve(held, _record)


def _record(served: Served) -> tuple[dict[str, Any], int]:
    options = RecordOptions(**with_tuples(served.wanted))
    watched = Watched(served.output, served.pump)
    result = record(options, served.output, say, watched.sink)
    return result._asdict(), result.exit_status


class Watched:
    """The recording, in a file that the relay empties as fast as the connection allows."""

    def __init__(self, output: int, pump: int) -> None:
        self._output = output
        self._pump = pump

    def sink(self, output: int, bound_bytes: int) -> RecordSink:
        """Return a sink that waits for the relay."""
        watched = self

        class Sink(RecordSink):
            keeps_records = False  # the relay frees the memory of sent records

            def append(self, buffers: Sequence[memoryview | bytes]) -> None:
                watched.wait()
                super().append(buffers)

        return Sink(output, bound_bytes)

    def wait(self) -> None:
        """Wait until there is room.

        Raises:
            OSError: the relay has ended, and with it the recording's reader.
        """
        while True:
            if select.select([self._pump], [], [], 0)[0]:
                # As when a terminal hangs up, for COMMAND too.
                os.kill(os.getpid(), signal.SIGHUP)
                raise ConnectionResetError(errno.ECONNRESET, "the connection was lost")
            if os.fstat(self._output).st_blocks * _BLOCK_BYTES <= MOST_AGENT_WAITING_BYTES:
                return
            time.sleep(_LOOK_S)
