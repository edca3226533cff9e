"""What a report says about its error bars: what they assume, what is marked, what would help.

Comes in: the view of an event, how it was sampled, and its estimates. Goes out: sentences, each
complete in itself, with what to do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.statistics.ranks import separation_sentence
from prospect.figures.portions import PORTION_COUNT, PORTION_USER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.row_estimates import RowEstimates
    from prospect.figures.report.view import EventView

_FIRST_ROWS = 3
_NORMAL = 1.96


def estimate_sentences(
    event: EventView, design: Design, tables: Mapping[str, RowEstimates]
) -> tuple[str, ...]:
    """Return what to say about the error bars of one event; nothing where it has none."""
    if not design.has_time:
        return ()
    if not design.has_bars:
        name = design.event.name
        return (f"The profile does not say how {name} was sampled: its times have no ±.",)
    sentences = [_assumption(design), _speed(design), _alarm(tables)]
    kept = event.processes.kept_rows[:_FIRST_ROWS] * PORTION_COUNT + PORTION_USER
    sentences.append(_separation(tables["processes"].rows(kept), "processes by user time"))
    for process in event.detailed[:1].tolist():
        group = process * PORTION_COUNT + PORTION_USER
        start = int(event.routines.start[group])
        end = min(int(event.routines.start[group + 1]), start + _FIRST_ROWS)
        name = event.report.profile.processes.name[process]
        what = f"routines of {name} in user mode"
        sentences.append(_separation(tables["routines"].rows(slice(start, end)), what))
    return tuple(sentence for sentence in sentences if sentence)


def _assumption(design: Design) -> str:
    if design.sees_rhythm:
        return ""
    if design.ticks is not None:
        return (
            "One clock took the samples: error bars hold for programs that are not in step with "
            "it, and one that is cannot be noticed (--clocks 4 takes four, from -H 10 on)."
        )
    return (
        "The samples are not on the grid of a known clock: "
        "error bars assume that they fell at random times of the program."
    )


def _speed(design: Design) -> str:
    event = design.event
    if not (event.weighs_periods and event.seconds_per_period > 0):
        return ""
    mhz = 1e-6 / event.seconds_per_period
    words = (
        f"Samples of {event.name} represent different numbers of cycles: shares are of cycles, and "
        f"times take {mhz:.0f} million a second"
    )
    if not event.relative_error > 0:
        return f"{words}."
    return f"{words} (± {100.0 * _NORMAL * event.relative_error:.1f}%), as counted between samples."


def _alarm(tables: Mapping[str, RowEstimates]) -> str:
    marked = sum(int(np.count_nonzero(table.in_step)) for table in tables.values())
    if not marked:
        return ""
    return (
        "Marked rows run in step with one of the clocks, which the other clocks do not confirm: "
        "their error bars allow for it; another rate (-H) narrows them."
    )


def _separation(rows: RowEstimates, what: str) -> str:
    shown = ~np.isnan(rows.half_width_s) & (rows.seconds > 0)
    is_alike = rows.like_above & shown
    return separation_sentence(is_alike[shown], rows.needed_s[shown], what)
