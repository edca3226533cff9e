"""New functions of V8: what the walk tells is read, recorded, tried again, and bounded."""

from __future__ import annotations

import pytest

from builders.v8_heap import layout_of
from prospect.abi import runtime_frames as wire
from prospect.capture.runtimes.runtime import Placed
from prospect.capture.v8.images import FRAME_BYTES
from prospect.capture.v8.new_functions import NEWS, NewFunctions

PLACED = Placed(wire.V8, 0x0D06, 0, (), (FRAME_BYTES, 1, *layout_of((13, 6))), (0, 1), (0, 0))
USER = 1000


class Played:
    """New functions with a reader that a test answers for."""

    def __init__(self):
        self.news, self.written, self.has_room = [], [], True
        self.asked = []
        self.failing, self.has_time, self.each = set(), True, b"record"
        self.functions = NewFunctions(self.drain, self.write, self.answer)
        self.functions.register(1, 4711, USER, PLACED)

    def drain(self):
        news, self.news = self.news, []
        return news

    def write(self, record):
        self.written += [record] * self.has_room
        return self.has_room

    def answer(self, uid, pid, image, words, met):
        assert (uid, pid, image, words) == (USER, 4711, 1, PLACED.words)
        if not self.has_time:
            return None
        self.asked += met
        failed = tuple(row for row, one in enumerate(met) if one[0] in self.failing)
        records = [self.each for one in met if one[0] not in self.failing]
        return len(met), records, failed

    def tell(self, *functions, image=1):
        self.news += [NEWS.pack(image, one, one + 1, 0) for one in functions]
        self.functions.look()


@pytest.fixture
def played():
    return Played()


def test_functions_are_read_and_recorded(played):
    played.tell(0x11, 0x21)
    assert played.asked == [(0x11, 0x12, 0), (0x21, 0x22, 0)]
    assert played.written == [b"record"] * 2
    assert played.functions.wait_ms() is None


def test_images_that_are_not_known_are_left_out(played):
    played.tell(0x11, image=2)
    assert not played.asked


def test_what_cannot_be_read_is_tried_again(played):
    played.failing = {0x21}
    played.tell(0x11, 0x21)
    for _ in range(10):
        played.functions.look()
    assert played.asked.count((0x21, 0x22, 0)) == 4
    assert played.functions.wait_ms() is None


def test_a_user_without_time_waits(played):
    played.has_time = False
    played.tell(0x11)
    assert played.functions.wait_ms()
    played.has_time = True
    played.functions.look()
    assert played.written == [b"record"]


def test_records_without_room_in_the_ring_are_written_later(played):
    played.has_room = False
    played.tell(0x11, 0x21)
    assert played.functions.wait_ms()
    played.tell(0x31)
    assert len(played.asked) == 2
    played.has_room = True
    played.functions.look()
    assert len(played.written) == 3


def test_functions_beyond_the_bound_are_counted(played):
    played.has_time = False
    played.tell(*range(1, 6000))
    assert played.functions.refused == {1: 5999 - (1 << 12)}


def test_bytes_of_names_are_bounded(played):
    played.each = bytes(1 << 16)
    played.tell(*range(1, 4000))
    for _ in range(50):
        played.functions.look()
    assert len(played.written) <= 128 + 64
    assert played.functions.wait_ms()
