"""The ring's arithmetic, on a file that plays the kernel's part."""

from __future__ import annotations

import errno
import mmap
import os
import struct

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.events.recorded_callers import sample_bytes
from prospect.capture.kernel.rings import Ring, next_smaller_bytes, ring_size_bytes
from prospect.errors import CaptureError

SIZE = 4 * mmap.PAGESIZE


@pytest.fixture
def kernel():
    """The file behind a ring; (head, tail) at its place in the control page."""
    fd = os.memfd_create("ring")
    os.ftruncate(fd, mmap.PAGESIZE + SIZE)
    os.pwrite(fd, bytes(range(256)) * (SIZE // 256), mmap.PAGESIZE)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    ("tail", "head", "slices"),
    [
        (0, 0, []),
        (0, 64, [(0, 64)]),
        (SIZE - 16, SIZE + 48, [(SIZE - 16, SIZE), (0, 48)]),
        (5 * SIZE + 8, 6 * SIZE, [(8, SIZE)]),
        (SIZE - 8, 2 * SIZE - 8, [(SIZE - 8, SIZE), (0, SIZE - 8)]),
        (2**63, 2**63 + 8, [(0, 8)]),
    ],
)
def test_content_between_tail_and_head_is_found(kernel, tail, head, slices):
    os.pwrite(kernel, struct.pack("<QQ", head, tail), 1024)
    ring = Ring(kernel, SIZE)
    found = []
    assert ring.pending(found) == head
    data = os.pread(kernel, SIZE, mmap.PAGESIZE)
    assert [bytes(part) for part in found] == [data[begin:end] for begin, end in slices]
    found.clear()
    ring.close()


def test_released_space_is_told_to_the_kernel(kernel):
    os.pwrite(kernel, struct.pack("<QQ", 24, 8), 1024)
    ring = Ring(kernel, SIZE)
    ring.release(24)
    assert struct.unpack("<QQ", os.pread(kernel, 16, 1024)) == (24, 24)
    assert ring.pending([]) == 24
    ring.close()


def test_records_of_our_own_are_put_among_those_of_the_kernel(kernel):
    os.pwrite(kernel, struct.pack("<QQ", SIZE + 24, SIZE - 16), 1024)
    data = os.pread(kernel, SIZE, mmap.PAGESIZE)
    ring = Ring(kernel, SIZE)
    assert ring.unseen() == (SIZE - 16, data[-16:] + data[:24])
    assert ring.unseen() == (SIZE + 24, b"")
    ring.insert(SIZE + 8, b"second")
    ring.insert(SIZE - 16, b"first")
    ring.insert(SIZE + 8, b"third")
    found = []
    head = ring.pending(found)
    expected = b"first" + data[-16:] + data[:8] + b"second" + b"third" + data[8:24]
    assert b"".join(found) == expected
    ring.release(head)
    found.clear()
    ring.pending(found)
    assert found == []
    ring.close()


def test_samples_of_some_events_are_drained_with_another_type(kernel):
    def record(type_, id_, payload, misc=2):
        return struct.pack("<IHHQ", type_, misc, 16 + len(payload), id_) + payload

    frames = [record(9, id_, bytes(12) + b"RtF1" + bytes(8)) for id_ in (7, 8)]
    beside = [
        record(9, 7, bytes(40)),
        record(9, 6, bytes(12) + b"RtF1" + bytes(8)),  # of another event
        record(2, 7, bytes(12) + b"RtF1" + bytes(8)),  # no sample
        record(9, 7, bytes(16) + b"RtF1" + bytes(4)),  # at other places
        record(9, 7, bytes(11) + b"RtF1" + bytes(9)),
    ]
    first = b"RtF1" + bytes(12)  # its record has been drained
    written = first + frames[0] + b"".join(beside) + 2 * frames[1]
    hidden = [one.replace(b"\x09\0\0\0", b"\x41\0\0\0", 1) for one in frames]
    expected = first + hidden[0] + b"".join(beside) + 2 * hidden[1]
    size = len(written)
    # Each record lies once across the end of the ring.
    for tail in range(SIZE - size, SIZE + 8, 8):
        head = tail + size
        data = bytearray(b"RtF1" * (SIZE // 4))
        for at, octet in enumerate(written):
            data[(tail + at) % SIZE] = octet
        os.pwrite(kernel, bytes(data), mmap.PAGESIZE)
        os.pwrite(kernel, struct.pack("<QQ", head, tail), 1024)
        ring = Ring(kernel, SIZE)
        ring.hide(frozenset({7, 8}), b"RtF1", 28)
        found = []
        assert ring.pending(found) == head
        assert b"".join(found) == expected
        found.clear()
        # What reads the ring itself sees what the kernel wrote.
        assert ring.unseen() == (tail, written)
        ring.close()


class _Searched:
    """Keeps where each search of a mapping ends."""

    def __init__(self, mapping):
        self._mapping, self.ends = mapping, []

    def find(self, mark, begin, end):
        self.ends.append(end)
        return self._mapping.find(mark, begin, end)

    def close(self):
        self._mapping.close()


@pytest.mark.parametrize("tail", [SIZE - 32, SIZE - 64, SIZE // 2])
def test_no_search_reads_beyond_the_ring(kernel, tail):
    """CPython's search may read a byte more than it searches."""
    sample = struct.pack("<IHHQ", 9, 2, 32, 7) + bytes(12) + b"RtF1"
    data = bytearray(SIZE)
    data[-32:] = sample
    os.pwrite(kernel, bytes(data), mmap.PAGESIZE)
    os.pwrite(kernel, struct.pack("<QQ", SIZE + 64, tail), 1024)
    ring = Ring(kernel, SIZE)
    ring._mapping = searched = _Searched(ring._mapping)
    ring.hide(frozenset({7}), b"RtF1", 28)
    found = []
    ring.pending(found)
    assert b"".join(found)[-96:-64] == b"\x41" + sample[1:]
    assert max(searched.ends) < mmap.PAGESIZE + SIZE
    ring.close()


def test_what_was_drained_is_not_seen_any_more(kernel):
    os.pwrite(kernel, struct.pack("<QQ", 64, 0), 1024)
    ring = Ring(kernel, SIZE)
    ring.release(40)
    assert ring.unseen()[0] == 40
    assert not ring.is_half_full
    os.pwrite(kernel, struct.pack("<Q", 48 + SIZE // 2), 1024)
    assert ring.is_half_full
    ring.close()


def test_ring_may_be_closed_while_a_slice_is_held(kernel):
    os.pwrite(kernel, struct.pack("<QQ", 8, 0), 1024)
    ring = Ring(kernel, SIZE)
    held = []
    ring.pending(held)
    ring.close()
    assert len(held[0]) == 8


def test_default_size_serves_usual_rates_and_high_rates_get_more():
    kernel_sample = sample_bytes(EventAttr(sample_type=abi.PERF_SAMPLE_CALLCHAIN))
    assert kernel_sample == 48 + 8 * (2 + 16)
    for rate_hz in (200, 2000):
        assert ring_size_bytes(rate_hz * kernel_sample, 1) == 512 * 1024
    assert ring_size_bytes(20_000 * kernel_sample, 1) >= 20_000 * kernel_sample
    assert ring_size_bytes(20_000 * kernel_sample, 1_000_000) == 512 * 1024


def test_refused_size_is_halved_down_to_a_useful_one():
    refusal = OSError(errno.EPERM, "no")
    assert next_smaller_bytes(512 * 1024, refusal) == 256 * 1024
    with pytest.raises(CaptureError, match="perf_event_mlock_kb"):
        next_smaller_bytes(32 * 1024, refusal)


def test_other_refusals_are_not_for_lack_of_memory():
    with pytest.raises(OSError, match="gone"):
        next_smaller_bytes(512 * 1024, OSError(errno.ENODEV, "gone"))
