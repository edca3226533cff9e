#!/usr/bin/env python3
"""Make the pictures of docs/pictures/ that show screens and pages, from real runs.

They are first-screen.svg, page.png, diff.png and top.png. Needs gcc, Chromium,
textual and root. Arguments choose some of them: `scripts/pictures.py diff top`.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
GCC, CHROMIUM = shutil.which("gcc") or "gcc", shutil.which("chromium") or "chromium"
SH = "/bin/sh"
PROSPECT = [sys.executable, "-m", "prospect"]
COLUMNS, LINES = 80, 24
# Blanks next to each other would be one.
NO_BREAK = "\N{NO-BREAK SPACE}"
# Of a glyph and a line of the picture's font, in its own units.
WIDTH, HEIGHT, MARGIN = 8.43, 18, 12


TOP_S = 30  # after which the live screen is photographed
TOP_SIZE = (26, 110)  # its lines and columns


def main() -> None:
    """Make all, or those that were named."""
    PICTURES.mkdir(exist_ok=True)
    makers = {"first-screen": first_screen, "page": page, "diff": diff, "top": top}
    for name in sys.argv[1:] or makers:
        with tempfile.TemporaryDirectory() as directory:
            makers[name](Path(directory))


def first_screen(_: Path) -> None:
    """Show the first screen of a program of examples/."""
    words = ["prospect", "python3", "examples/config.py"]
    report = run([*PROSPECT, "--call-graph", "auto", *words[1:]])
    lines = [f"$ {' '.join(words)}", *report.splitlines()[:LINES]]
    (PICTURES / "first-screen.svg").write_text(terminal(lines), encoding="utf-8")


def page(directory: Path) -> None:
    """Show the page of a program with locks."""
    build("lock", directory / "lock")
    words = ["--off-cpu", "--call-graph", "auto", "--format", "html", "-f", "page.html", "./lock"]
    run([*PROSPECT, *words], directory)
    take(directory / "page.html", PICTURES / "page.png")


def diff(directory: Path) -> None:
    """Show the page of a comparison: a program, and the same with its remedy."""
    build("join", directory / "before")
    build("join", directory / "after", "-DFIXED")
    sides = ["--a", "./before", "--b", "./after"]
    words = ["-H1000", "--call-graph", "auto", "--format", "html", "-f", "diff.html", *sides]
    run([*PROSPECT, "compare", *words], directory)
    take(directory / "diff.html", PICTURES / "diff.png")


def top(directory: Path) -> None:
    """Show the live screen of programs of examples/, which run in turn."""
    for name in ("join", "lock"):
        build(name, directory / name)
    python = f"{sys.executable} {ROOT}/examples"
    loop = f"while :; do {python}/config.py & ./join & ./lock; {python}/stages.py; wait; done"
    with subprocess.Popen(
        [SH, "-c", loop], cwd=directory, stdout=subprocess.DEVNULL, start_new_session=True
    ) as load:
        try:
            screenshot(directory, ["top", "-p", str(load.pid)])
        finally:
            os.killpg(load.pid, signal.SIGKILL)
    screen = (directory / "top.svg").read_text(encoding="utf-8")
    (directory / "top.svg").write_text(screen.replace("TopApp", "prospect top"), encoding="utf-8")
    take(directory / "top.svg", PICTURES / "top.png", (1360, 685))


def screenshot(directory: Path, words: list[str]) -> None:
    """Run a command in a terminal until textual has written a picture of it, top.svg."""
    picture = directory / "top.svg"
    pid, terminal_fd = pty.fork()
    if not pid:
        os.environ |= {
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "TEXTUAL_SCREENSHOT": str(TOP_S),
            "TEXTUAL_SCREENSHOT_LOCATION": str(directory),
            "TEXTUAL_SCREENSHOT_FILENAME": picture.name,
        }
        os.execv(sys.executable, [*PROSPECT, *words])  # noqa: S606 - our own command
    fcntl.ioctl(terminal_fd, termios.TIOCSWINSZ, struct.pack("HHHH", *TOP_SIZE, 0, 0))
    end = time.monotonic() + 3 * TOP_S
    while time.monotonic() < end:
        readable = select.select([terminal_fd], [], [], 1)[0]
        if picture.exists() and not readable:
            break
        try:
            if readable and not os.read(terminal_fd, 1 << 16):
                break
        except OSError:  # the command has ended
            break
    os.close(terminal_fd)
    os.waitpid(pid, 0)


def build(name: str, program: Path, *options: str) -> None:
    """Compile a program of examples/."""
    source = ROOT / "examples" / f"{name}.c"
    subprocess.run([GCC, "-O2", "-g", "-pthread", *options, "-o", program, source], check=True)


def run(words: list[str | Path], directory: str | Path = ROOT) -> str:
    """Return what a command writes, which is run in a directory."""
    return subprocess.run(
        words, cwd=directory, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def take(shown: Path, picture: Path, size: tuple[int, int] = (1440, 1150)) -> None:
    """Photograph a page."""
    options = ["--headless", "--disable-gpu", "--hide-scrollbars"]
    options += [f"--window-size={size[0]},{size[1]}"]
    options += ["--no-sandbox"]  # the page is our own; Chromium refuses root otherwise
    options += ["--virtual-time-budget=8000", f"--screenshot={picture}", shown.as_uri()]
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
