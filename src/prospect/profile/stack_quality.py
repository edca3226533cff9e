"""How far the call stacks of user space can be trusted: how many are whole, and why others are not.

The figures are of samples whose user stack was unwound from a copy; kernel threads have none.
"""

from __future__ import annotations

from prospect.records import Record

END_WHOLE = "complete"
END_CUT = "cut"


class StackEnds(Record):
    """Where stacks ended before their outermost function: an object, the reason, how many."""

    object_path: str
    reason: str
    samples: int


class StackQuality(Record):
    """What became of the copies of user stacks.

    Attributes:
        samples: with registers of user space.
        without_copy: of these, without a copy of the stack: it could not be read.
        copy_bytes: how much of a stack was asked for at most.
        by_end: reason → samples: END_WHOLE, END_CUT (the next frame lies behind the copy), and the
            other reasons why unwinding stopped.
        continued: samples that frame pointers, recorded beside, took further than the copy did.
        cut_frames: frames that cut stacks still have: half of them have at most the first number,
            none more than the second; 0 without.
        size_for_99: bytes of copy that would have held 99 % of the stacks whole; 0 where the
            recorded ones did.
        is_size_least: whether even more may be needed, as some threads were never seen whole.
        places: where stacks ended, most samples first.
        by_pid: process number → copies of its stacks, and how many of these were cut.
    """

    samples: int
    without_copy: int
    copy_bytes: int
    by_end: dict[str, int]
    continued: int = 0
    cut_frames: tuple[int, int] = (0, 0)
    size_for_99: int = 0
    is_size_least: bool = False
    places: tuple[StackEnds, ...] = ()
    by_pid: dict[int, tuple[int, int]] = {}  # noqa: RUF012 - read-only, as all of a Record

    @property
    def whole(self) -> int:
        """Stacks that reach their outermost function."""
        return self.by_end.get(END_WHOLE, 0)

    @property
    def cut(self) -> int:
        """Stacks whose copy was too short."""
        return self.by_end.get(END_CUT, 0)
