"""The result of a comparison: every format shows these figures and computes none.

docs/diff.md explains them. `compared_sides` makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record

if TYPE_CHECKING:
    from prospect.estimate.compare.changes import ChangeTable, Verdict
    from prospect.estimate.compare.compared_stacks import ComparedStacks
    from prospect.estimate.compare.compared_turns import ComparedWall, TurnChange
    from prospect.estimate.compare.option_texts import Work
    from prospect.estimate.compare.unnamed_samples import UnnamedSamples
    from prospect.estimate.compare.variation import Variation
    from prospect.options import Detail
    from prospect.profile.run_info import RunInfo


class CompareOptions(Record):
    """The options of a comparison.

    Attributes:
        scope: `-V`: "2" the command, "3" its descendants too, "4" every process, "k" the kernel.
        per: `--per`: "run", "second", a count of work; "" for the default of the recordings.
        fdr: `--fdr`: how many of the rows marked significant may be wrong, 0 to 1.
        run_variation: `--run-variation`: how much a row differs from run to run, as a part of its
            time, if no side has several recordings.
        fail_if: `--fail-if`: a condition to judge, "" for none.
        stacks: whether call stacks are compared too, for the formats that show them.
        inclusive: whether functions are compared with all that they call too, if every recording
            has callers in user space.
    """

    scope: Detail = "3"
    per: str = ""
    fdr: float = 0.05
    run_variation: float = 0.05
    fail_if: str = ""
    stacks: bool = False
    inclusive: bool = False


class ComparedRecording(Record):
    """One recording of a side, with the hits, seconds and work of its compared part."""

    run: RunInfo
    hits: int
    seconds: float
    work: float
    other_load: float


class Comparison(Record):
    """Every figure of a comparison.

    Attributes:
        options: of the user; `scope` is the one shown.
        before, after: the recordings of A and of B.
        total: one row, of everything compared, tested by itself.
        modes: the same by mode.
        processes, objects, functions: all rows; each table adds up to the total.
        tested: how many rows were tested together.
        load_allowance: the part of an assumed variation for other load, of A and of B.
        verdict: None without a condition.
        stacks: the call stacks of both sides; None if not requested.
        inclusive: functions with all that they call, their own family of tests; None if not
            requested, or if a recording has no callers.
        wall: changes of the command's wall time; None unless all recordings have switches.
        unnamed: the samples without names; None if they are few.
    """

    options: CompareOptions
    before: tuple[ComparedRecording, ...]
    after: tuple[ComparedRecording, ...]
    work: Work
    total: ChangeTable
    modes: ChangeTable
    processes: ChangeTable
    objects: ChangeTable
    functions: ChangeTable
    tested: int
    variation: Variation
    load_allowance: tuple[float, float]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    verdict: Verdict | None
    stacks: ComparedStacks | None = None
    inclusive: ChangeTable | None = None
    wall: ComparedWall | None = None
    turns: tuple[TurnChange, ...] = ()
    unnamed: UnnamedSamples | None = None
