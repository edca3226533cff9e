"""A live session that is made up: states one after the other, as the screen of `top` asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError
from prospect.live.session import LiveState
from prospect.profile.model import SampleTable
from prospect.records import replace

if TYPE_CHECKING:
    from prospect.profile.model import Profile

BEGIN_NS = 1_000_000_000_000


def with_times(profile: Profile, seconds: float, seed: int = 1) -> Profile:
    """Return a profile whose samples came at random times of so many seconds, on two CPUs."""
    random = np.random.default_rng(seed)
    hit_index = np.repeat(np.arange(len(profile.hits)), profile.hits.count).astype(np.int32)
    random.shuffle(hit_index)
    time_ns = BEGIN_NS + np.sort(random.integers(0, int(seconds * 1e9), len(hit_index)))
    return replace(
        profile,
        run=replace(
            profile.run,
            begin_ns=BEGIN_NS,
            end_ns=BEGIN_NS + int(seconds * 1e9),
            wall_seconds=seconds,
            cpus=2,
        ),
        samples=SampleTable(
            hit_index=hit_index,
            time_ns=time_ns.astype(np.uint64),
            cpu=random.integers(0, 2, len(hit_index)).astype(np.uint16),
            clock=np.zeros(len(hit_index), np.uint8),
        ),
    )


def state_of(profile: Profile, **facts: object) -> LiveState:
    """Return a state of a session that keeps all of `profile`."""
    known = {
        "own_cpu_percent": 0.7,
        "sampling_cpu_percent": 0.4,
        "kept_s": profile.run.wall_seconds,
        "lost": 0,
        "limits": (),
    }
    return LiveState(profile, **{**known, **facts})  # type: ignore[arg-type]  # each by its name


@dataclass
class MadeUpSession:
    """Gives `states` one after the other, and then the last again.

    Attributes:
        refuses: what `save` says in place of saving, "" for nothing.
        asked: how often it was asked.
        saved: the names of recordings.
        cleared: how often everything was forgotten.
    """

    states: list[LiveState]
    refuses: str = ""
    asked: int = 0
    saved: list[str] = field(default_factory=list)
    cleared: int = 0

    def advance(self) -> LiveState:
        self.asked += 1
        return self.states[min(self.asked, len(self.states)) - 1]

    def save(self, path: str) -> str:
        if self.refuses:
            raise RecordingError(self.refuses)
        self.saved.append(path)
        return f"all is in {path}"

    def clear(self) -> None:
        self.cleared += 1
