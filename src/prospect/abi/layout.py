"""Where each field of a sample and of a record's sample_id tail stands, for one sample_type.

Source: the comment of PERF_RECORD_SAMPLE in ``include/uapi/linux/perf_event.h``.
"""

from __future__ import annotations

from prospect.abi import constants as abi
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr

# Fixed part of PERF_RECORD_SAMPLE, one u64 word each, in the kernel's order.
_SAMPLE_WORDS = (
    ("identifier", abi.PERF_SAMPLE_IDENTIFIER),
    ("ip", abi.PERF_SAMPLE_IP),
    ("tid", abi.PERF_SAMPLE_TID),
    ("time", abi.PERF_SAMPLE_TIME),
    ("addr", abi.PERF_SAMPLE_ADDR),
    ("id", abi.PERF_SAMPLE_ID),
    ("stream_id", abi.PERF_SAMPLE_STREAM_ID),
    ("cpu", abi.PERF_SAMPLE_CPU),
    ("period", abi.PERF_SAMPLE_PERIOD),
)
# struct sample_id at the end of every other record, in the kernel's order.
_TAIL_WORDS = (
    ("tid", abi.PERF_SAMPLE_TID),
    ("time", abi.PERF_SAMPLE_TIME),
    ("id", abi.PERF_SAMPLE_ID),
    ("stream_id", abi.PERF_SAMPLE_STREAM_ID),
    ("cpu", abi.PERF_SAMPLE_CPU),
    ("identifier", abi.PERF_SAMPLE_IDENTIFIER),
)


class SampleLayout(NamedTuple):
    """Word offsets of one sample_type.

    Attributes:
        sample: field → u64 words from the record's header (the header is word 0).
        fixed_words: header and fixed part together; what varies in size begins here.
        tail: field → u64 words from the record's end (negative), of non-sample records.
        tail_words: size of the tail; 0 without sample_id_all.
    """

    sample: dict[str, int]
    fixed_words: int
    tail: dict[str, int]
    tail_words: int


def layout_of(attr: EventAttr) -> SampleLayout:
    """Return the layout of an event's samples and of the other records that it has."""
    sample_id_all = bool(attr.flags & abi.FLAG_SAMPLE_ID_ALL)
    return sample_layout(attr.sample_type, sample_id_all=sample_id_all)


def sample_layout(sample_type: int, *, sample_id_all: bool = True) -> SampleLayout:
    """Compute the layout of `sample_type` (PERF_SAMPLE_* bits)."""
    present = [name for name, bit in _SAMPLE_WORDS if sample_type & bit]
    sample = {name: word for word, name in enumerate(present, start=1)}
    ends = [name for name, bit in _TAIL_WORDS if sample_type & bit] if sample_id_all else []
    tail = {name: position - len(ends) for position, name in enumerate(ends)}
    return SampleLayout(sample, 1 + len(present), tail, len(ends))
