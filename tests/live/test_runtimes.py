"""Ruby and PHP on the running kernel: programs whose split over their functions is known."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from builders.command_line import run_here
from builders.recordings import PROGRAMS, PROSPECT
from prospect.abi import bpf
from prospect.abi import runtime_frames as wire
from prospect.capture.kernel import bpf_objects
from prospect.capture.runtimes.attaching import attach_walker

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads runtimes on x86-64 only"),
    pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="needs BTF"),
]
# Four standard deviations of a share of 1,000 samples, and what starting takes.
SLACK = 0.07
RUBY, PHP = ("ruby", "split.rb"), ("php", "split.php")
RUBY_IN_C = ("ruby", "c_functions.rb")
PHP_JIT = ("-dopcache.enable_cli=1", "-dopcache.jit=tracing", "-dopcache.jit_buffer_size=32M")


# Of struct bpf_prog_info: how many instructions the kernel verified.
VERIFIED_OFFSET = 216
MAY_GO = bpf.BPF_JMP | bpf.BPF_JCOND


@pytest.mark.parametrize("runtime", [wire.CPYTHON, wire.RUBY, wire.PHP, wire.V8])
def test_a_walk_is_verified_in_a_moment_or_step_by_step_before_linux_6_9(runtime, monkeypatch):
    load, verified = bpf_objects.load_perf_event_program, {}

    def loaded(name, code):
        if is_old and MAY_GO in code[::8]:
            raise OSError(errno.EINVAL, "unknown opcode")
        program = load(name, code)
        info = bpf_objects._program_info(program)
        verified[name, MAY_GO in code[::8]] = struct.unpack_from("=I", info, VERIFIED_OFFSET)[0]
        return program

    monkeypatch.setattr(bpf_objects, "load_perf_event_program", loaded)
    for is_old in (False, True):  # noqa: B007 - `loaded` reads it
        attach_walker({}, (), (runtime,)).close()
    name = f"walk_runtime_{runtime}"
    assert verified[name, False] < 200_000
    assert verified.get((name, True), 0) < 5_000


def ran(*command, timeout=120):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=True
    ).stdout


def shown(*words):
    """Return what a command says of a recording."""
    done = run_here(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def recorded(tmp_path, program, *options):
    """Return what a program says of itself, and the stacks that were recorded of it."""
    command, script = program
    if not shutil.which(command):
        pytest.skip(f"no {command} is installed")
    file = tmp_path / "perf.data"
    line = [command, *options, str(PROGRAMS / script), "0.5"]
    told = json.loads(ran(*PROSPECT, "record", "-H", "2000", "-o", str(file), *line))
    folded = shown("report", "-V2", "--format", "folded", file)
    rows = (row.rpartition(" ") for row in folded.splitlines())
    return file, told, [(stack.split(";"), int(count)) for stack, _, count in rows]


def check_shares(told, stacks):
    """Compare the share of each function, with all that it calls, with what the program says."""
    counts = dict.fromkeys(told, 0)
    for stack, count in stacks:
        for frame in stack:
            # A fiber's stack begins with its block.
            name = frame.split(" (")[0].removeprefix("block in ")
            if name in counts:
                counts[name] += count
                break
    total = sum(counts.values())
    assert total > 700
    for name, share in told.items():
        assert counts[name] / total == pytest.approx(share, abs=SLACK), name


@pytest.mark.parametrize(
    ("program", "options"),
    [
        pytest.param(RUBY, (), marks=pytest.mark.nightly),  # others count it interpreted
        (RUBY, ("--yjit",)),
        pytest.param(PHP, (), marks=pytest.mark.nightly),
        (PHP, PHP_JIT),
    ],
    ids=["ruby", "yjit", "php", "php jit"],
)
def test_each_function_has_its_share(program, options, tmp_path):
    file, told, stacks = recorded(tmp_path, program, *options)
    check_shares(told, stacks)
    text = shown("report", "--format", "json", file)
    assert f'"object_kind": "{program[0]}"' in text.replace('":"', '": "')
    source = shown("annotate", "--source", "recursion", file)
    assert "n < 2" in source


def test_c_functions_of_ruby_have_rows(tmp_path):
    file, told, stacks = recorded(tmp_path, RUBY_IN_C)
    check_shares(told, stacks)
    lines = [";".join(stack) for stack, _ in stacks]
    # What they call is inside of them, in the order of the calls.
    calls = re.compile(r"Enumerable#inject[^;]*;Range#each[^;]*;block \(2 levels\) in <main>")
    assert any(calls.search(line) for line in lines)
    assert not any("[not read]" in line for line in lines)
    report = shown("report", "-m", "0", "--format", "csv", file)
    found = {(row["function"], row["object_kind"]) for row in csv.DictReader(io.StringIO(report))}
    assert ("Array#sort!", "ruby") in found
