"""What all agents on a target do: read what is wanted, work, answer.

An agent has the connection to the pump, and three files without a name that the pump holds: what is
written as it comes, what is wanted, and the answer, one JSON document. All agents run by the
target's own Python, 3.9 or later, with the standard library alone.

The sampler writes chunks of a letter, a length (u64) and as many bytes. ``I`` is a recording
without records, which has what any recording of the session says of itself; ``W``, if processes or
threads were named, a document of what the session follows. Then come in turn ``R``, records, and
``M``, a document: the moment that they end at, and what there is to say of the time since the last
one. ``E``, once and empty, says that all that were named have ended.
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
    """The question, files and connection that an agent works with.

    Attributes:
        output: the file that is sent as it grows.
        pump: the connection to what sends it, which ends with that.
    """

    wanted: dict[str, Any]
    output: int
    pump: int


def serve(held: list[int], work: Callable[[Served], tuple[Any, int]]) -> int:
    """Do an agent's work; return its exit status.

    Args:
        held: the descriptors that `joining` has got.
        work: returns what is to be answered as "result", and the exit status.
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
    """Return options as they were before JSON, which has lists alone."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()
    }


def say(message: str) -> None:
    """Say something to the person at the other end."""
    sys.stderr.write(f"prospect: {message}\n")


def _answer(descriptor: int, answer: dict[str, Any]) -> None:
    """Write an answer over the last one."""
    text = json.dumps(answer).encode("ascii")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


CHUNK = struct.Struct("<cQ")
INFO, WHOM, RECORDS, MARK, ENDED = b"I", b"W", b"R", b"M", b"E"
