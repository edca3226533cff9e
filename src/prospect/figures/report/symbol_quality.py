"""Symbol quality: how many hits have a name and from where, how many have none and why.

Each source with a remedy lists the objects with most of its hits. There is a hint for each runtime
with a large share of samples in functions without names. The name of an image with hits identifies
the runtime of a process; if there is none, the name of the process does. Command lines are not
read.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.columns.sorting import distinct
from prospect.figures.modes import event_seconds
from prospect.figures.processes import STILL_RUNNING_NS, chosen_hits
from prospect.profile.model import (
    KIND_ANON,
    KIND_ELF,
    KIND_JAVASCRIPT,
    KIND_JIT,
    KIND_PHP,
    KIND_PYTHON,
    KIND_RUBY,
)
from prospect.profile.naming import REMEDIES, NameSource
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prospect.columns.array_types import Bools, Ints
    from prospect.figures.modes import EventHits
    from prospect.options import Detail
    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.run_info import RunInfo

_OBJECTS_SHOWN = 5


class ObjectHits(Record):
    """Hits of one name source in one object (`object_index` is a row of the objects).

    Anonymous memory of all processes has one name: there `process_index` is the row of the process
    with the hits, elsewhere -1.
    """

    object_index: int
    hits: int
    process_index: int = -1


class SourceHits(Record):
    """Hits whose names came from one source, or have none for one reason.

    Attributes:
        source: of the name, or the reason why there is none.
        share: of all hits, 0 to 1.
        objects: those with the most hits, heaviest first; empty if there is no remedy.
        objects_left_out: how many further objects there are.
    """

    source: NameSource
    hits: int
    seconds: float
    share: float
    objects: tuple[ObjectHits, ...]
    objects_left_out: int


class SymbolQuality(Record):
    """Hits with and without a name; `sources` has named ones first, then by descending hits."""

    hits: int
    named_hits: int
    sources: tuple[SourceHits, ...]


def symbol_quality(profile: ProfileByFunction, hits: EventHits) -> SymbolQuality:
    """Add up an event's hits by the source of their names."""
    source = profile.functions.source.astype(np.int64)
    object_index = profile.functions.object_index.astype(np.int64)
    in_object = object_index.take(hits.function)
    is_anonymous = (profile.objects.kind == KIND_ANON).take(in_object)
    (of_source, of_object, of_process), (count, period) = group_sums(
        (source.take(hits.function), in_object, np.where(is_anonymous, hits.process + 1, 0)),
        (hits.count, hits.period),
    )
    seconds = event_seconds(hits.event, count, period)
    total = int(count.sum())
    found = []
    for value in distinct(of_source).tolist():
        rows = np.flatnonzero(of_source == value)
        rows = rows[np.argsort(-count.take(rows), kind="stable")]
        shown = rows[:_OBJECTS_SHOWN] if NameSource(value) in REMEDIES else rows[:0]
        found.append(
            SourceHits(
                source=NameSource(value),
                hits=int(count.take(rows).sum()),
                seconds=float(seconds.take(rows).sum()),
                share=int(count.take(rows).sum()) / total if total else 0.0,
                objects=tuple(
                    ObjectHits(int(of_object[row]), int(count[row]), int(of_process[row]) - 1)
                    for row in shown.tolist()
                ),
                objects_left_out=len(rows) - len(shown) if len(shown) else 0,
            )
        )
    found.sort(key=lambda entry: (not entry.source.named, -entry.hits))
    return SymbolQuality(
        hits=total,
        named_hits=sum(entry.hits for entry in found if entry.source.named),
        sources=tuple(found),
    )


# A smaller share of the samples gets no sentence.
_LEAST_SHARE = 0.05
_LEAST_HITS = 10
# Minor versions of CPython 3 whose frames are read: from the first on, and from the second on in
# builds of any kind (`abi.cpython`).
OLDEST_PYTHON, ANY_BUILD_SINCE = 8, 13
OLDEST_RUBY = (2, 7)
# An interpreter that has no option to name its functions gets a hint from this share on.
_LEAST_SHARE_TO_EXPLAIN = 0.5
# Places of a runtime's functions without names: memory without a file, its image, or both.
_JIT, _PYTHON, _BOTH = range(3)
_JIT_PAGE, _PYTHON_PAGE = "docs/jit.md", "docs/python-functions.md"
_RUNTIMES_PAGE = "docs/runtimes.md"


class RuntimeHint(NamedTuple):
    """An option that names a runtime's functions, or the reason that there is none.

    Attributes:
        share: of the samples, in functions of this runtime without names.
        short: the same in one line.
        sentence: for the notes.
    """

    share: float
    short: str
    sentence: str


class _Found(NamedTuple):
    """A runtime in the chosen processes: its image's file name, and a process of it.

    `is_compiled` is whether much of its time is in compiled code.
    """

    file: str
    run: RunInfo
    pid: int
    is_running: bool
    is_compiled: bool


class _Runtime(NamedTuple):
    """A runtime: its image's name, the hits without names, and their remedy.

    `advice` returns the remedy in a few words, "" for none, and more words about it. `source` is
    the kind of objects with functions of it.
    """

    image: re.Pattern[str]
    kind: int
    what: str
    advice: Callable[[_Found], tuple[str, str]]
    page: str = _JIT_PAGE
    source: int = -1


# How the recorder's notes on Python functions that it could not read begin.
_ABOUT_PYTHON = ("Python functions were ", "Functions of process ", "CPython 3.")
_UNREAD = ("Functions of process ", "Python functions were not read")
_ABOUT_OTHERS = ("Ruby 2", "Ruby 3", "Ruby 4", "PHP (", *_UNREAD)
_SAID_BELOW = "a note of this report says why they were not read"
_C_FUNCTIONS = "they show as C functions of the interpreter, and no option changes that"


def _always(remedy: str, more: str = "") -> Callable[[_Found], tuple[str, str]]:
    return lambda _: (remedy, more)


def _of_python(found: _Found) -> tuple[str, str]:
    """Return the remedy, and why this recorder did not read Python's functions."""
    version = re.search(r"python3\.(\d+)([td]*)", found.file)
    minor = int(version[1]) if version else 0
    by_python = "python -X perf, record with --call-graph" if minor >= 12 or not minor else ""
    kind = version[2] if version else ""
    if 0 < minor < (ANY_BUILD_SINCE if kind else OLDEST_PYTHON):
        read = f"3.{OLDEST_PYTHON} and later, of debug builds 3.{ANY_BUILD_SINCE} and later"
        return by_python, f"CPython 3.{minor}{kind}: Prospect reads {read}"
    if any(limit.startswith(_ABOUT_PYTHON) for limit in found.run.limits):
        return by_python, ""  # that note gives the reason
    if not found.run.recorder.startswith("prospect"):
        return "prospect record", "Prospect's own recorder reads them"
    if "--no-python" in found.run.recorder_command_line:
        return "record without --no-python", ""
    return by_python, "prospect doctor says whether they can be read"


def _of_node(found: _Found) -> tuple[str, str]:
    """Return the remedy, and alternatives."""
    by_node = "node --perf-basic-prof"
    more = (
        "or --perf-prof, for their instructions too; with --interpreted-frames-native-stack"
        " interpreted ones have their own frames"
    )
    if "--no-python" in found.run.recorder_command_line:
        return "record without --no-python", ""
    is_known = not any(limit.startswith("V8 ") for limit in found.run.limits)
    has_rights = not any(limit.startswith(_ABOUT_PYTHON[0]) for limit in found.run.limits)
    is_own = found.run.recorder.startswith("prospect")
    if is_known and not (is_own and has_rights):
        return f"prospect record as root, or {by_node}", more
    return by_node, more


def _of_java(found: _Found) -> tuple[str, str]:
    at_start = "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"
    if not found.run.recorder.startswith("prospect"):
        return "prospect record", f"or {at_start} (17 or later)"
    if found.is_running:
        return f"jcmd {found.pid} Compiler.perfmap", f"before a report, or start with {at_start}"
    return at_start, "or jcmd PID Compiler.perfmap while it runs; 17 or later"


def _by_recorder(found: _Found) -> tuple[str, str]:
    """Return the remedy for a runtime that the recorder reads, as root."""
    if any(limit.startswith(_ABOUT_OTHERS) for limit in found.run.limits):
        return "", _SAID_BELOW
    if not found.run.recorder.startswith("prospect"):
        return "prospect record, as root", "Prospect's own recorder reads them"
    if "--no-python" in found.run.recorder_command_line:
        return "record without --no-python", ""
    return "record as root", "prospect doctor says whether they can be read"


def _of_ruby(found: _Found) -> tuple[str, str]:
    version = re.search(r"(\d+)\.(\d+)", found.file)
    if version and (int(version[1]), int(version[2])) < OLDEST_RUBY:
        oldest = ".".join(map(str, OLDEST_RUBY))
        return "", f"Ruby {version[0]}: Prospect reads {oldest} and later"
    return _by_recorder(found)


_RUNTIMES = (
    _Runtime(
        re.compile(r"(python|libpython)3(\.\d+)?[td]*(\.so(\.[\d.]+)?)?"),
        _PYTHON,
        "Python functions",
        _of_python,
        _PYTHON_PAGE,
        KIND_PYTHON,
    ),
    _Runtime(
        re.compile(r"node(js)?|libnode\.so(\.[\d.]+)?"),
        _JIT,
        "JavaScript functions",
        _of_node,
        source=KIND_JAVASCRIPT,
    ),
    _Runtime(re.compile(r"libjvm\.so"), _JIT, "Java methods", _of_java),
    _Runtime(
        re.compile(r"(php|php-fpm|php-cgi)[\d.]*|libphp[\d.]*\.so[\d.]*"),
        _BOTH,
        "PHP functions",
        _by_recorder,
        _RUNTIMES_PAGE,
        KIND_PHP,
    ),
    _Runtime(
        re.compile(r"beam(\.\w+)*"),
        _JIT,
        "Erlang functions",
        _always("erl +JPperf true", "OTP 24 or later"),
    ),
    _Runtime(
        re.compile(r"ruby[\d.]*|libruby(-[\d.]+)?\.so[\d.]*"),
        _BOTH,
        "Ruby methods",
        _of_ruby,
        _RUNTIMES_PAGE,
        KIND_RUBY,
    ),
    _Runtime(
        re.compile(r"luajit[\w.-]*|libluajit[\w.-]*"),
        _JIT,
        "Lua functions",
        _always(f"luajit -jperfmap, a module in {_JIT_PAGE}", "luajit -jp is its own profiler"),
    ),
    _Runtime(
        re.compile(r"libcoreclr\.so"), _JIT, ".NET methods", _always("set DOTNET_PerfMapEnabled=1")
    ),
    _Runtime(
        re.compile(r"pypy3?[\d.]*|libpypy[\w.-]*\.so[\d.]*"),
        _JIT,
        "Python functions of PyPy",
        _always(f"pypy3 -m perfmap APP, a module in {_JIT_PAGE}", "vmprof is its own profiler"),
    ),
    _Runtime(
        re.compile(r"perl[\d.]*|libperl\.so[\d.]*"),
        _BOTH,
        "Perl functions",
        _always("", _C_FUNCTIONS),
    ),
    _Runtime(
        re.compile(r"lua[\d.]*|liblua[\d.]*\.so[\d.]*"),
        _BOTH,
        "Lua functions",
        _always("", _C_FUNCTIONS),
    ),
)


def runtime_hints(profile: ProfileByFunction, detail: Detail) -> tuple[RuntimeHint, ...]:
    """Return the runtimes whose functions have no names, and their remedies."""
    functions, objects, hits = profile.functions, profile.objects, profile.hits
    chosen = chosen_hits(profile, detail)
    chosen &= ~profile.processes.is_recorder.take(hits.process_index)
    function = profile.locations.function_index.take(hits.location_index[chosen])
    process, count = hits.process_index[chosen], hits.count[chosen]
    if not len(count):
        return ()
    least = max(_LEAST_HITS, _LEAST_SHARE * int(count.sum()))
    files = _hit_files(profile, function)
    object_index = functions.object_index.take(function)

    def hits_of(is_chosen: Bools) -> NDArray[np.number]:
        return np.bincount(process[is_chosen], count[is_chosen], len(profile.processes))

    kind = objects.kind.take(object_index)
    is_named = (hits_of(kind == KIND_JIT) > 0) | np.isin(
        profile.processes.pid, profile.run.jit_pids
    )
    nameless = hits_of(functions.source.take(function) == NameSource.NO_ANONYMOUS)
    images = [
        [row for row, file in files.items() if one.image.fullmatch(file)] for one in _RUNTIMES
    ]
    # All time of a process may be in compiled code: then only its name identifies the runtime.
    is_known = hits_of(np.isin(object_index, [*chain.from_iterable(images)])) > 0
    is_unknown = (nameless >= least) & ~is_known
    unknown = np.flatnonzero(is_unknown).tolist()
    found = []
    for runtime, rows in zip(_RUNTIMES, images, strict=True):
        named = _named_rows(profile, unknown, runtime.image)
        if not rows and not named:
            continue
        of_image = hits_of(np.isin(object_index, rows))
        is_of_it = of_image > 0
        is_of_it[named] = True
        is_aside = ~is_of_it | is_named | (hits_of(kind == runtime.source) > 0)
        unnamed = {_JIT: nameless, _PYTHON: of_image, _BOTH: of_image + nameless}[runtime.kind]
        wanting = np.where(is_aside, 0, unnamed)
        if wanting.sum() < least:
            continue
        share = float(wanting.sum()) / int(count.sum())
        row = int(wanting.argmax())
        process_of_it = _Found(
            files[rows[0]] if rows else profile.processes.name[row],
            profile.run,
            int(profile.processes.pid[row]),
            is_running=int(profile.processes.end_ns[row]) == STILL_RUNNING_NS,
            is_compiled=float(nameless[~is_aside].sum()) >= least,
        )
        remedy, more = runtime.advice(process_of_it)
        if remedy or runtime.kind != _BOTH or share >= _LEAST_SHARE_TO_EXPLAIN:
            found.append(_hint(runtime.what, share, remedy, more, runtime.page))
    return tuple(sorted(found, key=lambda one: -one.share))


def _named_rows(profile: ProfileByFunction, rows: list[int], image: re.Pattern[str]) -> list[int]:
    """Return the processes with the name of a runtime: Java's is not its image's."""
    is_java = image.fullmatch("libjvm.so") is not None
    name = profile.processes.name
    return [row for row in rows if image.fullmatch(name[row]) or (is_java and name[row] == "java")]


def _hint(what: str, share: float, remedy: str, more: str, page: str) -> RuntimeHint:
    said = f": {'; '.join(filter(None, (remedy, more)))}" if remedy or more else ""
    sentence = f"{what} have no names ({100 * share:.0f} %){said}; {page}."
    return RuntimeHint(share, f"{what} have no names: {remedy or more or page}", sentence)


def _hit_files(profile: ProfileByFunction, function: Ints) -> dict[int, str]:
    """Return the file names of the images with hits, by their rows."""
    objects = profile.objects
    rows = distinct(profile.functions.object_index.take(distinct(function)).astype(np.int64))
    kinds = objects.kind.tolist()
    return {
        row: objects.path[row].rpartition("/")[2]
        for row in rows.tolist()
        if row >= 0 and kinds[row] == KIND_ELF
    }
