"""Looks at new mappings take a part of the CPUs, however many mappings there are."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from prospect.capture.runtimes import first_runtime as module
from prospect.capture.runtimes.first_runtime import Pace, share_for


class _Clocks:
    """A clock and a processor's time that only move when they are told to."""

    def __init__(self):
        self.now_s = self.used_s = 0.0
        self.rested = []

    def rest(self, _read, _write, _error, rest_s):
        self.rested.append(rest_s)
        self.now_s += rest_s
        return [], [], []


@pytest.fixture
def clocks(monkeypatch):
    clocks = _Clocks()
    time = SimpleNamespace(monotonic=lambda: clocks.now_s, process_time=lambda: clocks.used_s)
    monkeypatch.setattr(module, "time", time)
    monkeypatch.setattr(module, "select", SimpleNamespace(select=clocks.rest))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    return clocks


def test_looks_that_follow_each_other_take_their_share(clocks):
    pace = Pace(0.01)
    for _ in range(1000):
        assert not pace.rest(0)
        clocks.now_s += 0.0004
        clocks.used_s += 0.0004
    assert clocks.used_s / (clocks.now_s * 4) == pytest.approx(0.01, rel=0.05)


def test_a_look_after_a_long_time_comes_at_once(clocks):
    pace = Pace(0.01)
    for _ in range(10):
        clocks.now_s += 1.0
        clocks.used_s += 0.0004
        assert not pace.rest(0)
    assert clocks.rested == []


def test_no_rest_is_long(clocks):
    pace = Pace(0.01)
    clocks.used_s += 60.0
    pace.rest(0)
    assert clocks.rested == [pytest.approx(0.1)]


def test_the_end_is_seen_while_it_rests():
    read_fd, write_fd = os.pipe()
    pace = Pace(1e-9)
    os.close(write_fd)
    try:
        assert pace.rest(read_fd)
    finally:
        os.close(read_fd)


def test_a_daemon_may_take_less_than_a_recording():
    assert share_for(19) < share_for(1000) <= share_for(100_000) <= 0.02
