"""A session that loses samples asks for less, says so once, and keeps what it has otherwise."""

from __future__ import annotations

import pytest

from builders.live import state_of, with_times
from builders.profile import interrupted_profile
from prospect.errors import CaptureError
from prospect.live.session import SteadySession
from prospect.recording.opened_events import RecordOptions
from prospect.records import replace
from prospect.tui.app import Watch

STATE = state_of(with_times(interrupted_profile(), 10.0))


class Begun:
    """Sessions that are begun; each advance loses the next of `lost`."""

    def __init__(self, *lost, most=9):
        self.lost = list(lost)
        self.most = most
        self.call_graphs = []
        self.closed = []

    def __call__(self, options):
        if len(self.call_graphs) == self.most:
            raise CaptureError("there is no process 7 (-p)")
        self.call_graphs.append(options.call_graph)
        return Session(self, options.call_graph)


class Session:
    def __init__(self, begun, call_graph):
        self.begun, self.call_graph = begun, call_graph

    def advance(self):
        share = self.begun.lost.pop(0) if self.begun.lost else 0.0
        return replace(STATE, lost_share=share)

    def close(self):
        self.begun.closed.append(self.call_graph)


def news_of(begun, times, call_graph="auto"):
    session = SteadySession(RecordOptions(call_graph=call_graph), begun)
    news = [session.advance().news for _ in range(times)]
    session.close()
    return news


def test_copies_give_way_to_pointers_and_these_to_nothing():
    begun = Begun(0.5, 0.3, 0.0, 0.5, 0.5, 0.0)
    news = news_of(begun, 6)
    assert begun.call_graphs == ["auto", "fp", ""]
    assert begun.closed == ["auto", "fp", ""]
    assert news[0] == ""
    assert news[1] == (
        "30% of the samples were lost with --call-graph auto: from here on callers come from frame"
        " pointers (--call-graph fp)."
    )
    assert news[-1].endswith("--call-graph fp: from here on without callers.")


@pytest.mark.parametrize("lost", [(0.5, 0.0, 0.5, 0.0), (0.01, 0.01, 0.01, 0.01)])
def test_what_is_lost_once_or_is_little_changes_nothing(lost):
    begun = Begun(*lost)
    assert news_of(begun, 4) == [""] * 4
    assert begun.call_graphs == ["auto"]


def test_without_callers_there_is_nothing_to_give_up():
    begun = Begun(*[0.5] * 6)
    assert news_of(begun, 6, "") == [""] * 6
    assert begun.call_graphs == [""]


def test_where_no_other_session_can_begin_it_goes_on_as_it_is():
    begun = Begun(*[0.5] * 4, most=1)
    assert news_of(begun, 4) == [""] * 4
    assert begun.closed == ["auto"]


def test_a_person_is_told_once_and_the_help_keeps_it():
    session = SteadySession(RecordOptions(call_graph="fp"), Begun(0.5, 0.5))
    watch = Watch(session)
    told = [watch.advance() for _ in range(4)]
    assert [bool(news) for news in told] == [False, True, False, False]
    assert told[1] in session.advance().limits
