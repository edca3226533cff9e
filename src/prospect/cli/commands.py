"""The list of commands: names, operands and summaries."""

from __future__ import annotations

from prospect.records import NamedTuple


class Command(NamedTuple):
    """A command: its operands, and a summary.

    `most_words` is the largest number of operands, None for any number; `separator` is an operand
    that looks like an option. With ``--store``, a command that `has_store` takes specifications.
    ``prospect.cli`` has a module of its name, whose ``run(settings, words, command_line)`` returns
    the exit status.
    """

    name: str
    operands: str
    summary: str
    most_words: int | None = None
    separator: str = ""
    has_store: bool = False

    @property
    def runs_another(self) -> bool:
        """Whether its operands are a command line with its own options."""
        return "[ARGS...]" in self.operands

    def unexpected(self, word: str) -> str:
        """Return the message for a word after its operands."""
        return f"{self.name}: unexpected '{word}'; see prospect help {self.name}"


PROFILE = Command(
    "",
    "COMMAND [ARGS...] | -p PID | --for SECONDS",
    "profile for as long as COMMAND runs, then report",
)
RECORD = Command(
    "record",
    "[COMMAND [ARGS...]]",
    "only record, to a perf.data file that perf and other tools can read too; without COMMAND, "
    "until Ctrl-C",
)
REPORT = Command(
    "report",
    "[FILE|-|--store DIR] [SPEC...]",
    "report on a recording by prospect or by perf, or another tool's profile; - reads a pipe; or "
    "on part of a daemon's store, as in since:02:10 until:02:25 comm:nginx (docs/daemon.md lists "
    "these words)",
    1,
    has_store=True,
)
VIEW = Command(
    "view",
    "[FILE|-] | --store DIR [SPEC...]",
    "show a recording of any size in a browser on this machine, as --format html does; or a "
    "store, over time",
    1,
    has_store=True,
)
ANNOTATE = Command(
    "annotate",
    "[FUNC|IMAGE] [FILE|-|--store DIR SPEC...]",
    "show the instructions of the hottest or the named functions, with samples and source lines",
    2,
    has_store=True,
)
CALLS = Command(
    "calls",
    "[FILE|-|--store DIR] [SPEC...]",
    "show callers and callees: total times, trees, the call graph",
    1,
    has_store=True,
)
DIFF = Command(
    "diff",
    "A B | [--store DIR] A... --against B...",
    "show what changed from recording A to B, between two sides of several runs each, or "
    "between two parts of a store, and how certain that is",
    has_store=True,
    separator="--against",
)
COMPARE = Command(
    "compare",
    "--a COMMAND --b COMMAND",
    "run two commands in turn, several times each, record every run, and show what differs and "
    "how certain that is; standard output is discarded and standard input is empty",
    0,
)
WHATIF = Command(
    "whatif",
    "[FILE|-] [FUNCTION=FACTOR...]",
    "show how long a recorded command would take at least if functions were faster, as in "
    "parse=0.5 for half of their time; the recording needs --wall or --off-cpu",
)
ARCHIVE = Command(
    "archive",
    "[FILE]",
    "turn a recording into one file that gives the same report on any machine",
    1,
)
CACHE = Command("cache", "", "show or remove what Prospect keeps on disk to save time", 0)
STAT = Command(
    "stat",
    "[COMMAND [ARGS...]]",
    "count events while COMMAND runs, of processes, of CPUs or of the whole system",
)
LIST = Command("list", "[PATTERN]", "list the events of this machine, and what they count", 1)
DOCTOR = Command("doctor", "", "report what can be profiled here, and what would enable more", 0)
HELP = Command("help", "[SUBCOMMAND]", "show how a subcommand is used", 1)
EXAMPLES = Command("examples", "", "show command lines for common questions", 0)
COMPLETION = Command(
    "completion",
    "bash|zsh|fish",
    "print the script that completes commands and options in a shell",
    1,
)
DAEMON = Command(
    "daemon", "", "sample the whole system continuously into a store, for reports later", 0
)
CONTROL = Command(
    "control",
    "status|stop|start|dump|reset|session NAME",
    "ask a store's daemon for its status, or control it: stop or start sampling, write the "
    "current window now (dump), delete the current session (reset), start a new one (session NAME)",
    2,
)
STORE = Command(
    "store",
    "list|check|compact|drop|export|ship [SPEC...]",
    "list the days, hosts and services of a store, or check it; merge windows into hours and "
    "days, and many hosts' days into days of all hosts; remove a part, copy one (export "
    "DIRECTORY SPEC...), or send finished hours elsewhere",
    None,
)
SQL = Command(
    "sql",
    "QUERY",
    "answer one SELECT over the tables of a store: hits, samples, functions, objects, stacks, "
    "frames, coverage, hosts",
    1,
)
FLEET = Command(
    "fleet",
    "top|outliers|deploys [BUILD]|coverage [SPEC...]",
    "query the stores of many hosts: the functions that take most time, the hosts that differ, the "
    "effect of a build, the coverage",
    None,
)
TOP = Command("top", "", "show live, in this terminal, where CPU time goes", 0)
SUBCOMMANDS = (
    TOP,
    DAEMON,
    CONTROL,
    STORE,
    SQL,
    FLEET,
    RECORD,
    REPORT,
    VIEW,
    ANNOTATE,
    CALLS,
    DIFF,
    COMPARE,
    WHATIF,
    ARCHIVE,
    CACHE,
    STAT,
    LIST,
    DOCTOR,
    HELP,
    EXAMPLES,
    COMPLETION,
)
COMMANDS = (PROFILE, *SUBCOMMANDS)

# Commands of perf that have other names here. Some are programs too: script(1) would overwrite the
# recording that `perf script` reads.
PERF_WORDS = (
    "buildid-cache",
    "buildid-list",
    "c2c",
    "evlist",
    "ftrace",
    "inject",
    "kmem",
    "kvm",
    "kwork",
    "lock",
    "mem",
    "probe",
    "sched",
    "script",
    "timechart",
    "trace",
)
