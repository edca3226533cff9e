"""The shares of both sides of a comparison without names, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.naming import SHORT_REMEDIES, NameSource
from prospect.profile.run_info import replaced_notes
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.estimate.compare.compared_run import ComparedRun

# A smaller share gets no note.
_LEAST_UNNAMED = 0.05


class UnnamedSamples(Record):
    """The compared samples that have no names.

    Attributes:
        shares: of A and of B, 0 to 1.
        source: the most frequent reason.
    """

    shares: tuple[float, float]
    source: NameSource

    @property
    def in_short(self) -> str:
        """The larger share and the remedy, for one line."""
        return f"up to {max(self.shares):.0%} unnamed ({SHORT_REMEDIES[self.source]})"

    @property
    def note(self) -> str:
        """Both shares and the remedy, a sentence."""
        before, after = self.shares
        return (
            f"{before:.0%} of the samples in A and {after:.0%} in B have no name"
            f" ({SHORT_REMEDIES[self.source]})."
        )


def unnamed_samples(before: int, runs: Sequence[ComparedRun]) -> UnnamedSamples | None:
    """Return the samples without names; None if they are a small share of each side.

    The first `before` of `runs` are of A, the others of B.
    """
    size = max(NameSource) + 1
    hits = np.zeros((2, size))
    for at, run in enumerate(runs):
        profile = run.profile
        function = profile.locations.function_index.take(profile.hits.location_index)[run.counts]
        source = profile.functions.source.take(function)
        hits[int(at >= before)] += np.bincount(source, profile.hits.count[run.counts], size)
    unnamed = hits[:, NameSource.NO_STRIPPED :]
    shares = unnamed.sum(axis=1) / np.maximum(hits.sum(axis=1), 1)
    if shares.max() < _LEAST_UNNAMED:
        return None
    commonest = NameSource(NameSource.NO_STRIPPED + int(unnamed.sum(axis=0).argmax()))
    return UnnamedSamples((float(shares[0]), float(shares[1])), commonest)


def unnamed_notes(unnamed: UnnamedSamples | None, runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield notes on samples without names, and on replaced files."""
    if unnamed is None:
        return
    yield unnamed.note
    if unnamed.source == NameSource.NO_MATCH:
        yield from replaced_notes(limit for run in runs for limit in run.profile.run.limits)
