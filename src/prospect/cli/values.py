"""Parse values of options.

Each function takes the text of one value, and raises UsageError with what to give instead.
"""

from __future__ import annotations

import os

from prospect.dimensions import (
    COLUMN_DIMENSIONS,
    SEPARATIONS,
    SORT_KEYS,
    known_dimension,
    known_sort_keys,
)
from prospect.errors import StoreError, UsageError
from prospect.options import DISASSEMBLERS
from prospect.render.registry import FORMATS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

DETAILS = ("2", "3", "4", "k")

# The last one is OProfile's word; a store always has it.
SEPARABLE = (*SEPARATIONS, "library")
# The words of opreport.
MERGED = ("cpu", "tid", "tgid", "lib", "all")

CALL_SECTIONS = ("totals", "callees", "callers", "graph")
STACK_FORMATS = [name for name, one in FORMATS.items() if one.has_stacks and name != "html"]

# The words of values, by their parser; a shell completes them.
WORDS: dict[str, tuple[str, ...]] = {
    "call_graph": ("auto", "dwarf", "fp", "lbr", "none"),
    "daemon_call_graph": ("fp", "auto", "none"),
    "dimension": COLUMN_DIMENSIONS,
    "merged": MERGED,
    "report_format": tuple(FORMATS),
    "report_separations": ("process",),
    "sections": CALL_SECTIONS,
    "separations": SEPARABLE,
    "sort_keys": SORT_KEYS,
}


def _number(text: str, signs: str = "0123456789.") -> float:
    """Return a number that consists of these characters, -1 for anything else."""
    # float() also takes 1_0, spaces and digits of other scripts.
    try:
        return float(text) if set(text) <= set(signs) else -1.0
    except ValueError:
        return -1.0


def _whole_number(text: str) -> int:
    """Return a number of at most nine digits, -1 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def details(text: str) -> str:
    """Parse one of `DETAILS`."""
    if text not in DETAILS:
        raise UsageError("give 2 (the command), 3 (and its descendants), 4 (all) or k (kernel)")
    return text


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    number = _whole_number(text)
    if number < 1:
        raise UsageError("give a whole number of at least 1")
    return number


def clocks(text: str) -> int:
    """Parse a number of clocks."""
    if text not in ("0", "1", "2", "3", "4"):
        raise UsageError("give a number of clocks from 1 to 4, or 0 for a hardware counter")
    return int(text)


def percent(text: str) -> float:
    """Parse a share of time, in percent."""
    number = _number(text.removesuffix("%"))
    if not 0.0 < number <= 100.0:
        raise UsageError("give a share of time in percent, such as 0.5%")
    return number


def seconds(text: str) -> float:
    """Parse seconds, 0 or more."""
    number = _number(text, "0123456789.+eE-")
    if not 0.0 <= number < float("inf"):
        raise UsageError("give a number of seconds, 0 or more")
    return number


def duration(text: str) -> float:
    """Parse seconds, more than 0."""
    number = seconds(text)
    if not number:
        raise UsageError("give a number of seconds over 0")
    return number


def size(text: str) -> int:
    """Parse a size of a recording, in bytes; K, M, G and T are powers of 1024."""
    from prospect.files.budget import size_in_bytes
    from prospect.recording.opened_events import LEAST_MAX_BYTES

    try:
        found = size_in_bytes(text)
    except ValueError:
        found = 0
    if found < LEAST_MAX_BYTES:
        raise UsageError("give a size of at least 1M, such as 500M or 4G")
    return found


def report_format(text: str) -> str:
    """Parse a format of the report."""
    if text in FORMATS:
        return text
    from prospect.plugins import FORMATS as ADDED
    from prospect.plugins import plugin, plugins

    if plugin(ADDED, text) is not None:
        return text
    known = (*FORMATS, *(one.name for one in plugins(ADDED)))
    return one_of(text, known, f"one of {', '.join(known)}")


def events(text: str) -> tuple[str, ...]:
    """Check that there are events; their meaning depends on the machine."""
    if not text:
        raise UsageError("give events, such as cycles,page-faults; prospect list shows them")
    return (text,)


def counted(text: str) -> str:
    """Parse the scope of counts."""
    if text not in ("2", "3", "4"):
        raise UsageError("give 2 (the command), 3 (and its descendants) or 4 (the whole system)")
    return text


def pids(text: str) -> tuple[int, ...]:
    """Parse numbers of processes, separated by commas."""
    return _numbers(text, "processes")


def tids(text: str) -> tuple[int, ...]:
    """Parse numbers of threads, separated by commas."""
    return _numbers(text, "threads")


def _numbers(text: str, of: str) -> tuple[int, ...]:
    if not all(part.isascii() and part.isdigit() and int(part) for part in text.split(",")):
        raise UsageError(f"give numbers of {of}, as 4711 or 4711,4712")
    return tuple(dict.fromkeys(map(int, text.split(","))))


def disassembler(text: str) -> str:
    """Parse a disassembler; GDB has to be installed."""
    if one_of(text, DISASSEMBLERS, "library or gdb") == "gdb":
        import shutil

        if not any(map(shutil.which, ("gdb-multiarch", "gdb"))):
            raise UsageError("gdb is not installed; install it, or leave this out")
    return text


def share(text: str) -> float:
    """Parse a share, from 0 up to but not 1."""
    digits = text.removesuffix("%")
    found = _number(digits) / (100.0 if digits != text else 1.0)
    if not 0.0 <= found < 1.0:
        raise UsageError("give a share such as 5% or 0.05")
    return found


def rate(text: str) -> float:
    """Parse a share over 0."""
    found = share(text)
    if not found:
        raise UsageError("give a share over 0, such as 5%")
    return found


def count(text: str) -> int:
    """Parse a whole number."""
    number = _whole_number(text)
    if number < 0:
        raise UsageError("give a whole number")
    return number


def port(text: str) -> int:
    """Parse the number of a port."""
    number = _whole_number(text)
    if not 0 <= number < 1 << 16:
        raise UsageError("give the number of a port, up to 65535, or 0 for any")
    return number


def call_graph(text: str) -> str:
    """Check a mode of recording callers."""
    from prospect.capture.events.recorded_callers import parse_call_graph

    if not text:
        raise UsageError("give a mode, such as dwarf")
    parse_call_graph(text)
    return text


def report_separations(text: str) -> tuple[str, ...]:
    """Parse the rows that a report separates."""
    one_of(text, ("process",), "process; --sort has tables by thread and other keys")
    return (text,)


def count_calls(text: str) -> str:
    """Check patterns of functions whose calls are counted."""
    from prospect.recording.counted_functions import parse_call_patterns

    parse_call_patterns(text)
    return text


def work(text: str) -> str:
    """Check units of work."""
    from prospect.estimate.compare.option_texts import parse_work

    parse_work(text)
    return text


def condition(text: str) -> str:
    """Check a condition of `prospect diff`."""
    from prospect.estimate.compare.option_texts import parse_condition

    if parse_condition(text) is None:
        raise UsageError("give a condition such as 'slower by 3% at 95%'")
    return text


def command(text: str) -> tuple[str, ...]:
    """Split a command line into words, as a shell does."""
    import shlex

    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"cannot be split into words: {str(error).lower()}") from None
    if not (words and words[0]):
        raise UsageError("give a command with its words, in quotes: './program --its-option'")
    return words


def file_name(text: str) -> str:
    """Check the name of a file."""
    if not text or "\0" in text:
        raise UsageError("give the name of a file")
    return text


def metrics(text: str) -> str:
    """Check the name of a file of metrics, or the address of a page of them."""
    from prospect.daemon.metrics import address_of, is_address

    if is_address(file_name(text)):
        address_of(text)
    return text


def kubelet(text: str) -> str:
    """Check the URL of this machine's kubelet."""
    from prospect.capture.machine.container_servers import is_kubelet

    if not is_kubelet(text):
        raise UsageError("give the kubelet's address on this machine: http://127.0.0.1:10255/pods")
    return text


def collector(text: str) -> str:
    """Check the URL of a collector."""
    from prospect.errors import PushError
    from prospect.fleet.store_places import endpoint_of

    try:
        endpoint_of(text)
    except PushError as error:
        raise UsageError(str(error)) from None
    return text


def place(text: str) -> str:
    """Check the name of a directory, or the URL of one or of a bucket."""
    from prospect.fleet.store_places import refuse_credentials

    try:
        refuse_credentials(file_name(text))
    except StoreError as error:
        raise UsageError(str(error)) from None
    return text


def file_to_read(text: str) -> str:
    """Check the name of a readable file."""
    if os.path.isdir(file_name(text)) or not os.access(text, os.R_OK):
        raise UsageError("no such file, or not readable")
    return text


def directory(text: str) -> str:
    """Check the name of a directory that can be searched."""
    if not os.path.isdir(file_name(text)) or not os.access(text, os.X_OK):
        raise UsageError("no such directory, or this user may not search it")
    return text


def name(text: str) -> str:
    """Check a name, or a pattern of names."""
    if not text:
        raise UsageError("give a name or a pattern, as 'read*'")
    return text


def sections(text: str) -> tuple[str, ...]:
    """Parse sections of `prospect calls`."""
    return some_of(text, CALL_SECTIONS)


def symbols(text: str) -> tuple[str, ...]:
    """Parse names and patterns of functions."""
    return tuple(filter(None, text.split(","))) or (name(text),)


def sort_keys(text: str) -> tuple[str, ...]:
    """Parse keys of a table, also by perf's names."""
    return known_sort_keys(text.split(","))


def dimension(text: str) -> str:
    """Parse the dimension of columns."""
    return known_dimension(text)


def cpus(text: str) -> tuple[int, ...]:
    """Parse a list of CPUs, as 0,2-3."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        numbers = (first, last if dash else first)
        if not all(n.isascii() and n.isdigit() and len(n) < 6 for n in numbers):
            raise UsageError("give numbers of CPUs, as 0,2-3")
        found += range(int(numbers[0]), int(numbers[1]) + 1)
    if not found:
        raise UsageError("give numbers of CPUs, as 0,2-3")
    return tuple(found)


def interval(text: str) -> tuple[float, float]:
    """Parse two times in seconds, the first before the second."""
    begin, comma, end = text.partition(",")
    if not comma:
        raise UsageError("give two times in seconds, as 1.5,3")
    found = (seconds(begin), seconds(end))
    if found[0] >= found[1]:
        raise UsageError("the second time is not after the first")
    return found


def listed(text: str) -> tuple[str, ...]:
    """Parse directories or patterns, separated by colons."""
    words = tuple(word for word in text.split(":") if word)
    if not words or "\0" in text:
        raise UsageError("give one, or several with ':' between them")
    return words


def one_of(text: str, known: tuple[str, ...], words: str) -> str:
    """Return a known word; `words` describe the known ones."""
    if text not in known:
        from prospect.spelling import suggestion

        raise UsageError(f"give {words}{suggestion(text, known)}")
    return text


def choice(words: str) -> Callable[[str], str]:
    """Return a parser of one of several words, which are separated by | here."""
    known = tuple(words.split("|"))
    return lambda text: one_of(text, known, f"{', '.join(known[:-1])} or {known[-1]}")


def some_of(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return known words, separated by commas in the text."""
    given = tuple(text.split(","))
    for word in given:
        one_of(word, known, f"some of {', '.join(known)}")
    return given


def daemon_call_graph(text: str) -> str:
    """Parse a daemon's mode of recording callers."""
    return one_of(text, ("fp", "auto", "none"), "fp, auto or none")


def window(text: str) -> float:
    """Parse the length of a window."""
    found = seconds(text)
    if not 1.0 <= found <= 3600.0:
        raise UsageError("give seconds, from 1 to 3600")
    return found


def separations(text: str) -> tuple[str, ...]:
    """Parse the keys that a store separates."""
    return some_of(text, SEPARABLE)


def merged(text: str) -> tuple[str, ...]:
    """Parse the classes that a report merges."""
    if "unitmask" in text.split(","):
        raise UsageError(
            "samples of events with different unit masks count different things and do not add up; "
            "choose one by unit-mask:, or see them side by side by --columns event"
        )
    return some_of(text, MERGED)


def host_share(text: str) -> float:
    """Parse a share of hosts."""
    share = _number(text, "0123456789.+eE-")
    if not 1e-6 <= share <= 1.0:
        raise UsageError("give a share over 0 and up to 1, as 0.01")
    return share


def keep(text: str) -> str:
    """Check how much a store keeps."""
    from prospect.store.retention import parse_keep

    parse_keep(text)
    return text


def engine(text: str) -> str:
    """Check the name of an engine: local, or the address of a Spark cluster's master."""
    if text != "local" and not text.startswith("spark://"):
        raise UsageError("give local, or spark://HOST:PORT of a cluster's master")
    return text
