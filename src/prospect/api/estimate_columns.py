"""Return estimates as columns for a data frame: classes of hits side by side, and wall time."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from prospect.errors import UsageError
from prospect.estimate.breakdown import EVENT, MOST_COLUMNS, class_columns
from prospect.estimate.finished_report import Report
from prospect.estimate.turn_account import TurnRow
from prospect.estimate.wall_account import WallRow
from prospect.figures.report.report_view import ReportView
from prospect.profile.model import NO_PATH, NO_TURNS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from prospect.options import Detail
    from prospect.profile.model import Profile


def columns_table(
    profile: Profile, dimension: str, keys: Sequence[str], detail: str
) -> dict[str, NDArray[Any]]:
    """Return the table of `Profile.columns_table`; raises as that."""
    with ReportView(profile, cast("Detail", detail), 0.0, 0.0) as view:
        tables = class_columns(view, dimension, keys, MOST_COLUMNS)
    found: dict[str, NDArray[Any]] = {}
    if dimension != EVENT:
        events = [table.events[0].name for table in tables for _ in range(len(table))]
        found["event"] = np.array(events, object)
    for at, key in enumerate(keys):
        names = [name for table in tables for name in table.names[at]]
        found[key] = np.array(names, object)
    for at, name in enumerate(tables[0].classes):
        for figure, column in (
            ("samples", [table.hits[:, at] for table in tables]),
            ("seconds", [table.seconds[:, at] for table in tables]),
            ("error_seconds", [table.half_width_s[:, at] for table in tables]),
            ("share", [table.share[:, at] for table in tables]),
        ):
            found[f"{dimension} {name} {figure}"] = np.concatenate(column)
    return found


def wall_table(profile: Profile) -> dict[str, NDArray[Any]]:
    """Return the table of `Profile.wall_table`; raises as that."""
    with Report(profile) as report:
        account = report.wall
    if account is None:
        raise UsageError(NO_PATH)
    return _columns(account.rows, WallRow._fields)


def turn_parts_table(profile: Profile, detail: str) -> dict[str, NDArray[Any]]:
    """Return the table of `Profile.turn_parts_table`; raises as that."""
    with Report(profile, cast("Detail", detail)) as report:
        account = report.turns
    if account is None:
        raise UsageError(NO_TURNS)
    kinds = [kind for kind in account.kinds for _ in kind.rows]
    return {
        "of_program": np.array([kind.program for kind in kinds], object),
        "of_kind": np.array([kind.kind for kind in kinds], object),
        "turns": np.array([kind.turns for kind in kinds], np.int64),
        **_columns([row for kind in account.kinds for row in kind.rows], TurnRow._fields),
    }


def _columns(
    rows: Sequence[WallRow] | Sequence[TurnRow], fields: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    titles = {"half_width_s": "error_seconds", "longest_s": "longest_seconds"}
    columns = {name: [getattr(row, name) for row in rows] for name in fields}
    return {
        titles.get(name, name): np.array(
            column, object if any(isinstance(one, str) for one in column[:1]) else None
        )
        for name, column in columns.items()
    }
