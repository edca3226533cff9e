"""Programs whose truth is known: each hit is in the right process, object and function."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import prospect
from builders.examples import nightly
from builders.recordings import (
    build_program,
    hits_by,
    profile_of,
    record,
    record_without_files,
    until_used,
)
from builders.waiting import wait_for

pytestmark = pytest.mark.live
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

LIBRARIES = ("alpha", "beta", "gimel", "delta")


def spun(profile, name="burner", detail="4"):
    """Return the user hits of process NAME by (object, function)."""
    return hits_by(profile, "object", "function", detail=detail, process=name, mode="user")


def check_burner(profile, path, name="burner", *, expected=400):
    """Assert that a burner's hits are about as many as expected, half in each of its loops.

    Interrupts for others steal time from the loops, any amount on a busy machine: they are the
    process's kernel hits.
    """
    counts = spun(profile, name, "3")
    spins = [counts[path, function] for function in ("static_spins", "global_spins")]
    everything = sum(hits_by(profile, "mode", detail="3", process=name).values())
    of_user = sum(counts.values())
    assert everything > 0.8 * expected, counts
    assert of_user < 1.4 * expected, counts
    assert sum(spins) > 0.9 * of_user, counts
    assert spins[0] == pytest.approx(spins[1], rel=0.3)


@pytest.fixture
def background(tmp_path):
    """Start commands that are ended with the test."""
    started = []

    def start(*command, **options):
        process = subprocess.Popen([str(word) for word in command], **options)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(10)


def wait_for_exec(pid, name):
    wait_for(lambda: Path(f"/proc/{pid}/comm").read_bytes() == name + b"\n")
    time.sleep(0.05)  # its libraries


@pytest.mark.parallel
@pytest.mark.parametrize(
    "flags", [*nightly((), ("-static",)), ("-static-pie",), *nightly(("-no-pie",))]
)
def test_functions_of_each_kind_of_executable_are_named(tmp_path, flags):
    burner = build_program(tmp_path, "burner", *flags)
    profile = profile_of(tmp_path / "r", burner, 100, frequency_hz=4000)
    check_burner(profile, str(burner))


@pytest.mark.parallel
def test_a_32_bit_program_is_named(tmp_path):
    try:
        burner = build_program(tmp_path, "burner", "-m32", "-static")
    except subprocess.CalledProcessError:
        pytest.skip("gcc -m32 is not there")
    check_burner(profile_of(tmp_path / "r", burner, 100, frequency_hz=4000), str(burner))


@pytest.mark.parallel
@pytest.mark.parametrize(
    "name", [*nightly("two words"), "two\nlines", *nightly("täst\udcff", "ends (deleted)")]
)
def test_programs_with_odd_names_are_named(tmp_path, background, name):
    burner = build_program(tmp_path, "burner").rename(tmp_path / name)
    file = tmp_path / "r"
    profile = profile_of(file, burner, 100, frequency_hz=4000)
    comm = os.fsencode(name)[:15].decode(errors="backslashreplace")
    path = os.fsencode(burner).decode(errors="backslashreplace")
    check_burner(profile, path, comm)
    # The same of a process that was there before, whose mappings /proc tells, which escapes.
    process = background(burner, 60_000)
    wait_for_exec(process.pid, os.fsencode(name)[:15])
    profile = profile_of(file, *until_used(process.pid, 0.2))
    assert (path, "static_spins") in spun(profile, comm)


@pytest.mark.parallel
def test_a_chain_of_execs_is_a_process_row_each(tmp_path):
    burner = build_program(tmp_path, "burner")
    script = f"i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; exec env A=b {burner} 200"
    profile = profile_of(tmp_path / "r", "sh", "-c", script)
    processes = profile.processes
    rows = [row for row in range(len(processes)) if processes.is_command[row]]
    assert [processes.name[row] for row in rows] == ["sh", "env", "burner"]
    assert len({int(processes.pid[row]) for row in rows}) == 1
    check_burner(profile, str(burner))
    shell = hits_by(profile, "object", process="sh", mode="user")
    assert str(burner) not in shell
    assert sum(shell.values()) > 10


@pytest.mark.parallel
def test_threads_go_by_their_own_names(tmp_path):
    threads = build_program(tmp_path, "threads", "-lpthread")
    profile = profile_of(tmp_path / "r", threads, 50)
    counts = hits_by(profile, "process", "thread", function="thread_spins")
    assert set(counts) == {("threads", f"worker-{number}") for number in range(1, 5)}
    for number in range(1, 5):
        share = counts["threads", f"worker-{number}"] / sum(counts.values())
        assert share == pytest.approx(number / 10, abs=0.05)


@pytest.mark.parallel
@pytest.mark.parametrize("is_stripped", [*nightly(False), True])
def test_libraries_that_stood_at_one_address_in_turn_have_their_own_hits(tmp_path, is_stripped):
    loads = build_program(tmp_path, "loads")
    libraries = [
        build_program(
            tmp_path, f"lib{name}.so", "-shared", "-fPIC", f"-DNAME={name}", source="library"
        )
        for name in LIBRARIES
    ]
    if is_stripped:
        for library in libraries:
            subprocess.run(["strip", library], check=True)
    file = tmp_path / "r"
    done = record(file, loads, 40, *libraries, frequency_hz=4000)
    assert len({line.split()[1] for line in done.stdout.splitlines()}) == 1, "one address"
    counts = spun(prospect.open(file), "loads")
    paths = {str(library) for library in libraries}
    total = sum(hits for (path, _), hits in counts.items() if path in paths)
    for number, (name, library) in enumerate(zip(LIBRARIES, libraries, strict=True), 1):
        inside = {function: n for (path, function), n in counts.items() if path == str(library)}
        assert sum(inside.values()) / total == pytest.approx(number / 10, abs=0.05), counts
        local = {f"static_{name}", "hidden_spins"}
        if is_stripped:
            # Both stand before the one exported function, in a bracket that has no beginning.
            in_bracket = [
                n for function, n in inside.items() if function.startswith(f"->{name} [fn ")
            ]
            assert len(in_bracket) >= 2
            assert sum(in_bracket) > 0.95 * sum(inside.values())
            assert not local & set(inside)
        else:
            both = [inside[function] for function in local]
            assert both[0] == pytest.approx(both[1], rel=0.3)
            assert sum(both) > 0.9 * sum(inside.values())


@pytest.mark.parallel
def test_a_stripped_program_says_so(tmp_path):
    burner = build_program(tmp_path, "burner", "-s")
    file = tmp_path / "r"
    profile = profile_of(file, burner, 100, frequency_hz=4000)
    inside = {name: hits for (path, name), hits in spun(profile).items() if path == str(burner)}
    # Bounds of functions are no names, but tell functions apart. What it calls elsewhere keeps
    # its name when all else is stripped: some hit may lie in the stub that reads the clock.
    named = [name for name in inside if not re.fullmatch(r"\[fn at 0x[0-9a-f]+\]", name)]
    assert set(named) <= {"clock_gettime@plt", "strtod@plt"}
    assert sum(inside.values()) > 50
    assert "stripped" in profile.report()


@pytest.mark.parallel
def test_a_program_deleted_since_is_named_while_it_lives_and_said_to_be_gone_after(
    tmp_path, background, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))  # perf keeps what it recorded below ~/.debug
    burner = build_program(tmp_path, "burner")
    process = background(burner, 60_000)
    wait_for_exec(process.pid, b"burner")
    burner.unlink()
    file = tmp_path / "r"
    record(file, *until_used(process.pid, 0.3))
    named = {key[1] for key in spun(prospect.open(file))}
    assert "static_spins" in named
    process.kill()
    process.wait(10)
    profile = prospect.open(file)
    gone = {path: hits for (path, name), hits in spun(profile).items() if name == ""}
    assert gone[f"{burner} (deleted)"] > 50
    assert "the file is gone" in profile.report(detail="4")


@pytest.mark.parallel
def test_a_program_upgraded_since_is_not_named_by_its_successor(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # where perf may have kept a copy of the first
    burner = build_program(tmp_path, "burner")
    file = tmp_path / "r"
    record_without_files(file, burner, 200)
    build_program(tmp_path, "burner", "-O0", "-DNEW")
    profile = prospect.open(file)
    names = {name: hits for (path, name), hits in spun(profile).items() if path == str(burner)}
    assert set(names) == {""}
    assert names[""] > 50
    report = profile.report()
    assert f"Note: {burner} was replaced since it ran" in report


@pytest.mark.parallel
@AS_ROOT
def test_a_program_of_another_mount_namespace_is_named_while_it_lives(tmp_path, background):
    burner = build_program(tmp_path, "burner")
    inner = tmp_path / "inner"
    inner.mkdir()
    script = 'mount -t tmpfs none "$1" && cp "$0" "$1/hidden" && exec "$1/hidden" 60000'
    process = background("unshare", "-m", "sh", "-c", script, burner, inner)
    wait_for_exec(process.pid, b"hidden")
    assert not (inner / "hidden").exists()
    profile = profile_of(tmp_path / "r", *until_used(process.pid, 0.2))
    counts = spun(profile, "hidden")
    assert (str(inner / "hidden"), "static_spins") in counts
    assert sum(hits for (_, name), hits in counts.items() if not name) == 0


@pytest.mark.parallel
def test_a_program_in_memory_is_named_while_it_lives_and_after(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # where perf may have kept a copy
    memory, burner = build_program(tmp_path, "memory"), build_program(tmp_path, "burner")
    file = tmp_path / "r"
    done = record(file, "sh", "-c", f"{memory} 20000 {burner} >/dev/null 2>&1 & echo $!; sleep 1")
    path = "/memfd:copied (deleted)"
    try:
        named = hits_by(prospect.open(file), "function", object=path)
    finally:
        os.kill(int(done.stdout), signal.SIGKILL)
    assert named["static_spins"] > 50
    wait_for(lambda: not Path(f"/proc/{int(done.stdout)}/maps").exists())
    profile = prospect.open(file)
    assert hits_by(profile, "function", object=path) == named


@pytest.mark.parallel
@AS_ROOT
def test_a_setuid_program_is_named(tmp_path):
    burner = build_program(tmp_path, "burner")
    shutil.chown(burner, 65534, 65534)
    burner.chmod(0o4755)
    check_burner(profile_of(tmp_path / "r", burner, 100, frequency_hz=4000), str(burner))


@pytest.mark.parallel
def test_an_argument_list_at_the_limit_is_kept_whole(tmp_path):
    burner = build_program(tmp_path, "burner")
    many = ["x" * 100_000] * 15
    profile = profile_of(tmp_path / "r", burner, 100, *many, frequency_hz=4000)
    assert list(profile.run.command[2:]) == many
    check_burner(profile, str(burner))
