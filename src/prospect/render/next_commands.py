"""The last lines of the first screen: complete commands that show more."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from prospect.figures.shown_rows import function_names
from prospect.options import DEFAULT_RECORDING
from prospect.profile.model import (
    KIND_ELF,
    KIND_KERNEL,
    KIND_MODULE,
    SOURCE_KINDS,
    copies_of_waits_alone,
)
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple
from prospect.shell import operand, shell_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prospect.estimate.finished_report import Report
    from prospect.estimate.summary import FunctionRow, Summary

_RECORDING_SUFFIXES = (".data", ".archive")
_TITLE = "Next:   "
_MOST_READERS = 2
_CALL_GRAPH = "--call-graph"
_OF_ALL = "-a"
_DETAIL, _OTHER_DETAILS = "-V", ("--child", "--follow-forks", "--kernel-only")
_LEAST_LETTERS = 3  # of a part of a name that means a function
# If everything was inlined, one function has at least this share of the time.
_LEAST_INLINING = 0.75
_INLINING = ("_Z", "_R")  # symbols of C++ and Rust, whose templates and closures are inlined
# Objects whose debug information may be there too.
_HAS_LINES = (NameSource.SYMTAB, NameSource.DEBUG_FILE)
_HAS_CODE = (KIND_ELF, KIND_KERNEL, KIND_MODULE)
# The next recording of the same load has a function of so many samples, too.
_LEAST_TO_RECUR = 20
# Waits are worth their own command from this share of the CPU time on.
_LEAST_WAITING = 0.5
# Below this share of the CPU time of all others, the others are the next thing to look at.
_LEAST_BESIDE_OTHERS = 0.1


class Repeated(NamedTuple):
    """The words of the command line that next commands repeat.

    Attributes:
        record: options and COMMAND that make the recording again, empty if none can.
        options: those of each command that reads recordings, by its name.
    """

    record: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = {}

    def command(self, name: str, *words: str) -> tuple[str, ...]:
        """Return a command of this name with its repeated options, and more words."""
        return (name, *self.options.get(name, ()), *words)

    def report_of_all(self, *words: str) -> tuple[str, ...]:
        """Return the command of a report of every process."""
        options = iter(self.options.get("report", ()))
        kept = []
        for one in options:
            if one == _DETAIL:
                next(options)  # its value
            elif one not in _OTHER_DETAILS:
                kept.append(one)
        return ("report", *kept, _DETAIL, "4", *words)


NOTHING = Repeated()


def next_lines(view: Report, short: Summary, recording: str, repeated: Repeated) -> Iterator[str]:
    """Yield the commands; none if no command can read the recording.

    `recording` is its name in a command line, "" if it is not kept.
    """
    commands: list[tuple[str, ...]] = []
    if view.profile.run.store_part:
        commands = _of_store(view, short.functions[0], repeated) if short.hits else []
    elif recording:
        commands = _of_recording(view, short, recording, repeated, has_functions=short.hits > 0)
    elif repeated.record:
        recurs = any(one.hits >= _LEAST_TO_RECUR for one in short.functions[:1])
        asks = _asks_for_callers(view, repeated)
        options = (
            *((_OF_ALL,) if _is_of_others(view, short) else ()),
            *((_CALL_GRAPH, "auto") if asks else ()),
        )
        again = ("record", *options, *repeated.record)
        readers = _of_recording(
            view, short, DEFAULT_RECORDING, repeated, has_functions=recurs, has_callers=asks
        )
        commands = [again, *readers]
    for number, words in enumerate(commands):
        yield f"{' ' * len(_TITLE) if number else _TITLE}{shell_line(('prospect', *words))}"


def _of_recording(  # noqa: PLR0913 - a keyword for each
    view: Report,
    short: Summary,
    recording: str,
    repeated: Repeated,
    *,
    has_functions: bool = True,
    has_callers: bool = False,
) -> list[tuple[str, ...]]:
    """Return the most useful commands that show more of a recording.

    Without `has_functions` it may lack samples of this report's functions; with `has_callers` it
    has callers even if this report has none.
    """
    file = () if recording == DEFAULT_RECORDING else (operand(recording),)
    command = repeated.command
    commands: list[tuple[str, ...]] = []
    if blocking := _blocking_function(view, short):
        commands.append(command("calls", "--callers-of", blocking, *file))
    if not short.hits:
        return [*commands, *_without_samples(view, file, repeated)][:_MOST_READERS]
    if _is_of_others(view, short):
        commands.append(repeated.report_of_all(*file))
    if not has_functions:
        return [*commands, command("report", *file)][:_MOST_READERS]
    first = short.functions[0]
    name = _typed_name(view, first.function)
    if _may_be_inlined(view, first):
        commands.append(command("report", "--lines", *file))
    if name:
        if has_callers or _has_callers(view, first):
            commands.append(command("calls", "--callers-of", name, *file))
        if (how := _how_to_annotate(view, first.function)) is not None:
            # A single word may name a recording, and one that begins with a dash an option.
            is_recording = not file and name.endswith(_RECORDING_SUFFIXES)
            files = (DEFAULT_RECORDING,) if is_recording else file
            end = ("--",) if name.startswith("-") else ()
            commands.append(command("annotate", *how, *end, name, *files))
    return [*commands, command("view", *file)][:_MOST_READERS]


def _is_of_others(view: Report, short: Summary) -> bool:
    """Return whether others used the machine: COMMAND may have asked a daemon to work.

    If its waits were recorded, they are the better thing to look at.
    """
    return (
        view.waiting is None
        and bool(short.others)
        and short.seconds < _LEAST_BESIDE_OTHERS * short.others_s
    )


def _asks_for_callers(view: Report, repeated: Repeated) -> bool:
    """Return whether `record` needs an option for callers.

    A report records the callers of a command without an option, but not those of a process that
    runs already. With waits there is no such advice: each wait would have a large copy, too.
    """
    run = view.profile.run
    has_callers = view.profile.stacks is not None and run.has_user_callers
    is_attached = not run.command and bool(view.profile.processes.is_command.any())
    return (has_callers or is_attached) and not any(
        word == "--off-cpu" or word.startswith(_CALL_GRAPH) for word in repeated.record
    )


def _has_callers(view: Report, row: FunctionRow) -> bool:
    """Return whether samples of a function, and not only its waits, may have known callers."""
    profile = view.profile
    recorded = profile.run.has_user_callers and not copies_of_waits_alone(profile)
    return bool(row.caller) or recorded


def _without_samples(
    view: Report, file: tuple[str, ...], repeated: Repeated
) -> list[tuple[str, ...]]:
    """Return the commands that show waits, and the samples of all other processes."""
    commands: list[tuple[str, ...]] = []
    if view.waiting is not None and view.waiting.stacks:
        commands.append(repeated.command("calls", *file))
    if view.detail != "4":
        commands.append(repeated.report_of_all(*file))
    return commands


def _of_store(view: Report, first: FunctionRow, repeated: Repeated) -> list[tuple[str, ...]]:
    run = view.profile.run
    part = run.store_part
    store, words, command = part[:2], part[2:], repeated.command
    function = _typed_name(view, first.function)
    if function and run.has_user_callers:
        commands = [command("calls", "--callers-of", function, *part)]
    else:
        commands = [command("report", "--sort", "service,function", *part)]
    spans = ("since:", "until:")
    if run.middle_at and all(word.startswith(spans) for word in words):
        middle = datetime.fromtimestamp(int(run.middle_at)).astimezone().isoformat()
        begin, end = ([word for word in words if word.startswith(span)] for span in spans)
        sides = (*begin, f"until:{middle}", "--against", f"since:{middle}", *end)
        return [*commands, command("diff", *store, *sides)]
    return [*commands, command("view", *part)]


def _blocking_function(view: Report, short: Summary) -> str:
    """Return the kernel function in which threads waited longest, "" if waits are short."""
    if view.waiting is None or not view.waiting.blockers:
        return ""
    work = [one for one in view.waiting.blockers if not one.idle]
    longest = max(work, key=lambda one: one.seconds, default=None)
    if longest is None or longest.seconds < _LEAST_WAITING * short.seconds:
        return ""
    ending = f"_sys_{longest.call}"
    frames = (frame for stack in view.waiting.stacks for frame in stack.kernel)
    return next((frame for frame in frames if frame.endswith(ending)), "")


def _how_to_annotate(view: Report, function: int) -> tuple[str, ...] | None:
    """Return the options that annotate a function, None if it has no code to show."""
    objects = view.profile.objects
    row = int(view.profile.functions.object_index[function])
    if objects.kind[row] in SOURCE_KINDS:
        # Bytecode is not disassembled, and code made from a string has no source.
        return None if objects.path[row].startswith(("<", "[")) else ("--source",)
    return () if objects.kind[row] in _HAS_CODE else None


def _typed_name(view: Report, function: int) -> str:
    """Return the shortest word that selects a function, "" if it has no name."""
    names = function_names(view.profile, function)
    if not names:
        return ""
    # Without parameters, templates and namespaces.
    plain = names[0].partition("(")[0].partition("<")[0].split()[-1:]
    part = plain[0].rpartition("::")[2] if plain else ""
    functions = view.profile.functions
    rows: Iterable[int] = range(len(functions))
    if part in functions.linkage_name[function]:
        # The linkage name contains a function's name in its program.
        rows = (row for row, symbol in enumerate(functions.linkage_name) if part in symbol)
    meant = [name for row in rows if part in (name := functions.name[row]).partition("(")[0]]
    # The word must not be half of a bracket, `0x6e90]`.
    is_enough = len(part) >= _LEAST_LETTERS and len(set(meant)) == 1 and "]" not in part
    return part if is_enough else min(names, key=len)


def _may_be_inlined(view: Report, first: FunctionRow) -> bool:
    """Return whether one function has so much time that functions inlined into it may matter."""
    functions, objects = view.profile.functions, view.profile.objects
    symbol = functions.linkage_name[first.function]
    has_symbols = int(objects.source[int(functions.object_index[first.function])]) in _HAS_LINES
    is_inlining = symbol == "main" or symbol.startswith(_INLINING)
    return not view.lines and first.share >= _LEAST_INLINING and has_symbols and is_inlining
