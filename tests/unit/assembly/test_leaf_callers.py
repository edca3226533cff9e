"""arm64 recordings by frame pointers: the caller that only the link register tells.

An image of four functions, made of its symbols and call-frame information alone: `outer` and
`middle` make a frame record with their first instruction, `leaf` makes none, and of `bare` nothing
is described.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import prospect
from builders import perfdata as build
from builders.eh_frame import OF_ARM64, frame_sections
from builders.elf import Symbol, code, elf_file
from builders.perfdata_features import feature_string
from builders.sources import CLOCK, CLOCK_ID, BuiltSource
from prospect.abi.recorded_facts import RecordingInfo
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.elf import elf_layout
from prospect.options import NamingOptions
from prospect.perfdata.format import HEADER_ARCH

OUTER, MIDDLE, LEAF, BARE = range(0x1000, 0x1200, 0x80)
# stp x29, x30, [sp, #-32]!: DW_CFA_advance_loc 4, def_cfa_offset 32, offset x29 and x30
RECORD = b"\x44\x0e\x20\x9d\x04\x9e\x03"
IN_OUTER, IN_MIDDLE = OUTER + 0x14, MIDDLE + 0x14  # where calls return to
USER, KERNEL = 2**64 - 512, 2**64 - 128
SIGNED = 0x0055 << 48
_FILE_OFFSET = 0xF0  # of the code: it stands right behind the headers
SP = 0xFFFF_0000_1000
JIT = 0x70_0000
FP, LR, STACK_POINTER, PC = 29, 30, 31, 32


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("arm64") / "program"
    functions = [(OUTER, 0x80, RECORD), (MIDDLE, 0x80, RECORD), (LEAF, 0x80)]
    names = {"outer": OUTER, "middle": MIDDLE, "leaf": LEAF, "bare": BARE}
    path.write_bytes(
        elf_file(
            sections=[code(), *frame_sections(functions, register=30, program=OF_ARM64)],
            symbols=[Symbol(name, at, 0x80) for name, at in names.items()],
            machine=elf_layout.EM_AARCH64,
        )
    )
    return str(path)


def stacks_of(program, *samples, arch="aarch64", mask=1 << FP | 1 << LR | 1 << STACK_POINTER):
    """Return the functions of each sample, the outermost first; empty where there is no name."""
    event, records = recorded(program, *samples, mask=mask)
    info = RecordingInfo(events=(event,), arch=arch)
    options = NamingOptions(use_cache=False), ProfileRequest(stacks=True)
    return functions_of(build_profile(BuiltSource(records, info), *options))


def recorded(program, *samples, mask):
    """Return the event and the records of samples.

    A sample is its chain, and what is known of its registers by the kernel's numbers.
    """
    kinds = build.USUAL | build.CALLCHAIN | (build.REGS_USER if mask else 0)
    attr = CLOCK.attr._replace(sample_type=kinds, sample_regs_user=mask)
    make = build.RecordBuilder(kinds)
    records = [
        make.comm(7, 7, "program"),
        make.mmap2(7, 7, 0x1000, 0x1000, program, pgoff=_FILE_OFFSET),
        make.mmap2(7, 7, JIT, 0x1000, "//anon"),
    ]
    for time, (chain, registers) in enumerate(samples, 5):
        values = [registers.get(bit, 0) for bit in range(64) if mask >> bit & 1]
        misc = build.MISC_KERNEL if chain[0] == KERNEL else build.MISC_USER
        seen = {"ip": chain[1], "chain": chain, "regs_user": values, "misc": misc}
        records.append(make.sample(pid=7, tid=7, time=time, id=CLOCK_ID, **seen))
    return CLOCK._replace(attr=attr), records


def functions_of(profile):
    assert profile.stack_copies is None  # there is no copy
    assert not profile.run.damage
    return [_names(profile, row) for row in profile.samples.stack_index.tolist()]


def _names(profile, row):
    names = []
    while row >= 0:
        function = profile.locations.function_index[profile.stacks.location_index[row]]
        names.append(profile.functions.name[function] if function >= 0 else "")
        row = int(profile.stacks.caller_index[row])
    return names[::-1]


def registers(lr, fp=SP + 64):
    return {LR: lr, FP: fp, STACK_POINTER: SP}


IN_LEAF = ([USER, LEAF + 8, IN_OUTER], registers(IN_MIDDLE))


@pytest.mark.parametrize(
    ("chain", "held", "expected"),
    [
        pytest.param(*IN_LEAF, "outer middle leaf", id="leaf"),
        pytest.param(
            [USER, LEAF + 8, IN_OUTER],
            registers(SIGNED | IN_MIDDLE),
            "outer middle leaf",
            id="signed pointer",
        ),
        pytest.param([USER, LEAF + 8], registers(IN_MIDDLE), "middle leaf", id="only pc"),
        pytest.param(
            [USER, MIDDLE + 0x20, IN_OUTER],
            registers(IN_MIDDLE, fp=SP),
            "outer middle",
            id="after a call",
        ),
        pytest.param(
            [USER, MIDDLE, IN_OUTER],
            registers(IN_OUTER),
            "outer outer middle",
            id="first instruction of a recursion",
        ),
        pytest.param([USER, MIDDLE], registers(IN_OUTER), "outer middle", id="first instruction"),
        pytest.param(
            [USER, BARE + 8, IN_OUTER],
            registers(IN_MIDDLE),
            "outer middle bare",
            id="nothing described, called by what is",
        ),
        pytest.param(
            [USER, BARE + 8, IN_OUTER],
            registers(IN_OUTER),
            "outer bare",
            id="nothing described, with a frame record",
        ),
        pytest.param(
            [USER, BARE + 8, IN_OUTER],
            registers(BARE + 4),
            "outer bare",
            id="nothing described, after a call",
        ),
        pytest.param([USER, LEAF, IN_OUTER], registers(0), "outer leaf", id="no address"),
        pytest.param([USER, LEAF, IN_OUTER], registers(0x1234_5678), "outer leaf", id="no code"),
        pytest.param(
            [USER, LEAF, IN_OUTER], registers(2**64 - 64), "outer leaf", id="no user's address"
        ),
    ],
)
def test_the_link_register_tells_the_caller_where_it_still_holds_it(program, chain, held, expected):
    assert stacks_of(program, (chain, held)) == [expected.split()]


def test_in_the_kernel_the_registers_are_those_that_user_space_was_left_with(program):
    chain = [KERNEL, 0xFFFF_8000_0800_0000, *IN_LEAF[0]]
    (found,) = stacks_of(program, (chain, IN_LEAF[1]))
    assert found[:3] == ["outer", "middle", "leaf"]


def test_code_of_no_image_stays_as_frame_pointers_tell_it(program):
    (found,) = stacks_of(program, ([USER, JIT + 8, IN_OUTER], registers(IN_MIDDLE)))
    assert found[0] == "outer"
    assert len(found) == 2
    (found,) = stacks_of(program, ([USER, LEAF + 8, IN_OUTER], registers(JIT + 8)))
    assert (found[0], found[-1], len(found)) == ("outer", "leaf", 3)


def test_the_link_register_alone_is_enough_as_perf_records_it(program):
    recursion = ([USER, MIDDLE, IN_OUTER], {LR: IN_OUTER})
    found = stacks_of(program, IN_LEAF, recursion, mask=1 << LR)
    # What tells a recursion from a frame record is not there: as perf takes it.
    assert found == [["outer", "middle", "leaf"], ["outer", "middle"]]


def test_all_registers_without_a_stack_leave_the_chain_whole(program):
    held = IN_LEAF[1] | {PC: LEAF + 8}
    assert stacks_of(program, (IN_LEAF[0], held), mask=(1 << 33) - 1) == [
        ["outer", "middle", "leaf"]
    ]
    # On x86-64 these bits are other registers, and the return address is always on the stack.
    assert stacks_of(program, IN_LEAF, arch="x86_64", mask=0xFF0FFF) == [["outer", "leaf"]]


def test_recordings_without_registers_are_read_as_before(program):
    assert stacks_of(program, IN_LEAF, mask=0) == [["outer", "leaf"]]


def test_an_archive_keeps_what_tells_it(program, tmp_path):
    moved = tmp_path / "program"
    moved.write_bytes(Path(program).read_bytes())
    event, records = recorded(str(moved), IN_LEAF, mask=1 << LR)
    features = {HEADER_ARCH: feature_string("aarch64")}
    recording = tmp_path / "perf.data"
    recording.write_bytes(build.FileBuilder([event], records, features).file())
    archived = prospect.archive(recording, use_cache=False)
    moved.unlink()
    found = prospect.open(archived, stacks=True, use_cache=False)
    assert functions_of(found) == [["outer", "middle", "leaf"]]


def test_every_sample_of_many_has_its_own_caller(program):
    chains = [
        ([USER, LEAF + 8, IN_OUTER], registers(IN_MIDDLE)),
        ([USER, MIDDLE + 0x20, IN_OUTER], registers(IN_MIDDLE, fp=SP)),
        ([KERNEL, 0xFFFF_8000_0800_0000], registers(IN_MIDDLE)),
        ([USER, LEAF + 8], registers(IN_OUTER)),
        ([USER, LEAF + 8, IN_OUTER, IN_OUTER], registers(IN_MIDDLE)),
    ]
    alone = [stacks_of(program, chain)[0] for chain in chains]
    order = [row for rows in itertools.permutations(range(len(chains))) for row in rows]
    assert stacks_of(program, *(chains[row] for row in order)) == [alone[row] for row in order]
