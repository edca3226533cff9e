"""The texts of `--per` and `--fail-if` → their meaning; docs/diff.md defines them.

`--per` is the unit of times: a run, a second of wall time, or a unit of work. `--fail-if` is a
condition on a change, for automatic tests: ``slower by 3% at 95%`` and the like. The command line
checks both before numpy is loaded, so this imports no slow modules.
"""

from __future__ import annotations

import re
from typing import Literal, cast

from prospect.errors import UsageError
from prospect.records import Record

_HOW_PER = (
    "give run, second, or a count of work such as '1000 requests' or 'A=1000,B=1200 requests'"
)
_LEAST_WORK, _MOST_WORK = 1e-9, 1e18
_COUNTS = re.compile(r"(?:A=)?([\d.e+:]+)(?:,\s*B=([\d.e+:]+))?(?:\s+(\S.*))?", re.ASCII)

Direction = Literal["slower", "faster", "different"]
NamedKind = Literal["", "process", "object", "function"]

_FORM = re.compile(
    r"(slower|faster|different) +by +(\d{1,6}(?:\.\d{1,9})?) *%"
    r"(?: +at +(\d{1,2}(?:\.\d{1,9})?) *%)?"
    r"(?: +in +(?:(process|object|function) +)?(\S.*))?",
    re.ASCII | re.DOTALL,
)
_HOW_FAIL_IF = "give 'slower by 3%', 'faster by 5% at 99%' or 'different by 2% at 95% in NAME'"
_DEFAULT_CONFIDENCE = 0.95


class Work(Record):
    """The unit that times are per.

    Attributes:
        kind: "run", "second" or "count"; "default" until the recordings are known.
        unit: its name.
        before, after: units of each recording of a side; one number is for all of them.
    """

    kind: Literal["default", "run", "second", "count"]
    unit: str
    before: tuple[float, ...] = (1.0,)
    after: tuple[float, ...] = (1.0,)


PER_RUN = Work("run", "run")
PER_SECOND = Work("second", "second")


def parse_work(text: str) -> Work:
    """Parse `--per`; "" leaves the choice to the recordings.

    Raises:
        UsageError: it is none of the forms.
    """
    text = text.strip()
    if text in ("", "run", "second"):
        return {"": Work("default", ""), "run": PER_RUN, "second": PER_SECOND}[text]
    found = _COUNTS.fullmatch(text)
    if found is None or text.startswith("A=") != (found[2] is not None):
        raise UsageError(_HOW_PER)
    before = _numbers(found[1])
    after = _numbers(found[2]) if found[2] is not None else before
    return Work("count", found[3] or "units", before, after)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split(":")))
    except ValueError:
        raise UsageError(_HOW_PER) from None
    if not all(_LEAST_WORK <= number <= _MOST_WORK for number in numbers):
        raise UsageError(f"a count of work is from {_LEAST_WORK:g} to {_MOST_WORK:g}")
    return numbers


def chosen_work(work: Work, *, is_of_runs: bool) -> Work:
    """Return `work`, or the unit that suits the recordings if none was given.

    For a command that is a run; for a system, a second.
    """
    if work.kind != "default":
        return work
    return PER_RUN if is_of_runs else PER_SECOND


class Condition(Record):
    """A parsed `--fail-if`.

    Attributes:
        direction: "slower" is more time in B than in A.
        limit: the change that is still allowed, as a part of A's time.
        confidence: of the answer, 0.5 to 1.
        kind: of `name`, "" for the first that has it: a process, an object, a function.
        name: "" for everything that is compared.
    """

    text: str
    direction: Direction
    limit: float
    confidence: float
    kind: NamedKind
    name: str


def parse_condition(text: str) -> Condition | None:
    """Parse `--fail-if`; None for "".

    Raises:
        UsageError: it is not of that form.
    """
    text = text.strip()
    if not text:
        return None
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(_HOW_FAIL_IF)
    direction, percent, confidence, kind, name = found.groups()
    limit = float(percent) / 100.0
    sure = float(confidence) / 100.0 if confidence else _DEFAULT_CONFIDENCE
    if direction != "slower" and limit >= 1.0:
        raise UsageError("nothing gets faster by 100% or more: only slower takes such a limit")
    if not 0.5 < sure < 1.0:
        raise UsageError("give a confidence between 50% and 100%")
    return Condition(
        text, cast("Direction", direction), limit, sure, cast("NamedKind", kind or ""), name or ""
    )
