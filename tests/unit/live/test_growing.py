"""What a session remembers of control groups stays small, however many there are."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from prospect.live import growing as module
from prospect.live.growing import GrowingProfile
from prospect.live.record_limiters import Bounds


def part(groups, sampled):
    samples = SimpleNamespace(control_group=np.array(sampled, np.uint64))
    return SimpleNamespace(control_groups=groups, samples=samples)


def test_groups_that_are_sampled_are_remembered_longest(monkeypatch):
    monkeypatch.setattr(module, "MOST_GROUPS", 10)
    growing = GrowingProfile(Bounds(), stacks=False, use_cache=False)
    growing._groups_with(part({1: b"/system.slice/db.service"}, [1]))
    for number in range(100, 200):
        groups = growing._groups_with(part({number: b"/job%d" % number}, [1, number]))
        assert groups[1] == b"/system.slice/db.service"
        assert groups[number] == b"/job%d" % number
        assert len(groups) <= 11
