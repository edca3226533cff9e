"""Tracepoints where tracefs is not mounted: read through a mount that nobody else sees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.parallel]

SHOWS_ITS_DIRECTORY = """
from prospect.capture.events import tracepoints
tracepoints._MOUNTS = ("/nowhere",)
print(tracepoints.events_directory(), tracepoints.tracepoint_id("sched", "sched_switch"))
from pathlib import Path
print(Path('/proc/self/mounts').read_text().count('tracefs'))
"""


def test_tracepoints_are_read_without_a_mount_that_others_see():
    mounted = Path("/proc/self/mounts").read_text().count("tracefs")
    told = subprocess.run(
        [sys.executable, "-c", SHOWS_ITS_DIRECTORY], capture_output=True, text=True, check=True
    )
    directory, number, seen = told.stdout.split()
    assert directory.startswith("/proc/self/fd/")
    assert int(number) > 0
    assert int(seen) == mounted
    if os.access("/sys/kernel/tracing/events", os.R_OK):
        assert (
            number == Path("/sys/kernel/tracing/events/sched/sched_switch/id").read_text().strip()
        )
