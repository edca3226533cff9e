"""The sampler on the target, which runs as long as a session on the host.

It writes the chunks that `serving` describes into the file that the relay sends.
"""

from __future__ import annotations

import json
import os
import sys
import time

from prospect.light import Descriptor
from prospect.live.source import KernelSource
from prospect.perfdata.writer import RecordingWriter
from prospect.recording.opened_events import RecordOptions
from prospect.target.agent import Watched
from prospect.target.serving import (
    CHUNK,
    ENDED,
    INFO,
    MARK,
    RECORDS,
    WHOM,
    Served,
    serve,
    with_tuples,
)
from prospect.target.target_limits import MOST_SAMPLER_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.attr import EventDescription

# The length of a part; the relay sends as often.
_TICK_S = 0.25


class _AllPass:
    """A record limiter without limits, which are the host's task."""

    condensed_bytes = sys.maxsize

    def __init__(self, _events: Sequence[EventDescription]) -> None:
        self.limits: list[str] = []

    def open(self) -> None:
        """Do nothing."""

    def passed(self, data: bytes) -> bytes:
        """Return all of it."""
        return data

    def condensed(self, data: bytes, until_ns: int) -> bytes:
        """Return all of it."""
        del until_ns
        return data

    def is_full(self, size_bytes: int) -> bool:
        """Return whether the host has not taken records for very long."""
        return size_bytes > MOST_SAMPLER_BYTES


def main(held: list[int]) -> int:
    """Sample until the relay has ended."""
    return serve(held, _sample)


def _sample(served: Served) -> tuple[None, int]:
    options = RecordOptions(**with_tuples(served.wanted))
    watched = Watched(served.output, served.pump)
    with KernelSource(options, _AllPass) as source:
        _write(served.output, INFO, _described(source))
        if source.whom:
            _write(served.output, WHOM, json.dumps(source.whom).encode("ascii"))
        _write(served.output, MARK, json.dumps({"mark": source.mark}).encode("ascii"))
        known, is_told = source.descriptions(), False
        while True:
            time.sleep(_TICK_S)
            watched.wait()
            has_ended = source.has_ended
            before, records = source.mark, source.take()
            extras = source.info(before, source.mark).extras
            del extras["jit_files"]  # maybe megabytes, each time
            if source.descriptions() != known:  # a CPU came online
                known = source.descriptions()
                _write(served.output, INFO, _described(source))
            _write(served.output, RECORDS, records)
            said = {"mark": source.mark, "extras": extras}
            if source.running:
                said["running"] = sorted(source.running.pids)
            _write(served.output, MARK, json.dumps(said).encode("ascii"))
            if has_ended and not is_told:
                _write(served.output, ENDED, b"")
                is_told = True


def _described(source: KernelSource) -> bytes:
    """Return a recording without records."""
    with Descriptor(os.memfd_create("info")) as descriptor:
        events = source.descriptions()
        writer = RecordingWriter(descriptor, events)
        info = source.info(source.mark, source.mark)
        extras = info.extras | {"processes": source.seen, "sample_cost_ns": source.sample_cost_ns}
        writer.finish(info._replace(extras=extras), events)
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _write(descriptor: int, letter: bytes, content: bytes) -> None:
    rest = memoryview(CHUNK.pack(letter, len(content)) + content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
