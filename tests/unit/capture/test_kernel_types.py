"""Offsets from the kernel's types: this kernel's, made ones of both shapes, and damaged ones."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.abi import bpf as abi
from prospect.capture.kernel.kernel_types import (
    BTF_FILE,
    SwitchOffsets,
    TaskOffsets,
    switch_offsets,
    task_offsets,
)

MEMORY = {"mmap_base": 1, "start_code": 8, "start_brk": 16, "start_stack": 24}
STRUCTURES = {
    "prctl_mm_map": {"start_code": 0, "start_brk": 8, "start_stack": 16},
    "task_struct": {"state": 0, "thread": 64, "mm": 32},
    "thread_struct": {"fsbase": 40},
}
EXPECTED = TaskOffsets(mm=32, thread_pointer=104, start_code=8, start_stack=24, start_brk=16)


def types(structures):
    strings, body = b"\0", b""

    def number(name):
        nonlocal strings
        if not name:
            return 0
        at = strings.find(b"\0" + name.encode() + b"\0") + 1
        if not at:
            at = len(strings)
            strings += name.encode() + b"\0"
        return at

    for name, members in structures:
        info = abi.BTF_KIND_STRUCT << 24 | len(members)
        body += struct.pack("=III", number(name), info, 4096)
        for member, offset in members.items():
            body += struct.pack("=III", number(member), 1, 8 * offset)
    head = struct.pack("=HBBIIIII", abi.BTF_MAGIC, 1, 0, 24, 0, len(body), len(body), len(strings))
    return head + body + strings


def test_members_are_found_by_name():
    assert task_offsets(types([*STRUCTURES.items(), ("mm_struct", MEMORY)])) == EXPECTED


def test_memory_in_a_structure_without_a_name_is_found():
    outer = ("mm_struct", {"": 0, "cpu_bitmap": 900})
    assert task_offsets(types([*STRUCTURES.items(), ("", MEMORY), outer])) == EXPECTED


@pytest.mark.parametrize("missing", ["task_struct", "thread_struct", "mm_struct"])
def test_what_is_missing_is_said(missing):
    structures = [*STRUCTURES.items(), ("mm_struct", MEMORY)]
    with pytest.raises(ValueError, match="have no"):
        task_offsets(types([one for one in structures if one[0] != missing]))


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(content):
    with pytest.raises(ValueError, match="types"):
        task_offsets(content)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="thread_struct.fsbase is of x86-64")
@pytest.mark.skipif(not Path(BTF_FILE).exists(), reason="this kernel has no BTF")
def test_this_kernel_has_them():
    found = task_offsets(Path(BTF_FILE).read_bytes())
    assert all(0 < offset < 1 << 16 for offset in found)
    assert all(offset % 8 == 0 for offset in found)


def test_offsets_of_what_a_switch_is_recorded_with():
    structures = [
        ("task_struct", {"pid": 40, "tgid": 44, "real_parent": 48, "comm": 64, "se": 128}),
        ("sched_entity", {"load": 0, "sum_exec_runtime": 16}),
    ]
    expected = SwitchOffsets(pid=40, comm=64, ran_ns=144, tgid=44, real_parent=48)
    assert switch_offsets(types(structures)) == expected
    with pytest.raises(ValueError, match="have no sum_exec_runtime"):
        switch_offsets(types(structures[:1]))
