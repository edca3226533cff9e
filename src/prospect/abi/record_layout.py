"""Layouts of records: of each kind's body, and of samples and sample_id tails for a sample_type.

Source: the comments of PERF_RECORD_* in ``include/uapi/linux/perf_event.h`` (Linux 6.18).
"""

from __future__ import annotations

import struct

from prospect.abi import constants as abi
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr

# struct perf_event_header: type, misc, size.
HEADER = "IHH"
# Fields of a record after its header, up to its name or bytes or else to its sample_id tail.
BODIES = {
    abi.PERF_RECORD_MMAP: "iiQQQ",  # pid tid addr len pgoff, name
    abi.PERF_RECORD_LOST: "QQ",  # id lost
    abi.PERF_RECORD_COMM: "ii",  # pid tid, name
    abi.PERF_RECORD_EXIT: "iiiiQ",  # pid ppid tid ptid time
    abi.PERF_RECORD_THROTTLE: "QQQ",  # time id stream_id
    abi.PERF_RECORD_UNTHROTTLE: "QQQ",
    abi.PERF_RECORD_FORK: "iiiiQ",
    abi.PERF_RECORD_READ: "ii",  # pid tid, values
    # pid tid addr len pgoff maj min ino ino_generation prot flags, name
    abi.PERF_RECORD_MMAP2: "iiQQQIIQQII",
    abi.PERF_RECORD_ITRACE_START: "ii",  # pid tid
    abi.PERF_RECORD_LOST_SAMPLES: "Q",  # lost
    abi.PERF_RECORD_SWITCH: "",
    abi.PERF_RECORD_SWITCH_CPU_WIDE: "ii",  # next or previous pid, tid
    abi.PERF_RECORD_NAMESPACES: "ii",  # pid tid, namespaces
    abi.PERF_RECORD_KSYMBOL: "QIHH",  # addr len type flags, name
    abi.PERF_RECORD_BPF_EVENT: "HHI",  # type flags id, tag
    abi.PERF_RECORD_CGROUP: "Q",  # id, path
    abi.PERF_RECORD_TEXT_POKE: "QHH",  # addr old_len new_len, bytes
}
# MMAP2 with PERF_RECORD_MISC_MMAP_BUILD_ID: size of the build id and 20 bytes of it instead of
# device and inode.
BUILD_ID = "BBH20s"
MMAP2_BY_BUILD_ID = f"iiQQQ{BUILD_ID}II"
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
        fixed_words: header and fixed part together; fields of varying size follow.
        tail: field → u64 words from the end of other records (negative).
        tail_words: size of the tail; 0 without sample_id_all.
    """

    sample: dict[str, int]
    fixed_words: int
    tail: dict[str, int]
    tail_words: int


def layout_of(attr: EventAttr) -> SampleLayout:
    """Return the layout of an event's samples and other records."""
    present = [name for name, bit in _SAMPLE_WORDS if attr.sample_type & bit]
    sample = {name: word for word, name in enumerate(present, start=1)}
    ends = []
    if attr.flags & abi.FLAG_SAMPLE_ID_ALL:
        ends = [name for name, bit in _TAIL_WORDS if attr.sample_type & bit]
    tail = {name: position - len(ends) for position, name in enumerate(ends)}
    return SampleLayout(sample, 1 + len(present), tail, len(ends))


def read_format_words(read_format: int) -> tuple[int, int]:
    """Return the words of struct read_format, and for a group further words of each value."""
    times = abi.PERF_FORMAT_TOTAL_TIME_ENABLED | abi.PERF_FORMAT_TOTAL_TIME_RUNNING
    time_words = (read_format & times).bit_count()
    value_words = 1 + (read_format & (abi.PERF_FORMAT_ID | abi.PERF_FORMAT_LOST)).bit_count()
    if read_format & abi.PERF_FORMAT_GROUP:
        return 1 + time_words, value_words
    return time_words + value_words, 0


def record_struct(kind: int, order: str = "<") -> struct.Struct:
    """Return the header and body of a kind of records, in a byte order of the struct module."""
    return struct.Struct(order + HEADER + BODIES[kind])
