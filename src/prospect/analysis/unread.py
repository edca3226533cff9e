"""Records of a recording that were not understood → a sentence for whoever asked for a profile."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.errors import UnreadRecordsWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.events.columns import Events


def tell_unread(origin: str, events: Events, tell: Callable[[str], None] | None) -> None:
    """Say how much was not read and why; as a warning of Python's where nobody is to be told.

    Args:
        origin: the recording.
        events: its decoded records.
        tell: takes the sentence.
    """
    why = "; ".join(reason.removeprefix(f"{origin}: ") for reason in events.damage)
    sentence = (
        f"{origin}: {counted(events.unread_bytes, 'byte')} of records were not read, the rest in"
        f" full ({why}): copy the recording again if this is a copy, record again if it is none, or"
        " use the perf that wrote it"
    )
    if tell is None:
        warnings.warn(sentence, UnreadRecordsWarning, stacklevel=3)
    else:
        tell(sentence)
