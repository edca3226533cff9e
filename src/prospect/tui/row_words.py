"""A row's figures in words: what it takes and how sure that is, or how it waited."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.tui.columns import bar_digits

if TYPE_CHECKING:
    from prospect.tui.columns import Scale
    from prospect.tui.rows import Row


def interval_words(row: Row, scale: Scale, *, is_short: bool = False) -> str:
    """Say a row's time and how sure it is, in words; `is_short` for a narrow screen."""
    percent = 100.0 / scale.span_s
    digits = bar_digits(row.half_width_s * percent)
    if not math.isnan(row.blocked_s):
        return _waiting_words(row, percent)
    if math.isnan(row.seconds):
        return "called the row above"
    share = f"{row.seconds * percent:.{digits}f} % of a CPU"
    if math.isnan(row.half_width_s):
        return share
    if is_short:
        return f"{row.seconds * percent:.{digits}f} % ± {row.half_width_s * percent:.{digits}f}"
    low, high = (max(row.seconds + sign * row.half_width_s, 0.0) * percent for sign in (-1, 1))
    return f"{share}, 95 % sure: {low:.{digits}f} to {high:.{digits}f}"


def _waiting_words(row: Row, percent: float) -> str:
    """Say how long a row was blocked and, of threads, what else they did."""
    blocked = f"blocked {row.blocked_s * percent:.1f} % of the time"
    if math.isnan(row.seconds):
        return blocked
    ran, ready = row.seconds * percent, row.ready_s * percent
    return f"{blocked}, ran {ran:.1f} %, waited for a CPU {ready:.1f} %"
