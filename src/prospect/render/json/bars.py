"""The fields of error bars: what is known about the error of a time, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.render.encoding import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from prospect.estimate.errors.event_estimates import RowEstimates


def bar_fields(estimates: RowEstimates, row: int) -> dict[str, float]:
    """Return the error bar of one row; NaN for what is not known."""
    return {
        "error_s": rounded(estimates.half_width_s[row]),
        "low_s": rounded(estimates.low_s[row]),
        "high_s": rounded(estimates.high_s[row]),
    }


def row_fields(
    estimates: RowEstimates, late: NDArray[np.float64] | None
) -> Iterator[dict[str, Any]]:
    """Yield the error bar, the marks and the late share of each row of a table of routines."""
    for row in range(len(estimates)):
        yield {
            **bar_fields(estimates, row),
            "like_above": bool(estimates.like_above[row]),
            "in_step": bool(estimates.in_step[row]),
            "late_share": None if late is None else float(late[row]),
        }
