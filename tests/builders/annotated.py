"""Profiles with instructions: a loop that a person can check by hand, and names that do harm."""

from __future__ import annotations

import numpy as np

from builders.profile_builder import ProfileBuilder
from builders.stacks import TICK_NS
from prospect.profile.model import CPUMODE_KERNEL, KIND_JIT, KIND_KERNEL, Profile, SampleTable
from prospect.profile.optional_tables import (
    FLOW_BRANCH,
    FLOW_CALL,
    FLOW_NEXT,
    FLOW_RETURN,
    NO_TARGET,
    CodeTable,
    LineTable,
)
from prospect.records import replace

LOOP = (
    # address, size, text, flow, target, its name
    (0x1000, 2, "xor    %eax,%eax", FLOW_NEXT, NO_TARGET, ""),
    (0x1002, 3, "imul   %edi,%eax", FLOW_NEXT, NO_TARGET, ""),
    (0x1005, 5, "call   0x2000", FLOW_CALL, 0x2000, "helper"),
    (0x100A, 3, "add    $0x1,%eax", FLOW_NEXT, NO_TARGET, ""),
    (0x100D, 2, "jne    0x1002", FLOW_BRANCH, 0x1002, "work+2"),
    (0x100F, 1, "ret", FLOW_RETURN, NO_TARGET, ""),
)
LOOP_LINES = (
    (("work", "/src/a.c", 3),),
    (("work", "/src/a.c", 5), ("mix", "/src/mix.h", 9)),
    (("work", "/src/a.c", 5), ("mix", "/src/mix.h", 9)),
    (("work", "/src/a.c", 6),),
    (("work", "/src/a.c", 6),),
    (),
)
SOURCE = {("/src/a.c", 3): "    int sum = 0;", ("/src/mix.h", 9): "    return x * y;"}


def line_table(rows) -> LineTable:
    """Build a table from the frames (name, file, line) of each row, the outermost first."""
    frames = [frame for row in rows for frame in row]
    names = list(dict.fromkeys(name for name, _, _ in frames))
    files = list(dict.fromkeys(file for _, file, _ in frames))
    return LineTable(
        frame_start=np.append(0, np.cumsum([len(row) for row in rows])).astype(np.int64),
        name_index=np.array([names.index(name) for name, _, _ in frames], np.int32),
        file_index=np.array([files.index(file) for _, file, _ in frames], np.int32),
        line=np.array([line for _, _, line in frames], np.uint32),
        names=names,
        files=files,
    )


def code_table(functions, lines=None, source=None) -> CodeTable:
    """Build a table from {function row: its instructions, or why it has none}."""
    parts = [() if isinstance(part, str) else part for part in functions.values()]
    rows = [row for part in parts for row in part]
    table = line_table(lines) if lines is not None else None
    texts = {} if table is None or source is None else source
    return CodeTable(
        function_index=np.array(list(functions), np.int32),
        start=np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64),
        reason=[part if isinstance(part, str) else "" for part in functions.values()],
        address=np.array([row[0] for row in rows], np.uint64),
        size_bytes=np.array([row[1] for row in rows], np.uint8),
        text=[row[2] for row in rows],
        flow=np.array([row[3] for row in rows], np.uint8),
        target=np.array([row[4] for row in rows], np.uint64),
        target_name=[row[5] for row in rows],
        lines=table,
        source={(table.files.index(file), line): text for (file, line), text in texts.items()},
    )


def annotated_loop() -> Profile:
    """256 hits a second: 100 of the command in its loop, 20 elsewhere, 60 of another process."""
    build = ProfileBuilder()
    command = build.process("loop", 10, is_command=True)
    other = build.process("other", 20)
    image = build.object("/bin/loop", build_id="ab")
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL)
    jit = build.object("/tmp/perf-10.map", KIND_JIT)
    work = build.function("work", image, 0x1000)
    helper = build.function("helper", image, 0x2000)
    compiled = build.function("compiled", jit, 0x7000)
    fault = build.function("handle_fault", kernel, 0xFFFFFFFF81000000)
    for offset, count in ((2, 10), (5, 60), (10, 25), (13, 4), (7, 1)):
        build.hit(command, work, count, offset=offset)
    build.hit(command, compiled, 12)
    build.hit(command, fault, 8, CPUMODE_KERNEL)
    build.hit(other, helper, 60)
    code = code_table(
        {
            work: LOOP,
            compiled: "the recording holds no code of JITs",
            fault: "there is no /proc/kcore: give the kernel's vmlinux with -L",
        },
        LOOP_LINES,
        SOURCE,
    )
    return replace(build.build(), code=code)


def sampled_loop(count: int = 6000, *, period: bool = False) -> Profile:
    """The loop in two processes and a few functions more, with a time, a CPU and a thread each.

    The second half of the time has other instructions than the first.

    Args:
        count: of samples.
        period: whether samples are worth unequal times.
    """
    profile = annotated_loop()
    random = np.random.default_rng(11)
    hits, rows = profile.hits, len(profile.hits)
    hits = replace(  # the other process has all that the command has
        hits,
        process_index=np.tile(hits.process_index, 2),
        **{
            name: np.tile(getattr(hits, name), 2)
            for name in ("comm_index", "location_index", "mode", "event", "entry_reason_index")
        },
    )
    hits.process_index[rows:] = 1
    weight = np.tile(profile.hits.count, 2).astype(float)
    later = np.roll(weight, 1)
    half = count // 2
    hit_index = np.concatenate(
        [
            random.choice(2 * rows, size, p=part / part.sum())
            for size, part in ((half, weight), (count - half, later))
        ]
    ).astype(np.int32)
    time_ns = np.sort(random.integers(1, 10**9, count)).astype(np.uint64)
    each = np.full(count, TICK_NS, np.uint64)
    if period:
        each = random.integers(1, 2 * TICK_NS, count).astype(np.uint64)
    process = hits.process_index.take(hit_index)
    counts = np.bincount(hit_index, minlength=2 * rows)
    sums = np.bincount(hit_index, each.astype(np.int64), 2 * rows).astype(np.int64)
    return replace(
        profile,
        run=replace(profile.run, begin_ns=1, end_ns=10**9 + 1, wall_seconds=1.0, cpus=4),
        hits=replace(hits, count=counts, period=sums),
        samples=SampleTable(
            hit_index,
            time_ns,
            random.integers(0, 4, count).astype(np.uint16),
            np.zeros(count, np.uint8),
            period=each,
            tid=(100 * process + random.integers(0, 3, count)).astype(np.int32),
        ),
    )


def hostile_code() -> Profile:
    """Escapes, line ends and bytes that are no text in every name that an annotation shows."""
    build = ProfileBuilder()
    command = build.process("x", 10, is_command=True)
    image = build.object("/bin/\x1b[31m\n\udcff")
    work = build.function("w\x1b]0;\x07\n\u202e\udcfe", image, 0x1000)
    for offset in (2, 5):
        build.hit(command, work, 300, offset=offset)
    rows = [(*row[:2], row[2] + "\x1b[2J", *row[3:5], "n\n\udcff") for row in LOOP]
    lines = [(("f\x1b[1m\n", "/src/\x1b[7m\n.c", 2**31), ("\u202ename", "\udcff", 0))] * len(LOOP)
    source = {("\udcff", 0): "text\x1b[0m\u2028"}
    return replace(build.build(), code=code_table({work: rows}, lines, source))
