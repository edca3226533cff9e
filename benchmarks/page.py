"""How fast the page of --format html is in Chromium: opening, a frame of the flame graph, a filter.

    python benchmarks/page.py

Needs chromium with chromedriver, and selenium. Two profiles are made up in memory: a million
samples, and one whose flame graph has all 150,000 rows that a page shows at most. "Open" is from
the start of navigation to the first picture, by the page's own clock; a frame is one whole drawing
of the flame graph; a filter adds up all samples of a stretch of time and shows them.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from prospect.render.registry import make_renderer

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from builders.stacks import random_stacks_profile

CASES = {"10^6 samples": (1_000_000, 60_000, 30), "150,000 rows": (250_000, 20_000, 30)}
FRAMES = """
const done = arguments[0], times = [];
const draw = () => {
  const start = performance.now();
  drawFlame();
  times.push(performance.now() - start);
  if (times.length < 40) return requestAnimationFrame(draw);
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
        f"{'':14}{'rows':>9}{'MB':>7}{'open s':>9}{'frame ms':>10}{'most ms':>9}{'filter ms':>11}"
    )
    try:
        with tempfile.TemporaryDirectory() as directory:
            for name, size in CASES.items():
                path = Path(directory, "page.html")
                with path.open("wb") as out:
                    make_renderer("html", detail="4").render(random_stacks_profile(*size), out)
                measure(driver, name, path)
    finally:
        driver.quit()


def measure(driver: webdriver.Chrome, name: str, path: Path) -> None:
    driver.get(path.as_uri())
    opened = "return performance.getEntriesByName('opened').map((mark) => mark.startTime)[0]"
    WebDriverWait(driver, 60).until(lambda found: found.execute_script(opened))
    opened_s = driver.execute_script(opened) / 1000
    frames, filtered, rows = driver.execute_async_script(FRAMES)
    print(
        f"{name:14}{rows:9}{path.stat().st_size / 1e6:7.2f}{opened_s:9.2f}"
        f"{statistics.median(frames):10.1f}{max(frames):9.1f}{filtered:11.1f}"
    )


if __name__ == "__main__":
    main()
