"""How much of a part of a store was measured, and what was lost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.records import NamedTuple
from prospect.store.file_schema import WHOLE_WINDOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.store.file_schema import Head
    from prospect.store.segment_reading import Part
    from prospect.store.tables import Queries

_MOST_NAMED = 3
# A window may begin that much after the one before it ended.
_SEAM_US = 2 * 10**6
_WORTH_SAYING = 1e-4


class Measured(NamedTuple):
    """The time that was measured.

    Attributes:
        begin_us, end_us: of all windows, in microseconds since 1970.
        measured_us: how long they are together; of several hosts the mean of that, each host
            counted as often as it has CPUs, so that `cpus` times this is all time of CPUs.
        middle_us: when the later half of them begins; 0 if all begin at once.
        hosts: of how many hosts they are.
        cpus: of all of these hosts.
        cpu: i32[c], those that lost samples.
        lost, throttled: i64[c].
        due: ticks that all clocks should have had; never fewer than came.
        seen: of these, those that were recorded or came due on an idle CPU.
        remarks: a sentence for what was not measured, or lost.
    """

    begin_us: int
    end_us: int
    measured_us: int
    windows: int
    middle_us: int
    hosts: int
    cpus: int
    cpu: NDArray[np.int32]
    lost: NDArray[np.int64]
    throttled: NDArray[np.int64]
    due: int
    seen: int
    remarks: list[str]

    @property
    def span(self) -> str:
        """A sentence: from when to when there are windows."""
        if not self.windows:
            return "Nothing was measured in this part."
        windows = pluralize(self.windows, "window")
        if self.hosts > 1:
            windows += f" of {self.hosts} hosts"
        return f"{windows}, from {_clock(self.begin_us)} to {_clock(self.end_us)}."


def measured(engine: Queries, part: Part) -> Measured:
    """Read the accounting of the windows that begin in the span that was asked for.

    Raises:
        EngineError: they cannot be read.
    """
    where = "FROM coverage WHERE t >= ? AND t < ?"
    parameters = [part.chosen.since_us, part.chosen.until_us]
    times = _Times(engine, part, where, parameters)
    by_cpu = engine.rows(
        "SELECT cpu, sum(lost), sum(throttled), sum(expected), sum(recorded), sum(idle),"
        f" sum(missing) {where}"
        " GROUP BY cpu ORDER BY cpu",
        parameters,
    )
    rows = np.array(by_cpu, np.int64).reshape(-1, 7)
    clocks = rows[rows[:, 0] != WHOLE_WINDOW]
    # Without a clock whose ticks are known, all that is known of samples is in the other row.
    of_samples = clocks if len(clocks) else rows
    lossy = of_samples[(of_samples[:, 1] > 0) | (of_samples[:, 2] > 0)]
    lost, expected = int(of_samples[:, 1].sum()), int(rows[:, 3].sum())
    others = int(rows[:, 1].sum()) - lost
    accounting = _accounting(of_samples[:, 1:].sum(axis=0))
    remarks = [*share_remarks(part.heads), *accounting, *_gaps(times.windows)]
    if lost > _WORTH_SAYING * max(expected, 1):
        remarks.append(f"{lost} of {expected} expected samples were lost.")
    if others:
        remarks.append(
            f"{others} records that are no samples were lost, as of mappings, names of threads or"
            " functions of runtimes: some samples may lack names."
        )
    return Measured(
        begin_us=times.windows[0][0] if times.windows else 0,
        end_us=max((until for _, until in times.windows), default=0),
        measured_us=times.measured_us,
        windows=len(times.windows),
        middle_us=_middle_us(times.windows),
        hosts=times.hosts,
        cpus=times.cpus,
        cpu=lossy[:, 0].astype(np.int32),
        lost=lossy[:, 1],
        throttled=lossy[:, 2],
        # A window's accounting may be out by the tick that came as it ended.
        due=int(np.maximum(clocks[:, 3], clocks[:, 4]).sum()),
        seen=int((clocks[:, 4] + clocks[:, 5]).sum()),
        remarks=remarks,
    )


class _Times:
    """When which hosts were measured, and for how long; attributes as those of `Measured`."""

    def __init__(
        self, engine: Queries, part: Part, where: str, parameters: Sequence[object]
    ) -> None:
        rows = engine.rows(
            f'SELECT DISTINCT segment, t, "until" {where} ORDER BY t, "until", segment', parameters
        )
        self.windows: list[tuple[int, int]] = [(begin, until) for _, begin, until in rows]
        cpus_of = {
            one.place: int(head.run["cpus"])
            for one, head in zip(part.segments, part.heads, strict=True)
        }
        host_of_place = dict(zip((one.place for one in part.segments), part.hosts, strict=True))
        length_us: dict[str, float] = {}
        for segment, begin, until in rows:
            place, share = part.segments[segment].place, part.heads[segment].host_share
            # A host that represents other hosts was measured for them, too.
            length_us[place] = length_us.get(place, 0) + max(until - begin, 0) / share
        # A host that has several stores counts once.
        by_host: dict[str, list[str]] = {}
        for place in length_us:
            by_host.setdefault(host_of_place[place] if place else "", []).append(place)
        host_cpus = [max(cpus_of[place] for place in places) for places in by_host.values()]
        self.hosts = len(by_host)
        self.cpus = sum(host_cpus)
        if self.hosts == 1:
            self.measured_us = round(sum(length_us.values()))
        else:
            all_us = sum(cpus_of[place] * length for place, length in length_us.items())
            self.measured_us = round(all_us / max(self.cpus, 1))


def _middle_us(windows: Sequence[tuple[int, int]]) -> int:
    begins = sorted({begin for begin, _ in windows})
    return begins[len(begins) // 2] if len(begins) > 1 else 0


def share_remarks(heads: Sequence[Head]) -> list[str]:
    """Return a sentence: which hosts these represent."""
    share = min(head.host_share for head in heads)
    if share == 1:
        return []
    sentence = (
        f"{100 * share:g} % of the hosts, a new choice each hour, sent their measurements:"
        " times are estimates for all hosts, and ± includes the choice of hosts."
    )
    return [sentence]


def _accounting(sums: NDArray[np.int64]) -> list[str]:
    """Say what became of every tick that the clocks should have had."""
    lost, throttled, expected, recorded, idle, missing = sums.tolist()
    if not expected:
        return []
    parts = [f"{recorded} were recorded"]
    for count, word in ((lost, "lost"), (throttled, "throttled"), (idle, "idle")):
        if count:
            parts.append(f"{count} {word}")
    parts.append(f"{missing} missing")
    return [f"Coverage: of {expected} ticks that were expected {', '.join(parts)}."]


def _gaps(windows: list[tuple[int, int]]) -> list[str]:
    """Say when nothing was measured between windows."""
    found = []
    latest = windows[0][1] if windows else 0
    for begin, until in windows[1:]:
        if begin - latest > _SEAM_US:
            found.append((latest, begin))
        latest = max(latest, until)
    sentences = [
        f"Nothing was measured from {_clock(begin)} to {_clock(end)}."
        for begin, end in found[:_MOST_NAMED]
    ]
    if len(found) > _MOST_NAMED:
        sentences.append(f"Nor was it {len(found) - _MOST_NAMED} more times.")
    return sentences


def _clock(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
