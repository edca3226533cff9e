"""A condition on a change, `--fail-if`: ``slower by 3% at 95%`` and its like → a `Condition`.

docs/diff.md defines the text. The command line checks it before numpy is loaded, so nothing heavy
is imported.
"""

from __future__ import annotations

import re
from typing import Literal, cast

from prospect.errors import UsageError
from prospect.records import Record

Direction = Literal["slower", "faster", "different"]
Kind = Literal["", "process", "object", "routine"]

_FORM = re.compile(
    r"(slower|faster|different) +by +(\d{1,6}(?:\.\d{1,9})?) *%"
    r"(?: +at +(\d{1,2}(?:\.\d{1,9})?) *%)?"
    r"(?: +in +(?:(process|object|routine) +)?(\S.*))?",
    re.ASCII | re.DOTALL,
)
_HOW = "give 'slower by 3%', 'faster by 5% at 99%' or 'different by 2% at 95% in NAME'"
_DEFAULT_CONFIDENCE = 0.95


class Condition(Record):
    """`--fail-if`, understood.

    Attributes:
        direction: "slower" is more time in B than in A.
        limit: the change that is still allowed, as a part of A's time.
        confidence: how sure the answer must be, 0.5 to 1.
        kind: what `name` is of, "" for whichever has it: a process, else an object, else a routine.
        name: what it is about, "" for everything that is compared.
    """

    text: str
    direction: Direction
    limit: float
    confidence: float
    kind: Kind
    name: str


def parse_condition(text: str) -> Condition | None:
    """Understand `--fail-if`; None for "".

    Raises:
        UsageError: it is not of that form.
    """
    text = text.strip()
    if not text:
        return None
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(_HOW)
    direction, percent, confidence, kind, name = found.groups()
    limit = float(percent) / 100.0
    sure = float(confidence) / 100.0 if confidence else _DEFAULT_CONFIDENCE
    if direction != "slower" and limit >= 1.0:
        raise UsageError("nothing gets faster by 100% or more: only slower takes such a limit")
    if not 0.5 < sure < 1.0:
        raise UsageError("give a confidence between 50% and 100%")
    return Condition(
        text, cast("Direction", direction), limit, sure, cast("Kind", kind or ""), name or ""
    )
