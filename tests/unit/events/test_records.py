"""find_records(): the chain of records, by every path of the search."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from prospect.events import record_starts
from prospect.events.record_starts import Fault, Looks, find_records

_SAMPLE, _OTHER = 9, 68
_LOOKS = Looks(least_words=3, id_word=1, lowest_id=100, highest_id=103)


class Collected:
    """A sink that remembers the positions it was handed."""

    def __init__(self):
        self.positions = []
        self.calls = []
        self.rewinds = 0
        self._sure = 0
        self.announced = None

    def begin_batch(self, words, words_left, samples=None):
        assert 0 < words <= words_left
        self._sure = len(self.positions)
        self.announced = samples

    def rewind(self):
        self.rewinds += 1
        del self.positions[self._sure :]

    def append(self, words, positions):
        positions_array = np.array(positions, np.int64)
        ends = positions_array + (words[positions_array] >> 51).astype(np.int64)
        assert (ends[:-1] <= positions_array[1:]).all()
        assert self.announced in {None, len(positions)}
        self.calls.append(type(positions))
        self.positions.extend(int(position) for position in positions)


def header(type_, size_words, misc=0):
    return type_ | misc << 32 | 8 * size_words << 48


def sample(size_words=3, id_=100):
    return [header(_SAMPLE, size_words), id_, *[0] * (size_words - 2)]


def other(size_words=1, payload=()):
    return [header(_OTHER, size_words), *payload, *[0] * (size_words - 1 - len(payload))]


def search(*parts, looks=_LOOKS):
    words = np.array([word for part in parts for word in part], np.uint64)
    samples, others = Collected(), Collected()
    fault = find_records(words, looks, samples, others)
    return samples, others, fault


def places(parts, is_sample):
    """Word positions of the parts that are samples, or of those that are not."""
    at, found = 0, []
    for part in parts:
        if (part[0] & 0xFFFFFFFF == _SAMPLE) == is_sample:
            found.append(at)
        at += len(part)
    return found


@pytest.fixture
def no_walk(monkeypatch):
    """Search even the smallest blocks."""
    monkeypatch.setattr(record_starts, "_SMALL_WORDS", 8)


def assert_chain(parts, *, rewinds):
    samples, others, fault = search(*parts)
    assert samples.positions == places(parts, is_sample=True)
    assert others.positions == places(parts, is_sample=False)
    assert samples.rewinds == rewinds
    assert fault is None
    return samples


def test_an_empty_block_has_no_records():
    samples, others, fault = search()
    assert (samples.positions, others.positions, fault) == ([], [], None)


def test_samples_of_one_size_are_handed_over_as_one_range(no_walk):
    samples = assert_chain([sample()] * 1000, rewinds=0)
    assert samples.calls == [range]


@pytest.mark.parametrize("alike", [3, 4, 5, 9])
def test_a_range_ends_with_the_last_sample_of_one_size(no_walk, monkeypatch, alike):
    monkeypatch.setattr(record_starts, "_LEAST_RUN", 4)
    parts = [*[sample(4)] * alike, other(2), *[sample(3)] * 20]
    samples, others, fault = search(*parts)
    assert samples.positions == places(parts, is_sample=True)
    assert others.positions == places(parts, is_sample=False)
    assert fault is None


def test_samples_of_many_sizes_are_found_without_a_walk(no_walk):
    parts = [sample(3 + row % 5) for row in range(1000)]
    samples = assert_chain(parts, rewinds=0)
    assert samples.calls == [np.ndarray]


@pytest.mark.parametrize("few_lanes", [0, 10_000])
def test_many_gaps_are_walked_in_lock_step_or_one_by_one(no_walk, monkeypatch, few_lanes):
    monkeypatch.setattr(record_starts, "_FEW_LANES", few_lanes)
    parts = [sample() if row % 3 else other(1 + row % 7) for row in range(1000)]
    assert_chain(parts, rewinds=0)


@pytest.mark.parametrize("few_lanes", [0, 10_000])
def test_samples_that_do_not_look_like_it_are_found_in_the_gaps(no_walk, monkeypatch, few_lanes):
    monkeypatch.setattr(record_starts, "_FEW_LANES", few_lanes)
    parts = [sample(3 + row % 2, id_=100 + row % 5) for row in range(1001)]
    assert_chain(parts, rewinds=1)


@pytest.mark.parametrize("few_lanes", [0, 10_000])
def test_a_payload_that_looks_like_a_sample_is_not_one(no_walk, monkeypatch, few_lanes):
    monkeypatch.setattr(record_starts, "_FEW_LANES", few_lanes)
    parts = [sample() if row % 3 else other(7, sample()) for row in range(1000)]
    assert_chain(parts, rewinds=1)


def test_a_look_alike_that_reaches_over_the_next_sample_is_not_one(no_walk):
    parts = [sample(), other(4, sample(7)[:2]), *[sample()] * 9]
    assert_chain(parts, rewinds=1)


def test_the_next_window_begins_behind_a_sample_that_reaches_into_it(no_walk, monkeypatch):
    monkeypatch.setattr(record_starts, "WINDOW_WORDS", 16)
    parts = [*[sample(3 + row % 2) for row in range(4)], sample(9), sample(), sample(4)]
    parts[4][4:7] = sample()
    at = places(parts, is_sample=True)[4]
    assert at < 16 < at + 4
    assert_chain(parts, rewinds=0)


def test_a_batch_begins_where_the_last_one_is_proved_to_end(no_walk, monkeypatch):
    monkeypatch.setattr(record_starts, "WINDOW_WORDS", 16)
    monkeypatch.setattr(record_starts, "BATCH_WORDS", 64)
    parts = [sample(3 + row % 5) if row % 4 else other(11, sample()) for row in range(400)]
    samples, others, fault = search(*parts)
    assert samples.positions == places(parts, is_sample=True)
    assert others.positions == places(parts, is_sample=False)
    assert fault is None
    assert samples.rewinds > 1


def test_only_the_piece_with_the_look_alike_is_walked(no_walk, monkeypatch):
    monkeypatch.setattr(record_starts, "_REPEATED_WORDS", 64)
    monkeypatch.setattr(record_starts, "_LEAST_RUN", 8)
    walked, walk = [], record_starts._walk

    def walk_told(words, view, position, stop, looks):
        walked.append(max(stop - position, 0))
        return walk(words, view, position, stop, looks)

    monkeypatch.setattr(record_starts, "_walk", walk_told)
    parts = [*[sample()] * 500, other(7, sample()), *[sample()] * 500]
    assert_chain(parts, rewinds=2)
    assert sum(walked) < 200


@pytest.mark.parametrize("length", [4, 5, 16, 17, 80, 81, 82, 336, 337, 1360, 1361])
def test_a_walk_goes_over_runs_of_one_size_whatever_their_length(length):
    parts = [*[sample(200)] * length, other(150), *[sample(201)] * length, *[other(140)] * length]
    assert_chain([*parts, *parts], rewinds=0)


def test_large_records_are_walked_not_searched():
    parts = [sample(1000), other(500)] * 50
    samples = assert_chain(parts, rewinds=0)
    assert samples.calls == [np.ndarray]


@pytest.mark.parametrize("size", [0, 4, 7, 12, 65_535])
@pytest.mark.parametrize("few_lanes", [0, 10_000])
@pytest.mark.parametrize("where", [0, 1, 500, 999])
def test_what_stands_before_an_impossible_size_is_kept(
    no_walk, monkeypatch, size, few_lanes, where
):
    monkeypatch.setattr(record_starts, "_FEW_LANES", few_lanes)
    parts = [sample() if row % 3 else other(1 + row % 7) for row in range(1000)]
    at = sum(len(part) for part in parts[:where])
    parts[where] = [_OTHER | size << 48, *parts[where][1:]]
    samples, others, fault = search(*parts)
    assert samples.positions == places(parts[:where], is_sample=True)
    assert others.positions == places(parts[:where], is_sample=False)
    assert fault == Fault(at, size)


def test_a_sample_that_ends_behind_its_block_is_a_fault(no_walk):
    parts = [*[sample(3 + row % 5) for row in range(100)], sample(50)[:20]]
    samples, _, fault = search(*parts)
    at = sum(len(part) for part in parts[:-1])
    assert samples.positions == places(parts[:-1], is_sample=True)
    assert fault == Fault(at, 400)


def test_headers_are_read_as_the_kernel_writes_them():
    word = struct.unpack("<Q", struct.pack("<IHH", _SAMPLE, 2, 24))[0]
    assert word == header(_SAMPLE, 3, misc=2)


def test_room_is_made_for_the_walked_samples_alone_and_for_more_words_at_once(monkeypatch):
    monkeypatch.setattr(record_starts, "BATCH_WORDS", 1 << 12)
    parts = [*[sample(200)] * 100, other(150)] * 2
    samples, others, fault = search(*parts)
    assert samples.positions == places(parts, is_sample=True)
    assert others.positions == places(parts, is_sample=False)
    assert (samples.announced, fault) == (200, None)
