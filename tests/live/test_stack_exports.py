"""A recorded program's known chain of calls, in the formats that other tools read."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess

import pytest

import prospect
from builders.command_line import run_here
from builders.pprof_schema import pprof_profile
from builders.recordings import PROSPECT, build_program
from prospect.render.registry import FORMATS

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]

CHAIN = "main;outer;middle;inner;leaf"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    flags = ("-O2", "-fno-omit-frame-pointer", "-fno-shrink-wrap")
    return build_program(tmp_path_factory.mktemp("program"), "chain", *flags)


@pytest.fixture(scope="module")
def exports(tmp_path_factory, program):
    directory = tmp_path_factory.mktemp("exports")
    recording = directory / "perf.data"
    options = ("--no-python", "-H", "1000", "--call-graph", "fp")
    run("record", *options, "-o", recording, program, "0", "2500")
    found = {}
    for name in (name for name, one in FORMATS.items() if one.has_stacks and name != "html"):
        file = directory / name
        assert run_here("report", "--format", name, "-f", file, recording).returncode == 0
        found[name] = file.read_bytes()
    return found


def run(*words):
    line = [str(word) for word in (*PROSPECT, *words)]
    subprocess.run(line, check=True, timeout=100, capture_output=True)


def test_all_formats_count_the_same_samples(exports):
    folded = sum(int(line.rsplit(" ", 1)[1]) for line in exports["folded"].decode().splitlines())
    assert folded > 100
    profile = pprof_profile(gzip.decompress(exports["pprof"]))
    assert sum(sample.value[0] for sample in profile.sample) == folded
    totals = re.search(rb"^totals: (\d+) ", exports["callgrind"], re.MULTILINE)
    assert int(totals[1]) == folded
    assert len(json.loads(exports["chrome"])["samples"]) == folded
    threads = json.loads(exports["firefox"])["threads"]
    # The first sample of a thread is none of ours: it is where its CPU time begins.
    columns = [thread["samples"] for thread in threads]
    assert sum(sum(weight > 0 for weight in one["weight"]) for one in columns) == folded
    assert all(one["length"] == len(one["weight"]) for one in columns)


def test_a_notebook_shows_the_chain(program):
    words = [str(program), "0", "300"]
    profile = prospect.record(words, frequency_hz=1000, call_graph="fp", stacks=True)
    shown = re.findall(r'<div title="(\w+) \(', profile._repr_html_())
    assert CHAIN in ";".join(shown)


def test_the_chain_stands_in_the_folded_stacks(exports):
    counts = [line.rsplit(" ", 1) for line in exports["folded"].decode().splitlines()]
    of_leaf = [(stack, int(n)) for stack, n in counts if ";leaf" in stack]
    assert sum(n for _, n in of_leaf) > 100
    right = sum(n for stack, n in of_leaf if CHAIN in stack)
    assert right >= 0.99 * sum(n for _, n in of_leaf)
