"""What the live tests share."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from builders.command_line import names
from builders.ssh_target import PLAIN, SshTarget

_MAX_SAMPLE_RATE = Path("/proc/sys/kernel/perf_event_max_sample_rate")
_CPU_TIME_PERCENT = Path("/proc/sys/kernel/perf_cpu_time_max_percent")


@pytest.fixture(scope="module")
def high_rates(tmp_path_factory):
    """Allow the rates that a kernel allows after a boot, and keep it from lowering them.

    It does that for the whole system where a counter's interrupts are slow, as in many virtual
    machines: any other program that samples can be the cause. One file of tests at a time, of all
    workers: who ends would take the rates of the others away.
    """
    with (tmp_path_factory.getbasetemp().parent / "high-rates").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield from _high_rates()


def _high_rates():
    rate, percent = _MAX_SAMPLE_RATE.read_text(), _CPU_TIME_PERCENT.read_text()
    if int(percent) not in (0, 100):  # else the kernel takes no other rate
        _MAX_SAMPLE_RATE.write_text("100000")
        _CPU_TIME_PERCENT.write_text("0")
    yield
    if int(percent) not in (0, 100):
        _CPU_TIME_PERCENT.write_text(percent)
        _MAX_SAMPLE_RATE.write_text(rate)


@pytest.fixture(scope="module")
def ssh_server(tmp_path_factory):
    """Start a server that is this machine."""
    target = SshTarget(tmp_path_factory.mktemp("ssh"))
    yield target
    target.close()


@pytest.fixture
def target(ssh_server):
    """Give a target on loopback with plain sessions, of which no file is known yet."""
    for kept in ssh_server.cache.glob("*/*.executable"):
        kept.unlink()
    ssh_server.begin_sessions_by(PLAIN)
    return ssh_server


@pytest.fixture
def bare_root(tmp_path, target):
    """Let sessions begin in a root and under a name of its own, with this machine's programs."""
    root = tmp_path / "root"
    for name in ("usr", "proc", "sys", "dev", "etc", "tmp", "opt", "root"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        if Path(f"/{name}").is_symlink():
            (root / name).symlink_to(Path(f"/{name}").readlink())
    shutil.copy("/etc/ld.so.cache", root / "etc")
    target.begin_sessions_by(
        "exec unshare -mu /bin/sh -c 'echo there >/proc/sys/kernel/hostname;"
        f" for d in usr sys dev; do mount --rbind /$d {root}/$d; done;"
        f' mount -t proc proc {root}/proc; exec chroot {root} /bin/sh -c "$SSH_ORIGINAL_COMMAND"\''
    )
    return root


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in an empty directory; recordings without a name go to another."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    yield directory
    assert names(scratch) == []
