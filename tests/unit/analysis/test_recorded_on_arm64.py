"""A recording that was made and archived on arm64 is reported here as it would be there.

``tests/data/arm64-cpp.prospect-archive.xz``: Debian 12 in an emulator, a C++ program with
exceptions, copies of stacks, timers at 500 Hz.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

import prospect
from builders.command_line import run
from builders.recordings import hits_by

PACKED = Path(__file__).parents[2] / "data" / "arm64-cpp.prospect-archive.xz"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("arm64") / "archive"
    path.write_bytes(lzma.decompress(PACKED.read_bytes()))
    return path


def test_names_callers_and_entry_reasons_are_those_of_the_machine(archive):
    profile = prospect.open(archive, stacks=True, use_cache=False)
    assert profile.run.arch == "aarch64"
    own = hits_by(profile, "function", process="cpp")
    assert own["main"] == 303
    # Vector code of the C library for that processor only.
    assert own["__memset_sve_zva64"] > 10
    assert sum(own.values()) == 582
    assert own[""] == 3  # in a module of the kernel whose symbols the archive lacks
    assert {"execve", "page fault", "SVE access"} <= set(profile.entry_reasons.name)
    assert profile.stacks.depth.max() > 10


def test_instructions_are_disassembled_with_their_hits(archive):
    ran = run("annotate", "main", str(archive), "--format", "json", "--no-cache")
    (event,) = json.loads(ran.stdout)["events"]
    (function,) = event["functions"]
    hottest = max(function["instructions"], key=lambda one: one["samples"])
    assert (hottest["text"].split()[0], hottest["samples"]) == ("smull", 259)
    assert any(one["flow"] == "branch" for one in function["instructions"])
