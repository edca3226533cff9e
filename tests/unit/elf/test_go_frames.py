"""Rules of Go's frames: of compiled functions, of assembly, and of those that switch stacks."""

import numpy as np
import pytest

from builders.go_table import TEXT, VERSIONS, GoFunction, go_image
from builders.stack_copies import rule
from prospect.elf import elf_layout, frame_rows
from prospect.elf import frame_rules as rules
from prospect.elf.frame_rows import go_rows, read_frame_rows
from prospect.elf.go_table import ASSEMBLY, GO_1_16, GO_1_20, WRITES_SP, read_go_table
from prospect.elf.image import ElfImage

BARE = rule(rules.KIND_SP, 8)


def saved(depth):
    return rule(rules.KIND_SP, depth + 8, fp=-16)


def rules_at(functions, *distances, version=GO_1_20, **keywords):
    rows = read_frame_rows(ElfImage.parse(go_image(functions, version, **keywords)))
    return rows.look_up(np.array([TEXT + one for one in distances], np.uint64)).tolist()


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_of_compiled_functions(version):
    functions = [
        GoFunction("main.main", 64, frame=((0, 4), (8, 4), (40, 48), (0, 8))),
        GoFunction("main.leaf", 32, frame=((0, 32),)),
        GoFunction("main.none", 32),
    ]
    found = rules_at(functions, -1, 0, 4, 8, 55, 56, 64, 95, 96, 128, version=version)
    inner = [BARE, saved(8), saved(40), saved(40), BARE, BARE, BARE]
    assert found == [rules.NO_ROW, *inner, rules.NO_ROW, rules.NO_ROW]


def test_assembly_saves_the_frame_register_if_its_first_instructions_do():
    frame = ((0, 8), (24, 56))
    functions = [
        GoFunction("runtime.pushes", 64, frame=frame, flags=ASSEMBLY),
        GoFunction("runtime.stores", 64, frame=frame, flags=ASSEMBLY),
        GoFunction("runtime.keeps", 64, frame=frame, flags=ASSEMBLY),
        GoFunction("runtime.elsewhere", 64, frame=frame, flags=ASSEMBLY),
    ]
    heads = [b"\x55\x48\x89\xe5", b"\x48\x83\xec\x18\x48\x89\x6c\x24\x10"]
    heads += [b"\x50\x48\x83\xec\x10", b"\x48\x83\xec\x18\x48\x89\x6c\x24\x08"]
    text = b"".join(head.ljust(64, b"\x90") for head in heads)
    unsaved = rule(rules.KIND_SP, 32)
    assert rules_at(functions, 20, 84, 148, 212, text_bytes=text) == [
        saved(24),
        saved(24),
        unsaved,
        unsaved,
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_stacks_end_at_a_switch_and_at_the_outermost_function(version):
    flags = 0 if version == GO_1_16 else WRITES_SP | ASSEMBLY
    frame = ((0, 4), (8, 28))
    functions = [
        GoFunction("runtime.systemstack", 32, frame=frame, flags=flags),
        GoFunction("runtime.cgocallback", 32, frame=frame, flags=flags & WRITES_SP),
        GoFunction("runtime.goexit", 32, frame=((0, 32),)),
        GoFunction("runtime.goexit1", 32, frame=((0, 32),)),
    ]
    found = rules_at(functions, 0, 20, 40, 64, 95, 96, version=version)
    assert found == [rules.SWITCH, rules.SWITCH, saved(8), rules.END, rules.END, BARE]


def test_sizes_that_no_frame_has_give_no_rule():
    functions = [GoFunction("main.odd", 64, frame=((-8, 16), (12, 16), (1 << 30, 32)))]
    assert rules_at(functions, 0, 16, 32) == [rules.NO_FORM] * 3


def test_frames_of_arm64():
    functions = [GoFunction("main.main", 64, frame=((0, 8), (48, 56)))]
    found = rules_at(functions, 0, 8, machine=elf_layout.EM_AARCH64)
    assert found == [rule(rules.KIND_SP, 0), rule(rules.KIND_SP, 48, fp=-56, second=-48)]


def test_functions_that_share_one_long_list_do_not_cost_memory(monkeypatch):
    monkeypatch.setattr(frame_rows, "MOST_GO_ROWS", 50)
    frame = tuple((8 * (k % 2), 1) for k in range(40))
    functions = [GoFunction(f"main.f{k}", 64, frame=frame) for k in range(20)]
    table = read_go_table(ElfImage.parse(go_image(functions)))
    assert len(go_rows(table)[0]) <= 50 + len(functions)
