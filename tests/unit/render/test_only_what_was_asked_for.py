"""An export has nothing in it of processes that were not asked for."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from builders.pages import report_of
from builders.profile_builder import ProfileBuilder, run_info
from builders.stacks import with_stacks
from prospect.profile.model import ENTRY_REASON_SYSCALL, EntryReasonTable
from prospect.profile.optional_tables import LineTable
from prospect.records import replace
from prospect.render.registry import FORMATS as ALL_FORMATS

# The pictures of a page have all processes, and a reader chooses among them (docs/html.md).
PAGES = {"html"}
FORMATS = sorted(ALL_FORMATS.keys() - PAGES)
SECRET = b"secret"


def profile_of_two(*, samples=True):
    """The command, its child and a stranger, who share a library and nothing else."""
    build = ProfileBuilder(run_info(command=("work",), wall_seconds=0.25, begin_ns=1_000_000))
    # The stranger comes first, so that no row of another keeps its number.
    stranger = build.process("secret-process", 4242)
    work = build.process("work", 77, is_command=True)
    child = build.process("child", 78, is_descendant=True, parent_pid=77)
    hidden = build.object("/opt/secret/libsecret.so", build_id="5ec2e7" * 6)
    program = build.object("/usr/bin/work", build_id="00" * 20)
    libc = build.object("/usr/lib/libc.so.6", build_id="ff" * 20)
    secret = build.function("secret_plan", hidden, 0x5000)
    secret_main = build.function("secret_main", hidden, 0x6000)
    main = build.function("main", program, 0x401000)
    read = build.function("read", libc, 0x30000)
    stacks = [
        (stranger, [secret_main, secret]),
        (stranger, [secret_main, read]),
        (work, [main, read]),
        (work, [main]),
        (child, [main, read]),
    ]
    found = with_stacks(build, stacks)
    found = replace(
        found,
        comms=["secret-thread", "work", "child"],
        entry_reasons=EntryReasonTable(
            np.array([*found.entry_reasons.kind, ENTRY_REASON_SYSCALL], np.uint8),
            [*found.entry_reasons.name, "secret"],
        ),
        hits=replace(
            found.hits,
            comm_index=np.array([0, 0, 1, 1, 2], np.int32),
            entry_reason_index=np.array([1, 0, 0, 0, 0], np.int32),
        ),
        lines=lines_of(found, main, secret),
    )
    if samples:
        return found
    stack_index = found.samples.stack_index
    nothing = {
        name: column[:0] for name, column in vars(found.samples).items() if column is not None
    }
    return replace(
        found,
        hits=replace(found.hits, stack_index=stack_index),
        samples=replace(found.samples, **nothing),
    )


def lines_of(profile, main, secret):
    """``main`` has a line, the secret function two frames, in a file of its own."""
    frames, start = [], [0]
    for function in profile.locations.function_index.tolist():
        frames += {secret: [(0, 0, 7), (1, 0, 8)], main: [(2, 1, 9), (3, 2, 10)]}.get(function, [])
        start.append(len(frames))
    name, file, line = zip(*frames, strict=True)
    return LineTable(
        np.array(start),
        np.array(name, np.int32),
        np.array(file, np.int32),
        np.array(line, np.uint32),
        ["secret_plan", "secret_inlined", "main", "inlined"],
        ["/src/secret.c", "/src/main.c", "/src/inlined.h"],
        notes={0: "secret note"},
    )


def rendered(name, profile, detail):
    data = report_of(profile, name, detail=detail, inline=True)
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


@pytest.mark.parametrize("samples", [True, False], ids=["samples", "sums"])
@pytest.mark.parametrize("detail", ["2", "3"])
@pytest.mark.parametrize("name", FORMATS)
def test_nothing_of_a_stranger_leaves(name, detail, samples):
    data = rendered(name, profile_of_two(samples=samples), detail)
    assert SECRET not in data.lower()
    assert b"4242" not in data
    assert b"5ec2e7" not in data


STACKS = sorted(
    {"folded", "svg", "pprof", "speedscope", "callgrind", "firefox", "chrome", "otlp"}
    & set(FORMATS)
)


@pytest.mark.parametrize("samples", [True, False], ids=["samples", "sums"])
@pytest.mark.parametrize("name", STACKS)
def test_what_was_asked_for_is_there(name, samples):
    profile = profile_of_two(samples=samples)
    everything = rendered(name, profile, "4")
    assert b"secret_plan" in everything
    for detail in ("2", "3"):
        data = rendered(name, profile, detail)
        for word in (b"main", b"read", b"inlined"):
            assert word in data
        assert (b"child" in data) == (detail == "3" and name != "callgrind")
