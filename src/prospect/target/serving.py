"""The common work of all agents on a target: read the request, work, answer.

An agent has the connection to the relay, and three files of the relay without a name: the output,
which is sent as it grows, the request, and the answer, one JSON document. The target's own Python
runs it, 3.9 or later, with only the standard library.

The sampler writes chunks of a letter, a length (u64) and as many bytes. ``I`` is a recording
without records, with the description of any recording of the session. ``W``, if the user chose
processes or threads, is a document of what the session follows. Then ``R`` and ``M`` alternate:
records, and a document with the time of their end and facts about the time since the last one.
``E``, once and empty, means that all chosen processes or threads have ended.
"""

from __future__ import annotations

import json
import os
import struct
import sys

from prospect.errors import ProspectError
from prospect.records import NamedTuple
from prospect.target.target_limits import MOST_REQUEST_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_INTERRUPTED = 128 + 2


class Served(NamedTuple):
    """The request, file and connection of an agent.

    Attributes:
        output: the file that the relay sends as it grows.
        pump: the connection to the relay, which ends with that.
    """

    wanted: dict[str, Any]
    output: int
    pump: int


def serve(held: list[int], work: Callable[[Served], tuple[Any, int]]) -> int:
    """Do an agent's work; return its exit status.

    Args:
        held: the descriptors that `joining` received.
        work: returns the "result" for the answer, and the exit status.
    """
    pump, output, request, answer = held
    _answer(answer, {"pid": os.getpid()})
    wanted = json.loads(os.pread(request, MOST_REQUEST_BYTES, 0))
    try:
        result, status = work(Served(wanted, output, pump))
    except ProspectError as error:
        said = {"error": str(error), "kind": type(error).__name__, "status": error.exit_status}
        _answer(answer, said)
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED
    _answer(answer, {"result": result})
    return status


def with_tuples(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return options with tuples, which JSON turned into lists."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()
    }


def say(message: str) -> None:
    """Print a message for the user on the host."""
    sys.stderr.write(f"prospect: {message}\n")


def _answer(descriptor: int, answer: dict[str, Any]) -> None:
    text = json.dumps(answer).encode("ascii")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


CHUNK = struct.Struct("<cQ")
INFO, WHOM, RECORDS, MARK, ENDED = b"I", b"W", b"R", b"M", b"E"
