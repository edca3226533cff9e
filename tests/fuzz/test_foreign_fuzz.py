"""Any bytes are a profile of another tool that renders, or an error of ours."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.gmon import arc, blocks, bsd_gmon_out, gmon_out, histogram
from prospect.errors import ProspectError
from prospect.figures.calls.call_shares import call_shares
from prospect.foreign.detection import foreign_kind
from prospect.foreign.folded_profile import folded_profile
from prospect.foreign.gmon_profile import ProgramFunctions, gmon_profile, read_gmon
from prospect.foreign.perf_script_profile import perf_script_profile
from prospect.foreign.pprof_profile import pprof_profile
from prospect.render.registry import make_renderer

FOLDED = b"a;b;c_[k] 3\na;b;[x] 4\n"
SCRIPT = b"""work 77/78 [000] 946.229185: 35 cpu-clock:
\tffffffff816b82eb vfs_read+0xbb ([kernel.kallsyms])
\t          401136 main+0x10 (/tmp/my program (deleted))

work 77 [001] 947.0: 36 cpu-clock:  401136 main+0x20 (/tmp/x)
"""
GMON = gmon_out(histogram(0, 64, list(range(16))), arc(4, 16, 3), arc(20, 16, 1), blocks({4: 2}))
BSD = bsd_gmon_out(0, 64, list(range(16)), [(4, 16, 3)], order="<", width="Q")


def sample(stack, values):
    body = b"\x0a" + bytes([len(stack)]) + stack + b"\x12" + bytes([len(values)]) + values
    return b"\x12" + bytes([len(body)]) + body


PPROF = b"".join(
    (
        b"\x0a\x04\x08\x01\x10\x02",
        sample(b"\x01\x02", b"\x05"),
        sample(b"\x02", b"\x07"),
        b"\x1a\x04\x08\x01\x28\x03",
        b"\x22\x0a\x08\x01\x10\x01\x22\x04\x08\x01\x10\x09",
        b"\x22\x04\x08\x02\x10\x01",
        b"\x2a\x04\x08\x01\x10\x03",
        b"\x32\x00\x32\x01s\x32\x05count\x32\x01f",
    )
)


def functions():
    starts = np.arange(0, 64, 16, dtype=np.uint64)
    return ProgramFunctions(
        start=starts,
        end=starts + np.uint64(16),
        name=[b"f"] * 4,
        is_global=np.ones(4, np.bool_),
        is_function=np.array([False, True, True, True]),
    )


def gmon(data):
    return gmon_profile("x", "p", read_gmon(data), functions(), list("abcd"))


READERS = {
    "folded": (lambda data: folded_profile("x", data), FOLDED),
    "perf script": (lambda data: perf_script_profile("x", data), SCRIPT),
    "pprof": (lambda data: pprof_profile("x", data), PPROF),
    "gmon": (gmon, GMON),
    "bsd": (gmon, BSD),
}


def read_and_render(reader, data):
    with contextlib.suppress(ProspectError):
        profile = reader(memoryview(data))
        for name in ("text", "folded", "pprof", "gmon"):
            with contextlib.suppress(ProspectError):
                make_renderer(name, detail="4").render(profile, io.BytesIO())
        with contextlib.suppress(ProspectError):
            call_shares(profile)
        return profile
    return None


@pytest.mark.parametrize("name", READERS)
def test_the_examples_are_read(name):
    reader, data = READERS[name]
    assert foreign_kind(data) in (name, "gmon")
    assert read_and_render(reader, data) is not None


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=examples(100))
@given(data=st.binary(max_size=300))
def test_any_bytes(name, data):
    foreign_kind(data)
    read_and_render(READERS[name][0], data)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=examples(150))
@given(
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
    end=st.integers(0, 400),
)
def test_a_changed_file(name, changes, end):
    reader, data = READERS[name]
    changed = bytearray(data)
    for place, byte in changes:
        changed[place % len(changed)] = byte
    read_and_render(reader, bytes(changed[: max(end, 1)]))
