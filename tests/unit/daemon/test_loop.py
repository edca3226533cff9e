"""What a daemon does of what several ask for while it writes a window."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest

from builders.stored import window_at
from prospect.daemon import loop, window_writing
from prospect.daemon.ceiling import PYTHON
from prospect.daemon.daemon_options import DaemonOptions
from prospect.daemon.loop import Daemon, Ending
from prospect.daemon.store_children import Outcome
from prospect.records import replace
from prospect.render.json.machine_documents import DAEMON
from prospect.store.directory import StoreDirectory
from prospect.store.writing import unpacked


class Play:
    """A daemon whose sampling and children are played.

    Attributes:
        written: the session of each window.
        begun, taken: the rates at which sampling began, and those of windows.
    """

    def __init__(self, monkeypatch, store):
        # What the process of the tests takes is none of the daemon's.
        self.options = DaemonOptions(
            window_s=600, cpu_limit_percent=100.0, memory_limit_bytes=1 << 40
        )
        self.written, self.begun, self.taken, self.said = [], [], [], []
        self.due_s, self.blocks_s = 600.0, 0.0
        monkeypatch.setattr(loop, "Sampling", self._sampling)
        monkeypatch.setattr(window_writing, "Encoder", self._encoder)
        merger = SimpleNamespace(answer_fd=0, outcome=lambda: ("", False))
        monkeypatch.setattr(window_writing, "Merger", lambda *_: merger)
        self._daemon = Daemon(store, lambda: self.options, self.said.append)

    def _sampling(self, options, _is_late):
        def take():
            time.sleep(self.blocks_s)
            self.taken.append(options.frequency_hz)
            return window_at(len(self.taken)), 0

        self.begun.append(options.frequency_hz)
        return SimpleNamespace(
            due_s=lambda: self.due_s,
            take=take,
            close=lambda: None,
            follow=lambda *_: None,
            child_pids=[],
        )

    def _encoder(self, _store, data):
        segment = unpacked(data)[0]
        self.written += [segment.session] * (segment.last - segment.first + 1)
        return SimpleNamespace(
            answer_fd=0,
            own_bytes=0,
            goes_on=False,
            pid=os.getpid(),
            outcome=lambda: Outcome("", is_full=False),
            end=lambda: None,
            give_up=lambda: None,
        )

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
        return self._daemon._go_on()

    def ends_writing(self):
        while self._daemon._writing.answer_fd >= 0:
            self._daemon._writing.finish()
        self.goes_on()

    def is_told_to_end(self):
        """Return whether it goes on."""
        with loop._woken_by_signals(self._daemon._signals, self._daemon._ending):
            os.kill(os.getpid(), signal.SIGTERM)
            return self.goes_on()

    @property
    def status(self):
        return self.asks("status")["status"]

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
    assert DAEMON.convert(first["dump"]) == first["dump"]
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


def test_windows_end_on_time_while_one_is_written(play):
    play.asks("dump")
    play.due_s = 0.0
    for _ in range(3):
        play.goes_on()
    play.due_s = 600.0
    play.goes_on()
    assert (len(play.taken), len(play.written)) == (4, 1)
    play.ends_writing()
    assert (len(play.written), play.status["windows_merged"]) == (4, 2)


@pytest.mark.parametrize(("blocks_s", "windows"), [(0.0, 1), (0.05, 2)])
def test_what_was_sampled_while_a_window_was_made_is_kept_when_sampling_begins_anew(
    play, monkeypatch, blocks_s, windows
):
    ceiling = play._daemon._ceiling

    def note(_used):
        ceiling.steps = [PYTHON]
        return True

    monkeypatch.setattr(ceiling, "note", note)
    monkeypatch.setattr(loop, "SHORT_S", 0.05)
    play.blocks_s = blocks_s
    play.asks("dump")
    play.ends_writing()
    assert (len(play.taken), len(play.begun)) == (windows, 2)
    play.ends_writing()
    assert play.status["windows"] == windows


def test_a_window_goes_on_while_there_is_no_room_for_it(play, monkeypatch):
    play.asks("dump")
    play.due_s = 0.0
    monkeypatch.setattr(window_writing, "MOST_QUEUED", 1)
    for _ in range(3):
        play.goes_on()
    assert len(play.taken) == 2


@pytest.fixture
def priority():
    before = os.getpriority(os.PRIO_PROCESS, 0)
    yield
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, before)


@pytest.mark.usefixtures("priority")
def test_the_end_takes_the_last_window_at_once_and_waits_for_no_writer_for_ever(play, monkeypatch):
    play.asks("dump")
    assert play.is_told_to_end()
    assert len(play.taken) == 2
    monkeypatch.setattr(loop, "END_S", 0.0)
    monkeypatch.setattr(play._daemon, "_ending", Ending())
    assert not play.is_told_to_end()
    assert play.said == [
        "SIGTERM: the daemon writes the last window, and ends",  # once, of two signals
        "2 windows lost: the store took too long to write",
    ]


@pytest.mark.usefixtures("priority")
def test_a_last_window_that_takes_too_long_is_given_up(play, monkeypatch):
    monkeypatch.setattr(loop, "LAST_TAKE_S", 0.05)
    monkeypatch.setattr(loop, "END_S", 0.0)
    play.blocks_s = 30.0
    play.is_told_to_end()
    assert not play.goes_on()
    assert "the last window is lost" in play.said[-1]
    assert play.taken == []
