"""perf reads our recordings without a complaint, and sees in them what we see."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from builders.examples import nightly
from prospect.events.decode import decode
from prospect.perfdata.reader import open_recording
from prospect.recording.opened_events import RecordOptions
from prospect.recording.run import record
from prospect.symbols.images.image_files import open_image

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("high_rates"),
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed"),
]

LOAD = "import os\nfor i in range(60000): os.stat('/')\nos.system('true')\nsum(range(4000000))"


@pytest.fixture(
    scope="module",
    params=[*nightly(None, 1), 4],
    ids=["what this machine samples with", "one clock", "a bank of clocks"],
)
def recording(request, tmp_path_factory, high_rates):
    path = tmp_path_factory.mktemp("perf") / "perf.data"
    with path.open("wb") as file:
        options = RecordOptions(
            command=(sys.executable, "-c", LOAD),
            frequency_hz=4000,
            flush_centiseconds=5,
            clocks=request.param,
            command_line=("prospect", "x y"),
            python="never",
        )
        record(options, file.fileno())
    return path


def perf(path, *words):
    line = ["perf", words[0], "-i", str(path), *words[1:]]
    result = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
    assert result.stderr == ""
    return result.stdout


@pytest.fixture
def events(recording):
    with open_recording(str(recording)) as opened:
        return decode(opened.blocks(), opened.info.events, [])


def test_header_is_complete(recording):
    header = perf(recording, "report", "--header-only")
    for name in ("hostname", "os release", "arch", "nrcpus online", "cpudesc", "total memory"):
        assert f"# {name} : " in header
    assert "# cmdline : prospect x y" in header
    assert "clockid: monotonic" in header


def test_evlist_shows_one_event(recording):
    (line,) = perf(recording, "evlist", "-v").splitlines()
    assert line.startswith(("cpu-clock: ", "cycles"))
    for field in ("mmap2: 1", "comm_exec: 1", "ksymbol: 1", "clockid: 1"):
        assert field in line
    assert "CALLCHAIN" in line
    assert "exclude_callchain_user: 1" in line


def test_report_shows_one_event_with_every_sample(recording, events):
    report = perf(recording, "report", "--stdio", "-n", "--no-children", "-g", "none")
    (title,) = [line for line in report.splitlines() if line.startswith("# Samples: ")]
    assert " of event 'c" in title
    rows = [line.split() for line in report.splitlines() if line.strip() and line[0] != "#"]
    assert sum(int(row[1]) for row in rows) == len(events.samples)


def test_perf_adds_the_samples_up_to_the_cpu_time(recording, events):
    """Clocks of a bank count the same time: four of them are not four times as much."""
    with open_recording(str(recording)) as opened:
        extras = opened.info.extras
    if extras["clock"] != "cpu-clock":
        pytest.skip("a hardware counter counts cycles")
    report = perf(recording, "report", "--stdio", "-g", "none")
    (line,) = [line for line in report.splitlines() if line.startswith("# Event count")]
    assert int(line.split(":")[1]) == pytest.approx(len(events.samples) / 4000 * 1e9, rel=1e-3)
    begin_ns, end_ns = extras["interval_ns"]
    assert int(line.split(":")[1]) <= (end_ns - begin_ns) * len(extras["cpus"]) * 1.01


def test_script_sees_every_sample(recording, events):
    shown = perf(recording, "script", "-G", "-F", "pid,tid,cpu,time,ip")
    assert len(shown.splitlines()) == len(events.samples)


def test_script_sees_the_same_chains(recording, events):
    """A sample in user space has an empty chain, of which perf shows nothing."""
    paragraphs = perf(recording, "script", "-F", "time,ip", "--ns").split("\n\n")
    shown = [paragraph.split() for paragraph in paragraphs if paragraph.strip()]
    samples = events.samples
    chains = {}
    for time_ns, first, last in zip(
        samples.time_ns.tolist(),
        samples.chain_start[:-1].tolist(),
        samples.chain_start[1:].tolist(),
        strict=True,
    ):
        chains.setdefault(time_ns, []).append(visible(samples.chain[first:last].tolist()))
    for words in shown:
        time_ns = int(words[0].rstrip(":").replace(".", ""))
        assert [int(word, 16) for word in words[1:]] in chains[time_ns]
    assert sum(len(words) > 4 for words in shown) > 20


def visible(chain):
    """Return a chain without the marks of its parts."""
    return [address for address in chain if address < 2**64 - 4095]


def test_report_names_kernel_functions(recording):
    report = perf(recording, "report", "--stdio", "--sort", "dso,sym")
    rows = [line for line in report.splitlines() if "%" in line and not line.startswith("#")]
    assert any("[kernel.kallsyms]" in row and "[k]" in row for row in rows)
    kernel_without_name = [row for row in rows if "[k] 0x" in row]
    assert len(kernel_without_name) < len(rows) / 20


def test_processes_met_by_the_snapshot_are_named(recording):
    with open_recording(str(recording)) as opened:
        met = set(opened.info.extras["processes"])
    shown = perf(recording, "script", "-F", "comm,pid").splitlines()
    unnamed = {line.split()[-1] for line in shown if line.strip().startswith(":")}
    assert not unnamed & met
    assert len(met) > 10


def test_the_build_ids_of_mapped_files_are_those_that_perf_finds(recording):
    maps = Path("/proc/self/maps").read_text().splitlines()
    libc = next(line.split()[-1] for line in maps if "/libc.so" in line)
    image = open_image(libc.encode())
    assert image
    listed = perf(recording, "buildid-list").splitlines()
    assert f"{image.image.build_id.hex()} {libc}" in listed


def test_snapshot_has_time_0_and_live_records_lie_in_the_interval(recording, events):
    with open_recording(str(recording)) as opened:
        begin, end = opened.info.extras["interval_ns"]
    live = events.mmaps.time_ns[events.mmaps.time_ns > 0]
    assert len(live) < len(events.mmaps.time_ns)
    assert begin <= live.min()
    assert live.max() <= end
    assert np.all(events.samples.time_ns <= end)
