"""A hand-built recording as the pipeline takes it: records and what they say of themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from builders import perfdata as build
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock, RecordingInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOCK_ID = 7
CLOCK_ATTR = EventAttr(
    sample_type=build.USUAL, flags=abi.FLAG_SAMPLE_ID_ALL, sample_period=10_000_000
)
CLOCK = EventDescription(CLOCK_ATTR, (CLOCK_ID,), "cpu-clock")


@dataclass
class BuiltSource:
    """An `analysis.wanted.RecordSource` of records in memory."""

    records: list[bytes]
    info: RecordingInfo = field(default_factory=lambda: RecordingInfo(events=(CLOCK,)))
    damage: list[str] = field(default_factory=list)
    unread_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.records))

    def blocks(self) -> Iterator[RecordBlock]:
        yield RecordBlock(memoryview(b"".join(self.records)))
