"""The JSON of `prospect whatif`: how long a command would take after changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from prospect.render.renderer import write_pieces

if TYPE_CHECKING:
    from typing import BinaryIO

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


class JsonWhatIf:
    """The answer for programs."""

    def render(self, found: WhatIf, out: BinaryIO) -> None:
        """Write the document to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
        """
        write_pieces(document(WHAT_IF, found), out)
