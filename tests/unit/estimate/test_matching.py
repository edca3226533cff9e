"""The same things get the same row, whatever build, process id or clone they came from."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from builders.profile_builder import ProfileBuilder, clock_event, run_info
from builders.runs import run_of
from prospect.estimate.compare.compared_run import compared_run
from prospect.estimate.compare.matching import (
    ObjectName,
    function_name,
    label_runs,
    match_objects,
    matched_rows,
    named_row,
    object_name,
    process_name,
)
from prospect.profile.model import (
    BIRTH_EXEC,
    CPUMODE_KERNEL,
    KIND_ANON,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_MODULE,
)


def elf(path, build_id=""):
    return object_name(KIND_ELF, path, build_id)


def labels(before, after, renamed=("", "")):
    found = match_objects(before, after, renamed)
    return [found[name] for name in (*before, *after)]


@pytest.mark.parametrize(
    ("name", "matched"),
    [
        ("foo", "foo"),
        ("foo.isra.0", "foo"),
        ("foo.constprop.12", "foo"),
        ("crypto/sha256.block.abi0", "crypto/sha256.block"),
        ("foo.part.0.cold", "foo"),
        ("foo.llvm.1234567890", "foo"),
        ("ns::foo(int) [clone .isra.0]", "ns::foo(int)"),
        ("foo() [clone .part.0] [clone .cold]", "foo()"),
        ("foo.bar", "foo.bar"),
        ("partial.parts", "partial.parts"),
        ("a->b", "a->b"),
        (".cold", ".cold"),
        ("", ""),
    ],
)
def test_a_clone_is_the_function_it_was_made_of(name, matched):
    assert function_name(name) == matched


def test_what_a_clone_is_called_is_what_a_pattern_says():
    clone = re.compile(
        r"(?: \[clone [^\]]*\]|\.(?:constprop|isra|part|cold|lto_priv|llvm|localalias|specialized"
        r"|abi0)(?:\.\d+)*)+\Z"
    )
    parts = ("f", ".", ".isra", ".cold", ".0", "12", " [clone ", " [clone", "]", ".llvm.9", "(a)")
    for count in range(6):
        for chosen in itertools.product(parts, repeat=count):
            name = "".join(chosen)
            assert function_name(name) == (clone.sub("", name) or name)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", [".cold", ".cold.0", " [clone ", " [clone .isra.0]", ".0", "]"])
def test_a_long_name_costs_no_more_than_its_length(part):
    name = part * 100_000
    for odd in (name + "x", name + "]", "x" + name):
        assert function_name(odd) in {odd, "x"}


@pytest.mark.parametrize(
    ("name", "is_kernel_thread", "matched"),
    [
        ("kworker/0:1-events", True, "kworker"),
        ("kworker/u8:3+flush-8:0", True, "kworker"),
        ("ksoftirqd/11", True, "ksoftirqd"),
        ("irq/28-eth0", True, "irq/28-eth0"),
        ("job/3", False, "job/3"),
        ("", True, ""),
    ],
)
def test_a_kernel_thread_is_one_of_its_kind(name, is_kernel_thread, matched):
    assert process_name(name, is_kernel_thread=is_kernel_thread) == matched


def test_objects_whose_names_hold_process_ids_are_one_row():
    for kind in (KIND_JIT, KIND_ANON):
        assert object_name(kind, "/tmp/perf-7.map", "") == object_name(kind, "//anon", "")
    assert object_name(KIND_KERNEL, "/boot/vmlinux-6.1", "aa") == object_name(
        KIND_KERNEL, "[kernel.kallsyms]", ""
    )
    module = object_name(KIND_MODULE, "/lib/modules/6.1/drivers/net/virtio-net.ko.xz", "ab")
    assert module == object_name(KIND_MODULE, "[virtio_net]", "")
    assert elf("/usr/bin/prog (deleted)").path == "/usr/bin/prog"


def test_a_new_build_is_the_same_program():
    assert labels([elf("/bin/prog", "aa")], [elf("/bin/prog", "bb")]) == ["/bin/prog"] * 2
    moved = labels([elf("/old/prog", "aa")], [elf("/new/prog", "bb")])
    assert moved == ["prog"] * 2


def test_the_same_build_is_the_same_program_whatever_it_is_called():
    found = labels([elf("/a/sort-1", "aa")], [elf("/a/sort-2", "aa")])
    assert found == ["sort-1 => sort-2"] * 2


def test_objects_of_one_name_stay_apart_where_their_paths_match():
    before = [elf("/x/lib.so", "a1"), elf("/y/lib.so", "b1")]
    after = [elf("/y/lib.so", "b2"), elf("/x/lib.so", "a2")]
    assert labels(before, after) == ["/x/lib.so", "/y/lib.so", "/y/lib.so", "/x/lib.so"]


def test_one_name_on_both_sides_that_is_matched_already_takes_no_third():
    before = [elf("/usr/lib/libz.so.1", "a")]
    after = [elf("/usr/lib/libz.so.1", "b"), elf("/opt/libz.so.1", "c")]
    assert labels(before, after) == ["/usr/lib/libz.so.1"] * 2 + ["/opt/libz.so.1"]


def test_another_version_of_a_library_is_that_library():
    found = labels([elf("/lib/libssl.so.1.1", "a")], [elf("/lib/libssl.so.3", "b")])
    assert found == ["libssl.so.1.1 => libssl.so.3"] * 2
    assert len(set(labels([elf("/bin/python3.11")], [elf("/bin/python3.12")]))) == 2


def test_what_is_on_one_side_only_stays_alone():
    assert labels([elf("/a/x")], [elf("/a/y")]) == ["/a/x", "/a/y"]
    assert labels([ObjectName(KIND_MODULE, "[x]", "")], [elf("/a/[x]")]) == ["[x]", "/a/[x]"]


def test_the_command_is_matched_under_another_name():
    before = compared_run(command_run("old-prog", "/b/old-prog"), "3")
    after = compared_run(command_run("new-prog", "/b/new-prog"), "3")
    found = label_runs([before], [after])
    assert [side.process for side in found] == [["old-prog => new-prog"]] * 2
    assert [side.object[0] for side in found] == ["old-prog => new-prog"] * 2
    rows = matched_rows("function", [before, after], found)
    assert (len(rows), rows.name) == (1, ["main"])
    for name in ("old-prog", "new-prog"):
        assert named_row("process", name, [before, after], found) is not None


def test_what_other_processes_ran_does_not_come_between():
    """Another process runs B's build while A is recorded; it is not compared, nor matched."""
    before = command_run("prog", "/old/prog", beside="/new/prog")
    runs, found = both(before, command_run("prog", "/new/prog", beside="/old/prog"))
    rows = matched_rows("function", runs, found)
    assert (rows.name, rows.object) == (["main"], ["prog"])


def command_run(name, path, beside=""):
    build = ProfileBuilder(run_info(events=(clock_event(1000.0),), command=(path, "5")))
    process = build.process(name, 9, is_command=True, birth=BIRTH_EXEC)
    build.hit(process, build.function("main", build.object(path, build_id=path), 0x10), 100)
    if beside:
        other = build.function("main", build.object(beside, build_id=beside), 0x10)
        build.hit(build.process("other", 10), other, 100)
    return build.build()


def both(before, after):
    runs = [compared_run(before, "3"), compared_run(after, "3")]
    return runs, label_runs(runs[:1], runs[1:])


def test_every_hit_has_its_row_and_user_and_kernel_stay_apart():
    before, after = run_of({"f": 5, "g.isra.0": 7, "k:f": 2}), run_of({"k:f": 3, "g": 1, "": 4})
    runs, found = both(before, after)
    rows = matched_rows("function", runs, found)
    seen = {
        (name, of_object, mode): [
            int(run.profile.hits.count[where == row].sum())
            for run, where in zip(runs, rows.row_of_hit, strict=True)
        ]
        for row, (name, of_object, mode) in enumerate(
            zip(rows.name, rows.object, rows.mode.tolist(), strict=True)
        )
    }
    assert seen == {
        ("f", "/usr/bin/program", 0): [5, 0],
        ("g", "/usr/bin/program", 0): [7, 1],
        ("", "/usr/bin/program", 0): [0, 4],
        ("f", "[kernel]", 1): [2, 3],
    }
    assert matched_rows("process", runs, found).name == ["program", "program"]
    assert len(matched_rows("total", runs, found)) == 1


def test_a_name_is_looked_for_as_process_object_and_function_in_this_order():
    runs, found = both(run_of({"program": 5, "f": 7}), run_of({"f": 3}))
    kinds = {
        kind: named_row(kind, "program", runs, found)
        for kind in ("", "process", "object", "function")
    }
    assert [row.kind for row in kinds.values()] == ["process", "process", "object", "function"]
    hits = [int(runs[0].profile.hits.count[row.row_of_hit[0] == 0].sum()) for row in kinds.values()]
    assert hits == [12, 12, 12, 5]
    assert named_row("", "f", runs, found).kind == "function"
    assert named_row("", "nothing", runs, found) is None
    assert named_row("process", "f", runs, found) is None


def test_idle_cpus_and_the_recorder_are_not_compared():
    build = ProfileBuilder(run_info(events=(clock_event(1000.0),), cpus=2, wall_seconds=1.0))
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL)
    for row, (name, pid, columns) in enumerate(
        (("swapper", 0, {}), ("prospect", 5, {"is_recorder": True}), ("sh", 6, {}))
    ):
        process = build.process(name, pid, **columns)
        build.hit(
            process, build.function(f"f{row}", kernel, 64 * row), 100 * (row + 1), CPUMODE_KERNEL
        )
    run = compared_run(build.build(), "4")
    assert run.profile.hits.count[run.counts].tolist() == [300]
    assert compared_run(build.build(), "2").other_load == pytest.approx(0.15)


def test_scopes_choose_the_command_its_descendants_all_or_the_kernel():
    build = ProfileBuilder(run_info(events=(clock_event(1000.0),)))
    program = build.object("/p")
    function = build.function("f", program, 0)
    for pid, columns in enumerate(({"is_command": True}, {"is_descendant": True}, {}), start=1):
        process = build.process(f"p{pid}", pid, **columns)
        build.hit(process, function, 10**pid)
        build.hit(process, function, 2 * 10**pid, CPUMODE_KERNEL)
    profile = build.build()
    hits = {}
    for scope in ("2", "3", "4", "k"):
        run = compared_run(profile, scope)
        hits[scope] = int(run.profile.hits.count[run.counts].sum())
    assert hits == {"2": 30, "3": 330, "4": 3330, "k": 2220}


def test_rows_of_no_recordings_are_none():
    runs, found = both(run_of({}), run_of({}))
    assert len(matched_rows("function", runs, found)) == 0
    assert np.asarray(matched_rows("total", runs, found).mode).tolist() == []
