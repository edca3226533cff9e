"""Call stacks of running programs: what they are known to be, and what perf makes of them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

import prospect
from builders.recordings import build_program
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.figures.calls.calls_view import CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed"),
]
FRAME_POINTERS = ("-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
# perf 6.1 does not survive a BPF program of another recording that came and went.
RECORD = ("perf", "record", "-q", "-B", "--no-bpf-event")
# Children %, self %, samples in the function itself, whether in the kernel, the symbol.
ROW = re.compile(r" *([\d.]+)% +([\d.]+)% +(\d+) +\[(.)\] (.*)")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A program with frame pointers, recorded by perf with call chains."""
    directory = tmp_path_factory.mktemp("calltree")
    program = build_program(directory, "calltree", *FRAME_POINTERS)
    file = directory / "perf.data"
    command = [*RECORD, "-e", "cpu-clock", "-F", "4000", "-g", "-o", file, program]
    for _ in range(5):  # perf 6.1 aborts now and then
        done = subprocess.run([*command, "1500"], capture_output=True, check=False, timeout=100)
        if done.returncode == 0:
            return file
    pytest.skip(f"perf record aborted: {done.stderr.decode()[-200:]}")


def totals_by_name(recording, **choice):
    with open_recording(str(recording)) as opened:
        profile = build_profile(opened, NamingOptions(), ProfileRequest(stacks=True))
    view = calls_view(profile, CallsChoice(SampleChoice("4", **choice), most=10**6))
    (event,) = view.events
    labels, totals = event.graph.labels, event.totals
    found = {}
    for frame in event.hottest.tolist():
        name = labels[frame]
        total, own = found.get(name, (0, 0))
        found[name] = (total + totals.total_hits[frame], own + totals.self_hits[frame])
    return event.graph.hits, found


def test_totals_are_those_of_perf(recording):
    options = ["--children", "-g", "none", "--stdio", "-n", "-s", "sym", "--percent-limit", "0"]
    text = subprocess.run(
        ["perf", "report", "-i", recording, *options],
        capture_output=True,
        check=True,
        text=True,
        timeout=100,
    ).stdout
    hits, ours = totals_by_name(recording)
    rows = [ROW.fullmatch(line.rstrip()) for line in text.splitlines()]
    theirs = {row[5]: (float(row[1]), int(row[3])) for row in rows if row}
    checked = 0
    for name, (percent, own) in theirs.items():
        # A frame's return address may be the first of the next function, which perf then names;
        # only what has the same name in both, and is no mere bit of a chain, can be compared.
        if name in ours and percent > 0.5:
            assert own == ours[name][1], name
            assert abs(percent / 100.0 * hits - ours[name][0]) <= 0.005 * hits + 1, name
            checked += 1
    assert checked >= 8


def test_totals_are_those_of_the_program(recording):
    hits, totals = totals_by_name(recording, through="main")
    # All of it runs below main, but for the loader's time before it.
    assert totals["main"][0] == hits
    # A leaf without a frame of its own hides its caller: so does perf's chain by frame pointers.
    assert totals["recurse"][0] >= 0.9 * totals["outer"][0]
    assert totals["ping"][0] <= hits
    # How often depends on what a clock is in step with.
    assert totals["inner"][0] <= totals["outer"][0] + totals["ping"][0] + 0.1 * hits
    # The C library keeps no frame pointers: what calls it is not on these stacks. In all stacks,
    # not only in those through main: in a function's first instructions its caller is hidden.
    _, everything = totals_by_name(recording)
    for name in ("outer", "ping"):
        below, _ = totals_by_name(recording, through=name)
        assert below == everything[name][0]


def test_recursion_counts_once(recording):
    _, through = totals_by_name(recording, through="recurse")
    hits, whole = totals_by_name(recording)
    assert whole["recurse"][0] == through["recurse"][0] < hits
    text = prospect.calls(recording, detail="4", through="recurse")
    tree = text.split("top-down")[1]
    # Nine calls one below the other are one row of the tree.
    assert len(re.findall(r"\brecurse\b", tree)) == 1


def test_a_recording_without_chains_is_refused_in_words(tmp_path):
    file = tmp_path / "perf.data"
    command = [*RECORD, "-e", "cpu-clock:u", "-o", file, "true"]
    subprocess.run(command, capture_output=True, check=False, timeout=100)
    with pytest.raises(prospect.errors.UsageError, match="--call-graph"):
        prospect.calls(file)
