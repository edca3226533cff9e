"""Filters of samples by process, thread, CPU, object, function, entry reason and time."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.forests import levels
from prospect.dimensions import WORDS
from prospect.errors import UsageError
from prospect.figures.function_choice import functions_named
from prospect.figures.hit_keys import HitColumns
from prospect.figures.processes import chosen_hits
from prospect.figures.remarks import no_sample_left, nothing_chosen
from prospect.figures.sample_filter import names_of
from prospect.figures.shown_rows import function_names
from prospect.profile.model import NO_CPU
from prospect.records import Record
from prospect.spelling import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.columns.array_types import Bools
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.options import Detail
    from prospect.profile.model import Profile


class SampleChoice(Record):
    """The filters of a user; "" and None keep everything.

    Names may be patterns, as ``cc1*``; those of functions also parts of them.

    Attributes:
        detail: `-V`.
        process, thread: a name or number.
        cpus: numbers of CPUs.
        objects: the object that was hit, its path or the last part of it.
        function: the function that was hit.
        through: a function anywhere on the stack.
        entry_reason: why the CPU was in the kernel: a kind, as ``interrupt``, or a name within a
            kind, as ``read`` or ``page fault``.
        between_s: from when to when, in seconds since the interval began.
    """

    detail: Detail = "3"
    process: str = ""
    thread: str = ""
    cpus: tuple[int, ...] | None = None
    objects: str = ""
    function: str = ""
    through: str = ""
    entry_reason: str = ""
    between_s: tuple[float, float] | None = None


def choose_samples(samples: StackSamples, choice: SampleChoice) -> Bools:
    """Return bool[n]: the samples that pass every filter.

    Raises:
        UsageError: a name without a match, or a filter that the recording lacks the data for.
    """
    chosen = chosen_hits(samples.profile, choice.detail).take(samples.hit_index)
    for _, passes in _filters(samples, choice):
        chosen &= passes
    return chosen


def why_nothing(samples: StackSamples, choice: SampleChoice) -> str:
    """Return which samples there are instead if none passes, and the option that shows them."""
    asked_for = chosen_hits(samples.profile, choice.detail).take(samples.hit_index)
    filters = _filters(samples, choice)
    if not (filters and asked_for.any()):
        return nothing_chosen(samples.profile, choice.detail)
    found = []
    for left_out, (name, _) in enumerate(filters):
        others = [passes for row, (_, passes) in enumerate(filters) if row != left_out]
        chosen = np.logical_and.reduce([asked_for, *others])
        found.append((name, int(samples.count[chosen].sum())))
    everywhere = np.logical_and.reduce([passes for _, passes in filters])
    return no_sample_left(choice.detail, found, int(samples.count[everywhere].sum()))


def _filters(samples: StackSamples, choice: SampleChoice) -> list[tuple[str, Bools]]:
    """Return the filters that were given, as they are typed, and bool[n] the samples that pass."""
    found = []
    if choice.process:
        passes = _called(samples, "process", choice.process, ("image", "tgid"))
        found.append((f"--process {choice.process}", passes))
    if choice.thread:
        passes = _called(samples, "thread", choice.thread, ("comm", "tid"))
        found.append((f"--thread {choice.thread}", passes))
    if choice.cpus is not None:
        if len(samples) and (samples.cpu == NO_CPU).all():
            raise UsageError(
                "this recording does not say on which CPU samples were taken: no --cpu"
            )
        listed = ",".join(map(str, choice.cpus))
        found.append((f"--cpu {listed}", np.isin(samples.cpu, choice.cpus)))
    if choice.between_s is not None:
        begin_s, end_s = choice.between_s
        passes = _between(samples, begin_s, end_s)
        found.append((f"--between {begin_s:g},{end_s:g}", passes))
    if choice.objects:
        passes = _called(samples, "object", choice.objects, ("lib-image",))
        found.append((f"--object {choice.objects}", passes))
    if choice.function:
        of_function = functions_called(samples.profile, choice.function)
        passes = of_function.take(HitColumns(samples.profile).function).take(samples.hit_index)
        found.append((f"--function {choice.function}", passes))
    if choice.entry_reason:
        passes = _called(samples, "entry reason", choice.entry_reason, ("reason",))
        found.append((f"--reason {choice.entry_reason}", passes))
    if choice.through:
        found.append((f"--through {choice.through}", _through(samples, choice.through)))
    return found


def functions_called(profile: Profile, what: str) -> Bools:
    """Return bool[f]: the functions that a name, a pattern or a part of a name matches.

    Raises:
        UsageError: there is none.
    """
    rows = range(len(profile.functions))
    found = functions_named(profile, what)
    known = (name for row in rows for name in function_names(profile, row)[-1:])
    _must_be_some(found.tolist(), "function", what, known)
    return found


def _called(samples: StackSamples, kind: str, what: str, words: Sequence[str]) -> Bools:
    """Return bool[n]: the samples in which one of some words of specifications matches `what`.

    Raises:
        UsageError: nothing matches.
    """
    found = np.zeros(len(samples), np.bool_)
    known: list[str] = []
    is_some = False
    for word in words:
        names = names_of(samples, WORDS[word])
        if names is None:
            continue
        fits = [
            any(name == what or fnmatchcase(name, what) for name in pair)
            for pair in zip(names.names, names.others, strict=True)
        ]
        found |= np.array(fits, np.bool_).take(names.number)
        is_some |= any(fits)
        known += () if WORDS[word].is_number else (*names.names, *names.others)
    _must_be_some([is_some], kind, what, known)
    return found


def _between(samples: StackSamples, begin_s: float, end_s: float) -> Bools:
    if samples.time_ns is None:
        raise UsageError("samples of this recording have no times: --between cannot choose")
    found = (samples.time_ns >= begin_s * 1e9) & (samples.time_ns < end_s * 1e9)
    if not found.any():
        last_s = float(samples.time_ns.max(initial=0)) * 1e-9
        raise UsageError(
            f"no sample is between {begin_s:g} and {end_s:g} s; the last is at {last_s:.3f} s"
        )
    return found


def _through(samples: StackSamples, what: str) -> Bools:
    profile, stacks = samples.profile, samples.stacks
    function = profile.locations.function_index.take(stacks.location_index)
    found = functions_called(profile, what).take(function)
    for rows in levels(stacks.depth)[1:]:
        found[rows] |= found.take(stacks.caller_index.take(rows))
    return found.take(samples.stack_index)


def _must_be_some(found: Sequence[bool], kind: str, what: str, known: Iterable[str]) -> None:
    if not any(found):
        hint = "" if what.isdigit() else suggestion(what, known, parts=True)
        raise UsageError(f"no {kind} with samples is called '{what}'{hint}")
