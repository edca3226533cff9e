"""Whom a live session follows: processes with what descends from them, or threads alone."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from builders.command_line import running
from builders.live import state_of, with_times
from builders.profile import interrupted_profile
from prospect.cli import top
from prospect.cli.commands import TOP
from prospect.cli.option_parser import parse
from prospect.errors import CaptureError, UsageError
from prospect.events.record_columns import TASK_EXIT, TASK_FORK
from prospect.live.carried import Followed
from prospect.live.chosen import Chosen
from prospect.records import replace
from prospect.tui.drawing import Mode, busy_line, run_line
from prospect.tui.figures import live_figures


class Part:
    """The tasks' records of a part: (kind, pid, parent, time)."""

    def __init__(self, *rows):
        self.tasks = self
        columns = np.array(rows, np.int64).reshape(len(rows), 4).T
        self.kind, self.pid, self.parent_pid, self.time_ns = columns


class Processes:
    def __init__(self, *pids):
        self.pid = np.array(pids)
        self.is_command, self.is_descendant = np.zeros((2, len(pids)), np.bool_)


def marked(followed, *pids):
    processes = Processes(*pids)
    followed.mark(processes)
    return processes.is_command.tolist(), processes.is_descendant.tolist()


@pytest.fixture
def child():
    with running(["sleep", "60"]) as process:
        yield process


def test_what_is_forked_later_is_followed_and_a_number_given_again_is_not(child):
    with Chosen((child.pid,), ()) as chosen:
        followed = Followed(chosen.whom())
        followed.take_in(
            Part(
                (TASK_FORK, 900_001, child.pid, 5),
                (TASK_FORK, 900_002, 900_001, 6),
                (TASK_FORK, 900_003, 1, 7),
                # At time 0 a snapshot names parents: `find_family` saw the same.
                (TASK_FORK, 900_004, child.pid, 0),
                (TASK_EXIT, 900_001, child.pid, 8),
            )
        )
        pids = (child.pid, 900_001, 900_002, 900_003, 900_004)
        assert marked(followed, *pids) == (
            [True, False, False, False, False],
            [True, True, True, False, False],
        )
        followed.take_in(Part((TASK_FORK, 900_001, 1, 9)))
        assert marked(followed, 900_001, 900_002)[1] == [False, True]


def test_children_that_ran_already_are_followed():
    script = "sleep 60 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as shell:
        kid = int(shell.stdout.readline())
        with Chosen((shell.pid,), ()) as chosen:
            assert marked(Followed(chosen.whom()), kid, os.getpid())[1] == [True, False]
        os.kill(kid, 9)


def test_it_says_when_all_that_were_named_have_ended(child):
    other = subprocess.Popen(["sleep", "60"])
    with other, Chosen((child.pid, other.pid), ()) as chosen:
        assert chosen.whom().words.startswith(f"processes {child.pid} (")
        for one in (child, other):
            assert not chosen.have_ended()
            one.kill()
            one.wait()
        assert chosen.have_ended()


def test_a_thread_is_followed_until_it_ends():
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    with Chosen((), (thread.native_id,)) as chosen:
        whom = chosen.whom()
        assert whom.pids == (os.getpid(),)
        assert whom.words.startswith(f"thread {thread.native_id} (")
        assert marked(Followed(whom), 1, os.getpid())[1] == [True, True]
        assert not chosen.have_ended()
        go.set()
        thread.join()
        # The kernel takes it away a moment after Python has let it go.
        while Path(f"/proc/self/task/{thread.native_id}").exists():
            pass
        assert chosen.have_ended()


@pytest.mark.parametrize(
    ("pids", "tids", "says"),
    [
        ((4_194_304,), (), "there is no process 4194304 (-p)"),
        ((), (4_194_304,), "there is no thread 4194304 (-t)"),
        ((2,), (), "is a thread of the kernel"),
    ],
)
def test_who_is_not_there_is_named(pids, tids, says):
    with pytest.raises(CaptureError) as refused:
        Chosen(pids, tids)
    assert says in str(refused.value)


def test_processes_and_threads_at_once_are_refused(monkeypatch):
    monkeypatch.setattr(top, "takes_escapes", lambda _: True)
    with pytest.raises(UsageError, match="-p names processes, -t threads"):
        top.run(parse(TOP, ["-p", "1", "--tid", "2"])[0], [], ("prospect", "top"))
    with pytest.raises(UsageError, match="numbers of threads"):
        parse(TOP, ["-t", "x"])


def text(spans):
    return "".join(span.text for span in spans)


def test_the_screen_shows_only_who_is_followed_in_percent_of_one_cpu():
    profile = with_times(interrupted_profile(), 40.0)
    everybody = live_figures(state_of(profile))
    owners = everybody.profile.hits.process_index
    first = int(owners[everybody.is_shown][0])
    rows = np.arange(len(profile.processes)) == first
    profile = replace(profile, processes=replace(profile.processes, is_descendant=rows))
    figures = live_figures(state_of(profile, followed="process 7 (it)", has_ended=True))
    assert set(figures.profile.hits.process_index[figures.is_shown].tolist()) == {first}
    shown = int(figures.design.hits[figures.is_shown].sum())
    line = text(run_line(figures, Mode(), 160))
    assert "process 7 (it)" in line
    assert f"{shown:,} samples" in line
    assert "ended" in line
    share = figures.seconds_by_mode.sum() / figures.span_s * 100.0
    line = text(busy_line(figures, 160))
    assert line.startswith(f"Together {share:.1f} % of a CPU")
    assert "idle" not in line
