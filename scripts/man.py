"""Write docs/prospect.1 and the keywords of docs/python.md from the table behind ``--help``.

Usage: python scripts/man.py [--check]. With --check nothing is written; the status is 1 where one
of them is not current.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import prospect
from prospect.cli import help as pages
from prospect.cli.commands import COMMANDS, PROFILE, SUBCOMMANDS, Command
from prospect.cli.option_table import OPTIONS, options_of
from prospect.version import __version__

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "prospect.1"
PYTHON_PAGE = DOCS / "python.md"
_TABLE_HEAD = "| option | keyword | of |\n|---|---|---|\n"
FUNCTIONS = {
    "record": prospect.record,
    "open": prospect.open,
    "Profile.report": prospect.Profile.report,
    "annotate": prospect.annotate,
    "calls": prospect.calls,
    "count": prospect.count,
    "archive": prospect.archive,
    "diff": prospect.diff,
    "Difference.report": prospect.Difference.report,
}

_MAP_FILES = "/tmp/perf-PID.map"  # noqa: S108 - the name that every JIT and profiler agreed on
_FILES = (
    ("perf.data", "what prospect record writes and prospect report reads; perf's own format"),
    (
        "~/.cache/prospect",
        "symbol tables by build id, and what debug-file servers sent; see prospect cache",
    ),
    (_MAP_FILES, "names of compiled code that a JIT leaves for profilers; read"),
)
_ENVIRONMENT = (
    ("TMPDIR", "where a recording is kept until the report is written (default: /var/tmp)"),
    ("NO_COLOR", "where this is set and not empty, a report on a terminal has no colours"),
    ("XDG_CACHE_HOME", "where the cache is kept, in prospect (default: ~/.cache)"),
    (
        "PROSPECT_MEMORY",
        (
            "how much memory the files of names that a report reads may take together: symbol "
            "tables, map files and jitdump files; such as 500M or 4G (default: 1G)"
        ),
    ),
    ("PROSPECT_NO_CACHE", "where this is set and not empty, nothing is kept on disk"),
    (
        "DEBUGINFOD_URLS",
        (
            "debug-file servers to ask for names, divided by blanks (default: nobody is asked); "
            "DEBUGINFOD_TIMEOUT, DEBUGINFOD_MAXTIME and DEBUGINFOD_MAXSIZE as in "
            "debuginfod-client-config(7)"
        ),
    ),
)
_SEE_ALSO = "perf(1), perf-record(1), perf-report(1), perf_event_open(2), time(1)"


def manual() -> str:
    """Return the manual page as man(7) source."""
    parts = [
        f'.TH PROSPECT 1 "" "prospect {__version__}" "User Commands"',
        ".SH NAME\nprospect \\- profile a command, or the whole system while it runs",
        ".SH SYNOPSIS\n" + "\n.br\n".join(_synopsis(command) for command in COMMANDS),
        ".SH DESCRIPTION\n" + _text(pages.DESCRIPTION),
        ".SH OPTIONS\n" + _options(PROFILE),
        ".SH SUBCOMMANDS",
        *(_subcommand(command) for command in SUBCOMMANDS),
        ".SH EXIT STATUS\n" + _terms(pages.EXIT_STATUS),
        ".SH EXAMPLES\n" + _terms((line, question) for question, line in pages.EXAMPLES),
        ".SH FILES\n" + _terms(_FILES),
        ".SH ENVIRONMENT\n" + _terms(_ENVIRONMENT),
        ".SH SEE ALSO\n" + _text(_SEE_ALSO),
    ]
    return "\n".join(parts) + "\n"


def _subcommand(command: Command) -> str:
    summary = _text(pages.sentence(command))
    return f".SS {_synopsis(command)[3:]}\n{summary}\n{_options(command)}".rstrip("\n")


def _synopsis(command: Command) -> str:
    return ".B " + _text(pages.usage(command).removeprefix("usage: "))


def _options(command: Command) -> str:
    return _terms(
        (pages.option_label(option), pages.option_help(option))
        for option in options_of(command)
        if command is PROFILE or option.keyword != "help"
    )


def _terms(rows: object) -> str:
    return "\n".join(f".TP\n.B {_text(term)}\n{_text(text)}" for term, text in rows)


def _text(words: str) -> str:
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def keywords() -> str:
    """Return docs/python.md with a row for each keyword of the Python interface."""
    takers: dict[str, list[str]] = {}
    for name, function in FUNCTIONS.items():
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                takers.setdefault(parameter.name, []).append(f"`{name}`")
    rows: dict[str, list[str]] = {}
    values: dict[str, str] = {}
    for option in OPTIONS:
        if option.keyword not in takers:
            continue
        spelled = "`, `".join(option.spellings)
        label = f"`{spelled} {option.metavar}".rstrip().replace("|", "\\|") + "`"
        rows.setdefault(option.keyword, []).append(label)
        is_flag = not (option.check or option.is_counted) and option.value in (True, False)
        values[option.keyword] = f"{option.keyword}={option.value}" if is_flag else option.keyword
    table = "".join(
        f"| {', '.join(dict.fromkeys(labels))} | `{values[keyword]}` | "
        f"{', '.join(takers[keyword])} |\n"
        for keyword, labels in rows.items()
    )
    before, head, rest = PYTHON_PAGE.read_text().partition(_TABLE_HEAD)
    return before + head + table + "\n" + rest.partition("\n\n")[2]


def main() -> int:
    """Write the pages, or say whether they are current."""
    status = 0
    for page, text in ((PAGE, manual()), (PYTHON_PAGE, keywords())):
        if sys.argv[1:] != ["--check"]:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            sys.stderr.write(f"docs/{page.name} is not current: run python scripts/man.py\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
