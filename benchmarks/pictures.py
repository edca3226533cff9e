"""The pictures of docs/accuracy.md, drawn from real runs.

    python benchmarks/accuracy.py --clocks 1 --runs 12 --json one.json 'lock-step, 30 %'
    python benchmarks/accuracy.py --runs 240 --json four.json
    python benchmarks/pictures.py one.json four.json docs/pictures

The first shows what one clock and a bank of four make of a program that spends 30 % of every
millisecond in one function; the second sets the intervals of many runs beside the truth.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

LOCK_STEP = "lock-step, 30 %"
TRUE_SHARE = 0.3
SHOWN_RUNS = 12
SHOWN_KINDS = ("steady", "bursts", "phases", "lock-step", "rare", "short")
SHOWN_ROWS = 40
EDGE, STUMP = 2.5, 0.3
INK, FAINT, TRUTH, HOLDS, MISSES = "#333", "#bbb", "#2a7", "#36c", "#c33"

Row = dict[str, Any]


class Frame(NamedTuple):
    """A part of a picture, and the values at its edges."""

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        """Return where a value stands, from the left."""
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * self.width

    def y(self, value: float) -> float:
        """Return where a value stands, from the top; at the edge what is beyond it."""
        low, high = self.y_range
        return self.top + (high - min(max(value, low), high)) / (high - low) * self.height


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("one", type=Path, help="runs with one clock, by benchmarks/accuracy.py")
    parser.add_argument("four", type=Path, help="runs with four")
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    one, four = (json.loads(path.read_text())["rows"] for path in (arguments.one, arguments.four))
    arguments.directory.mkdir(exist_ok=True)
    (arguments.directory / "lock-step.svg").write_text(lock_step(one, four))
    (arguments.directory / "intervals.svg").write_text(intervals(four))


def lock_step(one: list[Row], four: list[Row]) -> str:
    """Draw the share of phase_a that each run reads, with one clock and with four."""
    marks = []
    for left, title, rows in ((60, "one clock of 1000 Hz", one), (390, "four clocks", four)):
        frame = Frame(left, 40, 290, 200, (-0.5, SHOWN_RUNS - 0.5), (0.0, 1.0))
        marks += axes(frame, title, [(share / 4, f"{share * 25} %") for share in range(5)])
        marks.append(line(frame, (-0.5, TRUE_SHARE), (SHOWN_RUNS - 0.5, TRUE_SHARE), TRUTH, 2))
        for place, (share, bar) in enumerate(shares(rows)):
            marks.append(line(frame, (place, share - bar), (place, share + bar), HOLDS, 2))
            marks.append(dot(frame, place, share))
    marks.append(text(60, 270, "Each dot is a run; the line is the truth, 30 %.", INK))
    return picture(700, 285, marks)


def shares(rows: list[Row]) -> list[tuple[float, float]]:
    """Return the share of phase_a and its error bar, of each run of the lock-step program."""
    runs: dict[int, dict[str, Row]] = {}
    for row in rows:
        if row["kind"] == LOCK_STEP:
            runs.setdefault(row["run"], {})[row["function"]] = row
    found = []
    for _, run in sorted(runs.items())[:SHOWN_RUNS]:
        whole_s = sum(row["reported_s"] for row in run.values())
        phase = run.get("phase_a", {"reported_s": 0.0, "half_width_s": 0.0})
        found.append((phase["reported_s"] / whole_s, phase["half_width_s"] / whole_s))
    return found


def intervals(rows: list[Row]) -> str:
    """Draw the intervals of some rows of each kind around the truth, in half widths."""
    marks = []
    for number, kind in enumerate(SHOWN_KINDS):
        of_kind = [row for row in rows if row["kind"] == kind]
        chosen = of_kind[:SHOWN_ROWS]
        top = 30 + 95 * number
        frame = Frame(130, top, 560, 70, (-1, SHOWN_ROWS), (-EDGE, EDGE))
        marks.append(line(frame, (-1, 0), (SHOWN_ROWS, 0), TRUTH, 1.5))
        marks.append(text(10, top + 30, kind, INK))
        held = sum(row["low_s"] <= row["truth_s"] <= row["high_s"] for row in of_kind)
        share = f"{held} of {len(of_kind)} hold"
        marks.append(text(10, top + 48, share, INK, size=11))
        for place, row in enumerate(chosen):
            half_width_s = row["half_width_s"] or 1.0
            low, high = ((row[end] - row["truth_s"]) / half_width_s for end in ("low_s", "high_s"))
            colour = HOLDS if low <= 0 <= high else MISSES
            # What lies beyond the frame shows as a stump at its edge.
            low, high = min(low, EDGE - STUMP), max(high, STUMP - EDGE)
            marks.append(line(frame, (place, low), (place, high), colour, 3))
    return picture(700, 30 + 95 * len(SHOWN_KINDS), marks)


def axes(frame: Frame, title: str, ticks: list[tuple[float, str]]) -> list[str]:
    marks = [text(frame.left, frame.top - 14, title, INK, weight="bold")]
    for value, label in ticks:
        low, high = frame.x_range
        marks.append(line(frame, (low, value), (high, value), FAINT, 0.5))
        marks.append(text(frame.left - 6, frame.y(value) + 4, label, INK, size=11, anchor="end"))
    return marks


def line(
    frame: Frame,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    width: float,
) -> str:
    (x1, y1), (x2, y2) = start, end
    return (
        f'<line x1="{frame.x(x1):.1f}" y1="{frame.y(y1):.1f}" x2="{frame.x(x2):.1f}"'
        f' y2="{frame.y(y2):.1f}" stroke="{colour}" stroke-width="{width}"/>'
    )


def dot(frame: Frame, x: float, y: float) -> str:
    return f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="4" fill="{HOLDS}"/>'


def text(x: float, y: float, words: str, colour: str, **style: Any) -> str:
    size, weight = style.get("size", 13), style.get("weight", "normal")
    anchor = style.get("anchor", "start")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}"'
        f' font-weight="{weight}" text-anchor="{anchor}">{words}</text>'
    )


def picture(width: int, height: int, marks: list[str]) -> str:
    body = "\n".join(marks)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" font-family="sans-serif">\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    main()
