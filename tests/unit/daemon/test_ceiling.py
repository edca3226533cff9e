"""A daemon within its limits: what it goes without, in which order, and when it has it again."""

from __future__ import annotations

import pytest

from builders.status import FIGURES
from prospect.cli.control import status_text
from prospect.daemon import ceiling as module
from prospect.daemon.ceiling import (
    CALLERS,
    COPIES,
    FIVE_TIMES,
    NEW_NAMES,
    PYTHON,
    STEPS,
    TEN_TIMES,
    TWICE,
    Ceiling,
    Used,
)
from prospect.daemon.daemon_options import DaemonOptions
from prospect.profile.run_info import counted_notes, left_out_notes

MB = 1 << 20
CPUS = 2
OPTIONS = DaemonOptions(call_graph="auto")


class Simulated:
    """A daemon in synthetic time, whose cost depends on what it goes without.

    Attributes:
        ceiling: of it.
        load: how much work there is, 1.0 for as much as just fits without any step.
        memory_mb: what it takes with all names.
        shares: what each window took of the machine, in percent.
    """

    def __init__(self, options=OPTIONS):
        self.ceiling = Ceiling(options, CPUS)
        self.load, self.memory_mb = 1.0, 100.0
        self.now_s = self.cpu_s = 0.0
        self.shares, self.lengths = [], []

    def run(self, hours):
        """Let so many hours pass."""
        end_s = self.now_s + 3600 * hours
        while self.now_s < end_s:
            options = self.ceiling.options
            length_s = options.window_s
            each_s = 0.25 + self.load * length_s * (
                0.0014
                + 0.0014 * (options.call_graph == "auto")
                + 0.0007 * (not options.new_files)
                + 0.0021 * options.reads_python
            )
            self.now_s += length_s
            self.cpu_s += each_s
            self.shares.append(100 * each_s / length_s / CPUS)
            self.lengths.append(length_s)
            peak_bytes = round(self.memory_mb * (0.5 if options.new_files else 1.0)) * MB
            self.ceiling.note(Used(self.now_s, self.cpu_s, peak_bytes))
        return self.ceiling.steps


def test_steps_are_taken_in_order_until_the_cost_is_within_the_limit():
    daemon = Simulated()
    daemon.load = 1.9
    taken = daemon.run(2)
    assert taken == list(STEPS)[: len(taken)]
    assert taken[:3] == [COPIES, NEW_NAMES, TWICE]
    assert max(daemon.shares[-20:]) <= 0.5
    assert max(daemon.shares[:3]) > 0.7


def test_what_takes_much_too_much_takes_two_steps_at_a_time():
    daemon = Simulated()
    daemon.load = 50.0
    daemon.run(1.5)
    assert daemon.ceiling.steps == [
        COPIES,
        NEW_NAMES,
        TWICE,
        FIVE_TIMES,
        PYTHON,
        CALLERS,
        TEN_TIMES,
    ]
    assert daemon.ceiling.options.window_s == 600
    assert daemon.ceiling.options.call_graph == ""
    assert not daemon.ceiling.options.reads_python


def test_a_limit_holds_over_each_ten_minutes_however_the_load_grows():
    daemon = Simulated()
    for load in (0.6, 0.95, 1.2, 1.6, 2.0):
        daemon.load = load
        daemon.run(2)
        daemon.shares.clear()
        daemon.run(2)
        assert max(daemon.shares) <= 0.5


def test_the_names_of_all_that_runs_at_the_start_take_no_step():
    ceiling = Ceiling(OPTIONS, CPUS)
    assert not ceiling.note(Used(60.0, 5.0, MB))
    assert not ceiling.note(Used(66.0, 11.0, MB))
    assert ceiling.note(Used(186.0, 17.0, MB))
    assert ceiling.steps == [COPIES, NEW_NAMES]


def test_what_was_not_asked_for_is_no_step():
    assert COPIES not in Simulated(DaemonOptions(call_graph="fp")).ceiling._possible()
    assert CALLERS not in Simulated(DaemonOptions(call_graph="")).ceiling._possible()


def test_steps_are_taken_back_when_there_is_room_and_more_and_more_seldom():
    daemon = Simulated()
    daemon.load = 0.85
    daemon.run(1)
    assert daemon.ceiling.steps == []
    daemon.load = 1.9
    assert daemon.run(2)
    daemon.load = 0.1
    assert daemon.run(3) == []
    # A load for which each step is just too much: it settles.
    daemon.load = 1.25
    daemon.run(12)
    changes = 0
    for _ in range(12):
        before = list(daemon.ceiling.steps)
        changes += daemon.run(1) != before
    assert changes <= 6


def test_too_much_memory_takes_steps_too():
    daemon = Simulated()
    daemon.load, daemon.memory_mb = 0.3, 300.0
    assert daemon.run(1)[:2] == [COPIES, NEW_NAMES]
    assert daemon.ceiling.peak_bytes <= OPTIONS.memory_limit_bytes


def test_windows_are_not_longer_for_the_sake_of_memory():
    options = DaemonOptions(call_graph="auto", memory_limit_bytes=100 * MB)
    daemon = Simulated(options)
    daemon.load, daemon.memory_mb = 0.1, 250.0
    assert daemon.run(2) == [COPIES, NEW_NAMES, PYTHON, CALLERS]
    assert daemon.lengths[-1] == options.window_s
    daemon.load = 50.0
    assert daemon.run(1)[4:] == [TWICE, FIVE_TIMES, TEN_TIMES]


@pytest.mark.parametrize("steps", [[], [COPIES], [TWICE, FIVE_TIMES]])
def test_windows_count_what_they_go_without(steps):
    notes = module.step_notes(steps)
    twice = counted_notes([*notes, *notes])
    assert left_out_notes(twice) == twice
    assert [note.rpartition(": ")[2] for note in twice] == ["2."] * len(steps)


def test_new_settings_keep_the_steps_that_they_leave():
    one = Ceiling(OPTIONS, CPUS)
    one.steps = [COPIES, NEW_NAMES]
    one.follow(DaemonOptions(call_graph="fp"))
    assert one.steps == [NEW_NAMES]
    assert one.options.call_graph == "fp"
    assert one.asked.new_files == 0


def test_the_status_says_what_windows_go_without():
    figures = FIGURES | {"newest_age_s": None, "segments": 1, "store_bytes": 0}
    text = status_text(figures | {"goes_without": [STEPS[TWICE]]})
    assert "its limits 0.5 % of the machine (now 0.30 %), 200 MiB (peak 150 MiB)" in text
    assert "windows have twice the usual length" in text
    assert "reduced" not in status_text(figures)
