"""What a daemon remembers from window to window does not grow, whatever starts and ends."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from builders import runtime_frames as make
from prospect.abi.recorded_facts import RecordingInfo
from prospect.assembly.runtimes import code_objects
from prospect.daemon.sampling import give_back
from prospect.live.growing import GrowingProfile
from prospect.live.record_limiters import Bounds
from prospect.symbols import kept_names

# Windows of a minute: a few hours, and a week.
HOURS, WEEK = 300, 7 * 24 * 60
WARM, WINDOW_NS = 100, 60 * 10**9
EVENTS = (make.CLOCK, make.FRAMES)
# No process of this machine has such numbers.
FIRST_PID, PROCESSES = 1 << 23, 2
NAMES_OF_EACH, CODE_START = 20, 0x7F00_0000_0000


def a_library():
    """Return path, offset, size and inode of code that this process has mapped."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if "x" in words[1] and "/libc.so" in words[-1]:
            begin, end = (int(one, 16) for one in words[0].split("-"))
            return words[-1].encode(), int(words[2], 16), end - begin, int(words[4])
    pytest.skip("no C library is mapped")


def window(number, library, chance):
    """Return a window's records: a few new programs, Python among them, that run and end in it."""
    path, offset, size, inode = library
    records, begin = [], number * WINDOW_NS
    for place in range(PROCESSES):
        pid = FIRST_PID + number * PROCESSES + place
        at = begin + place * 10**9
        own = {"pid": pid, "tid": pid}
        told = [make.raw(make.image(11, pid), time=at + 4, **own)]
        for code in range(NAMES_OF_EACH):
            found = make.names(code, f"f{code}", f"/{number}.py", bytes(300), 1, image=pid)
            told += [make.raw(one, time=at + 4, **own) for one in found]
        device = Path(path.decode()).stat().st_dev
        mapped = {"device": (os.major(device), os.minor(device)), "inode": inode} | own
        records += [
            make.SAMPLES.fork(pid, 1, pid, 1, time=at),
            make.SAMPLES.comm(pid, pid, b"job%d" % number, is_exec=True, time=at + 1, **own),
            make.SAMPLES.mmap2(
                *(pid, pid, 0x400000, 1 << 20, b"/gone/job%d" % pid), time=at + 2, prot=5, **own
            ),
            make.SAMPLES.mmap2(
                *(pid, pid, CODE_START, size, path), time=at + 3, pgoff=offset, **mapped
            ),
            *told,
        ]
        for turn in range(10):
            ip = CODE_START + int(chance.integers(size))
            records += [
                make.raw(make.stack((turn, 184, 1, 0), image=pid), time=at + 5 + turn, **own),
                make.SAMPLES.sample(ip=ip, time=at + 5 + turn, id=7, misc=2, chain=[], **own),
            ]
        records.append(make.SAMPLES.exit(pid, 1, pid, 1, time=at + 10**8))
    return b"".join(records)


def resident_mb():
    """Return the memory of this process without pages of files, given back as a daemon does."""
    give_back()
    words = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.timeout(1200)  # a week takes 280 s on a machine that does nothing else
@pytest.mark.parametrize("windows", [HOURS, pytest.param(WEEK, marks=pytest.mark.nightly)])
def test_memory_is_flat_over_windows_with_new_processes_each(monkeypatch, windows):
    monkeypatch.setattr(kept_names, "MOST_IMAGES", 50)
    monkeypatch.setattr(code_objects, "MOST_KEPT_BYTES", 1 << 16)
    bounds = Bounds(most_addresses=500, most_symbols=20_000, most_name_bytes=1 << 18)
    growing = GrowingProfile(bounds, stacks=True, use_cache=False)
    library, chance, hits = a_library(), np.random.default_rng(3), 0
    used, resident = [], []
    for number in range(1, windows + 1):
        interval = [number * WINDOW_NS, (number + 1) * WINDOW_NS]
        info = RecordingInfo(
            events=EVENTS, extras={"interval_ns": interval}, last_sample_ns=interval[1]
        )
        growing.add(window(number, library, chance), info, {})
        hits += int(growing.profile().hits.count.sum())
        growing.clear()
        if number >= WARM and number % 10 == 0:
            gc.collect()
            used.append(sys.getallocatedblocks())
            resident.append(resident_mb())
    assert hits == windows * PROCESSES * 10
    # Blocks of Python's allocator: objects of a few hundred bytes.
    early, late = np.median(used[:6]), np.median(used[-6:])
    # An object for each process of the windows between them would be more.
    assert late - early < (windows - 160) * PROCESSES
    # Two thousand bytes for each process of a week would be 40 MB.
    grown_mb = np.median(resident[-6:]) - np.median(resident[:6])
    assert grown_mb < 8, grown_mb
