"""How fast the page of --format html is in Chromium: opening, frames of the flame graph, a filter.

    python benchmarks/page.py

Needs chromium with chromedriver, and selenium. Two profiles are made up in memory: a million
samples, and one whose flame graph has all 150,000 rows that a page shows at most. "Open" is from
the start of navigation to the first picture, by the page's own clock. A frame is one whole drawing
of the flame graph, its points on the canvas included: reading one of them waits for all. In each
of the 40 frames something else was done: scrolled, zoomed, searched, the cursor moved; in the
first, and whenever the theme changes, colours and labels are made anew. The worst is what a person
would notice: of each frame the fastest of five rounds, so that it is this page's doing; "seen" is
the slowest of all as it was, with what other programs took of the processors. A filter adds up all
samples of a stretch of time and fills tables and sentences.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from prospect.assembly.code.code import code_of_report
from prospect.options import DisassemblerOptions
from prospect.render.html import HtmlRenderer
from prospect.render.html.cells import Selection
from prospect.render.registry import make_renderer
from prospect.web.recording_answers import CodeFinder, serve_profile
from prospect.web.server import LoopbackServer
from prospect.web.site import Site

if TYPE_CHECKING:
    from prospect.web.recording_answers import ServedRecording

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from builders.stacks import random_stacks_profile

ROUNDS = 5
CASES = {"10^6 samples": (1_000_000, 60_000, 30), "150,000 rows": (250_000, 20_000, 30)}
FRAMES = """
const done = arguments[0], times = [], { event, sums } = view;
const zooms = [0, widestRow(event, sums, (frame) => frame < view.block.labels.length), 0];
const acts = [
  () => { flame.labels = []; changeTheme(); },
  (nth) => { flame.box.scrollTop = 37 * nth; },
  (nth) => focusOn(zooms[nth % zooms.length]),
  () => moveDown(),
  (nth) => search(nth % 2 ? "function_1" : ""),
];
const draw = () => {
  acts[times.length % acts.length](times.length);
  const start = performance.now();
  drawFlame();
  flame.canvas.getContext("2d").getImageData(0, 0, 1, 1);
  times.push(performance.now() - start);
  if (times.length < 40) return requestAnimationFrame(draw);
  focusOn(0);
  const filter = performance.now();
  refilter({ span: [2, 6] });
  done([times, performance.now() - filter, view.event.size]);
};
requestAnimationFrame(draw);
"""


def main() -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(flag)
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    print(
        f"{'':14}{'rows':>9}{'MB':>7}{'open s':>9}{'frame ms':>10}{'worst ms':>10}{'seen ms':>9}"
        f"{'filter ms':>11}"
    )
    try:
        with tempfile.TemporaryDirectory() as directory:
            for name, size in CASES.items():
                path = Path(directory, "page.html")
                with path.open("wb") as out:
                    make_renderer("html", detail="4").render(random_stacks_profile(*size), out)
                measure(driver, name, path)
        measure_served(driver)
    finally:
        driver.quit()


def measure(driver: webdriver.Chrome, name: str, path: Path) -> None:
    opened_s = open_page(driver, path.as_uri())
    rounds = [driver.execute_async_script(FRAMES) for _ in range(ROUNDS)]
    frames = list(zip(*(times for times, _, _ in rounds), strict=True))
    alone = [min(times) for times in frames]
    print(
        f"{name:14}{rounds[0][2]:9}{path.stat().st_size / 1e6:7.2f}{opened_s:9.2f}"
        f"{statistics.median(alone):10.1f}{max(alone):10.1f}{max(map(max, frames)):9.1f}"
        f"{min(filtered for _, filtered, _ in rounds):11.1f}"
    )


def open_page(driver: webdriver.Chrome, address: str) -> float:
    driver.get(address)
    opened = "return performance.getEntriesByName('opened').map((mark) => mark.startTime)[0]"
    WebDriverWait(driver, 60).until(lambda found: found.execute_script(opened))
    seconds: float = driver.execute_script(opened) / 1000
    return seconds


def measure_served(driver: webdriver.Chrome) -> None:
    profile = random_stacks_profile(*CASES["10^6 samples"])
    finder = CodeFinder(None, code_of_report(DisassemblerOptions(gdb_processes=1)))
    start = time.perf_counter()
    recording = serve_profile(profile, HtmlRenderer("4"), finder)
    prepared_s = time.perf_counter() - start
    with LoopbackServer(Site(recording, "token"), 0) as server:
        threading.Thread(target=server.serve_forever).start()
        opened_s = open_page(driver, f"http://127.0.0.1:{server.server_port}/token/")
        server.shutdown()
    print(f"served: prepared in {prepared_s:.2f} s, open {opened_s:.2f} s; parts, ms:")
    asked = {
        name: partial(recording.part, 0, selection)
        for name, selection in selections(recording).items()
    }
    frame = int(recording.parts[0].tree.frame_index[-1])
    half = Selection(end_ns=recording.names.end_ns // 2)
    asked["instructions, half"] = partial(recording.hits, 0, frame, half)
    for name, ask in asked.items():
        times = []
        for _ in range(2):
            start = time.perf_counter()
            ask()
            times.append(time.perf_counter() - start)
        print(f"  {name:28}{max(times) * 1e3:8.0f}")


def selections(recording: ServedRecording) -> dict[str, Selection]:
    end_ns = recording.names.end_ns
    tree = recording.parts[0].tree
    return {
        "everything": Selection(),
        "an eighth of the time": Selection(begin_ns=end_ns // 8, end_ns=end_ns // 4),
        "half of the time": Selection(end_ns=end_ns // 2),
        "a CPU": Selection(cpu=1),
        "a process": Selection(scope="process", process=3),
        "below six frames": Selection(path=tuple(tree.frame_index[1:7].tolist())),
        "a search": Selection(search="function_39"),
        "an eighth, looked at closer": Selection(
            begin_ns=end_ns // 8, end_ns=end_ns // 4, is_by_time=True
        ),
        "half, looked at closer": Selection(end_ns=end_ns // 2, is_by_time=True),
    }


if __name__ == "__main__":
    main()
