"""The JSON of a comparison: every figure of it, under a versioned schema.

docs/diff.md describes its fields and docs/diff.schema.json checks them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.figures.modes import MODE_NAMES
from prospect.profile.model import PATH_STATES, THREADS_OF_TURNS
from prospect.records import NamedTuple
from prospect.render.encoding import significant
from prospect.render.json.common_fields import DETAIL
from prospect.render.json.document_fields import (
    ABSENT,
    AMOUNT,
    COUNT,
    FLAG,
    GENERATOR,
    INTEGER,
    NAME,
    NUMBER,
    ROUNDED,
    SECONDS,
    SHARE,
    TEXT,
    TEXTS,
    Object,
    Rows,
    document,
    each,
    itself,
    numbered,
    one_of,
    present,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.columns.array_types import F64
    from prospect.estimate.compare.changes import ChangeTable
    from prospect.estimate.compare.comparison import Comparison


class _Diff(NamedTuple):
    comparison: Comparison
    rows: int


class _Table(NamedTuple):
    table: ChangeTable
    shown: int

    def rounded(self, name: str) -> F64:
        """Return a column rounded before differences: those of near values are all last digits."""
        column = getattr(self.table, name)[: self.shown].tolist()
        return np.array([significant(one) for one in column], np.float64)

    @property
    def left(self) -> F64:
        """The sums of the rows that are not shown, by side."""
        left: F64 = self.table.mean[self.shown :].sum(axis=0)
        return left


def _column(name: str) -> Callable[[_Table], Any]:
    return lambda rows: getattr(rows.table, name)[: rows.shown]


def _side(name: str, side: int) -> Callable[[_Table], Any]:
    return lambda rows: getattr(rows.table, name)[: rows.shown, side]


RECORDING = Object(
    "recording",
    origin=TEXT("as in [the report](schema.md#run)", "run.origin"),
    command=TEXTS(get="run.command"),
    recorder=TEXT(get="run.recorder"),
    hostname=TEXT(get="run.hostname"),
    os_release=TEXT(get="run.os_release"),
    started_at=NUMBER.or_null(get="run.started_at"),
    wall_seconds=NUMBER.or_null(get="run.wall_seconds"),
    samples=COUNT("of the compared part", "hits"),
    seconds=AMOUNT("of the compared part"),
    work=AMOUNT("the divisor of its times"),
    other_load=SHARE.or_null("the part of the CPUs that everything else took"),
)
ROW = Object(
    "diff_row",
    name=NAME("the row's name, `null` if there is none", _column("name")),
    object=NAME("the object that it is of, or `null`", _column("object")),
    mode=numbered(MODE_NAMES).or_null(
        "the mode, or `null`",
        lambda rows: (
            [None] * rows.shown
            if rows.table.kind in ("total", "inclusive")
            else rows.table.mode[: rows.shown]
        ),
    ),
    samples_a=COUNT("samples of both sides", _side("hits", 0)),
    samples_b=COUNT(get=_side("hits", 1)),
    a=NUMBER("seconds per unit of work of both sides", _side("mean", 0)),
    b=NUMBER(get=_side("mean", 1)),
    change=NUMBER("`b` - `a`, with its interval", lambda rows: rows.rounded("change")),
    low=NUMBER(get=lambda rows: rows.rounded("change") - rows.rounded("half_width")),
    high=NUMBER(get=lambda rows: rows.rounded("change") + rows.rounded("half_width")),
    relative=NUMBER.or_null("the same as a part of `a`", _column("relative")),
    relative_low=NUMBER.or_null(get=_column("relative_low")),
    relative_high=NUMBER.or_null(get=_column("relative_high")),
    p_value=SHARE.or_null("`null` for rows that are not tested", _column("p_value")),
    q_value=SHARE.or_null(get=_column("q_value")),
    significant=FLAG("whether it changed", _column("significant")),
)
TABLE = Object(
    "diff_table",
    b" ",
    significant=COUNT(
        "the number of significant rows", lambda rows: np.count_nonzero(rows.table.significant)
    ),
    skipped=Object(
        "",
        rows=COUNT(get=lambda rows: len(rows.table) - rows.shown),
        a=NUMBER(get=lambda rows: rows.left[0]),
        b=NUMBER(get=lambda rows: rows.left[1]),
    )("how many rows are not listed, and the sums of their `a` and `b`", itself),
    rows=Rows(ROW, by_column=True, in_pieces=True)("the rows", itself),
)
VARIATION = Object(
    "",
    assumed=FLAG("with one recording per side", "variation.assumed"),
    common_a=AMOUNT("of all rows together", lambda of: of.variation.common[0]),
    common_b=AMOUNT(get=lambda of: of.variation.common[1]),
    row=AMOUNT("of each row alone", "variation.row"),
    load_allowance_a=SHARE(
        "if `assumed`, the part of it for other load", lambda of: of.load_allowance[0]
    ),
    load_allowance_b=SHARE(get=lambda of: of.load_allowance[1]),
)
CONDITION = Object(
    "condition",
    text=TEXT("the condition", "condition.text"),
    outcome=one_of(("met", "not met", "undecided"))("what came of it"),
    about=TEXT("the row that it is about"),
    a=NUMBER("its time on both sides", "before"),
    b=NUMBER(get="after"),
    relative=NUMBER.or_null("its change as a part of `a`, with bounds of `confidence`"),
    relative_low=NUMBER.or_null(),
    relative_high=NUMBER.or_null(),
    confidence=NUMBER.within(0.5, 1)("as the condition says", "condition.confidence"),
    recordings_needed=INTEGER.within(1).or_null(
        "how many a side would decide it, or `null`",
        lambda verdict: verdict.recordings_needed or None,
    ),
).or_null


def _table(name: str, *, whole: bool = False) -> Callable[[_Diff], Any]:
    def found(diff: _Diff) -> Any:
        table = getattr(diff.comparison, name)
        if table is None:
            return ABSENT
        return _Table(table, len(table) if whole else table.shown(diff.rows))

    return found


WALL_CHANGE = Object(
    "wall_change",
    a=SECONDS("wall time of both sides"),
    b=SECONDS(),
    rows=each(
        state=one_of(PATH_STATES)("of threads on the critical path"),
        program=NAME("of functions that no sample tells; else `null`"),
        what=NAME("the function, or what blocked threads"),
        ended_by=NAME("a program that is not the command's"),
        a=SECONDS(),
        b=SECONDS(),
        change=ROUNDED(),
        half_width_s=ROUNDED("of the change; 0 for what is exact"),
    )("the largest changes first; they add up to the change of the wall time"),
)
TURN_CHANGE = Object(
    "turn_change",
    program=TEXT("program and kind"),
    kind=TEXT(),
    a_turns=COUNT("number of turns on both sides"),
    b_turns=COUNT(),
    a=SECONDS("mean length of a turn on both sides"),
    b=SECONDS(),
    change=ROUNDED("`b` - `a`"),
    half_width_s=ROUNDED("of the change, if turns are independent"),
    parts=each(
        state=one_of(PATH_STATES)("of the thread"),
        program=TEXT("of the thread"),
        thread=one_of(THREADS_OF_TURNS)("the turn's own or another"),
        what=NAME("the function, or what blocked the thread"),
        a=SECONDS("of a turn on both sides"),
        b=SECONDS(),
        change=ROUNDED(),
        half_width_s=ROUNDED("of the change; 0 for what is exact"),
    )("the largest changes first; they add up to the change of the mean"),
)
DIFF = Object(
    "diff",
    b"\n",
    schema=schema("prospect-diff/1"),
    generator=GENERATOR,
    options=Object(
        "",
        scope=DETAIL("the value of `-V`", "comparison.options.scope"),
        fdr=SHARE(get="comparison.options.fdr"),
        run_variation=SHARE(get="comparison.options.run_variation"),
        rows=COUNT(),
    )("options of the comparison", itself),
    per=Object("", kind=one_of(("run", "second", "count"))("what it is"), unit=TEXT("its name"))(
        "the unit of work", "comparison.work"
    ),
    a=Rows(RECORDING)("the recordings of both sides", "comparison.before"),
    b=Rows(RECORDING)(get="comparison.after"),
    notes=TEXTS("sentences", "comparison.notes"),
    warnings=TEXTS(get="comparison.warnings"),
    tested=COUNT("the number of rows that were tested together", "comparison.tested"),
    variation=VARIATION("variation between runs, as parts of a row's time", "comparison"),
    condition=CONDITION("of `--fail-if`, `null` without", "comparison.verdict"),
    total=TABLE("tables", _table("total", whole=True)),
    modes=TABLE(get=_table("modes", whole=True)),
    processes=TABLE(get=_table("processes")),
    objects=TABLE(get=_table("objects")),
    functions=TABLE(get=_table("functions")),
    inclusive=TABLE(
        "the same for functions with all their callees; `mode` is `null`, and the sums in "
        "`skipped` have no meaning, because rows overlap; only if every recording has callers",
        _table("inclusive"),
        optional=True,
    ),
    wall=WALL_CHANGE(
        "what made the command faster or slower, see [waiting](waiting.md); only if all recordings "
        "have switches",
        lambda diff: present(diff.comparison.wall),
        optional=True,
    ),
    turns=Rows(TURN_CHANGE)(
        "turns of the kinds that both sides have, see [waiting](waiting.md); only if all "
        "recordings have turns",
        lambda diff: diff.comparison.turns or ABSENT,
        optional=True,
    ),
)


def diff_json(comparison: Comparison, rows: int) -> Iterator[bytes]:
    """Return a comparison for programs; see `diff_registry.diff_writer`."""
    return document(DIFF, _Diff(comparison, rows))
