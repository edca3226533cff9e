"""The perf.data container as data: header, sections, feature bits, records of perf's own.

`FieldReader` reads the fields of headers and of feature sections, in either byte order.

Source: ``tools/perf/Documentation/perf.data-file-format.txt``, ``tools/perf/util/header.h``
and ``tools/lib/perf/include/perf/event.h``, Linux 6.18.
"""

from __future__ import annotations

import struct

from prospect.errors import RecordingError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from prospect.abi.attr import EventAttr

MAGIC = b"PERFILE2"
MAGIC_SWAPPED = MAGIC[::-1]
MAGIC_VERSION_1 = b"PERFFILE"

# magic, size of this header, size of an attrs entry, then offset and size of three sections
# (attrs, data, event_types), then 256 feature bits.
FILE_HEADER_LAYOUT = "8s8Q4Q"
FILE_HEADER_BYTES = 104
PIPE_HEADER_BYTES = 16
SECTION_BYTES = 16
FEATURE_BITS = 256

# struct perf_event_header: u32 type, u16 misc, u16 size
RECORD_HEADER_BYTES = 8

# feature bits (HEADER_* in header.h)
HEADER_TRACING_DATA = 1
HEADER_BUILD_ID = 2
HEADER_HOSTNAME = 3
HEADER_OSRELEASE = 4
HEADER_VERSION = 5
HEADER_ARCH = 6
HEADER_NRCPUS = 7
HEADER_CPUDESC = 8
HEADER_CPUID = 9
HEADER_TOTAL_MEM = 10
HEADER_CMDLINE = 11
HEADER_EVENT_DESC = 12
HEADER_AUXTRACE = 18
HEADER_STAT = 19
HEADER_SAMPLE_TIME = 21
HEADER_CLOCKID = 23
HEADER_COMPRESSED = 27
HEADER_CLOCK_DATA = 29
# perf_header__process_sections() reads only the bits below HEADER_LAST_FEATURE, but counts all of
# them to find the table's end. So perf ignores the topmost bits.
HEADER_PROSPECT = 255
# Names from the recorded machine (prospect.archived).
HEADER_PROSPECT_ARCHIVE = 254
# The target that the recording came from, in UTF-8.
HEADER_PROSPECT_TARGET = 253
# Mapped files that may be gone (perfdata.kept_images).
HEADER_PROSPECT_IMAGES = 252
# perf refuses streams with unknown features. In a stream, a HEADER_BUILD_ID record has this name,
# followed by the target.
TARGET_MARK = b"[prospect.target]"

# Features of simpleperf, Android's recorder (``system/extras/simpleperf/record_file_format.h``).
HEADER_SIMPLEPERF_META_INFO = 129
SIMPLEPERF_FEATURES = range(128, 160)

# Prospect's own section: magic, version, size of the UTF-8 JSON after it.
PROSPECT_MAGIC = b"PROSPECT"
PROSPECT_VERSION = 1
PROSPECT_LAYOUT = "8sII"

# HEADER_BUILD_ID entry: record header, i32 pid, 20 bytes, u8 size, 3 bytes, file name
BUILD_ID_LAYOUT = "IHHi20sB3x"
BUILD_ID_BYTES = struct.calcsize("<" + BUILD_ID_LAYOUT)
PERF_RECORD_MISC_BUILD_ID_SIZE = 1 << 15

# Zeros pad strings in feature sections to a multiple of this (NAME_ALIGN).
NAME_ALIGN = 64

# records of perf itself (enum perf_user_event_type)
PERF_RECORD_HEADER_ATTR = 64
PERF_RECORD_HEADER_EVENT_TYPE = 65
PERF_RECORD_HEADER_TRACING_DATA = 66
PERF_RECORD_HEADER_BUILD_ID = 67
PERF_RECORD_FINISHED_ROUND = 68
PERF_RECORD_ID_INDEX = 69
PERF_RECORD_AUXTRACE_INFO = 70
PERF_RECORD_AUXTRACE = 71
PERF_RECORD_STAT_CONFIG = 75
PERF_RECORD_EVENT_UPDATE = 78
PERF_RECORD_TIME_CONV = 79
PERF_RECORD_HEADER_FEATURE = 80
PERF_RECORD_COMPRESSED = 81
PERF_RECORD_FINISHED_INIT = 82
PERF_RECORD_COMPRESSED2 = 83
PERF_RECORD_SCHEDSTAT_CPU = 85
PERF_RECORD_SCHEDSTAT_DOMAIN = 86

# the refusals of recordings by two other commands of perf
ONLY_COUNTS = "it has counts and no samples: perf stat report shows them"
ONLY_SCHEDSTATS = "it has counts and no samples: perf sched stats report shows them"

# Records of simpleperf have a size of 32 bits, with its upper half in `misc`
# (``system/extras/simpleperf/record.h``). There are ten types so far.
SIMPLEPERF_RECORD_TYPES = range(32768, 32768 + 256)

# PERF_RECORD_EVENT_UPDATE: u64 kind, u64 id of the event, then data
PERF_EVENT_UPDATE_NAME = 2


# perf refuses a file whose attrs are larger than those it was compiled with. VER5 (Linux 4.8)
# is the smallest that holds every field of EventAttr.
ATTR_BYTES = 112


class ClockPair(NamedTuple):
    """One instant on CLOCK_REALTIME and on the clock of the samples (`clock_id`)."""

    clock_id: int
    resolution_ns: int
    realtime_ns: int
    clock_ns: int


def encode_attr(attr: EventAttr) -> bytes:
    """Return the attr as stored in a file, with ATTR_BYTES as its size."""
    packed = bytearray(attr.pack()[:ATTR_BYTES])
    struct.pack_into("<I", packed, 4, ATTR_BYTES)
    return bytes(packed)


class Section(NamedTuple):
    """A place in the file (struct perf_file_section)."""

    offset: int
    size: int


def aligned(value: int, multiple: int = 8) -> int:
    """Round `value` up to a multiple."""
    return -(-value // multiple) * multiple


_LONGEST_NAME = 255


class FieldReader:
    """Reads consecutive fields; a read beyond the end raises RecordingError.

    Args:
        order: ``"<"`` or ``">"``.
    """

    def __init__(self, data: bytes | memoryview, order: str) -> None:
        self._data = memoryview(data)
        self.order = order
        self._at = 0

    @property
    def remaining(self) -> int:
        """Number of bytes not yet read."""
        return len(self._data) - self._at

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes."""
        if size > self.remaining:
            raise RecordingError(f"{size} bytes are needed, {self.remaining} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> memoryview:
        """Return all bytes not yet read."""
        return self.take(self.remaining)

    def unpack(self, layout: str) -> tuple[Any, ...]:
        """Return the next fields; `layout` is struct's, without byte order, unpadded."""
        layout = self.order + layout
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def peek(self, layout: str) -> tuple[Any, ...]:
        """Return the next fields without moving on."""
        at = self._at
        fields = self.unpack(layout)
        self._at = at
        return fields

    def u32(self) -> int:
        """Return the next 32-bit unsigned number."""
        return int(self.unpack("I")[0])

    def u64(self) -> int:
        """Return the next 64-bit unsigned number."""
        return int(self.unpack("Q")[0])

    def u64s(self, count: int) -> tuple[int, ...]:
        """Return the next `count` 64-bit unsigned numbers."""
        return struct.unpack(f"{self.order}{count}Q", self.take(8 * count))

    def name(self) -> str:
        """Return the next name of at most 255 bytes, which a NUL ends."""
        end = bytes(self._data[self._at : self._at + _LONGEST_NAME + 1]).find(b"\0")
        if end < 0:
            raise RecordingError("a name has no end")
        return bytes(self.take(end + 1)[:-1]).decode("utf-8", "replace")

    def string(self) -> str:
        """Return the next perf_header_string: a 32-bit length, then zero-padded text."""
        text = bytes(self.take(self.u32()))
        return text.partition(b"\0")[0].decode("utf-8", "surrogateescape")
