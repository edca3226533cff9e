"""Accounting: sampled time beside the kernel's own figures for the same interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.render.text.columns import Column, table_lines
from prospect.render.text.numbers import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.estimate.ledger.agreement import Agreement
    from prospect.render.text.numbers import Figures
    from prospect.render.text.style import Style

_LEAST_TOLD_S = 0.005
_VERDICTS = {True: "", False: "  beyond", None: ""}


def accounting_lines(rows: Sequence[Agreement], figures: Figures, style: Style) -> Iterator[str]:
    """Yield the section; nothing where the recording holds no accounting."""
    if not rows:
        return
    yield from style.section("Accounting: Sampled Time and the Kernel's Own")
    sampled = [NO_TIME if row.sampled_s is None else figures.seconds(row.sampled_s) for row in rows]
    explained = [NO_TIME if row.error_s is None else f"±{row.error_s:.2f}" for row in rows]
    yield from table_lines(
        [
            Column("Time", [row.name for row in rows], right=False),
            Column("Sampled Secs", sampled),
            Column("Accounted Secs", [f"{row.accounted_s:.2f}" for row in rows]),
            Column("Difference", [_difference(row.difference_s) for row in rows]),
            Column("Explained", explained),
            Column("Accounted by", [f"{row.source}{_verdict(row)}" for row in rows], right=False),
        ]
    )
    unsampled_s = max(row.unsampled_s for row in rows)
    if unsampled_s >= _LEAST_TOLD_S:
        yield (
            f"Samples are missing for {unsampled_s:.2f} CPU seconds (lost, throttled, missing while"
            " busy, not watched): sampled times may be too short by as much."
        )
    by_books = [row.unbooked_s for row in rows if row.is_of_books]
    if by_books:
        than = "less" if by_books[0] > 0 else "more"
        yield (
            f"Books: /proc/stat has {abs(by_books[0]):.2f} Sec {than} than the CPUs had,"
            " which explains these differences; sampling may be right."
        )
    if any(row.agrees is False for row in rows):
        yield style.warning(
            "Beyond: neither sampling errors nor the kernel's books explain this difference."
        )
    yield ""


def _verdict(row: Agreement) -> str:
    return "  books" if row.is_of_books else _VERDICTS[row.agrees]


def _difference(seconds: float | None) -> str:
    # Rounded first: what rounds to nothing has no sign.
    return NO_TIME if seconds is None else f"{round(seconds, 2) + 0.0:+.2f}"
