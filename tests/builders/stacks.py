"""Profiles with call stacks: one that a person can follow, and a random one of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from builders.profile_builder import ProfileBuilder, run_info
from prospect.profile.model import (
    BIRTH_EXEC,
    CPUMODE_KERNEL,
    CPUMODE_USER,
    ENTRY_REASON_IDLE,
    ENTRY_REASON_NONE,
    ENTRY_REASON_SYSCALL,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    NO_COPY,
    LocationTable,
    Profile,
    SampleTable,
    StackCopies,
    StackTable,
)
from prospect.profile.naming import NameSource
from prospect.profile.optional_tables import LineTable
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

TICK_NS = 3_906_250  # of 256 Hz


def stacks_profile(*, lines: bool = False) -> Profile:
    """A program that recurses, computes in JIT code, reads a file and has names to stumble over.

    With `lines`, ``work`` has ``inlined<int>`` inlined at its two addresses.
    """
    build = ProfileBuilder(run_info(command=("work",), wall_seconds=0.25, begin_ns=1_000_000_000))
    swapper = build.process("swapper", 0, parent_pid=0)
    work = build.process("work", 77, parent_pid=70, birth=BIRTH_EXEC, is_command=True)
    program = build.object("/usr/bin/work", build_id="00112233445566778899aabbccddeeff00112233")
    libc = build.object("/usr/lib/libc.so.6", build_id="ff" * 20)
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL, source=NameSource.KALLSYMS)
    jit = build.object("/tmp/perf-77.map", KIND_JIT)
    names = {
        "main": (program, 0x401000),
        "work": (program, 0x402000),
        "a;b <c>&\"' 1": (program, 0x403000),
        "": (libc, 0x20000),
        "read": (libc, 0x30000),
        "jitted": (jit, 0x7F0000001000),
        "do_syscall_64": (kernel, 0xFFFFFFFF81000000),
        "vfs_read": (kernel, 0xFFFFFFFF81200000),
        "default_idle": (kernel, 0xFFFFFFFF81300000),
    }
    rows = {name: build.function(name, *place) for name, place in names.items()}
    reading = (ENTRY_REASON_SYSCALL, "read")
    stacks = [
        (work, ("main", "work"), 5, (ENTRY_REASON_NONE, "")),
        (work, ("main", "work", "work", "work"), 3, (ENTRY_REASON_NONE, "")),
        (work, ("main", "work", "a;b <c>&\"' 1"), 2, (ENTRY_REASON_NONE, "")),
        (work, ("main", "jitted"), 4, (ENTRY_REASON_NONE, "")),
        (work, ("main", ""), 1, (ENTRY_REASON_NONE, "")),
        (work, ("main", "read", "do_syscall_64", "vfs_read"), 6, reading),
        (swapper, ("default_idle",), 9, (ENTRY_REASON_IDLE, "")),
    ]
    forest: dict[tuple[int, int], int] = {}
    hit_of, stack_of = [], []
    for process, path, count, entry_reason in stacks:
        row, mode = -1, CPUMODE_USER
        for name in path:
            is_kernel = names[name][0] == kernel
            mode = CPUMODE_KERNEL if is_kernel else CPUMODE_USER
            address = names[name][1] + 4
            location = build.locations.setdefault((rows[name], address), len(build.locations))
            row = forest.setdefault((row, location), len(forest))
        build.hit(process, rows[path[-1]], count, mode, offset=4, entry_reason=entry_reason)
        hit_of += [len(build.hits) - 1] * count
        stack_of += [row] * count
    build.mapping(work, program, 0x401000, 0x3000, pgoff=0x1000, hits=11)
    profile = build.build()
    order = np.random.default_rng(7).permutation(len(hit_of))
    time_ns = 1_000_000_000 + TICK_NS * np.arange(1, len(order) + 1, dtype=np.uint64)
    found = replace(
        profile,
        comms=["comm", "a b;c"],
        hits=replace(
            profile.hits, comm_index=(profile.hits.process_index == swapper).astype(np.int32)
        ),
        samples=SampleTable(
            np.array(hit_of, np.int32)[order],
            time_ns,
            (np.arange(len(order)) % 2).astype(np.uint16),
            np.zeros(len(order), np.uint8),
            tid=77 * (np.array(hit_of, np.int32)[order] < 6),
            stack_index=np.array(stack_of, np.int32)[order],
        ),
        stacks=_stack_table(list(forest), profile),
    )
    return replace(found, lines=_lines(found)) if lines else found


def lined_stacks_profile() -> Profile:
    """`stacks_profile` with lines."""
    return stacks_profile(lines=True)


def profile_of_stacks(
    stacks: Iterable[tuple[str, int]],
    kinds: Iterable[tuple[str, int]] = (),
    programs: tuple[str, ...] = ("app",),
) -> Profile:
    """A profile of stacks: `NAME` or `NAME@OBJECT` from the outermost on, and how many samples.

    ``~`` in a name is a space. Objects are ELF files but for `kinds`; the first one is the user's.
    The programs have the stacks by turns.
    """
    build = ProfileBuilder(run_info(command=("app",), wall_seconds=4.0, begin_ns=1_000_000_000))
    processes = [
        build.process(name, 77 + at, is_command=not at, is_descendant=True)
        for at, name in enumerate(programs)
    ]
    objects: dict[str, int] = {}
    rows: dict[str, int] = {}
    forest: dict[tuple[int, int], int] = {}
    hit_of, stack_of = [], []
    kind_of = {"[kernel.kallsyms]": KIND_KERNEL, **dict(kinds)}
    for nth, (path, count) in enumerate(stacks):
        row = -1
        for frame in path.split():
            name, _, where = frame.partition("@")
            where = where or "/home/me/app"
            if where not in objects:
                objects[where] = build.object(where, kind_of.get(where, KIND_ELF))
            if frame not in rows:
                rows[frame] = build.function(
                    name.replace("~", " "), objects[where], 4096 * (1 + len(rows))
                )
            address = build.functions[rows[frame]]["address"]
            location = build.locations.setdefault((rows[frame], address), len(build.locations))
            row = forest.setdefault((row, location), len(forest))
        is_kernel = kind_of.get(where) == KIND_KERNEL
        process = processes[nth % len(processes)]
        build.hit(process, rows[frame], count, CPUMODE_KERNEL if is_kernel else CPUMODE_USER)
        hit_of += [len(build.hits) - 1] * count
        stack_of += [row] * count
    found = build.build()
    order = np.random.default_rng(1).permutation(len(hit_of))
    return replace(
        found,
        samples=SampleTable(
            np.array(hit_of, np.int32)[order],
            1_000_000_000 + 3_906_250 * np.arange(1, len(order) + 1, dtype=np.uint64),
            np.zeros(len(order), np.uint16),
            np.zeros(len(order), np.uint8),
            tid=np.full(len(order), 77, np.int32),
            stack_index=np.array(stack_of, np.int32)[order],
        ),
        stacks=_stack_table(list(forest), found),
    )


def _stack_table(forest: list[tuple[int, int]], profile: Profile) -> StackTable:
    depth: list[int] = []
    for caller, _ in forest:
        depth.append(depth[caller] + 1 if caller >= 0 else 0)
    location = np.array([row[1] for row in forest], np.int32)
    functions = profile.locations.function_index.take(location)
    kinds = profile.objects.kind.take(profile.functions.object_index.take(functions))
    return StackTable(
        np.array([row[0] for row in forest], np.int32),
        location,
        np.where(kinds == KIND_KERNEL, CPUMODE_KERNEL, CPUMODE_USER).astype(np.uint8),
        np.array(depth, np.int32),
    )


def _lines(profile: Profile) -> LineTable:
    """Lines of ``main`` and ``work``, the latter with a function inlined; none of the others."""
    start, frames = [0], []
    for function in profile.locations.function_index.tolist():
        name = profile.functions.name[function]
        if name == "main":
            frames.append((0, 0, 10))
        if name == "work":
            frames += [(1, 0, 20), (2, 1, 30)]
        start.append(len(frames))
    columns = list(zip(*frames, strict=True))
    return LineTable(
        np.array(start, np.int64),
        np.array(columns[0], np.int32),
        np.array(columns[1], np.int32),
        np.array(columns[2], np.uint32),
        ["main", "work", "inlined<int>"],
        ["/src/work.c", "/src/inlined.h"],
    )


def random_stacks_profile(
    sample_count: int, stack_count: int, depth: int, seed: int = 1
) -> Profile:
    """Samples of stacks of one depth, of 20 threads on 4 CPUs.

    Each of 40,000 places calls at most four others; inner halves of the stacks differ.
    """
    random = np.random.default_rng(seed)
    build = ProfileBuilder(run_info(cpus=4, wall_seconds=sample_count / 1000, begin_ns=1))
    objects = [build.object(f"/usr/lib/library-{n}.so", KIND_ELF, f"{n:040x}") for n in range(8)]
    for row in range(4000):
        build.function(f"space_{row % 40}::function_{row}(int, char)", objects[row % 8], 64 * row)
    for row in range(20):
        build.process(f"process-{row}", 100 + row, is_command=True)
    profile = build.build()
    locations = 40_000
    function = np.sort(random.integers(0, 4000, locations, dtype=np.int32))
    address = 64 * function.astype(np.uint64) + random.integers(0, 64, locations, dtype=np.uint64)
    caller, location, depths = [], [], []
    above, calls = np.full(1, -1), np.zeros(1, np.int64)
    callees = random.integers(0, locations, (locations, 4))  # of each place, as in a program
    first = 0
    for level in range(depth):
        size = min(stack_count, 4 ** (level + 1))
        if level < depth // 2:
            size = min(size, max(stack_count // 8, 1))
        chosen = np.arange(size) % len(above)
        caller.append(above.take(chosen))
        calls = callees[calls.take(chosen), (np.arange(size) // len(above)) % 4]
        location.append(calls)
        depths.append(np.full(size, level))
        above = np.arange(first, first + size)
        first += size
    stack_index = random.choice(above, sample_count).astype(np.int32)
    stack_index[: min(stack_count, sample_count)] = above[: min(stack_count, sample_count)]
    stacks = StackTable(
        np.concatenate(caller).astype(np.int32),
        np.concatenate(location).astype(np.int32),
        np.full(sum(map(len, caller)), CPUMODE_USER, np.uint8),
        np.concatenate(depths).astype(np.int32),
    )
    # A thread has its own stacks.
    process = (stack_index % 20).astype(np.int64)
    key = process * locations + stacks.location_index.take(stack_index)
    distinct, first, hit_index, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    size = len(distinct)
    hits = replace(
        profile.hits,
        process_index=(distinct // locations).astype(np.int32),
        comm_index=np.zeros(size, np.int32),
        location_index=(distinct % locations).astype(np.int32),
        mode=np.full(size, CPUMODE_USER, np.uint8),
        event=np.zeros(size, np.uint16),
        entry_reason_index=np.zeros(size, np.int32),
        count=count.astype(np.int64),
        period=count.astype(np.int64) * TICK_NS,
    )
    samples = SampleTable(
        hit_index.astype(np.int32),
        np.arange(1, sample_count + 1, dtype=np.uint64) * 250_000,
        random.integers(0, 4, sample_count).astype(np.uint16),
        np.zeros(sample_count, np.uint8),
        tid=100 + (stack_index % 20).astype(np.int32),
        stack_index=stack_index,
    )
    return replace(
        profile,
        locations=LocationTable(function, address),
        hits=hits,
        samples=samples,
        stacks=stacks,
    )


def with_stacks(build: ProfileBuilder, samples: list[tuple[int, list[int]]]) -> Profile:
    """A profile whose samples are of (process row, function rows from the outermost on)."""
    forest: dict[tuple[int, int], int] = {}
    stack_of, hit_of = [], []
    for process, path in samples:
        row = -1
        for function in path:
            address = build.functions[function]["address"] + 4
            location = build.locations.setdefault((function, address), len(build.locations))
            row = forest.setdefault((row, location), len(forest))
        build.hit(process, path[-1], 1, CPUMODE_USER, offset=4)
        hit_of.append(len(build.hits) - 1)
        stack_of.append(row)
    profile = build.build()
    count = len(samples)
    return replace(
        profile,
        samples=SampleTable(
            np.array(hit_of, np.int32),
            np.arange(1, count + 1, dtype=np.uint64) * TICK_NS,
            np.zeros(count, np.uint16),
            np.zeros(count, np.uint8),
            stack_index=np.array(stack_of, np.int32),
        ),
        stacks=_stack_table(list(forest), profile),
    )


def stack_copies(pids, ends, **columns):
    """What became of copies of stacks: ends are names, None for one that could not be copied."""
    count = len(pids)
    names = ("complete", "cut", "no row")
    defaults = {
        "paths": (),
        "frames": np.full(count, 3, np.int32),
        "needed_bytes": np.where([end == "cut" for end in ends], 9216, 0),
        "is_least": np.zeros(count, np.bool_),
        "place": np.full(count, -1, np.int32),
        "is_continued": np.zeros(count, np.bool_),
    }
    return StackCopies(
        copy_bytes=8192,
        ends=names,
        pid=np.array(pids, np.uint32),
        end=np.array([NO_COPY if end is None else names.index(end) for end in ends], np.int8),
        **{**defaults, **columns},
    )
