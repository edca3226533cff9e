"""What a daemon says of itself, as figures and as a table."""

from __future__ import annotations

import mmap
import subprocess
import sys
import time

import numpy as np
import pytest

from builders.stored import window_at
from prospect.cli.control import status_text
from prospect.daemon.ceiling import Ceiling
from prospect.daemon.daemon_options import DaemonOptions
from prospect.daemon.status import PeakMemory, Totals, figures_of
from prospect.daemon.window_writing import StoreWriting
from prospect.profile.naming import NameSource
from prospect.store.directory import StoreDirectory
from prospect.store.retention import Keep
from prospect.store.segments import FUNCTIONS

BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"


@pytest.fixture
def told(tmp_path):
    with StoreDirectory(str(tmp_path / "s"), create=True) as store:
        store.lock()
        writing = StoreWriting(store, Keep(), print)
        totals = Totals()

        def figures(pids=None):
            return figures_of(store, writing, totals, Ceiling(DaemonOptions(), 2), pids)

        yield figures, totals, writing


def test_objects_that_were_hit_and_have_no_names_are_counted(told):
    figures, totals, _ = told
    window = window_at(0)
    totals.add(window, 7)
    assert figures()["objects_without_names"] == 0
    functions = window.tables[FUNCTIONS]
    functions["source"] = np.full_like(functions["source"], int(NameSource.NO_STRIPPED))
    totals.add(window, 0)
    hit = np.isin(functions["function"], window.tables["samples"]["function"])
    assert figures()["objects_without_names"] == len(set(functions["object"][hit].tolist())) > 0
    assert (figures()["samples"], figures()["lost"]) == (2 * window.tables["samples"]["n"].sum(), 7)


def test_processes_that_still_run_count_as_its_own(told):
    figures, _, _ = told
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        without, beside = figures([]), figures([child.pid])
        assert beside["cpu_s"] >= without["cpu_s"] + 0.25
        assert beside["sampling"]
        child.communicate(b"\n")
    # One that is gone costs nothing more.
    assert figures([child.pid])["cpu_s"] == pytest.approx(figures([])["cpu_s"], abs=0.2)
    assert not figures()["sampling"]


def test_the_table_has_every_figure_a_person_asks_for(told):
    figures, totals, writing = told
    totals.without_names = 4
    status = {**figures([]), "segments": 2, "store_bytes": 1_500_000}
    assert status["newest_age_s"] is None
    assert "newest     none yet" in status_text(status)
    writing.newest_s = int(time.time()) - 30
    status = {**figures([]), "segments": 2, "store_bytes": 1_500_000}
    assert 29 <= status["newest_age_s"] <= 60
    text = status_text(status)
    assert "no names   4 objects in the last window" in text
    assert "on disk    1.5 MB in 2 segments" in text
    assert "MB while a window is written" in text
    assert "left out" not in text
    totals.left_out = ("Python functions: names left out: 7, most of them of process 5.",)
    status = {**figures([]), "segments": 2, "store_bytes": 1_500_000}
    assert f"left out   {totals.left_out[0]}\n" in status_text(status)
    status["left_out"] = ["Limits: short windows: 2.", "Names: 1.", "Limits: few names: 3."]
    assert "left out   Limits: short windows: 2; few names: 3. Names: 1.\n" in status_text(status)


def test_the_peak_has_memory_that_was_given_back_and_no_pages_of_files(tmp_path):
    large, peak = 64 << 20, PeakMemory()
    file = tmp_path / "symbols"
    file.write_bytes(bytes(large))
    before = peak.taken()
    with (
        peak.watched(),
        file.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as content,
    ):
        assert content.find(b"x") < 0  # all its pages are this process's now
        time.sleep(0.1)
    assert peak.taken() - before < large / 2
    # Not of the heap, which may have room for it.
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with peak.watched(), mmap.mmap(-1, large, flags=private) as block:
        for page in range(0, large, mmap.PAGESIZE):
            block[page] = 1
        time.sleep(0.2)
    assert large * 0.9 < peak.taken() - before < large * 1.5
    # From one call to the next.
    assert peak.taken() - before < large / 2
