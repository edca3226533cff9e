"""Options of how names are found: which files give them, and what may be asked for them."""

from __future__ import annotations

from prospect.cli import values
from prospect.cli.commands import FINDERS
from prospect.cli.option import Option

NAMING = (
    Option(
        "system_map",
        "K",
        ("system-map",),
        "FILE",
        "kernel symbols from this System.map (default: the running kernel's own)",
        FINDERS,
        values.file_to_read,
    ),
    Option(
        "kernel_image",
        "L",
        ("kernel-image",),
        "FILE",
        "kernel symbols from this uncompressed vmlinux (default: the running kernel's own)",
        FINDERS,
        values.file_to_read,
    ),
    Option(
        "program",
        "",
        ("program",),
        "FILE",
        "the program that wrote a gmon.out (default: a.out in the same directory)",
        ("report", "view", "calls"),
        values.file_to_read,
    ),
    Option(
        "debuginfod_s",
        "",
        ("debuginfod",),
        "SEC",
        "wait at most SEC seconds in total for debug-file servers (DEBUGINFOD_URLS) to send "
        "missing symbols; 0 asks no server",
        FINDERS,
        values.seconds,
    ),
    Option(
        "native",
        "",
        ("native",),
        "",
        "show the Python interpreter's own functions as rows, with the Python functions as their "
        "callers (default: a Python function's time includes what the interpreter does for it)",
        FINDERS,
    ),
    Option(
        "use_cache",
        "",
        ("no-cache",),
        "",
        "neither read nor write the cache of symbol tables and of what a sample costs, and ask no "
        "debug-file server",
        (*FINDERS, "top"),
        value=False,
    ),
)
