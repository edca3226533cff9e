"""Kernel time by entry reason, on the running kernel, of known programs, and perf's word."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess

import pytest

import prospect
from builders.command_line import running
from builders.examples import nightly
from builders.recordings import build_program, hits_by, profile_of, record

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]

# What stands in a chain outside of everything else, by the kind of entry reason that the sample may
# have.
OUTERMOST = {
    "system call": r"entry_SYSCALL|do_syscall_64|ret_from_fork|el0t_64_sync|asm_",
    "exception": r"asm_exc_|entry_SYSCALL|ret_from_fork|common_startup|el\d[th]_64_sync",
    "kernel thread": r"ret_from_fork",
    "idle": r"common_startup_64|secondary_startup_64|__secondary_switched|__primary_switched",
}
UNCLASSIFIED_AT_MOST = 0.005


@pytest.fixture(scope="module")
def kernelwork(tmp_path_factory):
    return build_program(tmp_path_factory.mktemp("bin"), "kernelwork", "-static")


@pytest.fixture
def flood(tmp_path):
    """Start a network load that is received on CPU 0, beside which the test runs."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    program = build_program(tmp_path, "flood", "-static")
    command = ["taskset", "-c", "1", str(program), "0"]
    with running(command, stdout=subprocess.PIPE) as process:
        line = process.stdout.readline()
        if not line:
            pytest.skip("no network of its own, or no receive packet steering")
        yield


def record_with_perf(file, *words):
    """Record with perf; -B because perf 6.1 may die of the paths of vanished files' build ids."""
    if shutil.which("perf") is None:
        pytest.skip("needs perf")
    perf = ["perf", "record", "-q", "-B", "-a", "-e", "cpu-clock", "-F", "999", "-o", str(file)]
    subprocess.run([*perf, *map(str, words)], check=True, timeout=200)


def entry_reasons_of(profile, process):
    return hits_by(profile, "entry_reason", "entry_reason_name", process=process)


def kernel_hits(profile):
    hits = hits_by(profile, "mode")
    return hits["kernel"] + hits.get("interrupt", 0)


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("work", "entry_reason"),
    [
        ("getppid", ("system call", "getppid")),
        pytest.param("read", ("system call", "read"), marks=pytest.mark.nightly),
        ("faults", ("exception", "page fault")),
    ],
)
def test_the_entry_reason_of_a_known_load_dominates(tmp_path, kernelwork, work, entry_reason):
    profile = profile_of(tmp_path / "r", kernelwork, work, 250)
    entry_reasons = entry_reasons_of(profile, "kernelwork")
    own = {
        key: hits for key, hits in entry_reasons.items() if key[0] in ("system call", "exception")
    }
    if work == "getppid":  # so short that the way in and out of the kernel is most of it
        share = own.get(entry_reason, 0) + own.get(("system call", "(entry and exit)"), 0)
    else:
        share = own.get(entry_reason, 0)
    assert share > 0.7 * sum(own.values()), entry_reasons
    assert sum(own.values()) > 100


@pytest.mark.parallel
def test_forks_are_calls_and_the_first_steps_of_children(tmp_path, kernelwork):
    profile = profile_of(tmp_path / "r", kernelwork, "forks", 300)
    entry_reasons = entry_reasons_of(profile, "kernelwork")
    assert entry_reasons["system call", "clone"] > 50
    assert entry_reasons["system call", "exit_group"] > 20
    assert entry_reasons["exception", "page fault"] > 20
    assert {kind for kind, _ in entry_reasons} <= {
        *("none", "system call", "exception", "interrupt", "softirq", "unclassified"),
    }


def test_the_paper_experiment(tmp_path, kernelwork, request):
    """A program that only computes, at low priority, alone and beside a network load.

    Tsariounov, "Prospect: A sampling system profiler for Linux without instrumentation", OLS 2002:
    there the packets of others were the program's own kernel time.
    """
    spin = ("taskset", "-c", "0", "nice", "-n", "19", kernelwork, "spin", 200)
    alone = profile_of(tmp_path / "alone", *spin)
    request.getfixturevalue("flood")
    beside = profile_of(tmp_path / "beside", *spin)
    of_alone, of_beside = (
        hits_by(profile, "mode", process="kernelwork") for profile in (alone, beside)
    )
    interrupted = of_beside["interrupt"] / sum(of_beside.values())
    assert interrupted > 0.05, of_beside
    assert interrupted > of_alone.get("interrupt", 0) / sum(of_alone.values())
    own = [hits.get("kernel", 0) / sum(hits.values()) for hits in (of_alone, of_beside)]
    assert own[1] < own[0] + 0.03, (of_alone, of_beside)
    # Samples due in the interrupt itself, where interrupts are masked, come as the softirqs begin.
    softirqs = hits_by(beside, "entry_reason_name", entry_reason="softirq", process="kernelwork")
    assert sum(softirqs.values()) > 0.7 * of_beside["interrupt"]
    assert softirqs["NET_RX"] > 0
    # Whoever it was that they found: the system's table has all of them.
    found = hits_by(beside, "entry_reason_name", entry_reason="softirq")
    assert found["NET_RX"] >= softirqs["NET_RX"]
    report = beside.report(detail="4", kernel_threshold_s=0.0).split("by Entry Reason, All")[1]
    assert re.search(rf"% +{found['NET_RX']} +[\d.]+.* softirq +NET_RX\n", report)


@pytest.mark.parallel
def test_kernel_threads_go_by_what_they_have_in_common(tmp_path):
    shell = f"for i in 1 2 3 4 5; do dd if=/dev/zero of={tmp_path}/f bs=1M count=40; sync; done"
    profile = profile_of(tmp_path / "r", "sh", "-c", f"({shell}) 2>/dev/null")
    threads = hits_by(profile, "entry_reason_name", entry_reason="kernel thread")
    assert threads
    assert not [name for name in threads if re.search(r"/\d|^kworker.", name)]
    processes = hits_by(profile, "process", entry_reason="kernel thread")
    assert all(name.partition("/")[0] for name in processes)


def most_by_chance(expected):
    """Return the count that rare events, of which so many are expected, pass once in 10,000 runs.

    Which chains are cut off in a thunk is chance: their number in a run is of Poisson's law.
    """
    most, term = 0, math.exp(-expected)
    within = term
    while within < 1 - 1e-4:
        most += 1
        term *= expected / most
        within += term
    return most


LOADS = {
    "processes": "i=0; while [ $i -lt 300 ]; do i=$((i+1)); /bin/true; done",
    "disk": "for i in 1 2 3; do dd if=/dev/zero of=FILE bs=64k count=400 conv=fsync; done",
    "pipes": "head -c 300000000 /dev/zero | cat | cat >/dev/null",
}


@pytest.mark.parametrize("load", ["processes", *nightly("disk", "pipes")])
def test_hardly_anything_stays_unclassified(tmp_path, load):
    script = LOADS[load].replace("FILE", str(tmp_path / "f"))
    profile = profile_of(tmp_path / "r", "sh", "-c", f"({script}) 2>/dev/null")
    entry_reasons = hits_by(profile, "entry_reason")
    assert kernel_hits(profile) > 100
    assert entry_reasons.get("not recorded", 0) == 0
    unclassified = entry_reasons.get("unclassified", 0)
    assert unclassified <= most_by_chance(UNCLASSIFIED_AT_MOST * kernel_hits(profile)), (
        entry_reasons
    )


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf")
def test_perf_shows_the_chains_that_entry_reasons_were_read_from(tmp_path, kernelwork):
    """Innermost and outermost frames as perf names them, sample by sample."""
    file = tmp_path / "r"
    script = f"{kernelwork} read 150; {kernelwork} faults 150; {kernelwork} forks 150"
    record(file, "sh", "-c", script)
    profile = prospect.open(file)
    table, hits = profile.hits_table(detail="4"), profile.hits
    command = ["perf", "script", "-i", str(file), "-F", "pid,time,ip,sym", "--ns"]
    text = subprocess.run(command, capture_output=True, check=True, timeout=200, text=True).stdout
    chains = {}
    for block in text.split("\n\n"):
        head, *frames = block.strip().splitlines() or [""]
        # A sample without a chain has its address beside it.
        stamp = re.search(r"(\d+)\.(\d{9}):", head)
        if stamp and frames:
            names = [frame.split(maxsplit=1)[1] for frame in frames]
            chains.setdefault(int(stamp[1] + stamp[2]), []).append(names)
    samples = profile.samples
    checked = 0
    for row, time_ns in zip(samples.hit_index.tolist(), samples.time_ns.tolist(), strict=True):
        kind, name = table["entry_reason"][row], table["entry_reason_name"][row]
        if hits.mode[row] != 1 or len(chains.get(time_ns, [])) != 1 or kind == "unclassified":
            continue
        (frames,) = chains[time_ns]
        if len(frames) == 1:  # cut off: the process or the place told
            continue
        checked += 1
        assert kind in ("softirq", "interrupt") or re.match(OUTERMOST[kind], frames[-1]), frames
        if kind == "softirq":
            assert {"handle_softirqs", "__do_softirq"} & {*frames}, frames
        elif kind == "interrupt":
            assert any(re.match(r"asm_sysvec|asm_common|el\d._64_irq", f) for f in frames), frames
        elif kind == "exception" and name == "page fault":
            assert any(re.match(r"(asm_)?exc_page_fault|el\d_(da|ia|abort)", f) for f in frames)
        elif kind == "system call" and not name.startswith("("):
            assert any(name in frame for frame in frames), (name, frames)
    assert checked > 300


@pytest.mark.parallel
def test_a_perf_recording_with_chains_of_both_kinds_is_told_by_the_kernels_part(
    tmp_path, kernelwork
):
    file = tmp_path / "perf.data"
    record_with_perf(file, "-g", kernelwork, "read", 250)
    entry_reasons = entry_reasons_of(prospect.open(file), "kernelwork")
    assert entry_reasons["system call", "read"] > 0.8 * sum(
        hits
        for (kind, _), hits in entry_reasons.items()
        if kind not in ("none", "interrupt", "softirq")
    )


@pytest.mark.parallel
def test_without_chains_all_is_kernel_time_and_nothing_is_claimed(tmp_path, kernelwork):
    file = tmp_path / "perf.data"
    record_with_perf(file, kernelwork, "read", 200)
    profile = prospect.open(file)
    assert {*hits_by(profile, "entry_reason")} <= {
        *("none", "not recorded", "idle", "system call", "exception"),
    }
    assert hits_by(profile, "entry_reason", process="kernelwork")["not recorded"] > 50
    assert "interrupt" not in hits_by(profile, "mode")
    report = profile.report(detail="4")
    assert "System Calls of the Process" not in report
    assert "INTERRUPT" not in report
