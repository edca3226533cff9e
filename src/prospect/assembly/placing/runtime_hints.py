"""A profile → which option of a language runtime would have named its functions.

Comes in: a profile without the hints. Goes out: a sentence for each runtime that ran much code of
the command, or of a machine recorded without one, whose functions have no names of their own. A
runtime is known by the name of its image, which the process must have had a hit in: nothing is
concluded from words of a command line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import KIND_ELF, KIND_JIT, KIND_PYTHON
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from prospect.profile.model import Profile

# Less than this part of all hits is not worth a sentence.
_LEAST_SHARE = 0.01
_LEAST_HITS = 50


class _Runtime(NamedTuple):
    """A runtime: its image's name, whether it interprets in that image, and what names its code.

    `page` says more.
    """

    image: re.Pattern[str]
    is_interpreter: bool
    advice: str
    page: str = "docs/jit.md"


_RUNTIMES = (
    _Runtime(
        re.compile(r"(python|libpython)3(\.\d+)?t?d?(\.so(\.[\d.]+)?)?"),
        True,
        "Python functions show as the interpreter's own routines: record as root, which reads them"
        " (prospect doctor says whether it can), or run python -X perf (3.12 or later) and record"
        " with --call-graph.",
        "docs/python-functions.md",
    ),
    _Runtime(
        re.compile(r"node(js)?|libnode\.so(\.[\d.]+)?"),
        False,
        "JavaScript functions have no names: run node --perf-basic-prof, or --perf-prof for their"
        " instructions too.",
    ),
    _Runtime(
        re.compile(r"libjvm\.so"),
        False,
        "Java methods have no names: run java -XX:+UnlockDiagnosticVMOptions"
        " -XX:+DumpPerfMapAtExit (17 or later).",
    ),
)


def with_runtime_hints(profile: Profile, named_pids: Collection[int]) -> Profile:
    """Return a profile whose limits say what `runtime_hints` does."""
    hints = runtime_hints(profile, named_pids)
    limits = (*profile.run.limits, *hints)
    return replace(profile, run=replace(profile.run, limits=limits)) if hints else profile


def runtime_hints(profile: Profile, named_pids: Collection[int]) -> tuple[str, ...]:
    """Say which runtimes' functions have no names, and what would name them.

    Args:
        profile: named.
        named_pids: processes that wrote a map or jitdump file, whether it named any hit or not.
    """
    functions, objects = profile.functions, profile.objects
    is_image = [_are_images(profile, runtime) for runtime in _RUNTIMES]
    is_jit = np.isin(objects.kind, (KIND_JIT, KIND_PYTHON))
    is_nameless = functions.source == NameSource.NO_ANONYMOUS
    within = [_functions_in(profile, one) for one in (*is_image, is_jit)]
    *of_images, of_jit, nameless = _hits_by_process(profile, [*within, is_nameless])
    is_named = of_jit > 0
    is_named |= np.isin(profile.processes.pid, list(named_pids))
    least = max(_LEAST_HITS, _LEAST_SHARE * int(profile.hits.count.sum()))
    hints = []
    for runtime, within_image in zip(_RUNTIMES, of_images, strict=True):
        unnamed = within_image if runtime.is_interpreter else nameless
        wanting = int(unnamed[(within_image > 0) & ~is_named].sum())
        if wanting >= least:
            hints.append(f"{runtime.advice} {wanting} hits; {runtime.page}.")
    return tuple(hints)


def _are_images(profile: Profile, runtime: _Runtime) -> NDArray[np.bool_]:
    """Return which objects are images of a runtime, bool[o]."""
    objects = profile.objects
    return np.array(
        [
            kind == KIND_ELF and bool(runtime.image.fullmatch(path.rpartition("/")[2]))
            for path, kind in zip(objects.path, objects.kind.tolist(), strict=True)
        ],
        np.bool_,
    )


def _functions_in(profile: Profile, is_chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which functions are in objects that are chosen, bool[f]."""
    # A row of -1, no object, takes the last entry.
    return np.append(is_chosen, False).take(profile.functions.object_index)


def _hits_by_process(
    profile: Profile, chosen: Sequence[NDArray[np.bool_]]
) -> list[NDArray[np.int64]]:
    """Return of each choice of functions, bool[f], their hits in each process asked for, i64[p]."""
    table, hits = profile.processes, profile.hits
    is_asked = (table.is_command | table.is_descendant) & ~table.is_recorder
    if not is_asked.any():  # a recording of a whole machine
        is_asked = ~table.is_recorder
    choices = np.zeros(len(profile.functions), np.uint8)
    for number, is_chosen in enumerate(chosen):
        choices |= is_chosen.astype(np.uint8) << np.uint8(number)
    of_hit = choices.take(profile.locations.function_index).take(hits.location_index)
    # Row -1, a process that is not known, is the last one.
    of_hit *= np.append(is_asked, False).take(hits.process_index)
    found = []
    for number in range(len(chosen)):
        rows = np.flatnonzero(of_hit & np.uint8(1 << number))
        process, count = hits.process_index.take(rows), hits.count.take(rows)
        found.append(np.bincount(process, count, len(table)).astype(np.int64))
    return found
