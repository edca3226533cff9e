"""What `prospect record` says at its end."""

from __future__ import annotations

from prospect.recording.closing_words import closing_words, count_samples


def test_size_samples_and_the_next_command(tmp_path):
    header = b"PERFILE2" + bytes(32) + (104).to_bytes(8, "little") + (56).to_bytes(8, "little")
    records = b"".join(
        kind.to_bytes(4, "little") + bytes(2) + size.to_bytes(2, "little") + bytes(size - 8)
        for kind, size in ((9, 24), (10, 16), (9, 16))
    )
    path = tmp_path / "a b.data"
    path.write_bytes(header.ljust(104, b"\0") + records + bytes(4096))
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == 2
        said = closing_words(file.fileno(), "a b.data", "perf.data")
        assert said == "a b.data: 4 KiB, 2 samples; next: prospect report 'a b.data'"
        said = closing_words(file.fileno(), "perf.data", "perf.data")
        assert said.endswith("next: prospect report")


def test_a_damaged_one_is_counted_as_far_as_it_goes(tmp_path):
    path = tmp_path / "perf.data"
    path.write_bytes(b"PERFILE2")
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == 0
    path.write_bytes(bytes(40) + (56).to_bytes(8, "little") + (1 << 40).to_bytes(8, "little"))
    with path.open("rb") as file:
        assert count_samples(file.fileno()) == 0
