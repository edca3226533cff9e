"""The memory map of a process is the whole one, of heaps, stacks and data as well."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from builders.command_line import running
from builders.recordings import PROSPECT, record

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
DD = ("dd", "if=/dev/zero", "of=/dev/null", "bs=1M")
# Shows what /proc says of it once it stands, and then works.
WITNESS = """
import mmap, time
held = mmap.mmap(-1, 7 << 20, prot=mmap.PROT_READ)
print(open("/proc/self/maps").read(), flush=True)
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    pass
"""


def report(*words):
    """Return what `prospect` says."""
    done = subprocess.run(
        [*PROSPECT, *map(str, words)], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


def section_of(text):
    """Return the lines of the only memory map of a report."""
    _, rest = re.split(r"^Memory Map of .*\n", text, flags=re.MULTILINE)
    return rest.partition("\n\n")[0].splitlines()[1:]


def test_dd_has_a_memory_map_with_heap_stack_and_what_may_be_done_there():
    title, *rows, total = section_of(report(*DD, "count=10000"))
    assert title.split() == ["Samples", "Start", "End", "KiB", "Perm", "Offset", "Filename"]
    may_do = {(row.split()[-1], row.split()[4]) for row in rows}
    assert {("[heap]", "rw-"), ("[stack]", "rw-"), ("//anon", "rw-"), ("[vdso]", "r-x")} <= may_do
    assert {"r--", "r-x", "rw-"} <= {bits for path, bits in may_do if path.endswith("bin/dd")}
    megabyte = [row for row in rows if int(row.split()[3]) >= 1024 and row.endswith("//anon")]
    assert megabyte, "the buffer of bs=1M"
    assert re.fullmatch(
        rf"- {len(rows)} mappings, \d+ KiB; those of data as they were \d+\.\d\d s after recording"
        " began",
        total,
    )


def test_a_dd_of_a_twentieth_of_a_second_has_a_memory_map():
    _, *rows, total = section_of(report(*DD, "count=2000"))
    assert {"[vdso]"} < {row.split()[-1] for row in rows}
    assert "executable ones only" in total or "those of data as they were" in total


def test_the_map_is_the_one_that_the_process_saw(tmp_path):
    told = tmp_path / "told"
    words = ("sh", "-c", 'exec "$0" -c "$1" > "$2"', sys.executable, WITNESS.format(seconds=1))
    file = tmp_path / "r.data"
    record(file, *words, str(told))
    document = json.loads(report("report", "-V", "2", "--format", "json", file))
    shell, process = sorted(document["events"][0]["details"], key=lambda one: one["start_ns"])
    assert shell["end"] == "exec"
    assert process["data_mappings_read_ns"] > 0
    found = {
        (f"{one['start']:08x}-{one['end']:08x}", one["permissions"]): one["object"]
        for one in process["mappings"]
    }
    for line in filter(None, told.read_text().splitlines()):
        place, may_do, *_, path = line.split()
        # Memory without a file may have grown since, or be part of a larger mapping.
        if path.startswith("/"):
            assert (place, may_do[:3]) in found, line
    (held,) = [one for one in process["mappings"] if one["size_bytes"] == 7 << 20]
    assert (held["permissions"], held["object"]) == ("r--", "/dev/zero (deleted)")


def test_children_that_only_fork_have_whole_maps_too(tmp_path):
    # Ends at once: the interpreter's own end would unmap some of it before the last look.
    program = f"import os, sys; os.fork(); exec({WITNESS!r}.format(seconds=1)); os._exit(0)"
    file = tmp_path / "r.data"
    record(file, sys.executable, "-c", program)
    document = json.loads(report("report", "-V", "3", "--format", "json", file))
    of_python = [one for one in document["events"][0]["details"] if one["mappings"]]
    assert len(of_python) >= 2
    for process in of_python:
        sizes = [one["size_bytes"] for one in process["mappings"]]
        assert 7 << 20 in sizes, process["name"]


def test_a_process_that_is_attached_to_has_a_whole_map(tmp_path):
    words = [sys.executable, "-c", WITNESS.format(seconds=30)]
    with running(words, stdout=subprocess.PIPE) as witness:
        witness.stdout.readline()
        file = tmp_path / "r.data"
        attach = ("record", "-p", witness.pid, "--for", "0.8", "-o", file)
        report(*attach)
    rows = section_of(report("report", file))
    assert [row for row in rows if row.endswith("[stack]")]


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_a_recording_of_perf_has_executable_mappings_and_says_so(tmp_path):
    file = tmp_path / "perf.data"
    words = ("perf", "record", "-e", "cpu-clock", "-o", file, *DD, "count=10000")
    subprocess.run([*map(str, words)], capture_output=True, check=True, timeout=60)
    _, *rows, total = section_of(report("report", file))
    assert {row.split()[4] for row in rows} == {"r-x"}
    assert total.endswith("KiB; executable ones only: the recording has none of data")
