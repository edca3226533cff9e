"""How options are typed: the table that parsing, ``--help``, the manual and completion read.

Its rows follow from the declarations in `prospect.options`.
"""

from __future__ import annotations

from prospect.cli import values
from prospect.cli.commands import COMMANDS
from prospect.options import Settings, declared_in
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from prospect.cli.commands import Command
    from prospect.options import Declared, Way
    from prospect.records import Record

# Groups of commands that take the same options.
GROUPS = {
    "profile": ("",),
    "every": tuple(command.name for command in COMMANDS),
    "records": ("", "record"),
    "recorders": ("", "record", "compare"),
    "samplers": ("", "record", "compare", "top"),
    "reports": ("", "report"),
    "namers": ("", "report", "view", "annotate"),
    "choosers": ("", "report", "view", "annotate", "calls"),
    "comparers": ("diff", "compare"),
    "readers": ("", "report", "annotate", "calls", "diff", "compare", "whatif"),
    "recording_readers": ("report", "view", "annotate", "calls", "archive"),
    "finders": (
        *("", "report", "view", "annotate", "calls", "diff", "compare", "whatif", "archive"),
    ),
    "stores": (
        *("daemon", "control", "store", "sql", "fleet"),
        *("report", "view", "annotate", "calls", "diff"),
    ),
    # Commands whose queries another engine may answer.
    "asking": ("sql", "store", "fleet", "report", "view", "annotate", "calls", "diff"),
}

# The order of options in help. Others come after them.
_ORDER = """
    detail frequency_hz clocks overhead_percent flush_centiseconds for_s target count_syscalls
    count_calls count_budget_percent count_hook call_graph compress off_cpu wall python
    output input user_threshold_s kernel_threshold_s threshold save max_bytes classic separate sort
    columns merge label push pager format inline lines
    system_map kernel_image program debuginfod_s native use_cache
    events scope pids tids interval_s repeat fields check
    most_functions disassemble syntax disassembler gdb_processes source_files output_dir search_dirs
    base_dirs include_files exclude_files source whole whole_images
    sections calls callers_of through entry_reason process thread object function cpus between share
    event_names include_symbols exclude_symbols exclude_dependent port opens_browser clear
    side_a side_b runs stdin shows_output ignores_failure per fdr run_variation rows by fleet_rows
    fail_if
    store engine daemon_hz daemon_call_graph window_s cpu_limit_percent memory_limit_bytes
    keep metrics kubelet ship host_share unit
"""
_LAST = ("help", "version")


class Option(NamedTuple):
    """A way to type an option. `check` parses its value; a flag has none.

    A flag sets `value`, or is counted. `words` are values that a shell completes, if `metavar` does
    not list them. `help` does not include the default.
    """

    keyword: str
    spellings: tuple[str, ...]
    metavar: str
    help: str
    commands: tuple[str, ...]
    default: Any
    check: Callable[[str], Any] | None = None
    value: Any = True
    is_counted: bool = False
    is_repeated: bool = False
    words: tuple[str, ...] = ()


def table_of(kinds: Iterable[type[Record]]) -> tuple[Option, ...]:
    """Return the options that records declare, in the order of help."""
    rows = [
        _row(keyword, declared, way)
        for kind in kinds
        for keyword, declared in declared_in(kind).items()
        for way in declared.ways
    ]
    ordered = _ORDER.split()
    place = {keyword: at for at, keyword in enumerate((*ordered, "", *_LAST))}
    return tuple(sorted(rows, key=lambda row: place.get(row.keyword, len(ordered))))


def _row(keyword: str, declared: Declared, way: Way) -> Option:
    spelled, says, takers, value = way
    words = spelled.split()
    spellings = tuple(word for word in words if word.startswith("-"))
    metavar = "".join(words[len(spellings) :])
    parser = declared.reads if metavar else ""
    completed = values.WORDS.get(parser, ())
    if "{" in says:
        says = says.replace("{words}", ", ".join(completed))
        says = says.replace("{stack_formats}", ", ".join(values.STACK_FORMATS))
    return Option(
        keyword,
        spellings,
        metavar,
        says,
        tuple(name for taker in takers.split() for name in GROUPS.get(taker, (taker,))),
        declared.default,
        _check(parser, metavar),
        value,
        declared.is_counted,
        declared.is_repeated,
        completed,
    )


def _check(parser: str, metavar: str) -> Callable[[str], Any] | None:
    if not parser:
        return values.choice(metavar) if "|" in metavar else None
    found: Callable[[str], Any] = getattr(values, parser)
    return found


OPTIONS = table_of(Settings.__bases__)


def options_of(command: Command) -> list[Option]:
    """Return the options that a command takes, in the order of its help."""
    return [option for option in OPTIONS if command.name in option.commands]
