"""The daemon finds callers in code without frame pointers, and large images cost it no memory."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from builders.command_line import running
from builders.daemon import RunningDaemon, status
from prospect.api.store_part import read_store
from prospect.profile.complete import complete

pytest.importorskip("duckdb")
pytestmark = [pytest.mark.live, pytest.mark.parallel]

NESTED = """
volatile long sink;
__attribute__((noinline)) void inner(long n) { for (long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void middle(long n) { inner(n); sink++; }
__attribute__((noinline)) void outer(long n) { middle(n); sink++; }
int main(void) { for (;;) outer(100000); }
"""


@pytest.mark.nightly
def test_stacks_of_code_without_frame_pointers_are_whole(tmp_path):
    source, program = tmp_path / "nested.c", tmp_path / "nested"
    source.write_text(NESTED)
    options = ("-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls")
    subprocess.run(["gcc", *options, "-o", str(program), str(source)], check=True)
    with (
        RunningDaemon(tmp_path / "s", "--call-graph", "auto") as daemon,
        running([program]),
    ):
        for _ in range(2):
            daemon.ask("dump")
        assert status(daemon)["call_graph"] == "auto"
    profile = complete(read_store(str(tmp_path / "s"), ["comm:nested"], stacks=True))
    chains = Counter()
    hits, stacks = profile.hits, profile.stacks
    function = profile.locations.function_index.take(stacks.location_index).tolist()
    for leaf, count in zip(hits.stack_index.tolist(), hits.count.tolist(), strict=True):
        names, row = [], leaf
        while row >= 0:
            names.append(profile.functions.name[function[row]])
            row = int(stacks.caller_index[row])
        chains[tuple(names[:4])] += count
    assert chains["inner", "middle", "outer", "main"] > 0.8 * chains.total(), chains
