"""Work that is killed in its midst, in a process of its own."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

from prospect.store.directory import PART_SUFFIX
from prospect.store.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_RANDOM = re.compile(rf"\.[0-9a-f]{{16}}(?={re.escape(PART_SUFFIX)}$)")


def is_killed_at(step: int, calls: Iterable[str], work: Callable[[], object]) -> bool:
    """Do work in a process that ends by SIGKILL before its step of a number.

    Args:
        step: counts from 0.
        calls: functions of `os` each call of which is a step; "run" is a statement of the engine.
        work: what is done.

    Returns:
        Whether it was killed; False where it has fewer steps.
    """
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        return os.WIFSIGNALED(status)
    left = [step]

    def dying(real):
        def call(*arguments, **named):
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*arguments, **named)

        return call

    try:
        for name in calls:
            owner = Engine if name == "run" else os
            setattr(owner, name, dying(getattr(owner, name)))
        work()
    finally:
        os._exit(0)


def left_in(path: Path) -> frozenset[tuple[str, int, bytes]]:
    """Return the name, mode and content of all that lies below a path.

    Many steps in turn leave the same, and what comes after them is then the same too. The random
    digits in the names of unfinished files are left out.
    """
    return frozenset(
        (
            _RANDOM.sub("", str(one.relative_to(path))),
            one.lstat().st_mode,
            b"" if one.is_dir() else one.read_bytes(),
        )
        for one in path.rglob("*")
    )
