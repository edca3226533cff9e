"""Notes on processes whose samples show no Python function."""

from __future__ import annotations

from builders import runtime_frames as make
from prospect.abi import runtime_frames as wire
from prospect.abi.recorded_facts import RecordBlock
from prospect.assembly.runtimes.runtime_stacks import with_runtimes
from prospect.events.decode import decode

SAMPLE = make.SAMPLES.sample(ip=0x410000, pid=5, tid=5, time=10, id=7, misc=2)
FRAME = (0x100, 4, 1, 77)


def notes(*parts):
    data = b"".join([make.raw(make.image(11)), *parts])
    _, python = with_runtimes(decode([RecordBlock(memoryview(data))], [make.CLOCK, make.FRAMES]))
    return python.notes


def read(count, status=wire.WALKED, frames=(FRAME,)):
    return (make.raw(make.stack(*frames, status=status)) + SAMPLE) * count


def test_a_process_that_was_read_has_none():
    assert notes(read(1000), SAMPLE * 10) == ()


def test_samples_without_a_function_are_counted():
    (note,) = notes(read(50), SAMPLE * 50, read(50))
    assert note == (5, "Process 5: 50 of 150 samples show no Python function.")


def test_what_ran_before_and_after_python_is_not_counted():
    assert notes(SAMPLE * 50, read(100), SAMPLE * 50) == ()


def test_threads_that_are_not_pythons_are_told_apart():
    threads = read(40, wire.NO_THREAD, ())
    (note,) = notes(read(50), threads, SAMPLE * 20, read(50))
    assert note[1].startswith(
        "Process 5: 20 of 160 samples show no Python function; 40 are of threads"
    )
    assert notes(read(100), threads) == ()


def test_what_was_cut_is_said():
    (note,) = notes(read(100), read(3, wire.TRUNCATED), read(12, wire.FAULT))
    assert "the frames of 12 samples could not be read to the end" in note[1]
    assert f"of 3 samples only the innermost {wire.MOST_FRAMES} frames" in note[1]
