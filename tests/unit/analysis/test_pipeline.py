"""One recording built by hand, from its records to the rows of its profile."""

from __future__ import annotations

from functools import partial

import pytest

from builders import perfdata as build
from builders.sources import CLOCK, CLOCK_ID, BuiltSource
from prospect.abi.recorded_facts import RecordingInfo
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import Callbacks, ProfileRequest
from prospect.estimate.flat_tables import hits_table
from prospect.figures.report.counters import run_counters
from prospect.figures.report.report_view import ReportView
from prospect.options import NamingOptions

RECORDS = build.RecordBuilder()
KERNEL_TEXT = 0xFFFFFFFF81000000
PROGRAM = 0x400000
OPTIONS = NamingOptions(use_cache=False)
TAIL = {"id": CLOCK_ID, "cpu": 1}
sample = partial(RECORDS.sample, period=10_000_000, **TAIL)


def records():
    """A shell forks a child that executes one program, then another at the same address."""
    kernel_name = "[kernel.kallsyms]_text"
    return [
        RECORDS.mmap(
            -1, 0, KERNEL_TEXT, 1 << 24, kernel_name, pgoff=KERNEL_TEXT, misc=build.MISC_KERNEL
        ),
        RECORDS.comm(10, 10, "shell"),
        RECORDS.mmap2(10, 10, PROGRAM, 0x1000, "/none/shell", inode=1),
        RECORDS.fork(11, 10, time=100, **TAIL),
        sample(ip=PROGRAM, pid=11, tid=11, time=110),
        RECORDS.comm(11, 11, "first", is_exec=True, time=120, **TAIL),
        RECORDS.mmap2(11, 11, PROGRAM, 0x1000, "/none/first", pgoff=0x2000, time=121, **TAIL),
        sample(ip=PROGRAM + 8, pid=11, tid=11, time=130),
        sample(ip=PROGRAM + 8, pid=11, tid=11, time=131),
        RECORDS.comm(11, 11, "second", is_exec=True, time=140, **TAIL),
        RECORDS.mmap2(11, 11, PROGRAM, 0x1000, "/none/second", time=141, **TAIL),
        sample(ip=PROGRAM + 8, pid=11, tid=11, time=150),
        RECORDS.ksymbol(KERNEL_TEXT + (1 << 25), 64, "bpf_prog_1", time=151, **TAIL),
        sample(ip=KERNEL_TEXT + (1 << 25), pid=11, tid=11, time=152, misc=build.MISC_KERNEL),
        RECORDS.lost(CLOCK_ID, 3, time=153, **TAIL),
        RECORDS.exit(11, 10, time=160, **TAIL),
        sample(ip=0x10, pid=10, tid=10, time=170),
    ]


EXTRAS = {
    "command": ["first", "arg"],
    "command_pid": 11,
    "recorder_pids": [10],
    "interval_ns": [100, 200],
    "started_at": 1_700_000_000.0,
    "processes": {"10": [1, 10, 9, 0]},
    "lost_by_cpu": {"1": 5},
}


def profile_of(extras):
    info = RecordingInfo(events=(CLOCK,), hostname="elsewhere", extras=extras)
    return build_profile(BuiltSource(records(), info), OPTIONS)


def test_every_sample_is_in_the_row_of_what_ran_where_it_was_taken():
    table = hits_table(profile_of(EXTRAS))
    columns = ("process", "pid", "object", "address", "samples")
    rows = list(zip(*(table[name].tolist() for name in columns), strict=True))
    assert sorted(rows) == [
        ("first", 11, "/none/first", 0x2008, 2),
        ("second", 11, "/none/second", 8, 1),
        ("second", 11, "bpf_prog_1", KERNEL_TEXT + (1 << 25), 1),
        ("shell", 10, "[unknown]", 0x10, 1),
        ("shell", 11, "/none/shell", 0, 1),
    ]


def test_processes_and_losses_know_what_only_the_recorder_could_tell():
    profile = profile_of(EXTRAS)
    processes = profile.processes
    assert processes.pid.tolist() == [10, 11, 11, 11]
    assert processes.is_command.tolist() == [False, False, True, True]
    assert processes.is_recorder.tolist() == [True, False, False, False]
    assert processes.parent_pid.tolist() == [1, 10, 10, 10]
    assert processes.session_pid.tolist() == [9, 9, 9, 9]  # fork inherits it
    assert (profile.losses.cpu.tolist(), profile.losses.lost.tolist()) == ([1], [5])
    assert profile.run.wall_seconds == pytest.approx(100e-9)


def test_a_recording_of_perf_has_no_section_of_ours_and_the_same_hits():
    ours, perfs = profile_of(EXTRAS), profile_of({})
    assert perfs.hits.count.tolist() == ours.hits.count.tolist()
    assert not perfs.processes.is_command.any()
    assert perfs.losses.lost.tolist() == [3]


def test_hits_in_modules_of_another_machines_kernel_are_theirs():
    module = 0xFFFFFFFFC0100000
    path = "/lib/modules/5.4.0/kernel/net/mac80211/mac80211.ko"
    mapped = RECORDS.mmap(-1, 0, module, 0x4000, path, misc=build.MISC_KERNEL)
    hits = [
        sample(ip=module + at, pid=11, tid=11, time=155 + at, misc=build.MISC_KERNEL)
        for at in range(3)
    ]
    info = RecordingInfo(events=(CLOCK,), hostname="elsewhere", os_release="5.4.0")
    profile = build_profile(BuiltSource([mapped, *records(), *hits], info), OPTIONS)
    table = hits_table(profile)
    assert sum(table["samples"][table["object"] == "[mac80211]"]) == 3
    counters = run_counters(profile)
    assert counters["kernel_module_samples"] == 3
    assert counters["kernel_samples"] == 4


def test_recorded_callers_go_on_through_mappings_that_are_only_read():
    attr = CLOCK.attr._replace(sample_type=build.USUAL | build.CALLCHAIN)
    clock = CLOCK._replace(attr=attr)
    make = build.RecordBuilder(attr.sample_type)
    stray, user = 0x7FFF0000, 2**64 - 512
    chain = (user, 0x1008, 0x2008, 0x3008, 0x1018, stray, 0x1028)
    of_code = [
        make.mmap2(7, 7, start, 0x1000, name, prot=prot, misc=misc)
        for start, name, prot, misc in (
            (0x1000, "/system/bin/app_process64", 5, build.MISC_USER),
            (0x2000, "/data/app/base.vdex", 1, build.MISC_USER | 1 << 13),
            (0x3000, "/data/TemporaryFile-jit", 0x4000, build.MISC_USER),
            (stray, "[stack]", 3, build.MISC_USER | 1 << 13),
        )
    ]
    hit = make.sample(ip=0x1008, pid=7, tid=7, time=5, chain=chain, **TAIL)
    source = BuiltSource([*of_code, hit], RecordingInfo(events=(clock,), hostname="elsewhere"))
    profile = build_profile(source, OPTIONS, ProfileRequest(stacks=True))
    found, at = [], int(profile.samples.stack_index[0])
    while at >= 0:
        location = profile.stacks.location_index[at]
        function = profile.locations.function_index[location]
        found.append(profile.objects.path[profile.functions.object_index[function]])
        at = int(profile.stacks.caller_index[at])
    assert found == [
        "/system/bin/app_process64",
        "/data/app/base.vdex",
        "/data/TemporaryFile-jit",
        "/system/bin/app_process64",
    ]


def test_no_samples_make_an_empty_profile():
    profile = build_profile(BuiltSource([]), OPTIONS)
    assert len(profile.hits.count) == 0
    assert len(profile.processes) == 0


def test_stages_say_what_they_do_in_their_order():
    news = []
    source = BuiltSource(records())
    build_profile(source, OPTIONS, ProfileRequest(stacks=True, lines=True), Callbacks(news.append))
    size = sum(map(len, source.records))
    assert news[0] == f"decoding {size / 1e3:.1f} of {size / 1e3:.1f} kB"
    named = [one.partition(":") for one in news if one.startswith("naming ")]
    assert [head for head, _, _ in named] == [
        f"naming {at} of {len(named)} objects" for at in range(1, len(named) + 1)
    ]
    assert {" /none/first", " /none/shell"} <= {path for _, _, path in named}
    stages = ["decoding", "following", "placing", "naming", "adding", "finding the debug"]
    first = [next(i for i, one in enumerate(news) if one.startswith(s)) for s in stages]
    assert first == sorted(first)
    # A word for a stage and for an object, none for a sample.
    assert len(news) <= len(named) + 10


def test_the_memory_map_has_mappings_with_hits_and_without():
    view = ReportView(profile_of(EXTRAS), "4")
    maps = [view.memory_map(row) for row in range(4)]
    assert [list(zip(each.path, each.hits.tolist(), strict=True)) for each in maps] == [
        [("/none/shell", 0)],
        [("/none/shell", 1)],
        [("/none/first", 2)],
        [("/none/second", 1)],
    ]
    assert [each.size_bytes.tolist() for each in maps] == [[0x1000]] * 4
    assert [each.pgoff.tolist() for each in maps] == [[0], [0], [0x2000], [0]]
