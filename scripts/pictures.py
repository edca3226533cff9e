#!/usr/bin/env python3
"""Make docs/pictures/first-screen.svg and page.png from real runs; needs gcc and Chromium."""

from __future__ import annotations

import html
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
GCC, CHROMIUM = shutil.which("gcc") or "gcc", shutil.which("chromium") or "chromium"
PROSPECT = [sys.executable, "-m", "prospect"]
COLUMNS, LINES = 80, 24
# Blanks next to each other would be one.
NO_BREAK = "\N{NO-BREAK SPACE}"
# Of a glyph and a line of the picture's font, in its own units.
WIDTH, HEIGHT, MARGIN = 8.43, 18, 12


def main() -> None:
    """Make both."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        lock = Path(directory) / "lock"
        source = ROOT / "examples" / "lock.c"
        subprocess.run([GCC, "-O2", "-g", "-pthread", "-o", lock, source], check=True)
        words = ["prospect", "python3", "examples/config.py"]
        report = run([*PROSPECT, "--call-graph", "auto", *words[1:]])
        lines = [f"$ {' '.join(words)}", *report.splitlines()[:LINES]]
        (PICTURES / "first-screen.svg").write_text(terminal(lines), encoding="utf-8")
        page = Path(directory) / "page.html"
        run(
            [
                *PROSPECT,
                "--off-cpu",
                "--call-graph",
                "auto",
                "--format",
                "html",
                "-f",
                page,
                "./lock",
            ],
            directory,
        )
        take(page, PICTURES / "page.png")


def run(words: list[str | Path], directory: str | Path = ROOT) -> str:
    """Return what a command writes, which is run in a directory."""
    return subprocess.run(
        words, cwd=directory, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def take(page: Path, picture: Path) -> None:
    """Photograph a page."""
    options = ["--headless", "--disable-gpu", "--hide-scrollbars", "--window-size=1440,1150"]
    options += ["--no-sandbox"]  # the page is our own; Chromium refuses root otherwise
    options += ["--virtual-time-budget=8000", f"--screenshot={picture}", page.as_uri()]
    subprocess.run([CHROMIUM, *options], check=True, capture_output=True)


def terminal(lines: list[str]) -> str:
    """Return lines as an SVG picture of a terminal."""
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    text = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + HEIGHT * (row + 0.75):g}">{line}</text>'
        for row, line in enumerate(html.escape(line).replace(" ", NO_BREAK) for line in lines)
    )
    style = "font: 14px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">\n'
        f"<title>{html.escape(lines[0])}</title>\n"
        '<rect width="100%" height="100%" rx="8" fill="#14171b"/>\n'
        f'<g fill="#e8eaed" style="{style}">\n{text}\n</g>\n</svg>\n'
    )


if __name__ == "__main__":
    main()
