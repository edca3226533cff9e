"""Options of what is sampled, and how often, by a recording and by the daemon into its store."""

from __future__ import annotations

from prospect.cli import values
from prospect.cli.commands import ASKING, CHOOSERS, RECORDERS, RECORDS, SAMPLERS, STORES
from prospect.cli.option import Option

SAMPLING = (
    Option(
        "detail",
        "V",
        (),
        "2|3|4|k",
        "details of: 2 the command itself, 3 the command and all its descendants, "
        "4 every process active on the system, k the kernel only; with neither COMMAND nor -p, "
        "2 and 3 mean 4",
        CHOOSERS,
        values.details,
    ),
    Option("detail", "", ("child",), "", "the same as -V 2", CHOOSERS, value="2"),
    Option("detail", "", ("follow-forks",), "", "the same as -V 3", CHOOSERS, value="3"),
    Option("detail", "a", ("system-wide", "all-cpus"), "", "the same as -V 4", CHOOSERS, value="4"),
    Option("detail", "", ("kernel-only",), "", "the same as -V k", CHOOSERS, value="k"),
    Option(
        "detail",
        "a",
        ("system-wide", "all-cpus"),
        "",
        "record every process (the default if permitted)",
        ("record",),
        value="4",
    ),
    Option(
        "frequency_hz",
        "H",
        ("frequency", "hertz"),
        "HZ",
        "samples per second on each CPU, from 1 to the kernel's limit",
        SAMPLERS,
        values.positive,
    ),
    Option(
        "frequency_hz",
        "F",
        (),
        "HZ",
        "the same as -H",
        SAMPLERS,
        values.positive,
    ),
    Option(
        "clocks",
        "",
        ("clocks",),
        "K",
        "sample with K timers, 1 to 4, that share the rate (one below -H 10): no program can run "
        "in step with all of them; 0 samples with a hardware counter if there is one, which on "
        "most machines also samples code with interrupts off",
        SAMPLERS,
        values.clocks,
    ),
    Option(
        "overhead_percent",
        "",
        ("overhead",),
        "PERCENT",
        "choose the rate so that sampling takes at most this share of each CPU, such as 0.5%; "
        "instead of -H",
        RECORDERS,
        values.percent,
    ),
    Option(
        "flush_centiseconds",
        "M",
        ("flush",),
        "N",
        "empty the kernel's buffers every N hundredths of a second",
        RECORDERS,
        values.positive,
    ),
    Option(
        "for_s",
        "",
        ("for",),
        "SECONDS",
        "record for that long, without COMMAND: the whole system, or the processes of -p",
        RECORDS,
        values.duration,
    ),
    Option(
        "target",
        "",
        ("target",),
        "USER@HOST",
        "run and record COMMAND on another machine, over ssh; it needs only Python 3.9 or later; "
        "this machine makes the report",
        RECORDS,
        values.name,
    ),
    Option(
        "target",
        "",
        ("target",),
        "USER@HOST",
        "ask another machine, over ssh; it needs only Python 3.9 or later",
        ("stat", "list", "doctor"),
        values.name,
    ),
    Option(
        "target",
        "",
        ("target",),
        "USER@HOST",
        "sample another machine, over ssh; it needs only Python 3.9 or later; this machine keeps "
        "reports, recordings and the daemon's store",
        ("top", "daemon"),
        values.name,
    ),
    Option(
        "target",
        "",
        ("target",),
        "USER@HOST",
        "control the daemon here that samples this target",
        ("control",),
        values.name,
    ),
    Option(
        "count_syscalls",
        "",
        ("count-syscalls",),
        "",
        "also count every system call of every process exactly; the report shows the cost",
        RECORDS,
    ),
    Option(
        "count_calls",
        "",
        ("count-calls",),
        "[IMAGE:]NAME[,...]",
        "count the calls of functions whose names match these patterns, in COMMAND's program or "
        "in IMAGE, a path or the name of a library; the report shows the cost",
        RECORDS,
        values.count_calls,
    ),
    Option(
        "count_budget_percent",
        "",
        ("count-budget",),
        "PERCENT",
        "let --count-calls take at most this share of the command's CPU time: if all "
        "calls cost more, short windows are counted; 100% counts every call until the cost "
        "reaches 5 s",
        RECORDS,
        values.percent,
    ),
    Option(
        "count_hook",
        "",
        ("count-hook",),
        "NAME",
        "also run the entry hook NAME of an installed plug-in at calls that --count-calls counts; "
        "see docs/plugins.md",
        RECORDS,
        values.name,
    ),
    Option(
        "call_graph",
        "",
        ("call-graph",),
        "MODE[,BYTES]",
        "record callers: fp by frame pointers, dwarf by copies of BYTES of each stack (default "
        "8192), auto by both, lbr by the CPU's branch stack (default: callers within the kernel "
        "only)",
        RECORDERS,
        values.call_graph,
        words=("auto", "dwarf", "fp", "lbr"),
    ),
    Option(
        "call_graph",
        "",
        ("call-graph",),
        "MODE[,BYTES]",
        "find callers: fp by frame pointers, dwarf by copies of BYTES of each stack (default "
        "8192), which costs more, auto by both, lbr by the CPU's branch stack (default: fp)",
        ("top",),
        values.call_graph,
        words=("auto", "dwarf", "fp", "lbr"),
    ),
    Option(
        "compress",
        "z",
        ("compress",),
        "",
        "compress the recording with Zstandard, as perf record -z does: recordings with copies of "
        "stacks become much smaller, and the recorder takes more CPU time",
        ("record",),
    ),
    Option(
        "off_cpu",
        "",
        ("off-cpu",),
        "",
        "also record every context switch: the report shows how long each thread waited, for what, "
        "and how long for a CPU",
        RECORDS,
    ),
    Option(
        "off_cpu",
        "",
        ("off-cpu",),
        "",
        "also record every context switch: the page Waiting shows how long each thread waited, and "
        "in which stacks",
        ("top",),
    ),
    Option(
        "python",
        "",
        ("python",),
        "",
        "record the Python function of each sample in CPython processes, even if another tracer's "
        "BPF programs then cost samples (default: while the cost is below 2%)",
        RECORDS,
        value="always",
    ),
    Option(
        "python",
        "",
        ("no-python",),
        "",
        "do not record Python functions",
        RECORDS,
        value="never",
    ),
)

_DAEMON = ("daemon",)

STORING = (
    Option(
        "store",
        "",
        ("store",),
        "DIR",
        "the directory of the store; for daemon and control by default /var/lib/prospect, or for "
        "ordinary users ~/.local/state/prospect; the other commands also take a directory of "
        "many hosts' stores, each in host=NAME, or its URL, file:///DIR or s3://BUCKET/PREFIX",
        STORES,
        values.place,
    ),
    Option(
        "engine",
        "",
        ("engine",),
        "local|URL",
        "the engine for queries of a store: DuckDB in this process, or the Spark cluster whose "
        "master is at spark://HOST:PORT, with the store at the same path on each of its workers",
        ASKING,
        values.engine,
    ),
    Option(
        "daemon_hz",
        "H",
        ("frequency", "hertz"),
        "HZ",
        "samples per second on each CPU",
        _DAEMON,
        values.positive,
    ),
    Option("daemon_hz", "F", (), "HZ", "the same as -H", _DAEMON, values.positive),
    Option(
        "daemon_call_graph",
        "",
        ("call-graph",),
        "MODE",
        "record callers: fp by frame pointers, auto also by copies of stacks, none only within the "
        "kernel",
        _DAEMON,
        values.daemon_call_graph,
        words=("fp", "auto", "none"),
    ),
    Option(
        "window_s",
        "",
        ("window",),
        "SECONDS",
        "length of a window, the store's resolution in time, from 1 to 3600",
        _DAEMON,
        values.window,
    ),
    Option(
        "separate",
        "",
        ("separate",),
        "WHAT[,...]",
        "store processes, threads or CPUs separately (process, thread, cpu), which takes more "
        "space; library is accepted, samples in libraries are always stored by program",
        _DAEMON,
        values.separations,
        words=values.SEPARABLE,
    ),
    Option(
        "keep",
        "",
        ("keep",),
        "AGE[,DAYS][,SIZE]",
        "remove windows older than AGE, such as 12h, 7d or 4w, and the oldest data if the store "
        "exceeds SIZE, such as 500M; keep summaries of days for DAYS, such as 90d (400d by "
        "default)",
        _DAEMON,
        values.keep,
    ),
    Option(
        "metrics",
        "",
        ("metrics",),
        "FILE",
        "after each window write the output of control status to FILE, for node_exporter's "
        "textfile collector (*.prom)",
        _DAEMON,
        values.file_name,
    ),
    Option(
        "ship",
        "",
        ("ship",),
        "URL",
        "send finished hours to the directory or bucket that holds the stores of many hosts: "
        "file:///DIR or s3://BUCKET/PREFIX; credentials come from the environment or files",
        (*_DAEMON, "store"),
        values.place,
    ),
    Option(
        "host_share",
        "",
        ("host-share",),
        "SHARE",
        "send hours only from a share of the hosts, such as 0.01; each hour a new choice, "
        "made by host name, represents all hosts",
        (*_DAEMON, "store"),
        values.host_share,
    ),
    Option(
        "unit",
        "",
        ("unit",),
        "",
        "print the systemd unit that runs this daemon with these options, and exit",
        _DAEMON,
    ),
)
