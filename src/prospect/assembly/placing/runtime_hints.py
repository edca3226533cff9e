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
    from collections.abc import Collection

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
    hits, functions = profile.hits, profile.functions
    function = profile.locations.function_index.take(hits.location_index)
    of_object = functions.object_index.take(function)
    source = functions.source.take(function)
    processes = len(profile.processes)
    total = int(hits.count.sum())
    kind_of = np.append(profile.objects.kind, np.uint8(0)).take(of_object)
    is_jit = np.isin(kind_of, (KIND_JIT, KIND_PYTHON))
    is_named = _hits_by_process(profile, is_jit, processes) > 0
    is_named |= np.isin(profile.processes.pid, list(named_pids))
    nameless = _hits_by_process(profile, source == NameSource.NO_ANONYMOUS, processes)
    hints = []
    for runtime in _RUNTIMES:
        images = np.array(
            [
                kind == KIND_ELF and bool(runtime.image.fullmatch(path.rpartition("/")[2]))
                for path, kind in zip(
                    profile.objects.path, profile.objects.kind.tolist(), strict=True
                )
            ]
            + [False],
            np.bool_,
        )
        within = _hits_by_process(profile, images.take(of_object), processes)
        wanting = (within if runtime.is_interpreter else nameless)[(within > 0) & ~is_named]
        if wanting.sum() >= max(_LEAST_HITS, _LEAST_SHARE * total):
            hints.append(f"{runtime.advice} {int(wanting.sum())} hits; {runtime.page}.")
    return tuple(hints)


def _hits_by_process(
    profile: Profile, is_counted: NDArray[np.bool_], processes: int
) -> NDArray[np.int64]:
    table = profile.processes
    is_asked = (table.is_command | table.is_descendant) & ~table.is_recorder
    if not is_asked.any():  # a recording of a whole machine
        is_asked = ~table.is_recorder
    # Row -1, a process that is not known, is the last one.
    is_asked = np.append(is_asked, False).take(profile.hits.process_index)
    rows = np.flatnonzero(is_counted & is_asked)
    count = profile.hits.count.take(rows)
    summed = np.bincount(profile.hits.process_index.take(rows), count, processes)
    return summed.astype(np.int64)
