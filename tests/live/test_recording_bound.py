"""A recording ends at the bound of its size: COMMAND goes on, the report says what it covers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import prospect as library
from builders.command_line import running
from builders.recordings import build_program
from prospect.estimate.accounting.sample_accounting import sample_accounting
from prospect.figures.report.report_view import ReportView

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("high_rates")]

BUSY = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"
# Busy by the clock: a faster machine must fill the bound too. With callers, a second at this rate
# is some 2 MiB of each busy CPU.
BUSY_FOR_LONG = "timeout 1 sh -c 'while :; do :; done'"
RATE_HZ = 16_000  # one CPU fills the bound too
MIB = 1 << 20
# What describes the run comes behind the records.
DESCRIPTION_BYTES = MIB // 2


def run(directory, *words):
    line = [sys.executable, "-m", "prospect", *words]
    return subprocess.run(
        line, cwd=directory, capture_output=True, text=True, timeout=120, check=False
    )


def check_cut(path, bound_bytes):
    """Check that the file keeps its bound and that a report of it is right; return the profile."""
    assert bound_bytes // 4 < path.stat().st_size < bound_bytes + DESCRIPTION_BYTES
    profile = library.open(path)
    assert profile.run.is_cut
    assert profile.run.wall_seconds > 0
    assert any("--max-size" in limit for limit in profile.run.limits)
    assert any("The recording is cut" in warning for warning in ReportView(profile).warnings)
    return profile


RECORD, SAVE = ("record", "-o", "r"), ("--save", "r", "-f", "out")


# Alone: the processes of other tests fill a MiB by themselves.
@pytest.mark.parametrize(
    ("words", "end", "status"),
    [
        (RECORD, "", 1),
        (SAVE, "; exit 7", 7),
        pytest.param(RECORD, "; exit 7", 7, marks=pytest.mark.nightly),
        pytest.param(SAVE, "", 1, marks=pytest.mark.nightly),
    ],
)
def test_at_its_bound_a_recording_ends_and_command_goes_on(tmp_path, words, end, status):
    command = f"{BUSY_FOR_LONG}; touch over{end}"
    rates = ("-H", str(RATE_HZ), "-M", "5", "--call-graph", "fp")
    ran = run(tmp_path, *words, "--max-size", "1M", *rates, "sh", "-c", command)
    assert ran.returncode == status
    assert (tmp_path / "over").exists()
    said = [line for line in ran.stderr.splitlines() if "bound of 1 MiB" in line]
    assert len(said) == 1
    assert "Recorded only the first" in said[0]
    profile = check_cut(tmp_path / "r", MIB)
    assert f"the first {profile.run.wall_seconds:.1f} s" in said[0]
    counts = sample_accounting(profile).by_cpu
    assert counts.lost.sum() > 0
    assert (abs(counts.closure_share) < 0.02).all()
    seconds = profile.hits.count.sum() / RATE_HZ
    assert 0.3 * profile.run.wall_seconds < seconds <= profile.run.wall_seconds * profile.run.cpus
    if words[0] == "--save":
        assert "Recorded only the first" in (tmp_path / "out").read_text()


# Two seconds and more, or a moment after the file is nearly full.
UNTIL_FULL = (
    "i=0; until [ $(stat -c %s r) -gt 3000000 ] || [ $i -ge 40 ]; do"
    " sleep 0.05; i=$((i+1)); done; sleep 0.3; exit 5"
)


# Alone: it fills the buffers of all who record.
def test_a_flood_of_long_paths_by_another_user_ends_the_recording_at_its_bound(tmp_path):
    program = build_program(tmp_path, "maps", "-static")
    with running([program, tmp_path], stdout=subprocess.PIPE) as flood:
        assert flood.stdout.readline() == b"mapping\n"
        words = ["record", "-o", "r", "--max-size", "4M", "sh", "-c", UNTIL_FULL]
        ran = run(tmp_path, *words)
        assert flood.poll() is None
    assert ran.returncode == 5
    assert "bound of 4 MiB" in ran.stderr
    profile = check_cut(tmp_path / "r", 4 * MIB)
    assert flood.pid in profile.processes.pid


@pytest.mark.parallel
def test_below_its_bound_a_recording_is_whole(tmp_path):
    ran = run(tmp_path, "record", "-o", "r", "--max-size=1G", "sh", "-c", BUSY)
    assert ran.returncode == 0
    assert not library.open(tmp_path / "r").run.is_cut


@pytest.mark.parallel
def test_a_bound_is_a_keyword_of_python_too():
    words = ["sh", "-c", BUSY_FOR_LONG]
    options = {"frequency_hz": RATE_HZ, "flush_centiseconds": 5, "call_graph": "fp"}
    profile = library.record(words, max_bytes=MIB, **options)
    assert profile.run.is_cut
