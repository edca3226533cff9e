"""A perf.data file with what recordings usually hold: two events, records, the features of perf."""

from __future__ import annotations

import struct

from builders.perfdata import USUAL, FileBuilder, RecordBuilder
from builders.perfdata_features import (
    build_id_record,
    feature_event_desc,
    feature_string,
    feature_strings,
)
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription

FLAGS = abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_FREQ
CLOCK = EventDescription(EventAttr(sample_type=USUAL, flags=FLAGS), (1, 2), "cpu-clock:ppp")
DUMMY = EventDescription(EventAttr(config=9, sample_type=USUAL, flags=FLAGS), (3, 4), "dummy:HG")
RECORDS = RecordBuilder(USUAL)
USUAL_RECORDS = [
    RECORDS.comm(5, 5, "make", is_exec=True, time=1, id=1),
    RECORDS.mmap2(5, 5, 0x1000, 0x2000, "/bin/make", inode=7, time=2, id=1),
    *(RECORDS.sample(ip=0x1000 + i, pid=5, tid=5, time=10 + i, id=1) for i in range(2000)),
    RECORDS.finished_round(),
    RECORDS.exit(5, 1, time=9999, id=1),
]
DATA = b"".join(USUAL_RECORDS)


def features(order="<"):
    return {
        2: build_id_record(b"/bin/make", bytes(20), order=order)
        + build_id_record(b"[kernel.kallsyms]", b"\1" * 20, misc=1, sized=False, order=order),
        3: feature_string("host", order),
        4: feature_string("6.1", order),
        5: feature_string("6.1.0", order),
        6: feature_string("s390x", order),
        7: struct.pack(order + "II", 8, 6),
        8: feature_string("CPU", order),
        9: feature_string("1,2,3", order),
        10: struct.pack(order + "Q", 4096),
        11: feature_strings(["perf", "record", "-a"], order),
        12: feature_event_desc([CLOCK, DUMMY], order),
        13: b"topology that nobody reads",
        21: struct.pack(order + "QQ", 10, 2009),
        29: struct.pack(order + "IIQQ", 1, 1, 1_700_000_000 * 10**9, 5),
    }


BUILDER = FileBuilder([CLOCK, DUMMY], USUAL_RECORDS, features())


def bytes_of(blocks):
    return b"".join(block.data for block in blocks)
