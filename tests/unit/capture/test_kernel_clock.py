"""What meets the kernel's time stamps is of its own clock, which no time namespace shifts."""

import re
import time
from pathlib import Path

import pytest

import prospect
from prospect import light

TEN_DAYS_NS = 864_000 * 10**9
ROOT = Path(prospect.__file__).parent


@pytest.mark.parametrize(
    ("offsets", "shift_ns"),
    [
        (b"monotonic      864000         0\nboottime            0         0\n", TEN_DAYS_NS),
        (b"monotonic          -2       500\n", -2 * 10**9 + 500),
        (b"boottime            7         0\n", 0),
        (b"", 0),
    ],
)
def test_an_offset_is_taken_off(monkeypatch, offsets, shift_ns):
    assert light.monotonic_offset_ns(offsets) == shift_ns
    monkeypatch.setattr(light, "_shift_ns", [shift_ns])
    before_ns = time.monotonic_ns()
    assert before_ns <= light.monotonic_ns() + shift_ns <= time.monotonic_ns()


def test_nothing_that_records_reads_the_shifted_clock():
    rooms = [ROOT / "capture", ROOT / "live", ROOT / "recording"]
    files = [path for room in rooms for path in room.rglob("*.py")]
    assert len(files) > 50
    calls = re.compile(r"\btime\.monotonic_ns\(")
    found = [str(path.relative_to(ROOT)) for path in files if calls.search(path.read_text())]
    assert not found
