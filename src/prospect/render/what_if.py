"""How long a command would take after changes: the text and the JSON of `prospect whatif`.

docs/waiting.md describes both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.render.escape import escaped
from prospect.render.json.document_fields import (
    FLAG,
    GENERATOR,
    NUMBER,
    ROUNDED,
    SECONDS,
    TEXT,
    Object,
    document,
    each,
    schema,
)
from prospect.render.name_parts import short_names
from prospect.render.renderer import encoded
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.what_if_times import WhatIf

WHAT_IF = Object(
    "what_if",
    schema=schema("prospect-whatif/1"),
    generator=GENERATOR,
    seconds=SECONDS("that the command took"),
    has_callees=FLAG("whether a function's time is with all that it calls"),
    outcomes=each(
        changes=each(
            name=TEXT("a function, a pattern, or a part of a name"),
            factor=NUMBER("its time is multiplied by"),
        )("made together"),
        cpu_s=SECONDS("CPU time of the functions"),
        saved_s=ROUNDED("how much less they would have"),
        gain_s=ROUNDED("how much sooner the command would end, at most; negative if later"),
        half_width_s=SECONDS("half of the 95 % interval of `gain_s`"),
    )("the largest gain first"),
)
_NAME_WIDTH = 34


def what_if_json(found: WhatIf) -> Iterator[bytes]:
    """Return the answer for programs."""
    return document(WHAT_IF, found)


def what_if_text(found: WhatIf) -> Iterator[bytes]:
    """Return the answer for people."""
    return encoded(_lines(found))


def _lines(found: WhatIf) -> Iterator[str]:
    yield f"The command took {found.seconds:.3f} s."
    if not found.outcomes:
        yield "No sample of it has a function: record for longer, or at a higher rate (-H)."
        return
    is_list = len(found.outcomes) > 1
    callees = " with all that it calls" if found.has_callees else ""
    if is_list:
        yield f"If one function{callees} took half of its time:"
    else:
        yield f"If each function{callees} took so much of its time:"
    yield ""
    names = [
        one.changes[0].name
        if is_list
        else ", ".join(f"{change.name}={change.factor:g}" for change in one.changes)
        for one in found.outcomes
    ]
    yield from table_lines(
        Column(
            "Function" if is_list else "Change",
            short_names([escaped(name) for name in names], _NAME_WIDTH),
            right=False,
        ),
        Column("CPU s", [f"{one.cpu_s:.3f}" for one in found.outcomes]),
        Column("Less", [f"{one.saved_s:.3f}" for one in found.outcomes]),
        Column("Wall s", [f"{found.seconds - one.gain_s:.3f}" for one in found.outcomes]),
        Column("Sooner s", [f"{one.gain_s:.3f}" for one in found.outcomes]),
        Column("±", [f"{one.half_width_s:.3f}" for one in found.outcomes]),
        Column("Sooner", [_share(one.gain_s, found.seconds) for one in found.outcomes]),
    )
    yield ""
    yield "'Wall s' is the least: waits for a CPU, a timer or a device keep their length,"
    yield "and waits that would only then begin to exist are not known."


def _share(gain_s: float, seconds: float) -> str:
    return f"{100.0 * gain_s / seconds:.1f} %" if seconds else "-"
