"""`record -z`: the same recording, smaller, that perf reads too."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import prospect as library
from builders.command_line import BURN, run
from builders.examples import nightly
from prospect.perfdata.reader import open_recording

pytestmark = [pytest.mark.live, pytest.mark.parallel]


@pytest.mark.parametrize("call_graph", [*nightly(()), ("--call-graph", "dwarf")])
def test_a_packed_recording_says_what_the_other_says(here, call_graph):
    for name, words in (("packed", ("-z",)), ("plain", ())):
        ran = run("record", *words, *call_graph, "-H", "500", "-o", name, "sh", "-c", BURN)
        assert ran.returncode == 0, ran.stderr
        assert ("samples" in ran.stderr) == (name == "plain")
    packed, plain = (library.open(name) for name in ("packed", "plain"))
    assert packed.run.unread_bytes == 0
    assert packed.run.damage == plain.run.damage == ()
    command = [profile.processes.is_command.any() for profile in (packed, plain)]
    assert command == [True, True]
    assert len(packed.samples) > 20
    for name in ("packed", "plain"):
        with open_recording(name) as recording:
            assert recording.info.extras["mapped_files"]["inode"]
            assert any(b"libc" in one.name for one in recording.info.build_ids)
    if call_graph:
        assert Path("packed").stat().st_size * 3 < Path("plain").stat().st_size


@pytest.mark.skipif(os.geteuid() != 0, reason="perf reads files of one's own")
def test_perf_unpacks_it(here):
    if not shutil.which("perf"):
        pytest.skip("perf is not installed")
    assert run("record", "--compress", "-H", "500", "-o", "r", "sh", "-c", BURN).returncode == 0
    words = ["perf", "script", "-i", "r", "-F", "comm,pid,ip"]
    # Another test's process may have any name.
    shown = subprocess.run(words, check=True, capture_output=True).stdout.decode(errors="replace")
    profile = library.open("r")
    assert len([line for line in shown.splitlines() if line and not line[0].isspace()]) > 0
    assert profile.run.unread_bytes == 0
