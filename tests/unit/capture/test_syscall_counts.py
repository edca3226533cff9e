"""The counters' dump, their room, and what is said where the kernel refuses."""

from __future__ import annotations

import errno
import os

import pytest

from prospect.abi import bpf as abi
from prospect.capture.counting import syscall_counts
from prospect.capture.counting.syscall_counts import (
    COMPAT_BIT,
    COUNTS_KEY,
    COUNTS_VALUE,
    MACHINES,
    MOST_GROUPS,
    Maps,
    Namespace,
    SyscallCounter,
    columns_of,
    enter_program,
    exit_program,
)
from prospect.capture.kernel import bpf_objects, procfs
from prospect.errors import CaptureError

GROUP = 1 << 24
GIB = 1 << 30


def dump(*rows):
    """Lay out (pid, call, since_ns, calls, ended, time_ns) as the kernel does, in two portions."""
    keys = [COUNTS_KEY.pack(*row[:3]) for row in rows]
    values = [COUNTS_VALUE.pack(*row[3:]) for row in rows]
    return [(b"".join(keys[part]), b"".join(values[part])) for part in (slice(1), slice(1, None))]


def test_groups_of_cpus_are_added_up_and_programs_kept_apart():
    got = columns_of(
        dump(
            (10, 0, 500, 3, 3, 30),
            (10, 0 | GROUP, 500, 2, 1, 5),
            (10, 0, 900, 1, 1, 1),
            (11, 64 | COMPAT_BIT | 3 * GROUP, 500, 7, 7, 70),
        )
    )
    assert got["images"] == {"pid": [10, 10, 11], "since_ns": [500, 900, 500]}
    assert got["counts"] == {
        "image": [0, 1, 2],
        "number": [0, 0, 64],
        "compat": [0, 0, 1],
        "calls": [5, 1, 7],
        "ended": [4, 1, 7],
        "time_ns": [35, 1, 70],
    }


def test_processes_of_other_namespaces_are_one_without_a_pid():
    got = columns_of(dump((0, 1, 500, 3, 3, 30), (0, 1, 900, 2, 2, 5)))
    assert got["images"] == {"pid": [-1], "since_ns": [0]}
    assert (got["counts"]["calls"], got["counts"]["time_ns"]) == ([5], [35])


@pytest.mark.parametrize(
    ("memory", "release", "room"),
    [
        (8 * GIB, "6.18.44-fc", (1 << 20, abi.BPF_F_NO_PREALLOC)),
        (7 * GIB, "6.1.0", (1 << 19, abi.BPF_F_NO_PREALLOC)),
        (GIB // 4, "10.2", (1 << 16, abi.BPF_F_NO_PREALLOC)),
        (4096 * GIB, "7.0-rc1", (1 << 22, abi.BPF_F_NO_PREALLOC)),
        (8 * GIB, "5.15.0-91-generic", (1 << 17, 0)),
        (8 * GIB, "odd", (1 << 17, 0)),
    ],
)
def test_the_room_follows_the_memory_and_is_set_aside_only_where_it_must(memory, release, room):
    assert syscall_counts._room(memory, release) == room


@pytest.mark.parametrize(
    ("possible", "groups"), [("0", 1), ("0-1", 2), ("0-15", 16), ("0-16", 9), ("0-255", 16)]
)
def test_neighbouring_cpus_form_groups(monkeypatch, possible, groups):
    monkeypatch.setattr(procfs, "read_if_there", lambda _: possible.encode())
    shift = syscall_counts._cpu_shift()
    last = int(possible.split("-")[-1])
    assert len({cpu >> shift for cpu in range(last + 1)}) == groups <= MOST_GROUPS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("namespace", [None, Namespace(4, 4026532000)])
def test_programs_are_whole_instructions_and_end(machine, namespace):
    maps = Maps(3, 4, 5, 6)
    for code in (
        enter_program(maps, MACHINES[machine], 4, namespace),
        exit_program(maps, MACHINES[machine]),
    ):
        assert len(code) % 8 == 0
        assert code[-8] == abi.BPF_JMP | abi.BPF_EXIT


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.EPERM, "run as root, or with CAP_BPF and CAP_PERFMON"),
        (errno.EINVAL, "Linux 5.13 or later"),
        (errno.ENOSYS, "Linux 5.13 or later"),
        (errno.ENOMEM, "no room for the counters"),
    ],
)
def test_a_refusal_says_what_to_do_in_one_line_and_leaves_nothing_open(monkeypatch, code, says):
    opened = []

    def map_of(_):
        opened.append(os.open(os.devnull, os.O_RDONLY))
        return opened[-1]

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    types_fd = os.open(os.devnull, os.O_RDONLY)
    monkeypatch.setattr(
        bpf_objects, "load_words_type", lambda _: bpf_objects.ValueType(types_fd, 1, 3)
    )
    monkeypatch.setattr(bpf_objects, "create_map", map_of)
    monkeypatch.setattr(bpf_objects, "load_raw_tracepoint_program", refuse)
    counter = SyscallCounter()
    with pytest.raises(CaptureError, match=says) as caught:
        counter.open()
    assert "\n" not in str(caught.value)
    counter.close()
    assert len(opened) == 4
    for fd in (types_fd, *opened):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_other_machines_are_refused_in_words(monkeypatch):
    monkeypatch.setattr(os, "uname", lambda: type("Name", (), {"machine": "riscv64"}))
    with pytest.raises(CaptureError, match="works on aarch64 and x86_64, not on riscv64"):
        SyscallCounter().open()


def test_counts_that_cannot_be_read_are_a_limit_not_the_end_of_the_recording(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(bpf_objects, "read_percpu_sum", refuse)
    calls = SyscallCounter().finish()
    assert calls.document == {}
    assert calls.limits == ("The counts of system calls cannot be read: Cannot allocate memory.",)
