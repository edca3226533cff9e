"""What `prospect record` says at its end."""

from __future__ import annotations

import struct

import pytest

from prospect.recording.closing_words import closing_words, count_samples


def record(kind, size, content=b""):
    head = kind.to_bytes(4, "little") + bytes(2) + size.to_bytes(2, "little")
    return head + content.ljust(size - 8, b"\0")


def recording(records):
    header = b"PERFILE2".ljust(40, b"\0")
    header += (104).to_bytes(8, "little") + len(records).to_bytes(8, "little")
    return header.ljust(104, b"\0") + records


def test_size_samples_and_the_next_command(tmp_path):
    records = record(9, 24) + record(10, 16) + record(9, 16)
    path = tmp_path / "a b.data"
    path.write_bytes(recording(records) + bytes(4096))
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == (2, True)
        said = closing_words(file.fileno(), "a b.data", "perf.data")
        assert said == "a b.data: 4 KiB, 2 samples; next: prospect report 'a b.data'"
        said = closing_words(file.fileno(), "perf.data", "perf.data")
        assert said.endswith("next: prospect report")


def test_a_recording_without_its_end_has_the_samples_that_arrived(tmp_path):
    records = record(9, 24) + record(10, 16) + record(9, 16)
    whole = recording(records)
    path = tmp_path / "cut"
    # The size of the data is written at the end.
    path.write_bytes(whole[:48] + bytes(8) + whole[56:])
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == (2, True)


def test_python_frames_and_waits_are_no_samples(tmp_path):
    identified = 1 << 16
    attrs = ids = b""
    for kind, config, flags, number in ((1, 0, 0, 5), (1, 10, 0, 6), (1, 3, 1 << 26, 7)):
        attr = struct.pack("<IIQQQQQ", kind, 48, config, 1, identified, 0, flags)
        attrs += attr + struct.pack("<QQ", 104 + 3 * 64 + len(ids), 8)
        ids += number.to_bytes(8, "little")
    records = b"".join(record(9, 24, one.to_bytes(8, "little")) for one in (5, 6, 7, 5, 6, 6))
    head = b"PERFILE2" + struct.pack("<QQQQ", 104, 64, 104, len(attrs))
    head += struct.pack("<QQ", 104 + len(attrs + ids), len(records))
    path = tmp_path / "perf.data"
    path.write_bytes(head.ljust(104, b"\0") + attrs + ids + records)
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == (2, True)


def test_a_damaged_one_is_counted_as_far_as_it_goes(tmp_path):
    path = tmp_path / "perf.data"
    path.write_bytes(b"PERFILE2")
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == (0, True)
    path.write_bytes(bytes(40) + (56).to_bytes(8, "little") + (1 << 40).to_bytes(8, "little"))
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == (0, True)


@pytest.mark.parametrize(
    "section", [(64, 1 << 63, 64), (64, 104, 1 << 63), (1 << 63, 104, 1 << 63), (0, 104, 64)]
)
def test_events_in_no_part_of_the_file_are_none(section, tmp_path):
    """A target's file comes as it was sent: `record --target` counts its samples."""
    data = recording(record(9, 24) + record(10, 16))
    path = tmp_path / "perf.data"
    path.write_bytes(data[:16] + struct.pack("<QQQ", *section) + data[40:] + bytes(64))
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == (1, True)


def test_samples_of_a_large_one_are_estimated(tmp_path):
    # What is within a sample may look like one, without whole records behind it.
    inner = record(9, 16) * 3
    before = record(10, 4096) * 400
    samples = (record(9, 48) + record(9, 240, inner) + record(3, 64)) * 8000
    path = tmp_path / "perf.data"
    path.write_bytes(recording(before + samples))
    with path.open("rb") as file:
        count, is_exact = count_samples(file.fileno())
        assert not is_exact
        assert abs(count / 16000 - 1) < 0.1
        assert ", about 16000 samples; next:" in closing_words(file.fileno(), "a", "a")


def test_a_large_one_without_samples(tmp_path):
    path = tmp_path / "perf.data"
    path.write_bytes(recording(record(10, 4096) * 400))
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == (0, False)


def test_packed_records_are_not_counted(tmp_path):
    path = tmp_path / "perf.data"
    path.write_bytes(recording(record(81, 64)))
    with path.open("rb") as file:
        assert count_samples(file.fileno())[0] == -1


def test_where_no_records_follow_each_other_nothing_is_said_of_samples(tmp_path):
    path = tmp_path / "perf.data"
    path.write_bytes(recording(bytes(1 << 20)))
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == (-1, False)
        assert closing_words(file.fileno(), "a", "a") == "a: 1024 KiB; next: prospect report"
