"""Profiles with a critical path whose pieces are known, and samples on it."""

import numpy as np

from builders.profile_builder import ProfileBuilder, clock_event, run_info
from prospect.profile.builder import no_clocks
from prospect.profile.model import SampleTable, WallPath, WallTakers
from prospect.records import replace

MS = 1_000_000
MAIN, CHILD, OTHER = 10, 11, 50


def path_of(pieces, had=(), names=("shell", "child", "server")):
    """A path of (state, tid, ms, ended by), whose threads are processes in this order."""
    row_of = {MAIN: 0, CHILD: 1, OTHER: 2, 0: -1, -1: -1}
    state, tid, length, ended_by = zip(*pieces, strict=True)
    length_ns = np.array(length, np.int64) * MS
    ender = np.array([row_of[by] for by in ended_by], np.int32)
    rows = np.array([row_of[one] for one in tid], np.int32)
    piece, taker, ms = zip(*had, strict=True) if had else ((), (), ())
    of_taker = np.array([row_of[one] for one in taker], np.int32)
    return WallPath(
        begin_ns=(np.cumsum(length_ns) - length_ns).astype(np.uint64),
        length_ns=length_ns,
        state=np.array(state, np.uint8),
        tid=np.array(tid, np.int32),
        process_index=rows,
        name_index=rows,
        ended_by=np.array(ended_by, np.int32),
        ender_index=ender,
        ender_process_index=ender,
        takers=WallTakers(
            piece=np.array(piece, np.int64),
            tid=np.array(taker, np.int32),
            process_index=of_taker,
            name_index=of_taker,
            length_ns=np.array(ms, np.int64) * MS,
        ),
        names=list(names),
        cpu=np.zeros(len(rows), np.int32),
    )


def profile_of(path, samples=(), **facts):
    """A profile with samples (ms, tid, function "f" or "g"), a path, and facts of the run."""
    build = ProfileBuilder(
        run_info(command=("x",), events=(clock_event(1000),), wall_seconds=1.0, **facts)
    )
    image = build.object("/bin/x")
    processes = {
        MAIN: build.process("shell", MAIN, is_command=True, is_descendant=True),
        CHILD: build.process("child", CHILD, is_descendant=True),
        OTHER: build.process("server", OTHER),
    }
    functions = {
        name: build.function(name, image, 0x1000 + 64 * at) for at, name in enumerate("fg")
    }
    keys = sorted({(tid, name) for _, tid, name in samples})
    for tid, name in keys:
        count = sum((tid, name) == one[1:] for one in samples)
        build.hit(processes[tid], functions[name], count)
    profile = build.build()
    table = SampleTable(
        hit_index=np.array([keys.index(one[1:]) for one in samples], np.int32),
        time_ns=np.array([one[0] * MS for one in samples], np.uint64),
        cpu=np.zeros(len(samples), np.uint16),
        clock=np.zeros(len(samples), np.uint8),
        tid=np.array([one[1] for one in samples], np.int32),
    )
    return replace(profile, samples=table, clocks=no_clocks(), wall=path)
