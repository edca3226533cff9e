"""What takes COMMAND's place: processes that run already, and a time."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from pathlib import Path

import pytest

from builders.command_line import running
from prospect.capture.loop.attached import Attached
from prospect.capture.machine.attached_tasks import family
from prospect.errors import CaptureError


@pytest.fixture
def sleeper():
    with running(["sleep", "60"]) as child:
        yield child


def is_readable(fd: int, wait_ms: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(wait_ms))


def test_it_is_over_when_all_have_ended_and_not_before(sleeper):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        attached = Attached((sleeper.pid, other.pid), None)
        attached.release()
        assert attached.reap() is None
        other.stdin.close()
        other.wait()
        assert is_readable(attached.pidfd, 5000)
        assert attached.reap() is None
        assert not is_readable(attached.pidfd, 0)  # else the loop would never sleep again
        sleeper.kill()
        assert is_readable(attached.pidfd, 5000)
        assert attached.reap().exit_status == 0
        attached.close()


def test_the_time_begins_with_the_release(sleeper):
    with Attached((sleeper.pid,), 0.05) as attached:
        assert attached.until_ns == 0
        attached.release()
        assert attached.until_ns > time.monotonic_ns() - 50_000_000
        while attached.reap() is None:
            time.sleep(0.01)
        assert time.monotonic_ns() >= attached.until_ns
    assert sleeper.poll() is None


def test_nobody_and_no_time_is_never_over():
    with Attached((), None) as attached:
        attached.release()
        assert attached.reap() is None


def test_a_process_that_is_not_there_is_named_and_nothing_stays_open(sleeper):
    with subprocess.Popen(["true"]) as ended:
        pass
    before = len(list(Path("/proc/self/fd").iterdir()))
    for pid in (ended.pid, 1 << 31, 1 << 80):
        with pytest.raises(CaptureError, match=f"there is no process {pid}"):
            Attached((sleeper.pid, pid), None)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_thread_is_told_from_a_process():
    number, is_over = [], threading.Event()

    def run() -> None:
        number.append(threading.get_native_id())
        is_over.wait()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while not number:
            time.sleep(0.01)
        with pytest.raises(CaptureError, match=f"is a thread of process {os.getpid()}"):
            Attached((number[0],), None)
    finally:
        is_over.set()
        thread.join()


def test_a_family_is_all_that_descends_from_it_but_the_recorder(tmp_path):
    ours = os.getpid()
    parents = {5: 1, 6: 5, 7: 6, 8: 1, ours: 6}
    child_of_ours = max(parents) + 1
    parents[child_of_ours] = ours
    for pid, parent in parents.items():
        (tmp_path / str(pid)).mkdir()
        fields = " ".join(["S", str(parent), *["0"] * 20])
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {fields}")
    (tmp_path / "99").mkdir()  # it ends while it is looked at
    assert sorted(family((5,), str(tmp_path))) == [5, 6, 7]
    assert sorted(family((5, 8), str(tmp_path))) == [5, 6, 7, 8]


def test_kernel_threads_are_refused():
    name = Path("/proc/2/comm")
    if not name.exists() or name.read_text() != "kthreadd\n":
        pytest.skip("no kernel threads in sight, as in a container")
    with pytest.raises(CaptureError, match="is a thread of the kernel"):
        Attached((2,), None)
