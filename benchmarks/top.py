"""What the screen of `prospect top` costs a refresh: figures, page, lines, and the terminal's part.

    python benchmarks/top.py [RECORDING]

Needs root, or a recording with call stacks. Without one, 10 s of the whole machine are recorded at
200 Hz while Python and gzip work. The recording is played again in steps to a screen of 120 x 40
without a terminal, so that each refresh has new figures; the pipeline that makes them of samples is
not in it. Milliseconds of processor time, the median of 40 refreshes; the last column is a CPU's
share at the usual pace of one refresh in two seconds.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prospect.analysis.profile_request import ProfileRequest
from prospect.analysis.reading import read_profile
from prospect.live.session import LiveState
from prospect.options import NamingOptions
from prospect.records import replace
from prospect.tui.app import TopApp

if TYPE_CHECKING:
    from prospect.profile.model import Profile

SIZE = (120, 40)
REFRESHES = 40
PACE_S = 2.0
PAGES = {
    "functions": ("1",),
    "processes": ("2",),
    "entry_reasons": ("3",),
    "callers": ("1", "enter"),
    "callees": ("1", "enter", "2"),
}
LOAD = (
    "import json,time,zlib\nend=time.time()+10\n"
    "while time.time()<end: zlib.compress(json.dumps(list(range(5000))).encode())"
)


class Replay:
    """A session that gives the samples of a recording up to one moment after the other."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._begin_ns = profile.run.begin_ns
        self._length_ns = profile.run.end_ns - self._begin_ns
        self._asked = 0

    def advance(self) -> LiveState:
        """Return the profile up to the next moment; the last 40 lie in its second half."""
        self._asked += 1
        share = 0.5 + 0.5 * min(self._asked / (REFRESHES + 10), 1.0)
        profile = until(self._profile, self._begin_ns + int(self._length_ns * share))
        return LiveState(profile, 0.0, 0.0, profile.run.wall_seconds, 0)

    def save(self, path: str) -> str:
        """Save nothing."""
        return path

    def clear(self) -> None:
        """Forget nothing."""


def until(profile: Profile, end_ns: int) -> Profile:
    """Return the profile of the samples until `end_ns`."""
    samples, hits = profile.samples, profile.hits
    kept = samples.time_ns <= np.uint64(end_ns)
    columns = {
        name: None if column is None else np.broadcast_to(column, len(samples))[kept]
        for name, column in vars(samples).items()
    }
    count = np.bincount(columns["hit_index"], minlength=len(hits)).astype(np.int64)
    period = hits.period // np.maximum(hits.count, 1) * count
    clocks = profile.clocks
    return replace(
        profile,
        run=replace(
            profile.run, end_ns=end_ns, wall_seconds=(end_ns - profile.run.begin_ns) * 1e-9
        ),
        samples=replace(samples, **columns),
        hits=replace(hits, count=count, period=period),
        clocks=replace(clocks, end_ns=np.minimum(clocks.end_ns, np.uint64(end_ns))),
    )


async def refresh(app: TopApp) -> tuple[float, float, float]:
    """Do what the screen does every two seconds; return ms of figures, page, and all the rest."""
    began = time.process_time()
    app._watch.advance()  # noqa: SLF001 - the steps of a refresh, one by one
    taken_in = time.process_time()
    await app._look()  # noqa: SLF001 - likewise
    looked = time.process_time()
    await asyncio.sleep(0.02)
    drawn = time.process_time()
    return (taken_in - began) * 1e3, (looked - taken_in) * 1e3, (drawn - looked) * 1e3


async def measure(profile: Profile, keys: tuple[str, ...]) -> list[tuple[float, float, float]]:
    """Refresh the page that `keys` lead to."""
    app = TopApp(Replay(profile))
    async with app.run_test(size=SIZE) as pilot:
        await asyncio.sleep(1.0)
        for key in keys:
            await pilot.press(key)
            await asyncio.sleep(0.3)
        app._watch.next_pause_s = lambda: 1e6  # noqa: SLF001 - nothing but what is measured
        await asyncio.sleep(2.5)
        return [await refresh(app) for _ in range(REFRESHES)]


def record(path: Path) -> None:
    """Record the whole machine at work."""
    recorder = [sys.executable, "-m", "prospect", "record", "--call-graph", "auto"]
    command = [*recorder, sys.executable, "-c", LOAD]
    subprocess.run(command, check=True, cwd=path.parent)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(directory, "perf.data")
        if len(sys.argv) == 1:
            record(path)
        profile = read_profile(str(path), NamingOptions(), ProfileRequest(stacks=True))
    print(f"{len(profile.samples):,} samples, {len(profile.functions):,} functions, {SIZE} screen")
    print(f"{'page':<10} {'figures':>8} {'page':>8} {'screen':>8} {'in all':>8} {'of a CPU':>9}")
    for name, keys in PAGES.items():
        times = asyncio.run(measure(profile, keys))
        parts = [statistics.median(column) for column in zip(*times, strict=True)]
        whole = statistics.median(map(sum, times))
        cells = "".join(f"{part:9.1f}" for part in (*parts, whole))
        print(f"{name:<10}{cells} {whole / PACE_S / 10.0:8.2f}%")


if __name__ == "__main__":
    main()
