"""How far the clock of a jitdump file's writer is ahead of the recording's."""

import os

import pytest

from builders.jitdump import DumpBuilder
from prospect.symbols.jit.jitdump import parse_jitdump
from prospect.symbols.jit.map_files import clock_shift_ns
from prospect.symbols.live_process import monotonic_shift_ns

S, MS = 1_000_000_000, 1_000_000
TEN_DAYS = 864_000 * S
WALL_US = 1_800_000_000_000_000  # what V8 has in the header
MAPPED, END = 500 * S, 510 * S


@pytest.mark.parametrize(
    ("opened", "first", "mapped", "shift"),
    [
        (MAPPED - MS, MAPPED + MS, MAPPED, 0),
        (WALL_US, MAPPED + MS, MAPPED, 0),
        (WALL_US, MAPPED + 5 * S, MAPPED, 0),
        (MAPPED - MS, MAPPED + 50 * S, MAPPED, 0),
        # In a time namespace; whole seconds are exact.
        (MAPPED + TEN_DAYS - MS, MAPPED + TEN_DAYS + MS, MAPPED, TEN_DAYS),
        (WALL_US, MAPPED + TEN_DAYS + 7 * MS, MAPPED, TEN_DAYS),
        (MAPPED + 3 * S + MS, MAPPED + 5 * S, MAPPED, 3 * S),
        (MAPPED - 300 * S + MS, MAPPED - 299 * S, MAPPED, -300 * S),
        (WALL_US, MAPPED - 300 * S + MS, MAPPED, -300 * S),
        (MAPPED + TEN_DAYS + 400 * MS, MAPPED + TEN_DAYS + 5 * S, MAPPED, TEN_DAYS + 400 * MS),
        # Mapped before the recording.
        (400 * S, 401 * S, 0, 0),
        (MAPPED + TEN_DAYS, MAPPED + TEN_DAYS + MS, 0, None),
        (WALL_US, MAPPED + TEN_DAYS + MS, 0, None),
    ],
)
def test_a_dump_opens_when_it_is_mapped(opened, first, mapped, shift):
    builder = DumpBuilder(opened_ns=opened).load(first + S, 0x2000, b"\x90", b"g")
    dump = parse_jitdump(builder.load(first, 0x1000, b"\x90", b"f").view())
    assert clock_shift_ns(dump, mapped, END) == shift


def test_a_dump_without_code_has_no_clock():
    assert clock_shift_ns(parse_jitdump(DumpBuilder().view()), MAPPED, END) == 0


def test_the_kernel_says_the_clock_of_a_process(monkeypatch):
    assert monotonic_shift_ns(os.getpid()) == 0
    text = b"monotonic      864000       500\nboottime             7         0\n"
    monkeypatch.setattr("prospect.symbols.live_process.read_system_file", lambda _: text)
    assert monotonic_shift_ns(os.getpid()) == TEN_DAYS + 500
