"""The report with -e: golden files, and what must hold of every disassembled profile."""

import json
import re
from pathlib import Path

import pytest

from builders.annotated import annotated_loop, code_table, hostile_code
from builders.json_schema import schema_errors
from builders.pages import report_of
from builders.profile_builder import ProfileBuilder
from prospect.errors import UsageError
from prospect.figures.report.disassembly_choice import DisassemblyChoice, disassembled_functions
from prospect.profile.model import CPUMODE_KERNEL, KIND_KERNEL
from prospect.profile.optional_tables import FLOW_NEXT, NO_TARGET
from prospect.records import replace

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())


def rendered(profile, name="text", disassemble=1, **options):
    return report_of(profile, name, disassemble=disassemble, **options)


@pytest.mark.parametrize(
    ("name", "profile", "options"),
    [
        ("disassembled.txt", annotated_loop, {}),
        ("disassembled_all.txt", annotated_loop, {"disassemble": 2, "detail": "4"}),
        ("disassembled.json", annotated_loop, {"name": "json", "detail": "4"}),
        ("disassembled_hostile.txt", hostile_code, {}),
    ],
)
def test_reports_are_as_they_were_read(golden, name, profile, options):
    golden(f"report/{name}", rendered(profile(), **options))


def test_nothing_reaches_a_terminal_that_it_would_act_on():
    text = rendered(hostile_code(), disassemble=2).decode()
    assert all(line.isprintable() for line in text.split("\n"))


def test_without_e_the_report_is_the_same_with_and_without_code():
    profile = annotated_loop()
    without = replace(profile, code=None)
    for name in ("text", "json", "csv"):
        assert rendered(profile, name, disassemble=0) == rendered(without, name, disassemble=0)


def test_a_profile_without_code_is_refused():
    with pytest.raises(UsageError, match="code=True"):
        rendered(replace(annotated_loop(), code=None))


def blocks(text):
    """Return {(function, its hits): hits of its instructions} of a text report."""
    found, key = {}, None
    for before, line in zip(["", *text.splitlines()], text.splitlines(), strict=False):
        total = re.match(r"(\d+) samples? = .*%$", line)
        if total:
            key = (before.split()[0], int(total[1]))
            found[key] = 0
        if key and re.match(r" *\d+ .*<\S+>: ", line):
            found[key] += int(line.split()[0])
        if line.startswith("- ") and "at addresses inside" in line and key:
            found[key] += int(line.split()[1])
    return found


def test_hits_of_a_block_add_up_to_its_functions():
    found = blocks(rendered(annotated_loop()).decode())
    assert found == {("work", 100): 100}


def two_processes():
    """Two processes and a kernel thread; `shared` is hit by both, `inside` only in the kernel."""
    build = ProfileBuilder()
    first = build.process("first", 10, is_command=True)
    second = build.process("second", 20)
    image = build.object("/lib/shared.so")
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL)
    shared = build.function("shared", image, 0x1000)
    rare = build.function("rare", image, 0x2000)
    inside = build.function("inside", kernel, 0xFFFFFFFF81000000)
    build.hit(first, shared, 30, offset=1)
    build.hit(second, shared, 50, offset=2)
    build.hit(second, rare, 1, offset=1)
    build.hit(first, inside, 40, CPUMODE_KERNEL, offset=1)
    build.hit(second, inside, 20, CPUMODE_KERNEL, offset=3)

    def nops(start):
        return [(start + at, 1, f"nop{at}", FLOW_NEXT, NO_TARGET, "") for at in range(4)]

    starts = {shared: 0x1000, rare: 0x2000, inside: 0xFFFFFFFF81000000}
    code = code_table({row: nops(start) for row, start in starts.items()})
    return replace(build.build(), code=code)


def test_each_process_has_its_own_hits_in_a_function_and_the_kernel_has_all():
    document = json.loads(rendered(two_processes(), "json", 2, detail="4"))
    assert schema_errors(document, SCHEMA, SCHEMA) == []
    (event,) = document["events"]

    def hits(table):
        return {
            (function["name"], one["address"] - function["address"]): one["samples"]
            for function in table["disassembly"]
            for one in function["instructions"]
        }

    by_name = {one["name"]: one["functions"] for one in event["details"]}
    assert hits(by_name["first"]["user"]) == {("shared", 1): 30}
    assert hits(by_name["second"]["user"]) == {("shared", 2): 50, ("rare", 1): 1}
    assert hits(by_name["first"]["kernel"]) == {("inside", 1): 40}
    assert hits(event["kernel_profiles"][0]) == {("inside", 1): 40, ("inside", 3): 20}
    for table in (*by_name["second"].values(), event["kernel_profiles"][0]):
        for function in table["disassembly"]:
            shares = [one["share"] for one in function["instructions"]]
            assert sum(shares) == pytest.approx(1.0)


def test_e_shows_what_passes_the_thresholds_and_ee_everything():
    profile = two_processes()
    name = profile.functions.name
    shown, every = (
        [name[row] for row in disassembled_functions(profile, DisassemblyChoice("4", extent=one))]
        for one in (1, 2)
    )
    assert sorted(shown) == ["inside", "shared"]
    assert sorted(every) == ["inside", "rare", "shared"]
    assert "<rare+1>" not in rendered(profile, detail="4").decode()
    assert "<rare+1>" in rendered(profile, detail="4", disassemble=2).decode()


def test_only_the_command_is_disassembled_where_only_it_is_shown():
    profile = two_processes()
    text = rendered(profile, detail="2").decode()
    assert "<shared+1>" in text
    assert re.search(r"\d.*<shared\+2>", text) is None
