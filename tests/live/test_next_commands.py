"""The commands behind `Next:`, typed one after the other as they stand, on the real kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders.command_line import run, run_here

pytestmark = [pytest.mark.live, pytest.mark.parallel]


BURN_LONGER = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"


def next_lines(report):
    lines = report.splitlines()
    (at,) = [row for row, line in enumerate(lines) if line.startswith("Next:   ")]
    return [line[8:] for line in lines[at : lines.index("", at)]]


def typed(line, here):
    """Run a line in a shell whose `prospect` is the one under test."""
    script = f'prospect() {{ {sys.executable} -m prospect "$@"; }}\n{line}\n'
    done = subprocess.run(
        ["bash", "-c", script], cwd=here, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command_of_a_hostile_name_is_recorded_again_and_its_callers_are_shown(here):
    program = here / os.fsdecode(b"a 'b'\xff\x1b[2J")
    program.write_bytes(Path("/bin/sh").resolve().read_bytes())
    program.chmod(0o755)
    # One function needs some samples: of all these, the first has a fifth.
    options = ["--call-graph", "fp", "-H", "1999", "--no-python"]
    report = run(*options, f"./{program.name}", "-c", BURN_LONGER).stdout
    record, callers, annotate = next_lines(report)
    typed(record, here)
    recorded = json.loads(run_here("report", "--format", "json", "perf.data").stdout)["run"]
    assert recorded["command"] == [f"./{program.name}", "-c", BURN_LONGER]
    assert set(options) < set(recorded["recorder_command_line"])
    assert "Callers of" in typed(callers, here)
    assert "no function" not in typed(annotate, here)


def test_where_threads_wait_for_a_lock_it_leads_to_who_takes_it(here):
    source = here / "locks.c"
    source.write_text(
        "#include <pthread.h>\n#include <time.h>\n#include <unistd.h>\n"
        "static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n"
        "static void *work(void *none) {\n"
        "    for (int n = 0; n < 40; n++) {\n"
        "        pthread_mutex_lock(&lock); usleep(5000); pthread_mutex_unlock(&lock);\n"
        "    }\n    return none;\n}\n"
        "int main(void) {\n    pthread_t one, other;\n"
        "    pthread_create(&one, 0, work, 0); pthread_create(&other, 0, work, 0);\n"
        "    pthread_join(one, 0); pthread_join(other, 0);\n"
        "    while (clock() < CLOCKS_PER_SEC / 5) {}\n}\n"
    )
    subprocess.run(["cc", "-o", "locks", source, "-pthread"], cwd=here, check=True)
    report = run("--off-cpu", "./locks").stdout
    record, callers, *_ = next_lines(report)
    assert record == "prospect record --off-cpu ./locks"
    typed(record, here)
    assert "Event: blocked" in typed(callers, here)
    assert callers.endswith("_sys_futex")
