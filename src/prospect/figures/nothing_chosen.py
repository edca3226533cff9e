"""What to say where nothing was chosen: what there is, and which option shows it.

Comes in: a completed Profile and the `-V` that left nothing. Goes out: sentences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.figures.processes import DETAIL_WORDS, chosen_hits, shown_detail

if TYPE_CHECKING:
    from prospect.figures.processes import Detail
    from prospect.profile.complete import ProfileByRoutine

# What is worth a look instead, the narrower first.
_OTHERS: tuple[Detail, ...] = ("3", "4")
NO_SAMPLES = "The recording has no samples: run longer, or raise the rate (-H)."
NO_HITS = "This part of the store has no samples: nothing was measured, or nothing ran."


def nothing_chosen(profile: ProfileByRoutine, detail: Detail) -> str:
    """Say which other `-V` has hits, not of idle CPUs nor of Prospect; see `has_chosen` first.

    Args:
        profile: completed.
        detail: the `-V` that leaves nothing.
    """
    processes, hits = profile.processes, profile.hits
    if not int(hits.count.sum()):
        return NO_HITS if profile.run.store_part else NO_SAMPLES
    shown = shown_detail(processes, detail)
    is_of_interest = ~((processes.pid == 0) | processes.is_recorder).take(hits.process_index)
    found: list[str] = []
    least = 0
    for other in _OTHERS:
        count = int(hits.count[chosen_hits(profile, other) & is_of_interest].sum())
        if other != shown and count > least:
            found.append(f"-V {other} ({_words(profile, other)}) has {count}")
            least = count
    none = f"No sample hit {_words(profile, shown)} (-V {shown})"
    if not found:
        return f"{none}, and none anything else that had work to do: run longer, or raise -H."
    return f"{none}; {' and '.join(found)}."


def has_chosen(profile: ProfileByRoutine, detail: Detail) -> bool:
    """Say whether `-V` asks for any hit of a completed profile."""
    return bool(profile.hits.count[chosen_hits(profile, detail)].sum())


def below_thresholds(seconds: float, user_threshold_s: float, kernel_threshold_s: float) -> str:
    """Say that no routine has enough time to be shown.

    Args:
        seconds: the time of all of them.
        user_threshold_s: `-m`.
        kernel_threshold_s: `-k`.
    """
    return (
        f"No routine passes -m {user_threshold_s:g} and -k {kernel_threshold_s:g}, all together "
        f"have {seconds:.3g} s: give -m 0 -k 0, or name a routine."
    )


def no_sample_left(detail: Detail, left_without: list[tuple[str, int]], everywhere: int) -> str:
    """Say which filter to give up where all together leave nothing.

    Args:
        detail: `-V`, which alone leaves something.
        left_without: each filter as it is typed, and how many samples pass all the others.
        everywhere: how many samples of all processes pass the filters.
    """
    given = " ".join(name for name, _ in left_without)
    ways = [f"{count} do without {name}" for name, count in left_without if count]
    if everywhere:
        ways.insert(0, f"{everywhere} do with -V 4")
    hint = ", ".join(ways) or "leave out more than one of them"
    return f"No sample of -V {detail} passes {given}: {hint}."


def _words(profile: ProfileByRoutine, detail: Detail) -> str:
    """Return whose hits they are; processes that the recorder was attached to are no command."""
    words = "the command itself" if detail == "2" else DETAIL_WORDS[detail]
    return words if profile.run.command else words.replace("the command", "the process")
