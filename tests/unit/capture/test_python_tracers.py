"""What other tracers' programs take of the CPUs' time, by the kernel's count of their run times."""

from __future__ import annotations

import os

import pytest

from prospect.abi import bpf as abi
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.bpf_objects import LoadedProgram
from prospect.capture.runtimes import tracers
from prospect.capture.runtimes.tracers import Tracers

HARMLESS = [
    LoadedProgram(1, abi.BPF_PROG_TYPE_KPROBE, "prospect_calls", 10**9),
    LoadedProgram(2, abi.BPF_PROG_TYPE_PERF_EVENT, "walk_python", 10**9),
    LoadedProgram(3, 8, "sd_devices", 10**9),
]


@pytest.fixture
def kernel(monkeypatch):
    """Run times in ns of programs 7 and 8, and busy seconds, at each look."""
    looks = []

    def loaded():
        first, second = looks[0][:2]
        others = [LoadedProgram(7, abi.BPF_PROG_TYPE_TRACEPOINT, "enter", first)]
        others += [LoadedProgram(8, abi.BPF_PROG_TYPE_KPROBE, "other", second)] if second else []
        return [*HARMLESS, *others]

    monkeypatch.setattr(bpf_objects, "loaded_programs", loaded)
    monkeypatch.setattr(bpf_objects, "enable_run_times", lambda: os.open(os.devnull, os.O_RDONLY))
    monkeypatch.setattr(tracers, "_busy_s", lambda: looks[0][2])
    return looks


@pytest.mark.parametrize(
    ("later", "share"),
    [
        ((5_000_000, 1_000_000, 0.2), 0.03),
        ((5_000_000, 1_000_000, 0.0), 0.12),  # too little to tell by: as if 0.05 s
        ((0, 0, 0.2), 0.0),
        ((300_000_000, 0, 0.1), 1.0),  # books in hundredths of a second
    ],
)
def test_it_is_their_part_of_the_busy_time(later, share, kernel):
    measured = Tracers()
    kernel.append((0, 1 if later[1] else 0, 50.0))
    assert measured.begin()
    assert measured.is_measuring
    run, second, busy_s = later
    kernel[0] = (run, second and second + 1, 50.0 + busy_s)
    assert measured.share() == pytest.approx(share)
    assert not measured.is_measuring


@pytest.mark.parametrize("programs", [HARMLESS, None], ids=["none of the kinds", "not shown"])
def test_without_any_there_is_nothing_to_measure(programs, monkeypatch):
    def loaded():
        if programs is None:
            raise PermissionError
        return programs

    monkeypatch.setattr(bpf_objects, "loaded_programs", loaded)
    assert not Tracers().begin()
