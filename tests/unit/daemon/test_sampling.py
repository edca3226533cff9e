"""How a window is kept small while it is sampled."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from prospect.daemon import sampling
from prospect.daemon.options import DaemonOptions
from prospect.daemon.sampling import Sampling


@pytest.mark.parametrize(("call_graph", "looks"), [("auto", True), ("fp", False), ("", False)])
def test_copies_of_stacks_are_taken_in_before_the_window_ends(monkeypatch, call_graph, looks):
    taken = []
    session = SimpleNamespace(waiting_bytes=0, advance=lambda: taken.append(1))
    monkeypatch.setattr(sampling, "LiveSession", lambda *_, **__: session)
    one = Sampling(DaemonOptions(call_graph=call_graph))
    assert (one.look_again_s < 5) == looks
    one.keep_small()
    assert not taken
    session.waiting_bytes = 32 << 20
    one.keep_small()
    assert len(taken) == 1
