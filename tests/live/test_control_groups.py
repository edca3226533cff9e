"""Services and containers: the kernel says in which control group each sample was taken."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

import prospect as library
from builders.command_line import run, run_here

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes control groups"),
]

SPIN = 'echo $$ > "$0/cgroup.procs"; timeout 0.5 sh -c "while :; do :; done"; true'


@pytest.fixture
def groups():
    """Two control groups where perf events look, one of which is made while it is recorded."""
    roots = [
        Path(line.split()[1])
        for line in Path("/proc/mounts").read_text().splitlines()
        if line.split()[2] == "cgroup2"
    ]
    if not roots:
        pytest.skip("there is no hierarchy of version 2")
    pair = roots[0] / "prospect-test.service", roots[0] / "prospect-late"
    with suppress(OSError):
        pair[0].mkdir()
    if not (pair[0] / "cgroup.procs").exists():
        pytest.skip("control groups cannot be made here")
    yield pair
    for group in pair:
        with suppress(OSError):
            group.rmdir()


def groups_of(path):
    """Return the control groups in which a recording saw each process that was asked for."""
    profile = library.open(path)
    processes = profile.processes
    hit = set(profile.hits.process_index.tolist())
    if processes.control_group is None:
        pytest.skip("this kernel tells no control groups")
    return {processes.control_group[row] for row in hit if processes.is_descendant[row]}


def test_samples_know_the_control_group_also_one_that_is_made_meanwhile(here, groups):
    early, late = groups
    Path("both").write_text(f"sh -c '{SPIN}' {early} & mkdir {late} && sh -c '{SPIN}' {late}; wait")
    ran = run("record", "--no-python", "-H", "1000", "-o", "r", "sh", "both")
    assert ran.returncode == 0, ran.stderr
    assert {"/prospect-test.service", "/prospect-late"} <= groups_of("r")
    text = run_here("report", "r").stdout.decode()
    assert "Service" in text.split("Function")[0]
    document = json.loads(run_here("report", "r", "--format", "json").stdout)
    (program,) = [one for one in document["summary"]["programs"] if one["name"] == "sh"]
    assert program["service"] in ("prospect-test.service", "prospect-late")
    assert program["other_services"] >= 1


HOSTILE_GROUPS = (
    "\x1b[2J\x1b]0;title\x07",
    "\u202egpj.scope",
    "x" * 255,
    "'\"<b>$(touch ran);\\",
    "tab\there\r",
)


def test_hostile_names_of_groups_are_shown_as_text(here, groups):
    """A newline is refused by the kernel; all else may be in a name, up to 255 bytes."""
    made = [groups[0].parent / name for name in HOSTILE_GROUPS]
    try:
        for group in made:
            group.mkdir()
        spins = [f"sh -c '{SPIN.replace('0.5', '0.2')}' {shlex.quote(str(one))} &" for one in made]
        Path("all").write_text("\n".join([*spins, "wait"]))
        ran = run("record", "--no-python", "-H", "1000", "-o", "r", "sh", "all")
    finally:
        for group in made:
            with suppress(OSError):
                group.rmdir()
    assert ran.returncode == 0, ran.stderr
    assert {f"/{name}" for name in HOSTILE_GROUPS} <= groups_of("r")
    for words in ((), ("--columns", "service"), ("--format", "html")):
        shown = run_here("report", "r", *words)
        assert shown.returncode == 0, shown.stderr
        text = shown.stdout.decode()
        marks = ("<b>$",) if "html" in words else ()
        for part in ("\x1b", "\x07", "\r", "\u202e", *marks):
            assert part not in text
    assert not Path("ran").exists()


def test_recordings_of_perf_tell_them_too(here, groups):
    if not shutil.which("perf"):
        pytest.skip("perf is not installed")
    early, _ = groups
    words = ["perf", "record", "-q", "--all-cgroups", "-F", "999", "-o", "p"]
    subprocess.run([*words, "sh", "-c", SPIN, str(early)], check=True, capture_output=True)
    groups = library.open("p").processes.control_group
    assert groups is not None
    assert "/prospect-test.service" in groups


def test_perf_sorts_our_recording_by_them(here, groups):
    if not shutil.which("perf"):
        pytest.skip("perf is not installed")
    early, _ = groups
    words = ("-H", "1000", "-o", "r", "sh", "-c", SPIN, str(early))
    assert run("record", "--no-python", *words).returncode == 0
    assert "/prospect-test.service" in groups_of("r")
    words = ["perf", "report", "-i", "r", "--sort", "cgroup", "--stdio", "-g", "none"]
    shown = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert "/prospect-test.service" in shown


@pytest.fixture
def limited_group():
    """A control group whose processes get 10 ms of CPU time in 100 ms."""
    version_1 = Path("/sys/fs/cgroup/cpu")
    group = (version_1 if version_1.is_dir() else version_1.parent) / "prospect-limited"
    try:
        group.mkdir(exist_ok=True)
        if version_1.is_dir():
            (group / "cpu.cfs_quota_us").write_text("10000")
        else:
            (group / "cpu.max").write_text("10000 100000")
    except OSError:
        pytest.skip("CPU limits cannot be set here")
    yield group
    with suppress(OSError):
        group.rmdir()


def test_a_cpu_limit_is_named_where_a_command_joins_its_group(here, limited_group):
    # It ends by its work: `timeout` would wait for its timer, whatever else is waited for.
    spin = 'echo $$ > "$0/cgroup.procs"; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'
    out = run("--off-cpu", "--format", "json", "-f", "out", "sh", "-c", spin, str(limited_group))
    assert out.returncode == 0, out.stderr
    document = json.loads(Path("out").read_text())
    (found,) = document["throttled"]
    counted = dict(line.split() for line in (limited_group / "cpu.stat").read_text().splitlines())
    assert found["group"].endswith("/prospect-limited")
    assert 5 <= found["throttled"] <= int(counted["nr_throttled"])
    runnable_s = sum(one["runnable_s"] for one in document["waiting"]["threads"])
    assert 0.4 < found["seconds"] <= 1.1 * runnable_s
    assert any(line.startswith("Throttled: ") for line in document["summary"]["lines"])
    stopped = [one for one in document["wall"]["rows"] if one["what"] == "cgroup quota"]
    # The command never waits for anything else but a CPU.
    stopped_s = sum(one["seconds"] for one in stopped)
    assert 0.9 * found["seconds"] <= stopped_s <= found["seconds"] + 0.001
