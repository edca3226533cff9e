"""How far call stacks can be trusted: how many are whole, where the others end, and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.forests import levels
from prospect.figures.processes import shown_processes
from prospect.profile.model import CUT_OBJECT, END_CUT, END_WHOLE, MOST_COPY_BYTES, NO_COPY
from prospect.records import Record, field, replace

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, Bools
    from prospect.options import Detail
    from prospect.profile.model import Profile, StackCopies

_PLACES_SHOWN = 10
_HELD_SHARE = 0.99
_SIZE_STEP_BYTES = 1024
_NO_OBJECT = "code without an image"


class StackEnds(Record):
    """Ends of stacks before their outermost function: an object, the reason, how many."""

    object_path: str
    reason: str
    samples: int


class StackQuality(Record):
    """How many call stacks are whole, and how unwinding the copies of user stacks ended.

    Attributes:
        samples: with registers of user space.
        without_copy: of these, the ones whose stack could not be read.
        copy_bytes: the requested size of a copy.
        by_end: reason → samples, as `StackCopies.ends`.
        continued: samples that recorded frame pointers took further than the copy did.
        cut_frames: the median and the maximum of the frames in cut stacks; 0 without.
        size_for_99: bytes of copy that would have held 99 % of the stacks whole; 0 if the
            recorded ones did.
        is_size_least: whether even more may be needed, as some threads were never seen whole.
        places: where stacks ended, most samples first.
        stacks: call stacks of samples, copied or not.
        cut_stacks: stacks without their outer callers because of a limit of the recording. Frame
            pointers may continue a copy that was too short, so `cut` may be more.
        most_frames: the kernel's limit of frames in a stack; 0 for copies.
    """

    samples: int = 0
    without_copy: int = 0
    copy_bytes: int = 0
    by_end: dict[str, int] = field(default_factory=dict)
    continued: int = 0
    cut_frames: tuple[int, int] = (0, 0)
    size_for_99: int = 0
    is_size_least: bool = False
    places: tuple[StackEnds, ...] = ()
    stacks: int = 0
    cut_stacks: int = 0
    most_frames: int = 0

    @property
    def whole(self) -> int:
        """Stacks with their outermost function."""
        return self.by_end.get(END_WHOLE, 0)

    @property
    def cut(self) -> int:
        """Stacks whose copy was too short."""
        return self.by_end.get(END_CUT, 0)

    @property
    def cut_share(self) -> float:
        """The share of the stacks that a limit of the recording cut, 0 to 1."""
        return self.cut_stacks / max(self.stacks, 1)

    @property
    def size_to_ask_for(self) -> int:
        """A size of copies that holds 99 % of the stacks, 0 if the kernel copies less.

        If `size_for_99` is a lower bound, this is twice as much, to avoid repeated recordings.
        """
        if self.size_for_99 > MOST_COPY_BYTES:
            return 0
        factor = 2 if self.is_size_least else 1
        return min(factor * self.size_for_99, MOST_COPY_BYTES)


def stack_quality(profile: Profile, detail: Detail = "4") -> StackQuality | None:
    """Summarize the unwinding of the stacks of the processes that `-V` chooses.

    Returns:
        None if the recording has no copies of stacks, and no stack is cut.
    """
    copies = profile.stack_copies
    processes = profile.processes
    chosen = shown_processes(processes, detail)
    found = _counted_stacks(profile, chosen)
    if copies is None:
        return found if found.cut_stacks else None
    is_mine = np.ones(len(copies), np.bool_)
    if not chosen.all():
        is_mine = np.isin(copies.pid, processes.pid[chosen].astype(np.uint32))
    quality = _with_copies(found, copies, is_mine)
    if profile.stacks is not None:
        return quality
    # Nothing continues a copy that was too short.
    copied = quality.samples - quality.without_copy
    return replace(quality, stacks=copied, cut_stacks=quality.cut)


def _counted_stacks(profile: Profile, chosen: Bools) -> StackQuality:
    """Count the call stacks of processes, bool[p], and those with a frame [cut]."""
    most_frames = max((event.most_frames for event in profile.run.events), default=0)
    stacks, hits, samples = profile.stacks, profile.hits, profile.samples
    if stacks is None:
        pids = set(profile.processes.pid[chosen].tolist())
        cut = sum(count for pid, count in profile.run.cut_chains if pid in pids)
        total = int(hits.count[chosen.take(hits.process_index)].sum())
        return StackQuality(stacks=total, cut_stacks=min(cut, total), most_frames=most_frames)
    paths = [path == CUT_OBJECT for path in profile.objects.path]
    if not any(paths):
        return StackQuality()
    of_function = np.append(np.array(paths), False).take(profile.functions.object_index)
    of_location = np.append(of_function, False).take(profile.locations.function_index)
    is_cut = np.append(np.append(of_location, False).take(stacks.location_index), False)
    for rows in levels(stacks.depth):
        is_cut[rows] |= is_cut.take(stacks.caller_index.take(rows))
    if samples.stack_index is not None and len(samples):
        process = hits.process_index.take(samples.hit_index)
        stack, count = samples.stack_index, np.ones(len(samples), np.int64)
    elif hits.stack_index is not None:
        process, stack, count = hits.process_index, hits.stack_index, hits.count
    else:
        return StackQuality()
    has_stack = chosen.take(process) & (stack >= 0)
    total = int(count[has_stack].sum())
    cut = int(count[has_stack & is_cut.take(stack)].sum())
    return StackQuality(stacks=total, cut_stacks=cut, most_frames=most_frames)


def _with_copies(found: StackQuality, copies: StackCopies, is_mine: Bools) -> StackQuality:
    is_copied = is_mine & (copies.end != NO_COPY)
    counts = np.bincount(copies.end[is_copied], minlength=len(copies.ends)).tolist()
    is_cut = is_mine & (copies.end == copies.ends.index(END_CUT))
    frames = np.sort(copies.frames[is_cut])
    whole = counts[copies.ends.index(END_WHOLE)]
    size_bytes = _size_for_99(whole, copies.needed_bytes[is_cut])
    half, most = (frames[(len(frames) - 1) // 2], frames[-1]) if len(frames) else (0, 0)
    return replace(
        found,
        samples=int(np.count_nonzero(is_mine)),
        without_copy=int(np.count_nonzero(is_mine & ~is_copied)),
        copy_bytes=copies.copy_bytes,
        by_end={name: count for name, count in zip(copies.ends, counts, strict=True) if count},
        continued=int(np.count_nonzero(is_mine & copies.is_continued)),
        cut_frames=(int(half), int(most)),
        size_for_99=size_bytes,
        is_size_least=bool(size_bytes and copies.is_least[is_cut].any()),
        places=_places(copies, is_mine & (copies.place >= 0)),
    )


def _size_for_99(whole: int, needed_bytes: I64) -> int:
    """Return a size that would have held 99 % of the stacks that end whole or were cut."""
    ended = whole + len(needed_bytes)
    if len(needed_bytes) <= (1 - _HELD_SHARE) * ended:
        return 0
    # Whole stacks fit into the recorded size, so they come first in the order.
    rank = int(np.ceil(_HELD_SHARE * ended)) - whole - 1
    steps = -(-int(np.sort(needed_bytes)[max(rank, 0)]) // _SIZE_STEP_BYTES)
    return steps * _SIZE_STEP_BYTES


def _places(copies: StackCopies, is_short: Bools) -> tuple[StackEnds, ...]:
    """Count stacks that are not whole by the object of their last frame and the reason."""
    reasons = len(copies.ends)
    packed = copies.place[is_short].astype(np.int64) * reasons + copies.end[is_short]
    code, count = np.unique(packed, return_counts=True)
    found = []
    for at in np.argsort(-count, kind="stable")[:_PLACES_SHOWN].tolist():
        row, reason = divmod(int(code[at]), reasons)
        path = copies.paths[row] or _NO_OBJECT
        found.append(StackEnds(path, copies.ends[reason], int(count[at])))
    return tuple(found)
