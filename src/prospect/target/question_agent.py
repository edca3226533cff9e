"""Answers questions on the target that need no recording: counts, the doctor's diagnosis, events.

As each interval of counts ends, a line of JSON is appended to the file that the relay sends.
"""

from __future__ import annotations

import json
import os

from prospect.records import asdict
from prospect.target.serving import Served, serve, with_tuples

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from prospect.profile.event_counts import CountedEvent, CountInterval

COUNTS, DIAGNOSIS, EVENTS = "counts", "diagnosis", "events"


def main(held: list[int]) -> int:
    """Answer the question in the request; return the status of COMMAND, or 0."""
    return serve(held, _answer)


def _answer(served: Served) -> tuple[Any, int]:
    question = served.wanted.pop("question")
    if question == COUNTS:
        return _counts(served)
    if question == DIAGNOSIS:
        from prospect.recording.diagnosis import examine  # noqa: PLC0415 - of its question alone

        diagnosis = examine()
        return asdict(diagnosis) | {"checks": [asdict(one) for one in diagnosis.checks]}, 0
    from prospect.capture.events.event_listing import check_event, list_events  # noqa: PLC0415 - of its question alone

    events, limits = list_events(served.wanted["pattern"], with_fields=served.wanted["fields"])
    checks = [
        check_event(one) if served.wanted["check"] and one.can_be_opened else None for one in events
    ]
    return [events, limits, checks], 0


def _counts(served: Served) -> tuple[Any, int]:
    from prospect.recording.counting_run import CountOptions, count_events  # noqa: PLC0415 - of its question alone

    def write(events: tuple[CountedEvent, ...], interval: CountInterval) -> None:
        os.write(served.output, json.dumps([events, interval]).encode("ascii") + b"\n")

    is_live = served.wanted.pop("is_live")
    options = CountOptions(**with_tuples(served.wanted))
    found = count_events(options, write if is_live else None)
    return found, found.exit_status
