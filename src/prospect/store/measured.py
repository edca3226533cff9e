"""Compute how much of a part of a store was measured, and what was lost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.records import NamedTuple
from prospect.store.file_schema import WHOLE_WINDOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import I32, I64
    from prospect.store.file_schema import Head
    from prospect.store.segment_reading import Part
    from prospect.store.tables import Queries

_MOST_NAMED = 3
# A longer pause between two windows is a gap.
_SEAM_US = 2 * 10**6
_WORTH_SAYING = 1e-4


class Measured(NamedTuple):
    """The measured time of a part.

    Attributes:
        begin_us, end_us: of all windows, in microseconds since 1970.
        measured_us: the sum of the windows' lengths; for several hosts the mean sum of a host,
            weighted by its CPUs. So `cpus` times this is the CPU time of all hosts.
        windows: their number.
        middle_us: when the later half of the windows begins; 0 if all begin at once.
        hosts: their number.
        cpus: the number of CPUs of all hosts.
        cpu: i32[c], the CPUs that lost samples.
        lost, throttled: i64[c].
        due: the ticks that all clocks should have had, at least those that came.
        seen: those of them that were recorded, or came due on an idle CPU.
        remarks: a sentence for each thing that was not measured, or lost.
    """

    begin_us: int
    end_us: int
    measured_us: int
    windows: int
    middle_us: int
    hosts: int
    cpus: int
    cpu: I32
    lost: I64
    throttled: I64
    due: int
    seen: int
    remarks: list[str]

    @property
    def span(self) -> str:
        """The sentence that has the number of windows, their begin and end."""
        if not self.windows:
            return "Nothing was measured in this part."
        windows = pluralize(self.windows, "window")
        if self.hosts > 1:
            windows += f" of {self.hosts} hosts"
        return f"{windows}, from {_clock(self.begin_us)} to {_clock(self.end_us)}."


def measured(engine: Queries, part: Part) -> Measured:
    """Read the accounting of the windows that begin in the chosen span.

    Raises:
        EngineError: they cannot be read.
    """
    where = "FROM coverage WHERE t >= ? AND t < ?"
    parameters = [part.chosen.since_us, part.chosen.until_us]
    lengths = engine.rows(
        f'SELECT DISTINCT segment, t, "until" {where} ORDER BY t, "until", segment', parameters
    )
    windows: list[tuple[int, int]] = [(begin, until) for _, begin, until in lengths]
    begins = sorted({begin for begin, _ in windows})
    measured_us, hosts, cpus = _host_times(part, lengths)
    by_cpu = engine.rows(
        "SELECT cpu, sum(lost), sum(throttled), sum(expected), sum(recorded), sum(idle),"
        f" sum(missing) {where} GROUP BY cpu ORDER BY cpu",
        parameters,
    )
    rows = np.array(by_cpu, np.int64).reshape(-1, 7)
    clocks = rows[rows[:, 0] != WHOLE_WINDOW]
    # Without a clock of known ticks, only the row of the whole window counts samples.
    of_samples = clocks if len(clocks) else rows
    lossy = of_samples[(of_samples[:, 1] > 0) | (of_samples[:, 2] > 0)]
    lost, expected = int(of_samples[:, 1].sum()), int(rows[:, 3].sum())
    others = int(rows[:, 1].sum()) - lost
    accounting = _accounting(of_samples[:, 1:].sum(axis=0))
    remarks = [*share_remarks(part.heads), *accounting, *_gaps(windows)]
    if lost > _WORTH_SAYING * max(expected, 1):
        remarks.append(f"{lost} of {expected} expected samples were lost.")
    if others:
        remarks.append(
            f"{others} records other than samples were lost, such as mappings, names of threads or"
            " functions of runtimes: some samples may lack names."
        )
    return Measured(
        begin_us=begins[0] if begins else 0,
        end_us=max((until for _, until in windows), default=0),
        measured_us=measured_us,
        windows=len(windows),
        middle_us=begins[len(begins) // 2] if len(begins) > 1 else 0,
        hosts=hosts,
        cpus=cpus,
        cpu=lossy[:, 0].astype(np.int32),
        lost=lossy[:, 1],
        throttled=lossy[:, 2],
        # A window's accounting may lack the tick that came as it ended.
        due=int(np.maximum(clocks[:, 3], clocks[:, 4]).sum()),
        seen=int((clocks[:, 4] + clocks[:, 5]).sum()),
        remarks=remarks,
    )


def _host_times(part: Part, windows: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    """Return `measured_us`, `hosts` and `cpus` of `Measured`.

    `windows` are (place of the segment, begin, end).
    """
    places = [one.place for one in part.segments]
    cpus_of = dict(zip(places, (int(head.run["cpus"]) for head in part.heads), strict=True))
    host_of_place = dict(zip(places, part.hosts, strict=True))
    length_us: dict[str, float] = {}
    for segment, begin, until in windows:
        # A host that represents other hosts was measured for them, too.
        length = max(until - begin, 0) / part.heads[segment].host_share
        length_us[places[segment]] = length_us.get(places[segment], 0) + length
    # A host that has several stores counts once.
    host_cpus: dict[str, int] = {}
    for place in length_us:
        host = host_of_place[place] if place else ""
        host_cpus[host] = max(host_cpus.get(host, 0), cpus_of[place])
    cpus = sum(host_cpus.values())
    if len(host_cpus) == 1:
        return round(sum(length_us.values())), 1, cpus
    all_us = sum(cpus_of[place] * length for place, length in length_us.items())
    return round(all_us / max(cpus, 1)), len(host_cpus), cpus


def share_remarks(heads: Sequence[Head]) -> list[str]:
    """Return a sentence about the share of hosts that sent their measurements, if not all did."""
    share = min(head.host_share for head in heads)
    if share == 1:
        return []
    sentence = (
        f"{100 * share:g} % of the hosts, a new choice each hour, sent their measurements:"
        " times are estimates for all hosts, and ± includes the choice of hosts."
    )
    return [sentence]


def _accounting(sums: I64) -> list[str]:
    """Return a sentence with the counts of all ticks that the clocks should have had."""
    lost, throttled, expected, recorded, idle, missing = sums.tolist()
    if not expected:
        return []
    parts = [f"{recorded} were recorded"]
    for count, word in ((lost, "lost"), (throttled, "throttled"), (idle, "idle")):
        if count:
            parts.append(f"{count} {word}")
    parts.append(f"{missing} missing")
    return [f"Coverage: of {expected} expected ticks, {', '.join(parts)}."]


def _gaps(windows: list[tuple[int, int]]) -> list[str]:
    """Return a sentence for each of the first gaps between windows."""
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
        sentences.append(f"There are {len(found) - _MOST_NAMED} more such gaps.")
    return sentences


def _clock(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
