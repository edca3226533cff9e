"""The dimensions of hits, each declared once: its names, words, columns of a store, and keys.

`--sort`, `--columns`, `--separate`, `--merge`, the words of profile specifications, the filters of
`prospect calls`, the tables in every format and the queries of a store read this list. A new
dimension is one entry here; `tests/contract/test_dimensions.py` tries each entry everywhere.

Programs, processes and threads follow one rule: a *program* is a name of processes and `pid` a
number of one, and a *process* is both, as NAME (PID). In the same way `comm` is a name of threads
and `tid` the number of one, and a *thread* is both.

The table of options loads this module before COMMAND starts, so it imports nothing that is slow,
and no room. `figures.hit_keys` has the arguments of the functions of an entry.
"""

from __future__ import annotations

import time

from prospect.errors import UsageError
from prospect.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


HITS, FUNCTIONS, EVENTS, SEGMENTS = "hits", "functions", "events", "segments"
# The keys of `prospect daemon --separate`.
PROCESS, THREAD, CPU = "process", "thread", "cpu"
SEPARATIONS = (PROCESS, THREAD, CPU)
_HOUR_S = 3600


def _text(value: Any, _comm: str) -> str:
    return "?" if value == -1 else str(value)


def _thread(tid: int, comm: str) -> str:
    return f"{comm} ({tid})" if tid >= 0 else "?"


def _hour(hours: int, _comm: str) -> str:
    """Return an hour in this machine's time zone, from hours since 1970."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(hours * _HOUR_S))


class Word(Record):
    """A word of profile specifications, as ``comm:``.

    Attributes:
        name: as a user types it, without the colon.
        column: the column of a store's tables that it compares, as SQL; "" if only recordings have
            it.
        is_number: whether it takes numbers instead of patterns.
        table: the table of a store whose rows it chooses: `HITS`, `FUNCTIONS`, `EVENTS`; `SEGMENTS`
            if all hits of a segment have the same value.
        excludes: whether it excludes the matching rows.
        read: the two words that it represents, the first for numbers, the second for other values.
    """

    name: str
    column: str = ""
    is_number: bool = False
    table: str = HITS
    excludes: bool = False
    read: tuple[str, ...] = ()


class Dimension(Record):
    """A property by which hits can be told apart.

    Attributes:
        name: its name in titles, JSON and Python.
        sort: its names in `--sort`, with the words of perf, its own name first; () for none.
        columns: its names in `--columns`, with the words of OProfile and of specifications.
        words: the words of specifications that choose by it.
        keys: returns the `Keys` of `figures.hit_keys.HitColumns`; None if the table of hits does
            not have it.
        samples: returns the column of `figures.hit_keys.SampleColumns`, if the table of hits does
            not have it.
        missing: the message for a recording that does not have that column either.
        kept_as: the dimension whose `HitClasses` have it; "" for none.
        class_name: returns the name of such a class, from its value and the thread's usual name.
        stored: the column of a store's hits that has it; "" if a store does not have it.
        separate: those of `SEPARATIONS` of which a store needs one to have it.
        merge: the word of `opreport --merge` for adding it up.
        is_number: whether its values are numbers in tables and JSON.
        is_path: whether text shows only the last part of it.
        is_ordered: whether classes have their own order; others are ordered by their hits.
        title: precedes the name of a class.
    """

    name: str
    sort: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    words: tuple[Word, ...] = ()
    keys: Callable[[Any], Any] | None = None
    samples: Callable[[Any], Any] | None = None
    missing: str = ""
    kept_as: str = ""
    class_name: Callable[[Any, str], str] = _text
    stored: str = ""
    separate: tuple[str, ...] = ()
    merge: str = ""
    is_number: bool = False
    is_path: bool = False
    is_ordered: bool = False
    title: str = ""

    @property
    def needs_store(self) -> bool:
        """Whether only stores have it."""
        return self.keys is None and self.samples is None

    @property
    def heading(self) -> str:
        """The title of its column in text."""
        return self.name.capitalize()


DIMENSIONS = (
    Dimension(
        "event",
        sort=("event",),
        columns=("event",),
        words=(
            Word("event", "event", table=EVENTS),
            Word("count", "event", is_number=True, table=EVENTS),
            Word("unit-mask", "event", is_number=True, table=EVENTS),
        ),
        keys=lambda hits: hits.rows(hits.event, hits.event_names),
        stored="event",
    ),
    Dimension(
        "cpu",
        sort=("cpu",),
        columns=("cpu",),
        words=(Word("cpu", "cpu", is_number=True),),
        samples=lambda samples: samples.cpu,
        missing="does not say on which CPU",
        kept_as="cpu",
        stored="cpu",
        separate=(CPU,),
        merge="cpu",
        is_number=True,
        is_ordered=True,
        title="cpu ",
    ),
    Dimension(
        "program",
        sort=("program", "process"),
        columns=("program", "image"),
        words=(Word("image", "process"), Word("program", read=("image", "image"))),
        keys=lambda hits: hits.named(hits.process, hits.profile.processes.name),
        stored="process",
        merge="lib",
    ),
    Dimension(
        "process",
        columns=("process", "pid", "tgid"),
        words=(Word("process", read=("tgid", "image")),),
        keys=lambda hits: hits.processes(),
        stored="pid",
        separate=(PROCESS, THREAD),
        merge="tgid",
    ),
    Dimension(
        "pid",
        sort=("pid",),
        words=(Word("tgid", "pid", is_number=True), Word("pid", read=("tgid", "tgid"))),
        keys=lambda hits: hits.numbers(hits.process, hits.profile.processes.pid),
        stored="pid",
        separate=(PROCESS, THREAD),
        merge="tgid",
        is_number=True,
    ),
    Dimension(
        "comm",
        sort=("comm",),
        columns=("comm",),
        words=(Word("comm", "comm"),),
        keys=lambda hits: hits.named(hits.comm, hits.profile.comms),
        stored="comm",
    ),
    Dimension(
        "thread",
        sort=("thread",),
        columns=("thread", "tid"),
        words=(Word("thread", read=("tid", "comm")),),
        # Their names, if the profile has no numbers.
        keys=lambda hits: hits.named(hits.comm, hits.profile.comms),
        samples=lambda samples: samples.tid,
        missing="does not say of which thread",
        kept_as="thread",
        class_name=_thread,
        stored="tid",
        separate=(THREAD,),
        merge="tid",
    ),
    Dimension(
        "tid",
        sort=("tid",),
        words=(Word("tid", "tid", is_number=True),),
        samples=lambda samples: samples.tid,
        missing="has no numbers of threads; --sort comm has names",
        kept_as="thread",
        class_name=_thread,
        stored="tid",
        separate=(THREAD,),
        merge="tid",
        is_number=True,
    ),
    Dimension(
        "object",
        sort=("object", "dso", "image"),
        columns=("object", "lib-image", "dso"),
        words=(
            Word("lib-image", "path", table=FUNCTIONS),
            Word("object", read=("lib-image", "lib-image")),
            Word("dso", read=("lib-image", "lib-image")),
            Word("dependent", "path", table=FUNCTIONS, excludes=True),
        ),
        keys=lambda hits: hits.named(hits.object, hits.profile.objects.path),
        stored="path",
        is_path=True,
    ),
    Dimension(
        "function",
        sort=("function", "routine", "sym", "symbol"),
        columns=("function",),
        words=(
            Word("symbol", "name", table=FUNCTIONS),
            Word("function", read=("symbol", "symbol")),
            Word("exclude-symbol", "name", table=FUNCTIONS, excludes=True),
        ),
        keys=lambda hits: hits.functions(),
        stored="function",
    ),
    Dimension(
        "mode",
        sort=("mode",),
        columns=("mode",),
        words=(Word("mode", "mode"),),
        keys=lambda hits: hits.rows(hits.mode, hits.mode_names),
        stored="mode",
    ),
    Dimension(
        "reason",
        sort=("reason", "cause"),
        columns=("reason", "cause"),
        words=(Word("reason", "cause"), Word("cause", read=("reason", "reason"))),
        keys=lambda hits: hits.entry_reasons(),
        stored="cause",
    ),
    Dimension(
        "service",
        sort=("service", "cgroup"),
        columns=("service", "cgroup", "container"),
        words=(
            Word("service", "service"),
            Word("container", "service"),
            Word("cgroup", read=("service", "service")),
        ),
        keys=lambda hits: hits.named(hits.process, hits.service_names),
        stored="service",
    ),
    Dimension(
        "label",
        sort=("label",),
        columns=("label",),
        words=(Word("label"),),
        keys=lambda hits: hits.labels(),
    ),
    Dimension(
        "hour",
        sort=("hour",),
        columns=("hour",),
        samples=lambda samples: samples.hour,
        missing="does not say when it was recorded",
        kept_as="hour",
        class_name=_hour,
        stored="t // 3600000000",
        is_ordered=True,
    ),
    Dimension(
        "session",
        sort=("session",),
        columns=("session",),
        words=(Word("session", "session", table=SEGMENTS),),
        missing="needs a store: add --store DIR",
        kept_as="session",
        stored="segment",
    ),
    Dimension(
        "host",
        sort=("host",),
        columns=("host",),
        words=(Word("host", "host", table=SEGMENTS),),
        keys=lambda hits: hits.hosts(),
        kept_as="host",
        stored="host",
    ),
)
"""All dimensions, in the order of `--help`."""

BY_NAME = {one.name: one for one in DIMENSIONS}
SORT_KEYS = tuple(one.name for one in DIMENSIONS if one.sort)
COLUMN_DIMENSIONS = tuple(one.name for one in DIMENSIONS if one.columns)
OF_WORD = {word.name: one for one in DIMENSIONS for word in one.words}
WORDS = {word.name: word for one in DIMENSIONS for word in one.words}

_SORT_WORDS = {word: one.name for one in DIMENSIONS for word in one.sort}
_COLUMN_WORDS = {word: one.name for one in DIMENSIONS for word in one.columns}
# Words of perf that are no dimension, and a replacement for each.
_INSTEAD = {
    "parent": "prospect calls shows callers and callees",
    "srcline": "prospect report --lines has source lines",
    "time": "the row with most time is the first anyway",
    "overhead": "the row with most time is the first anyway",
}


def known_dimension(text: str) -> str:
    """Return the dimension of `COLUMN_DIMENSIONS` that a text names.

    Raises:
        UsageError: it names none, or several.
    """
    found = list(dict.fromkeys(_COLUMN_WORDS.get(word, word) for word in text.split(",")))
    for word in found:
        if word not in COLUMN_DIMENSIONS:
            raise UsageError(f"give one of {', '.join(COLUMN_DIMENSIONS)}")
    if len(found) > 1:
        raise UsageError(
            f"{' and '.join(found)} are {len(found)} dimensions, and columns differ in one: give "
            f"{found[0]}, and choose from the others by a specification, or make both rows with"
            " --sort"
        )
    return found[0]


def known_sort_keys(given: Iterable[str]) -> tuple[str, ...]:
    """Return keys of `SORT_KEYS`, each once, for any of their names.

    Raises:
        UsageError: there is no such key.
    """
    found = []
    for word in given:
        if word not in _SORT_WORDS:
            serves = f"; {_INSTEAD[word]}" if word in _INSTEAD else ""
            raise UsageError(f"give some of {', '.join(SORT_KEYS)}, separated by commas{serves}")
        found.append(_SORT_WORDS[word])
    return tuple(dict.fromkeys(found))


def merged_by(word: str) -> tuple[str, ...]:
    """Return the dimensions that a word of `--merge` adds up."""
    return tuple(one.name for one in DIMENSIONS if one.merge == word)


def kept_for_rows(keys: Iterable[str], columns: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the dimensions that hits of a store keep for keys of `--sort` and for `--columns`.

    Returns:
        The dimensions that these need, and those that add details.
    """
    asked = [BY_NAME[key] for key in keys if BY_NAME[key].kept_as]
    needed = dict.fromkeys([columns] * bool(columns))
    needed.update((one.kept_as, None) for one in asked if not one.keys)
    others = dict.fromkeys(one.kept_as for one in asked if one.keys)
    return tuple(needed), tuple(one for one in others if one not in needed)
