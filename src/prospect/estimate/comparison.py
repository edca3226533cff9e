"""What a comparison amounts to: every format shows these figures and computes none.

docs/diff.md says what they mean and what they claim. `compare` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.compared_stacks import ComparedStacks
    from prospect.estimate.matching import Kind
    from prospect.estimate.variation import Variation
    from prospect.estimate.verdict import Verdict
    from prospect.estimate.work import Work
    from prospect.profile.processes import Detail
    from prospect.profile.run_info import RunInfo


@dataclass(frozen=True)
class CompareOptions:
    """What a person may choose about a comparison.

    Attributes:
        scope: `-V`: "2" the command, "3" its descendants too, "4" every process, "k" the kernel.
        per: `--per`: "run", "second", a count of work; "" for what suits the recordings.
        fdr: `--fdr`: how many of the rows marked significant may be wrong, 0 to 1.
        run_variation: `--run-variation`: how much a row differs from run to run, as a part of its
            time, where no side has several recordings to tell.
        fail_if: `--fail-if`: a condition to judge, "" for none.
        stacks: whether call stacks are compared too, for the formats that show them.
    """

    scope: Detail = "3"
    per: str = ""
    fdr: float = 0.05
    run_variation: float = 0.05
    fail_if: str = ""
    stacks: bool = False


@dataclass(frozen=True)
class ComparedRecording:
    """One recording of a side: its facts, and of what is compared the hits, seconds and work."""

    run: RunInfo
    hits: int
    seconds: float
    work: float
    other_load: float


@dataclass(frozen=True)
class ChangeTable:
    """The rows of one kind: significant ones first, by the size of their change, then by time.

    Rows with too few hits to be tested come last.

    Times are seconds per unit of work. NaN stands for what does not exist.

    Attributes:
        kind: "total", "portion", "process", "object" or "routine".
        name, object: list[str]; "" for a routine without a name, and where there is none.
        portion: i64[r] PORTION_*.
        hits: i64[r, 2] of all recordings of a side.
        mean: f64[r, 2] time of A and of B.
        change, half_width: f64[r] B less A, and half the width of its 95 % interval.
        relative, relative_low, relative_high: f64[r] the change as a part of A's time, with its
            interval; infinite where there is no bound.
        p_value, q_value: f64[r] how likely by chance; NaN for rows that are not tested.
        significant: bool[r] whether q_value is within the rate of false discoveries.
    """

    kind: Kind
    name: list[str]
    object: list[str]
    portion: NDArray[np.int64]
    hits: NDArray[np.int64]
    mean: NDArray[np.float64]
    change: NDArray[np.float64]
    half_width: NDArray[np.float64]
    relative: NDArray[np.float64]
    relative_low: NDArray[np.float64]
    relative_high: NDArray[np.float64]
    p_value: NDArray[np.float64]
    q_value: NDArray[np.float64]
    significant: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.name)

    def shown(self, rows: int) -> int:
        """Return how many rows, from the first, a report of `rows` rows a table shows.

        All that are significant; no others with too few hits to be tested.
        """
        tested = int(np.count_nonzero(~np.isnan(self.p_value)))
        return max(int(np.count_nonzero(self.significant)), min(rows, tested))


@dataclass(frozen=True)
class Comparison:
    """Every figure of a comparison.

    Attributes:
        options: what was asked for; `scope` is what is shown.
        before, after: the recordings of A and of B.
        work: what times are per.
        total: one row, of everything compared; not among the rows tested together.
        portions: the same by portion.
        processes, objects, routines: the rows, all of them; each table adds up to the total.
        tested: how many rows were tested together.
        variation: how much runs differ.
        load_allowance: what of an assumed variation stands for other load, of A and of B.
        notes: what this comparison claims and cannot know.
        warnings: what was lost or damaged.
        verdict: the condition's; None where none was given.
        stacks: the call stacks of both sides; None where they were not asked for.
    """

    options: CompareOptions
    before: tuple[ComparedRecording, ...]
    after: tuple[ComparedRecording, ...]
    work: Work
    total: ChangeTable
    portions: ChangeTable
    processes: ChangeTable
    objects: ChangeTable
    routines: ChangeTable
    tested: int
    variation: Variation
    load_allowance: tuple[float, float]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    verdict: Verdict | None
    stacks: ComparedStacks | None = None
