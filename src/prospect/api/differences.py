"""The Python interface of comparisons: `diff` two recordings, or two sides of several.

Every option of ``prospect diff`` is a keyword here. Documented in docs/python.md and docs/diff.md.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.analysis.profile_request import Callbacks, ProfileRequest
from prospect.announcing import silent
from prospect.api import recorded_profile as api
from prospect.api.keywords import AnnouncedOptions, as_text, method_takes, returned_report, takes
from prospect.errors import UsageError
from prospect.estimate.compare import comparison as model
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.flat_tables import as_unicode
from prospect.figures.modes import MODE_NAMES
from prospect.options import ComparingOptions, DifferenceOptions, NamingOptions, needed, option
from prospect.profile.model import Profile
from prospect.records import asdict, project, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.announcing import Announce
    from prospect.estimate.compare.changes import ChangeTable

    Recordings = str | os.PathLike[str] | Profile | Sequence[str | os.PathLike[str] | Profile]

TABLES = ("processes", "objects", "functions")
_COLUMNS = (
    "change",
    "half_width",
    "relative",
    "relative_low",
    "relative_high",
    "p_value",
    "q_value",
    "significant",
)


class DiffReportRequest(DifferenceOptions):
    """Arguments of `Difference.report`."""

    output: str = option(default="", doc='a file, "" for none')


class Difference(model.Comparison):
    """A comparison with its tables as columns, or as the report.

    `notes` says what the figures cannot show, and `verdict` is the answer to `fail_if`. Times are
    seconds per unit of work: a run, a second, or what `per` counts.
    """

    def table(self, name: str = "functions") -> dict[str, NDArray[Any]]:
        """Return a table as columns, all of its rows: significant ones first, by their change.

        The columns are equally long numpy arrays: `name`, `object`, `mode`, `a` and `b` (seconds of
        each side), `samples_a`, `samples_b`, `change` with its `half_width` (of the 95 %
        interval), `relative`, `relative_low`, `relative_high`, `p_value`, `q_value` and
        `significant`.

        Args:
            name: "processes", "objects" or "functions"; with `stacks` and recordings that have
                them also "inclusive", functions with all that they call.

        Raises:
            UsageError: there is no such table.
        """
        known = TABLES if self.inclusive is None else (*TABLES, "inclusive")
        if name not in known:
            raise UsageError(f"no table '{name}'; there are {', '.join(known)}")
        table: ChangeTable = getattr(self, name)
        columns: dict[str, NDArray[Any]] = {"name": _text(table.name)}
        if name in ("functions", "inclusive"):
            columns["object"] = _text(table.object)
        if name != "inclusive":
            columns["mode"] = _text(MODE_NAMES).take(table.mode)
        for side, letter in enumerate("ab"):
            columns[letter] = table.mean[:, side]
        for side, letter in enumerate("ab"):
            columns[f"samples_{letter}"] = table.hits[:, side]
        return columns | {column: getattr(table, column) for column in _COLUMNS}

    @method_takes(DiffReportRequest)
    def report(self, asked: DiffReportRequest) -> str:
        """Return the report as the command line writes it; write it to the file `output` as well.

        Raises:
            UsageError: there is no such format.
            RenderError: the file cannot be written.
        """
        from prospect.render.diff_registry import diff_writer

        write = diff_writer(asked.format, asked.rows)
        return as_text(returned_report(asked.output, lambda: partial(write, self)))

    def __repr__(self) -> str:
        before, after = self.total.mean[0].tolist() if len(self.total) else (0.0, 0.0)
        marked = sum(int(table.significant.sum()) for table in self._tables())
        return (
            f"<prospect.Difference: {before:.4g} s in A, {after:.4g} s in B per {self.work.unit}, "
            f"significant rows: {marked}>"
        )

    def _repr_html_(self) -> str:
        from prospect.render.notebook import comparison_cell

        return comparison_cell(self)

    def _tables(self) -> tuple[ChangeTable, ...]:
        return self.processes, self.objects, self.functions


class DiffRequest(ComparingOptions, NamingOptions, AnnouncedOptions):
    """Arguments of `diff`."""

    before: Recordings = needed(
        kw_only=False, doc="the recordings of A: a perf.data file or a Profile, or several"
    )
    after: Recordings = needed(kw_only=False, doc="the recordings of B")
    scope: str | int = option(  # type: ignore[assignment]  # checked by `compare`
        default="3"
    )
    stacks: bool = option(
        default=False,
        doc="whether call stacks are compared too, for the flame graph of the page and the table "
        '"inclusive"',
    )


@takes(DiffRequest)
def diff(asked: DiffRequest) -> Difference:
    """Compare two recordings, or two sides of several recordings each.

    Raises:
        UsageError: a keyword has no meaning, or does not fit the recordings.
        RecordingError: a recording cannot be read, or holds no time.
    """
    options = asdict(project(asked, ComparingOptions)) | {"scope": str(asked.scope)}
    compared = model.CompareOptions(**options, stacks=asked.stacks, inclusive=asked.stacks)
    return diff_by(asked.before, asked.after, compared, asked, Callbacks(asked.announce))


def diff_by(
    before: Recordings,
    after: Recordings,
    asked: model.CompareOptions,
    naming: NamingOptions,
    sinks: Callbacks,
) -> Difference:
    """Compare as `diff` does, with options of naming that are not its keywords."""
    wanted = ProfileRequest(stacks=asked.stacks or asked.inclusive, waits=True, turns=True)
    first, second = _profiles((_listed(before), _listed(after)), naming, wanted, sinks)
    (sinks.announce or silent)("comparing")
    return Difference(**asdict(compare(first, second, asked)))


def _listed(side: Recordings) -> list[str | os.PathLike[str] | Profile]:
    return [side] if isinstance(side, (str, bytes, os.PathLike, Profile)) else list(side)


def _profiles(
    sides: Sequence[Sequence[str | os.PathLike[str] | Profile]],
    naming: NamingOptions,
    wanted: ProfileRequest,
    sinks: Callbacks,
) -> list[list[Profile]]:
    """Read the recordings of each side; announce the number of each."""
    count = sum(map(len, sides))
    number = 0
    profiles: list[list[Profile]] = []
    for side in sides:
        profiles.append([])
        for item in side:
            number += 1
            if not isinstance(item, Profile):
                which = f"recording {number} of {count}"
                of_one = replace(sinks, announce=_of_recording(which, sinks.announce or silent))
                item = api.read(os.fsdecode(item), naming, wanted, of_one)  # noqa: PLW2901 - opened in place
            profiles[-1].append(item)
    return profiles


def _of_recording(which: str, announce: Announce) -> Announce:
    return lambda news: announce(f"{which}: {news}")


def _text(names: Sequence[str]) -> NDArray[np.object_]:
    column = np.empty(len(names), dtype=object)
    column[:] = [as_unicode(name) for name in names]
    return column
