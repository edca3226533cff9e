"""The Python interface of counts: `count`, with a keyword for each option of ``prospect stat``.

Documented in docs/python.md and docs/stat.md.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from prospect.api.keywords import takes
from prospect.errors import UsageError
from prospect.options import CountingOptions, option
from prospect.profile.event_counts import EventCounts
from prospect.recording.counting_run import ALONE, FAMILY, SYSTEM, CountOptions, count_events
from prospect.records import asdict, project

if TYPE_CHECKING:
    from collections.abc import Sequence


class Counts(EventCounts):
    """Counts as the Python interface returns them; in a notebook they show as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from prospect.render.notebook import counts_cell

        return counts_cell(self)


class CountRequest(CountingOptions):
    """Arguments of `count`."""

    command: str | Sequence[str] = option(
        default=(), kw_only=False, doc="its words; a string is split as a shell would, without one"
    )
    events: Sequence[str] = option(default=())  # type: ignore[assignment]  # kept as a tuple
    pids: Sequence[int] = option(default=())  # type: ignore[assignment]  # kept as a tuple
    cpus: Sequence[int] | None = option(default=None)  # type: ignore[assignment]  # kept as a tuple


@takes(CountRequest)
def count(asked: CountRequest) -> Counts:
    """Count events while a command runs, or until processes end, and return the counts.

    The result has `runs`; of each, `counts` has a count for each event with its `estimate`, scaled
    to the whole time, and `running_share`, the share of the time that it had a counter.
    `intervals` has the parts.

    Raises:
        UsageError: keywords that contradict each other, or an unknown event.
        CommandError: the command cannot be started.
        CaptureError: an event cannot be counted; the message says what to do.
    """
    command = asked.command
    words = shlex.split(command) if isinstance(command, str) else command
    if asked.scope not in (ALONE, FAMILY, SYSTEM):
        raise UsageError(f"count: scope is '2', '3' or '4', not {asked.scope!r}")
    chosen = asdict(project(asked, CountingOptions))
    many = {name: tuple(chosen[name]) for name in ("events", "pids")}
    cpus = None if asked.cpus is None else tuple(asked.cpus)
    order = CountOptions(**{**chosen, **many, "cpus": cpus}, command=tuple(words))
    return Counts(*count_events(order))
