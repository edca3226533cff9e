"""Real kernel time: samples that waited for interrupts to come back on are late, others are not."""

from __future__ import annotations

import math
import re
import signal
import subprocess
import sys
import timeit

import numpy as np
import pytest

import prospect
from builders.recordings import prospect_by_timer
from prospect.estimate.accounting.lateness import USUAL_SHARE, late_shares, sample_lateness
from prospect.profile.model import CPUMODE_KERNEL, CPUMODE_USER

pytestmark = [
    pytest.mark.live,
    pytest.mark.nightly,  # the figures are tested with made-up samples; here the host decides
]

# A process sets a timer again and again, each time with interrupts masked; then it fills user space
# with zeros, with interrupts on all the time; both in turn, as the host delays all more at
# some times than at others. Another one stays in user mode meanwhile: what is usual on a CPU is
# told by such samples. By its own clock, so that others may take CPUs away.
LOAD = """
import os, signal, time
cpus = sorted(os.sched_getaffinity(0))
other = os.fork()
if not other:
    os.sched_setaffinity(0, cpus[-1:])
    while True:
        sum(range(10_000))
os.sched_setaffinity(0, cpus[:1])
room = bytearray(1 << 20)
with open("/dev/zero", "rb", buffering=0) as zeros:
    for turn in range(20):
        while time.process_time() < 0.25 * turn + 0.12:
            for _ in range(1000):
                signal.setitimer(signal.ITIMER_REAL, 1000)
        signal.setitimer(signal.ITIMER_REAL, 0)
        while time.process_time() < 0.25 * (turn + 1):
            zeros.readinto(room)
os.kill(other, signal.SIGKILL)
os.waitpid(other, 0)
"""
UNMASKING = re.compile(r"^_raw_spin_unlock_irq(restore)?$")
FILLING = re.compile(
    r"read_zero|iov_iter_zero|rep_stos|clear_user|memset|memcpy|copy_to_iter|rep_movs"
)


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    file = tmp_path_factory.mktemp("late") / "r"
    line = [*prospect_by_timer(), "record", "-H", "2000", "-o", str(file), "--"]
    subprocess.run([*line, sys.executable, "-c", LOAD], check=True, timeout=60)
    return prospect.open(file)


def share_of(profile, chosen):
    """Return the late share of the hits that are chosen, its variance, and their samples."""
    row = np.where(chosen, 0, -1)
    (share,) = late_shares(sample_lateness(profile), row, 1)
    count = int(profile.hits.count[chosen].sum())
    return float(share), float(share * (1 - share) / max(count, 1)), count


def in_kernel(profile, names):
    matches = np.array([bool(names.search(name)) for name in profile.functions.name])
    function = profile.locations.function_index[profile.hits.location_index]
    return matches[function] & (profile.hits.mode == CPUMODE_KERNEL)


def duration_of_a_call_ns():
    """Return how long setting a timer takes, with what Python adds to it."""
    calls = 10_000
    try:
        return min(
            timeit.repeat(lambda: signal.setitimer(signal.ITIMER_REAL, 1000), number=calls)
        ) * (1e9 / calls)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_place_where_interrupts_come_back_on_is_late_and_a_plain_loop_is_not(profile):
    unmasking, variance, there = share_of(profile, in_kernel(profile, UNMASKING))
    filling, other_variance, here = share_of(profile, in_kernel(profile, FILLING))
    assert min(there, here) > 40, "the kernel's names of these places have changed"
    # Interrupts are off for a part of each call at most.
    if (call_ns := duration_of_a_call_ns()) < sample_lateness(profile).limit_ns.max():
        pytest.skip(f"a call that masks interrupts takes {call_ns:.0f} ns: not late here")
    # The host delays a plain loop too, now and then.
    assert unmasking > filling + 2.5 * math.sqrt(variance + other_variance)


def test_user_mode_is_late_as_often_as_the_base_line_says(profile):
    share, _, _ = share_of(profile, profile.hits.mode == CPUMODE_USER)
    assert share == pytest.approx(USUAL_SHARE, abs=0.01)


def test_timer_is_microseconds_and_not_milliseconds_late(profile):
    lateness = sample_lateness(profile)
    assert (lateness.usual_ns < 100_000).all()
    assert (lateness.usual_ns <= lateness.limit_ns).all()
