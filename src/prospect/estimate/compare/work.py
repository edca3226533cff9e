"""The unit that a comparison is per: a run, a second of wall time, or a unit of work done.

The times of each recording are divided by its number of units. docs/diff.md defines the text of
`--per`.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal

import numpy as np

from prospect.errors import UsageError
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.profile.model import Profile

_HOW = "give run, second, or a count of work such as '1000 requests' or 'A=1000,B=1200 requests'"
_LEAST, _MOST = 1e-9, 1e18
_COUNTS = re.compile(r"(?:A=)?([\d.e+:]+)(?:,\s*B=([\d.e+:]+))?(?:\s+(\S.*))?", re.ASCII)


class Work(Record):
    """The unit that times are per.

    Attributes:
        kind: "run", "second" or "count"; "default" until the recordings are known.
        unit: what one of it is called.
        before, after: how many each recording of a side did; one number is for all of them.
    """

    kind: Literal["default", "run", "second", "count"]
    unit: str
    before: tuple[float, ...] = (1.0,)
    after: tuple[float, ...] = (1.0,)


PER_RUN = Work("run", "run")
PER_SECOND = Work("second", "second")


def parse_work(text: str) -> Work:
    """Understand `--per`; "" leaves the choice to the recordings.

    Raises:
        UsageError: it is none of the forms.
    """
    text = text.strip()
    if text in ("", "run", "second"):
        return {"": Work("default", ""), "run": PER_RUN, "second": PER_SECOND}[text]
    found = _COUNTS.fullmatch(text)
    if found is None or text.startswith("A=") != (found[2] is not None):
        raise UsageError(_HOW)
    before = _numbers(found[1])
    after = _numbers(found[2]) if found[2] is not None else before
    return Work("count", found[3] or "units", before, after)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split(":")))
    except ValueError:
        raise UsageError(_HOW) from None
    if not all(_LEAST <= number <= _MOST for number in numbers):
        raise UsageError(f"a count of work is from {_LEAST:g} to {_MOST:g}")
    return numbers


def chosen_work(work: Work, *, is_of_runs: bool) -> Work:
    """Return `work`, or what suits the recordings where nothing was asked for.

    A run of the command is a unit of work; what a system does meanwhile goes on with time.
    """
    if work.kind != "default":
        return work
    return PER_RUN if is_of_runs else PER_SECOND


def divisors(
    work: Work, before: Sequence[Profile], after: Sequence[Profile]
) -> NDArray[np.float64]:
    """Return what each recording's times are divided by, f64[n]: A's recordings, then B's.

    Raises:
        UsageError: the counts do not fit the recordings, or a recording has no length.
    """
    if work.kind == "second":
        walls = [profile.run.wall_seconds for profile in (*before, *after)]
        if not all(math.isfinite(wall) and wall > 0 for wall in walls):
            raise UsageError("a recording does not say how long it was: compare with --per run")
        return np.array(walls, np.float64)
    sides = (("A", work.before, before), ("B", work.after, after))
    for name, counts, recordings in sides:
        if len(counts) not in (1, len(recordings)):
            raise UsageError(
                f"--per has {len(counts)} counts for {name}, but {name} has {len(recordings)} "
                f"recording{'s' if len(recordings) > 1 else ''}: give one for all, or one each"
            )
    return np.concatenate(
        [
            np.broadcast_to(np.array(counts, np.float64), len(recordings))
            for _, counts, recordings in sides
        ]
    )
