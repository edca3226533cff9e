"""A command of perf's that has another name here → what serves instead.

Imported once such a word was given where COMMAND stands: nothing here delays one that is run.
"""

from __future__ import annotations

_INSTEAD = {
    "buildid-cache": "prospect archive keeps the files with a recording's names",
    "buildid-list": "prospect report --format json has the build ids of a recording",
    "c2c": "nothing does that here; perf c2c needs a CPU that samples memory accesses",
    "evlist": "prospect report names a recording's events, prospect list this machine's",
    "ftrace": "prospect --count-calls NAME COMMAND counts the calls of functions",
    "inject": "prospect report reads recordings with jitdump files as they are",
    "kmem": "prospect --event kmem:kmalloc --call-graph auto COMMAND samples allocations",
    "kvm": "prospect --event kvm:kvm_exit COMMAND samples a host's events",
    "kwork": "prospect -V k COMMAND shows what interrupts and kernel threads took",
    "lock": "prospect --off-cpu COMMAND shows which threads wait, how long and for what",
    "mem": "prospect --event page-faults COMMAND samples faults; loads and stores, perf mem",
    "probe": "prospect --count-calls NAME COMMAND counts the calls of a function",
    "sched": "prospect --off-cpu COMMAND shows waits, and how long threads waited for a CPU",
    "script": "prospect report FILE --format folded (or firefox, ...) has the stacks, and "
    "perf script reads the same file",
    "timechart": "prospect report FILE --format chrome or firefox shows samples by time",
    "trace": "prospect --count-syscalls COMMAND counts system calls, by process and kind",
}

_OPTIONS = {
    "--stdio": "the report is text anyway",
    "--tui": "prospect view shows a recording in a browser",
    "--children": "prospect calls has routines with all that they call",
    "--no-children": "the report has routines by themselves, prospect calls with all they call",
    "--dsos": "prospect report --sort object, or prospect calls --object IMAGE",
    "--comms": "prospect report --sort thread, or prospect calls --thread NAME",
    "--symbols": "prospect report --sort routine, or prospect calls --routine NAME",
}


def option_instead(given: str) -> str:
    """Say what serves in place of an option of perf's, "" where it is none that is known."""
    return f"{given} is perf's: here {_OPTIONS[given]}" if given in _OPTIONS else ""


def instead(word: str) -> str:
    """Say what serves in place of a command of perf's, and how to run a program of that name."""
    return f"{word} is perf's: here {_INSTEAD[word]}; to profile a program: prospect -- {word}"
