"""What `--target` runs on a target, by each CPython that is installed; older ones refuse."""

from __future__ import annotations

import shutil

import pytest

import prospect
from builders.daemon import RunningDaemon
from builders.examples import nightly
from builders.local_target import LocalTarget
from builders.pythons import EVERY_VERSION, VERSIONS, python_of
from builders.recordings import hits_by
from prospect.api.store_part import read_store

pytestmark = [pytest.mark.live, pytest.mark.parallel]
BUSY = "python3 -V; i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done"
ALL_PARTS = ("--call-graph", "auto", "--off-cpu")


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_every_python_records_and_counts_there(tmp_path, version):
    target = LocalTarget(tmp_path, python_of(version))
    file = tmp_path / "r"
    words = ("-H", 1000, *ALL_PARTS, "-o", file, "sh", "-c", BUSY)
    ran = target.prospect("record", "--target", "there", *words)
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout.startswith(f"Python {version}.")
    assert hits_by(prospect.open(file), "process")["sh"] > 10
    ran = target.prospect("stat", "--target", "there", "-f", tmp_path / "counts", "true")
    assert ran.returncode == 0, ran.stderr
    assert "task-clock" in (tmp_path / "counts").read_text()


# Every day a daemon samples over a real sshd.
@pytest.mark.parametrize("version", nightly(VERSIONS[0], VERSIONS[-1]))
def test_a_daemon_samples_there(tmp_path, version):
    pytest.importorskip("duckdb")
    target = LocalTarget(tmp_path, python_of(version))
    words = ("--target", "there", "--call-graph", "auto", "-H", "99")
    with RunningDaemon(tmp_path / "s", *words, **target.environment) as daemon:
        daemon.control("dump")
        assert daemon.end() == 0, daemon.said()
    assert read_store(str(tmp_path / "s")).hits.count.sum() > 0


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("3.6", ("record",)),
        ("3.8", ("doctor",)),
        *(
            pytest.param(version, words, marks=pytest.mark.nightly)
            for version in ("3.6", "3.7", "3.8")
            for words in (("record",), ("stat",), ("doctor",))
            if (version, *words) not in {("3.6", "record"), ("3.8", "doctor")}
        ),
    ],
)
def test_older_pythons_are_refused_in_a_line(tmp_path, version, words):
    target = LocalTarget(tmp_path, python_of(version))
    command = () if words == ("doctor",) else ("true",)
    output = ("-o", tmp_path / "r") if words == ("record",) else ()
    ran = target.prospect(*words, "--target", "there", *output, *command)
    first, *rest = ran.stderr.splitlines()
    assert first.startswith(f"prospect: there has Python {version}."), ran.stderr
    assert "Prospect's recorder needs Python 3.9 or later there" in first
    assert "Traceback" not in ran.stderr
    if words == ("record",) and shutil.which("perf"):
        assert ran.returncode == 0
        assert "perf records there instead" in first
    else:
        assert (ran.returncode, rest) == (1, [])
