"""Options of events: which are sampled or counted, of whom, and what there are."""

from __future__ import annotations

from prospect.cli import values
from prospect.cli.commands import RECORDS
from prospect.cli.option import Option

COUNTING = (
    Option(
        "events",
        "",
        ("event",),
        "EVENTS",
        "count these events, separated by commas, groups in braces; may be given several times "
        "(default: task-clock, switches, migrations, page faults, and cycles, instructions, "
        "branches and branch misses where there are counters)",
        ("stat",),
        values.events,
        is_repeated=True,
    ),
    Option(
        "events",
        "",
        ("event",),
        "EVENTS",
        "sample these events instead of clocks, separated by commas; may be given several times; "
        "see prospect list",
        RECORDS,
        values.events,
        is_repeated=True,
    ),
    Option(
        "scope",
        "V",
        (),
        "2|3|4",
        "count: 2 the command itself, 3 the command and all its descendants, 4 the whole system",
        ("stat",),
        values.counted,
    ),
    Option("scope", "a", (), "", "the same as -V 4", ("stat",), value="4"),
    Option(
        "pids",
        "p",
        ("pid",),
        "PID[,PID...]",
        "count these processes, until they or COMMAND end",
        ("stat",),
        values.pids,
    ),
    Option(
        "pids",
        "p",
        ("pid",),
        "PID[,PID...]",
        "profile these running processes and their descendants: until they end, until "
        "Ctrl-C, or for as long as COMMAND runs or --for says",
        RECORDS,
        values.pids,
    ),
    Option(
        "pids",
        "p",
        ("pid",),
        "PID[,PID...]",
        "show these running processes, with their threads and descendants; without "
        "privilege, only your own",
        ("top",),
        values.pids,
    ),
    Option(
        "tids",
        "t",
        ("tid",),
        "TID[,TID...]",
        "show only these threads, and the threads that they start",
        ("top",),
        values.tids,
    ),
    Option(
        "cpus",
        "",
        ("cpu",),
        "LIST",
        "count everything that runs on these CPUs, such as 0,2-3",
        ("stat",),
        values.cpus,
    ),
    Option(
        "interval_s",
        "",
        ("interval",),
        "SEC",
        "also print the counts of every SEC seconds; 0 for none",
        ("stat",),
        values.seconds,
    ),
    Option(
        "repeat",
        "",
        ("repeat",),
        "N",
        "run COMMAND N times, and print the mean and its 95% interval",
        ("stat",),
        values.positive,
    ),
    Option(
        "fields",
        "",
        ("fields",),
        "",
        "also show the parameters of units and the fields of tracepoints",
        ("list",),
    ),
    Option(
        "check",
        "",
        ("check",),
        "",
        "open each event, and report whether this machine can count and sample it, or why not",
        ("list",),
    ),
)
