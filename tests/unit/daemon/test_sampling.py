"""How a window is kept small while it is sampled."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from builders.live import state_of, with_times
from builders.stacks import stacks_profile
from prospect.daemon import sampling
from prospect.daemon.daemon_options import DaemonOptions
from prospect.daemon.sampling import Sampling
from prospect.profile.complete import complete


@pytest.mark.parametrize(("call_graph", "looks"), [("auto", True), ("fp", False), ("", False)])
def test_copies_of_stacks_are_taken_in_before_the_window_ends(monkeypatch, call_graph, looks):
    taken = []
    session = SimpleNamespace(
        waiting_bytes=0,
        advance=lambda: taken.append(1),
        read_new_files=lambda _: 0,
        name_containers=lambda _: {},
    )
    monkeypatch.setattr(sampling, "LiveSession", lambda *_, **__: session)
    one = Sampling(DaemonOptions(call_graph=call_graph))
    assert (one.look_again_s < 5) == looks
    assert not one.has_much
    # Decoded, records take four times their memory; with copies there are ten times as many.
    session.waiting_bytes = 8 << 20
    assert one.has_much != looks
    session.waiting_bytes = 32 << 20
    assert one.has_much
    one.take_in()
    assert len(taken) == 1


def test_a_window_ends_when_the_machine_has_slept_and_has_no_time_of_its_sleep(monkeypatch):
    boot_s = [time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()]
    monkeypatch.setattr(sampling.time, "clock_gettime", lambda _clock: time.monotonic() + boot_s[0])
    one_state = state_of(with_times(complete(stacks_profile()), 1.5))
    session = SimpleNamespace(
        waiting_bytes=0,
        take=lambda: one_state,
        read_new_files=lambda _: 0,
        name_containers=lambda _: {},
    )
    monkeypatch.setattr(sampling, "LiveSession", lambda *_, **__: session)
    one = Sampling(DaemonOptions(window_s=3600))
    assert one.due_s() > 60
    boot_s[0] += 8 * 3600
    assert one.due_s() == 0
    window, _ = one.take()
    # The span is as long as it was awake, whatever the clock on the wall says.
    assert window.span.end_us - window.span.begin_us == 1_500_000
    assert one.due_s() > 60
