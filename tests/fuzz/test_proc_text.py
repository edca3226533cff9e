"""Whatever stands in /proc, the snapshot makes records of it or passes it over."""

import struct
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from prospect.capture.machine.process_snapshot import Snapshot, parse_stat
from prospect.capture.machine.synthesis import comm_record, user_map_record

NUMBER = st.integers(0, 2**80)
LINE = st.builds(
    lambda begin, end, flags, pgoff, major, inode, name: (
        b"%x-%x %s %x %x:01 %d %s" % (begin, end, flags, pgoff, major, inode, name)
    ),
    NUMBER,
    NUMBER,
    st.sampled_from([b"r-xp", b"--xs", b"rwxp", b"r--p", b"zzzz"]),
    NUMBER,
    NUMBER,
    NUMBER,
    st.binary(max_size=80),
)
HEADER = struct.Struct("<IHH")


@given(st.lists(LINE | st.binary(max_size=60), max_size=8))
def test_any_maps_text_gives_whole_records(lines):
    for found in Snapshot().wanted_maps(b"\n".join(lines)):
        record = user_map_record(1, found)
        assert HEADER.unpack_from(record)[2] == len(record)


@given(
    st.binary(max_size=200) | st.builds(b"1 (%s) %s".__mod__, st.tuples(st.binary(), st.binary()))
)
def test_any_stat_text_is_parsed_or_refused(text):
    with suppress(ValueError):
        record = comm_record(1, 1, parse_stat(text).comm)
        assert HEADER.unpack_from(record)[2] == len(record)


def test_a_real_line_is_a_record():
    line = b"7f00-8f00 r-xp 1000 fe:01 42                 /bin/a program"
    (found,) = Snapshot().wanted_maps(line)
    assert (found.start, found.length, found.inode, found.name) == (
        0x7F00,
        0x1000,
        42,
        b"/bin/a program",
    )
