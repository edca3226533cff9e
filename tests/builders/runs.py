"""Simulated recordings of a program of known true times and known variation between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from builders.profile_builder import ProfileBuilder, clock_event, run_info
from builders.stacks import with_stacks
from prospect.profile.model import BIRTH_EXEC, CPUMODE_KERNEL, CPUMODE_USER, KIND_KERNEL
from prospect.profile.naming import NameSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.profile.model import Profile

RATE_HZ = 1000.0


def run_of(hits: dict[str, int], **facts: Any) -> Profile:
    """Return a recording of one program with so many hits a function.

    A name that begins with "k:" is the kernel's; an empty one stands for hits without a name.
    """
    build = ProfileBuilder(
        run_info(
            **{
                "events": (clock_event(RATE_HZ),),
                "command": ("program",),
                "wall_seconds": max(sum(hits.values()), 1) / RATE_HZ,
                **facts,
            }
        )
    )
    process = build.process("program", 100, is_command=True, birth=BIRTH_EXEC)
    program = build.object("/usr/bin/program")
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL, source=NameSource.KALLSYMS)
    for row, (name, count) in enumerate(hits.items()):
        is_kernel = name.startswith("k:")
        function = build.function(
            name.removeprefix("k:"), kernel if is_kernel else program, 0x1000 * (row + 1)
        )
        if count:
            build.hit(process, function, count, CPUMODE_KERNEL if is_kernel else CPUMODE_USER)
    return build.build()


def stacked_run(calls: dict[str, int], command: str = "program") -> Profile:
    """Return a recording of one program: how many samples each path ("main;f;g") has."""
    build = ProfileBuilder(
        run_info(events=(clock_event(RATE_HZ),), command=(command,), wall_seconds=1.0)
    )
    process = build.process(command, 100, is_command=True, birth=BIRTH_EXEC)
    image = build.object(f"/usr/bin/{command}")
    names = sorted({name for path in calls for name in path.split(";")})
    rows = {name: build.function(name, image, 64 * n) for n, name in enumerate(names)}
    paths = [
        (process, [rows[name] for name in path.split(";")])
        for path, count in calls.items()
        for _ in range(count)
    ]
    return with_stacks(build, paths)


def simulated_run(
    random: np.random.Generator,
    seconds: Sequence[float],
    *,
    common: float = 0.0,
    row: float = 0.0,
    tails: float = np.inf,
    **facts: Any,
) -> Profile:
    """Return a recording of a run of functions that take `seconds` on average.

    Args:
        random: the source of chance.
        seconds: true mean time of each function.
        common: standard deviation, between runs, of what all functions share.
        row: of what is each function's own.
        tails: degrees of freedom of both: few make runs that are far off now and then.
        facts: of the run, see `run_info`.
    """
    true = np.asarray(seconds, np.float64)
    factors = 1.0 + common * _deviate(random, 1, tails) + row * _deviate(random, len(true), tails)
    counts = random.poisson(np.maximum(true * factors, 0.0) * RATE_HZ)
    names = [f"{'k:' if place % 4 == 3 else ''}function_{place}" for place in range(len(true))]
    return run_of(dict(zip(names, counts.tolist(), strict=True)), **facts)


def _deviate(random: np.random.Generator, size: int, tails: float) -> np.ndarray[Any, Any]:
    if np.isinf(tails):
        return random.standard_normal(size)
    return random.standard_t(tails, size) / np.sqrt(tails / (tails - 2.0))
