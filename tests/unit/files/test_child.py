"""A child ends with its parent, disturbs nobody's signals, and leaves nothing where it fails."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from builders.silent_mount import silent_mount
from prospect.files.child import Child, tell, told

HOLDER = """
import os, sys, time
from prospect.files.child import Child
child = Child()
child.start(lambda _: os.stat(sys.argv[1]) if sys.argv[1] else time.sleep(600), ())
os.write(1, b"%d\\n" % child.pid)
time.sleep(600)
"""

# Each fork is followed by a signal to the whole group, as early as one can come.
SIGNALLED = """
import os, signal
from prospect.files import child
arrived, read_fd, write_fd = [], *os.pipe2(os.O_NONBLOCK)
signal.set_wakeup_fd(write_fd)
signal.signal(signal.SIGINT, lambda *_: arrived.append(1))
fork = os.fork
def fork_and_signal():
    pid = fork()
    if pid:
        os.killpg(0, signal.SIGINT)
    return pid
os.fork = fork_and_signal
children = [child.Child() for _ in range(20)]
for one in children:
    one.start(lambda stop_fd: os.read(stop_fd, 1), ())
for one in children:
    one.stop()
ended = [one.reap(30) and one.status for one in children]
print(len(arrived), len(os.read(read_fd, 1000)), ended == [0] * 20)
"""


# What begins without standard files gives their numbers to others.
BARE = """
import os, sys
from prospect.files.child import Child, tell, told
for standard in (0, 1, 2):
    os.close(standard)
kept_fd = os.open(sys.argv[1], os.O_WRONLY)
child = Child()
child.start(lambda _: os.write(kept_fd, b"held"), (kept_fd,))
child.reap(30)
os._exit(child.status)
"""


def is_there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.timeout(100)
@pytest.mark.parametrize("is_blocked", [False, True])
def test_the_end_of_the_parent_is_the_childs_too(tmp_path, is_blocked):
    if is_blocked and os.geteuid() != 0:
        pytest.skip("only root mounts what does not answer")
    mount = silent_mount(tmp_path) if is_blocked else nullcontext()
    with mount:
        words = [sys.executable, "-c", HOLDER, str(tmp_path / "x") if is_blocked else ""]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:
            pid = int(parent.stdout.readline())
            # Until it waits for what does not answer, or sleeps.
            awaited = ("fuse", "request_wait_answer", "nanosleep")
            while not any(word in Path(f"/proc/{pid}/wchan").read_text() for word in awaited):
                time.sleep(0.01)
            parent.kill()
        while is_there(pid):
            time.sleep(0.01)


@pytest.mark.timeout(100)
def test_a_signal_to_the_group_right_after_the_fork_reaches_the_parent_once():
    words = [sys.executable, "-c", SIGNALLED]
    done = subprocess.run(words, capture_output=True, start_new_session=True, check=True)
    assert done.stdout.split() == [b"20", b"20", b"True"], done.stderr


@pytest.mark.timeout(100)
def test_a_child_of_a_process_without_standard_files_holds_what_it_was_given(tmp_path):
    answer = tmp_path / "answer"
    answer.touch()
    subprocess.run([sys.executable, "-c", BARE, answer], check=True)
    assert answer.read_text() == "held"


def test_a_child_that_cannot_be_made_leaves_no_descriptors(monkeypatch):
    def no_more(*_):
        raise BlockingIOError

    def descriptors():
        return [fd for fd in range(256) if os.path.lexists(f"/proc/self/fd/{fd}")]

    before = descriptors()
    child = Child()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fork", no_more)
        with pytest.raises(BlockingIOError):
            child.start(lambda _: None, ())
    assert descriptors() == before
    made = [os.pipe2(os.O_CLOEXEC)]
    before = [one for one in descriptors() if one not in made[0]]
    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe2", lambda _: made.pop() if made else no_more())
        with pytest.raises(BlockingIOError):
            child.start(lambda _: None, ())
    assert descriptors() == before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


MANY_FILES = """
import os, resource, select, sys
from prospect.files.child import Child, tell, told
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
if most < 1200:
    sys.exit(77)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
child = Child()
child.start(lambda stop_fd: select.select((stop_fd,), (), ()), ())
child.stop()
sys.exit(child.status if child.reap(20) else 3)
"""


def test_a_child_of_a_parent_with_very_many_files_can_wait_for_its_stop():
    ran = subprocess.run([sys.executable, "-c", MANY_FILES], capture_output=True, check=False)
    if ran.returncode == 77:
        pytest.skip("this user may not open so many files")
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.fixture
def small_files():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_one_process_leaves_the_other_finds_whole_or_not_at_all(small_files):
    fd = os.memfd_create("between")
    try:
        assert told(fd) is None
        size = tell(fd, ([1, 2], b"x" * 10_000))
        assert os.fstat(fd).st_size == size
        assert told(fd) == ([1, 2], b"x" * 10_000)
        with pytest.raises(OSError, match="File too large"):
            tell(fd, b"x" * 20_000)
        assert told(fd) is None
    finally:
        os.close(fd)
