"""What a daemon does of what several ask for while it writes a window."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from builders.stored import window_at
from prospect.daemon import loop, window_writing
from prospect.daemon.daemon_options import DaemonOptions
from prospect.daemon.loop import Daemon
from prospect.daemon.store_children import Outcome, unpacked
from prospect.records import replace
from prospect.store.directory import StoreDirectory


class Play:
    """A daemon whose sampling and children are played.

    Attributes:
        written: the session of each window.
        begun, taken: the rates at which sampling began, and those of windows.
    """

    def __init__(self, monkeypatch, store):
        self.options = DaemonOptions(window_s=600)
        self.written, self.begun, self.taken = [], [], []
        monkeypatch.setattr(loop, "Sampling", self._sampling)
        monkeypatch.setattr(window_writing, "Encoder", self._encoder)
        merger = SimpleNamespace(pid_fd=0, end=lambda: ("", False))
        monkeypatch.setattr(window_writing, "Merger", lambda *_: merger)
        self._daemon = Daemon(store, lambda: self.options, lambda _: None)

    def _sampling(self, options):
        def take():
            self.taken.append(options.frequency_hz)
            return window_at(len(self.taken)), 0

        self.begun.append(options.frequency_hz)
        return SimpleNamespace(due_s=lambda: 600.0, take=take, close=lambda: None, child_pids=[])

    def _encoder(self, _store, data):
        self.written.append(unpacked(data)[0].session)
        return SimpleNamespace(pid_fd=0, end=lambda: Outcome("", is_full=False))

    def asks(self, *words):
        """Ask one after the other; return what is answered to each, as it comes."""
        answers = {}
        for one in words:
            request = SimpleNamespace(words=one.split())
            request.answer = lambda reply, one=one: answers.update({one: reply})
            self._daemon._follow(request)
        self.goes_on()
        return answers

    def goes_on(self):
        """Let the daemon do what it does between two things that it waits for."""
        self._daemon._follow_signals()
        if self._daemon._writing.pid_fd < 0:
            self._daemon._go_on()

    def ends_writing(self):
        while self._daemon._writing.pid_fd >= 0:
            self._daemon._writing.finish()
        self.goes_on()

    def has_another_rate(self):
        self.options = replace(self.options, frequency_hz=97)
        self._daemon._signals.append(signal.SIGHUP)
        self.goes_on()


@pytest.fixture
def play(monkeypatch, tmp_path):
    with StoreDirectory(str(tmp_path / "s"), create=True) as store:
        store.lock()
        yield Play(monkeypatch, store)


def test_start_takes_no_window_from_who_begins_a_session(play):
    first = play.asks("dump")
    others = play.asks("session before", "start")
    play.ends_writing()
    # What was sampled until then is of the session so far.
    assert play.written == ["current", "current"]
    assert not first
    assert not others
    play.ends_writing()
    assert first["dump"]["windows"] == 2
    assert {one["session"] for one in others.values()} == {"before"}
    play.asks("dump")
    assert play.written[2:] == ["before"]


def test_start_takes_no_window_from_who_asks_for_one(play):
    play.asks("dump")
    others = play.asks("dump", "start")
    play.ends_writing()
    play.ends_writing()
    assert (len(play.written), others["dump"]["windows"]) == (2, 2)


def test_start_takes_no_window_from_new_settings(play):
    play.asks("dump")
    play.has_another_rate()
    play.asks("start")
    play.ends_writing()
    # What was sampled so far is a window of its own.
    assert (play.taken, play.begun) == ([19, 19], [19, 97])


def test_the_last_one_who_says_whether_to_sample_is_followed(play):
    play.asks("dump")
    answers = play.asks("stop", "start")
    play.ends_writing()
    play.ends_writing()
    assert answers["start"]["sampling"]
    play.asks("dump")
    answers = play.asks("start", "stop")
    play.ends_writing()
    play.ends_writing()
    assert not answers["stop"]["sampling"]


def test_what_was_stopped_and_started_goes_on_behind_the_next_window(play):
    play.asks("stop")
    play.asks("start")
    play.asks("dump")
    play.ends_writing()
    play.ends_writing()
    assert play.asks("status")["status"]["sampling"]
