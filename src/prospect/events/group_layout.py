"""Where samples have the values of their event's group, for one event's attributes.

Comes in: an `EventAttr`. Goes out: a `GroupLayout`, None where samples have no such values.
Source: ``struct read_format`` in ``include/uapi/linux/perf_event.h`` (Linux 6.18).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr


class GroupLayout(NamedTuple):
    """Where one event's samples have the values of its group, in words.

    Attributes:
        begin: of the number of values, from the header on.
        values: of the first value, from there on.
        each: of a value with its id, which stands right behind it.
        is_inherited: whether each thread has values of its own.
    """

    begin: int
    values: int
    each: int
    is_inherited: bool


def group_layout(attr: EventAttr, fixed_words: int) -> GroupLayout | None:
    """Return where an event's samples have the values of its group; None where they have none."""
    needed = abi.PERF_FORMAT_GROUP | abi.PERF_FORMAT_ID
    if not attr.sample_type & abi.PERF_SAMPLE_READ or attr.read_format & needed != needed:
        return None
    times = abi.PERF_FORMAT_TOTAL_TIME_ENABLED | abi.PERF_FORMAT_TOTAL_TIME_RUNNING
    return GroupLayout(
        begin=fixed_words,
        values=1 + (attr.read_format & times).bit_count(),
        each=2 + bool(attr.read_format & abi.PERF_FORMAT_LOST),
        is_inherited=bool(attr.flags & abi.FLAG_INHERIT),
    )
