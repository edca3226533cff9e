"""The functions of a profile to annotate: the hottest, or those that a user names.

A name, a pattern or a part of a name names functions.
"""

from __future__ import annotations

import operator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.errors import UsageError
from prospect.figures.modes import ROUNDING_S, event_has_time, event_seconds, event_weight
from prospect.figures.processes import chosen_hits
from prospect.figures.shown_rows import function_names
from prospect.figures.stacks.frames import KERNEL_KINDS
from prospect.profile.complete import complete
from prospect.profile.naming import SHORT_REMEDIES, NameSource
from prospect.records import NamedTuple, Record
from prospect.spelling import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I32, I64, Bools
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile

# Shorter parts are in too many names.
_LEAST_LETTERS_OF_A_PART = 3
# A smaller share of samples without a name is no likely cause.
_LEAST_UNNAMED = 0.05
# Whole names first, then patterns.
_WAYS = (operator.eq, fnmatchcase)


def functions_named(profile: Profile, what: str) -> Bools:
    """Return bool[f]: the functions that `what` names.

    These have this name. If there are none, they match it as a pattern. If there are none either,
    it is a part of their names.
    """
    names = [function_names(profile, row) for row in range(len(profile.functions))]
    return _called(names, profile.functions.name, what)


def inlined_called(names: Sequence[str], what: str) -> Bools:
    """Return bool[n]: the inlined functions that `what` names, as in `functions_named`."""
    return _called([[name, name.partition("(")[0]] for name in names], names, what)


def _called(names: Sequence[list[str]], shown: Sequence[str], what: str) -> Bools:
    for agrees in _WAYS:
        found = _agreeing(names, what, agrees)
        if found.any():
            return found
    return _with_part(shown, what)


def _agreeing(
    names: Iterable[Iterable[str]], what: str, agrees: Callable[[str, str], bool]
) -> Bools:
    return np.array([any(agrees(name, what) for name in known) for known in names], np.bool_)


def _with_part(names: Sequence[str], part: str) -> Bools:
    if len(part) < _LEAST_LETTERS_OF_A_PART:
        return np.zeros(len(names), np.bool_)
    return np.array([part in name.partition("(")[0] for name in names], np.bool_)


class FunctionChoice(Record):
    """The functions to annotate.

    Attributes:
        what: a function or an image by name or pattern, or a part of a function's name; "" for the
            hottest functions of all.
        detail: `-V`: whose hits count.
        user_threshold_s, kernel_threshold_s: `-m` and `-k`; named functions always pass.
        most: how many functions, unless they are named.
    """

    what: str = ""
    detail: Detail = "3"
    user_threshold_s: float = 0.02
    kernel_threshold_s: float = 0.02
    most: int = 5


def choose_functions(profile: Profile, choice: FunctionChoice) -> I64:
    """Choose functions.

    Returns:
        i64[c] rows of `profile.functions`, by event, the heaviest first.

    Raises:
        UsageError: nothing with hits has that name.
    """
    whole = complete(profile)
    hits = whole.hits
    function = whole.locations.function_index.take(hits.location_index)
    known = len(profile.functions)
    member = chosen_hits(whole, choice.detail) & (function < known)
    count = np.bincount(function[member], hits.count[member], known)[:known]
    has_hits = count > 0
    wanted = _wanted(profile, choice.what, has_hits)
    if choice.what and not (wanted.mask & has_hits).any():
        raise UsageError(_not_found(profile, choice, wanted.mask, count))
    rows: list[int] = []
    for event in distinct(hits.event).tolist():
        at = np.flatnonzero(member & (hits.event == event))
        at = at[wanted.mask.take(function.take(at))]
        rows += _heaviest(whole, choice, function, at, wanted)
    return np.array(list(dict.fromkeys(rows)), np.int64)


class _Wanted(NamedTuple):
    """The requested functions, bool[f], and whether their names, or parts of these, were given."""

    mask: Bools
    is_named: bool
    is_part: bool = False


def _wanted(profile: Profile, what: str, has_hits: Bools) -> _Wanted:
    functions, objects = profile.functions, profile.objects
    if not what:
        return _Wanted(np.ones(len(functions), np.bool_), is_named=False)
    names = [function_names(profile, row) for row in range(len(has_hits))]
    paths = [(path, _basename(path)) for path in objects.path]
    for agrees in _WAYS:
        called = _agreeing(names, what, agrees)
        if (called & has_hits).any():
            return _Wanted(called, is_named=True)
        images = _agreeing(paths, what, agrees)
        of_image = images.take(functions.object_index) if len(images) else called
        if (of_image & has_hits).any():
            return _Wanted(of_image, is_named=False)
    with_part = _with_part(profile.functions.name, what)
    if (with_part & has_hits).any():
        return _Wanted(with_part, is_named=True, is_part=True)
    return _Wanted(called | of_image, is_named=True)


def _basename(path: str) -> str:
    return path.rpartition("/")[2]


def _heaviest(
    profile: CompleteProfile, choice: FunctionChoice, function: I32, at: I64, wanted: _Wanted
) -> list[int]:
    """Return the wanted functions of hits of one event, heaviest first."""
    hits = profile.hits
    if not len(at):
        return []
    event = profile.run.events[int(hits.event[at[0]])]
    rows, group = np.unique(function.take(at), return_inverse=True)
    count = np.bincount(group, hits.count.take(at)).astype(np.int64)
    period = np.bincount(group, hits.period.take(at)).astype(np.int64)
    seconds = event_seconds(event, count, period)
    order = np.lexsort((rows, -count, -event_weight(event, count, period)))
    if not wanted.is_named and event_has_time(event):
        kind = profile.objects.kind.take(profile.functions.object_index.take(rows))
        is_kernel = np.isin(kind, KERNEL_KINDS)
        threshold = np.where(is_kernel, choice.kernel_threshold_s, choice.user_threshold_s)
        order = order[(seconds >= threshold - ROUNDING_S).take(order)]
    if wanted.is_part or not wanted.is_named:
        order = order[: choice.most]
    chosen: list[int] = rows.take(order).tolist()
    return chosen


def _not_found(
    profile: Profile, choice: FunctionChoice, mask: Bools, count: NDArray[np.number]
) -> str:
    """Return why nothing is there to annotate, and a suggestion.

    `count` are the samples of each function.
    """
    if mask.any():
        return f"'{choice.what}' has samples in other processes only: annotate with -V 4"
    functions = profile.functions
    hit = np.flatnonzero(count)
    known = {functions.name[row].partition("(")[0] for row in hit.tolist()}
    known |= {_basename(profile.objects.path[row]) for row in functions.object_index[hit].tolist()}
    hint = suggestion(choice.what, sorted(known), parts=True) or _unnamed(profile, count)
    command = profile.run.command[:1]
    where = f" in the recording of '{command[0]}'" if command else ""
    return f"no function and no image with samples is called '{choice.what}'{where}{hint}"


def _unnamed(profile: Profile, count: NDArray[np.number]) -> str:
    """Return the share of samples without names, and the remedy; "" if it is small."""
    of_source = np.bincount(profile.functions.source, count, max(NameSource) + 1)
    of_reason = of_source[NameSource.NO_STRIPPED :]
    share = of_reason.sum() / max(of_source.sum(), 1)
    if share < _LEAST_UNNAMED:
        return ""
    reason = NameSource(NameSource.NO_STRIPPED + int(of_reason.argmax()))
    return f"; {share:.0%} of samples have no name ({SHORT_REMEDIES[reason]})"
