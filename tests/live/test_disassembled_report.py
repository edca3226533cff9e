"""The report with -e on a real run: its instructions are those of objdump and of GDB."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builders.command_line import run_here

pytest.importorskip("iced_x86")
pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(
        not (shutil.which("gcc") and shutil.which("objdump")), reason="needs gcc and binutils"
    ),
]

# The division is what takes the time, and each one needs the result of the one before.
SOURCE = """\
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) unsigned long divide(unsigned long n) {
    unsigned long x = 0xfedcba9876543210ul;
    for (unsigned long i = 0; i < n; i++)
        x = 0xffffffff12345678ul / (x | 1) + (1ul << 60);
    return x;
}
static int compare(const void *a, const void *b) {
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}
int main(void) {
    static int numbers[400000];
    unsigned long sum = divide(20000000);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 400000; i++)
            numbers[i] = rand();
        qsort(numbers, 400000, sizeof *numbers, compare);
    }
    printf("%lu\\n", sum + numbers[7]);
    return 0;
}
"""
LISTED = re.compile(r"^\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*(?:\t(.*))?$")


def reported(directory, *options):
    ran = run_here("report", *options, "busy.data", cwd=directory)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode()


def prospect(*arguments, **keywords):
    return subprocess.run(
        [sys.executable, "-m", "prospect", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **keywords,
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    directory = tmp_path_factory.mktemp("disassembled")
    command = ["gcc", "-O2", "-x", "c", "-o", str(directory / "busy"), "-"]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    ran = prospect("record", "-H", "1000", "-o", "busy.data", "./busy", cwd=directory)
    if ran.returncode:
        pytest.skip(f"no recording can be made here: {ran.stderr}")
    return directory


def tables(directory, *options):
    (event,) = json.loads(reported(directory, *options, "--format", "json"))["events"]
    parts = [table for one in event["details"] for table in one["functions"].values()]
    return [*parts, *event["kernel_profiles"][:1]]


def objdump(path, start, stop):
    """Return {address: (size, mnemonic)}."""
    command = ["objdump", "-d", "-w", f"--start-address={start}", f"--stop-address={stop}", path]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    found = filter(None, map(LISTED.match, ran.stdout.splitlines()))
    return {int(m[1], 16): (len(m[2].split()), mnemonic(m[3] or "")) for m in found}


def mnemonic(text):
    words = [word for word in text.split() if not re.fullmatch(r"notrack|bnd|data16|[cdes]s", word)]
    return words[0].rstrip("bwlqx") if words else ""


def test_every_instruction_with_a_hit_is_one_of_objdumps(recorded):
    compared = 0
    for table in tables(recorded, "-ee", "-V3"):
        for function in table["disassembly"]:
            hit = {one["address"]: one for one in function["instructions"]}
            if not hit or not Path(function["object"]).is_file():
                continue
            end = max(address + one["size_bytes"] for address, one in hit.items())
            listed = objdump(function["object"], min(hit), end)
            for address, one in hit.items():
                assert listed[address] == (one["size_bytes"], mnemonic(one["text"])), function
                compared += 1
    assert compared >= 10


def test_every_hit_of_a_table_is_at_an_instruction_between_them_or_said_to_have_none(recorded):
    for table in tables(recorded, "-ee", "-V4"):
        assert sum(function["samples"] for function in table["disassembly"]) == table["samples"]
        for function in table["disassembly"]:
            at_some = sum(one["samples"] for one in function["instructions"])
            assert function["no_instructions_because"] or (
                at_some + function["samples_between_instructions"] == function["samples"]
            )


def test_what_is_likely_meant_is_the_instruction_that_takes_the_time(recorded):
    (divide,) = [
        function
        for table in tables(recorded, "-e")
        for function in table["disassembly"]
        if function["name"] == "divide"
    ]
    hottest = {one["address"]: one for one in divide["instructions"]}[divide["hottest"]]
    assert hottest["samples"] > divide["samples"] / 2
    meant = objdump(str(recorded / "busy"), divide["likely_meant"], divide["hottest"])
    assert [text for _, text in meant.values()] == ["div"]


def test_the_text_has_prospects_form_of_address_in_both_syntaxes(recorded):
    att = reported(recorded, "-e")
    assert re.search(r"<divide\+\d+>: +div[lq]? +%r\w+\n", att)
    intel = reported(recorded, "--disassemble", "--syntax", "intel")
    assert re.search(r"<divide\+\d+>: +div +r\w+\n", intel)
    assert "Disassembled" not in reported(recorded)


@pytest.mark.skipif(not shutil.which("gdb"), reason="needs gdb")
def test_gdb_has_the_same_hits_at_the_same_instructions(recorded):
    def hits(*options):
        return [
            (function["name"], one["address"], one["size_bytes"], one["flow"], one["samples"])
            for table in tables(recorded, "-e", *options)
            for function in table["disassembly"]
            for one in function["instructions"]
        ]

    assert hits("--disassembler", "gdb", "-g", "2") == hits()


def test_profiling_with_e_shows_instructions_at_once(recorded):
    ran = prospect("-e", "-H", "1000", "./busy", cwd=recorded)
    assert ran.returncode == 0, ran.stderr
    assert "<divide+" in ran.stdout
