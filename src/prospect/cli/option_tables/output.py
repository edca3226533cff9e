"""Options of what is written: reports, recordings, formats."""

from __future__ import annotations

from prospect.cli import values
from prospect.cli.commands import (
    COMPARERS,
    NAMERS,
    READERS,
    RECORDERS,
    RECORDING_READERS,
    REPORTS,
)
from prospect.cli.option import Option
from prospect.cli.settings import DEFAULT_RECORDING
from prospect.dimensions import COLUMN_DIMENSIONS, SORT_KEYS, known_dimension
from prospect.render.registry import FORMATS

_FOR_OTHER_TOOLS = [name for name, one in FORMATS.items() if one.has_stacks and name != "html"]

OUTPUT = (
    Option(
        "output",
        "f",
        ("output",),
        "FILE",
        "write the report to FILE (default: standard output)",
        READERS,
        values.file_name,
    ),
    Option(
        "input",
        "i",
        ("input",),
        "FILE",
        "the same as FILE without -i",
        RECORDING_READERS,
        values.file_name,
    ),
    Option(
        "user_threshold_s",
        "m",
        ("user-threshold",),
        "SEC",
        "hide processes and routines with less user time than SEC",
        NAMERS,
        values.seconds,
    ),
    Option(
        "kernel_threshold_s",
        "k",
        ("kernel-threshold",),
        "SEC",
        "hide kernel routines with less time than SEC",
        NAMERS,
        values.seconds,
    ),
    Option(
        "threshold",
        "",
        ("threshold",),
        "PERCENT",
        "hide rows with less than PERCENT of the time that -V selects; replaces -m and -k",
        REPORTS,
        values.percent,
    ),
    Option(
        "save",
        "",
        ("save",),
        "FILE",
        "keep the recording in FILE, for prospect report or perf (default: not kept)",
        ("",),
        values.file_name,
    ),
    Option(
        "save",
        "o",
        ("output",),
        "FILE",
        f"record to FILE (default: {DEFAULT_RECORDING}; an existing one becomes FILE.old)",
        ("record",),
        values.file_name,
    ),
    Option(
        "save",
        "o",
        ("save",),
        "DIR",
        "keep the recordings in DIR, as a1.data, b1.data, a2.data ... (default: not kept)",
        ("compare",),
        values.file_name,
    ),
    Option(
        "max_bytes",
        "",
        ("max-size",),
        "SIZE",
        "end the recording at SIZE, such as 500M or 4G; COMMAND goes on (default: a quarter of the "
        "free space where it is written, at least 64M)",
        RECORDERS,
        values.size,
    ),
    Option(
        "classic",
        "",
        ("classic",),
        "",
        "write the text report in the order of Prospect 0.9, without the first screen",
        REPORTS,
    ),
    Option(
        "separate",
        "",
        ("separate",),
        "process",
        "show the functions of each process separately (default: processes of the same name "
        "together)",
        REPORTS,
        values.report_separations,
        words=("process",),
    ),
    Option(
        "sort",
        "",
        ("sort",),
        "KEYS",
        "write one table instead of the report, as text, json or csv: time by these keys, "
        f"separated by commas: {', '.join(SORT_KEYS)}; perf's dso and sym mean object "
        "and routine",
        REPORTS,
        values.sort_keys,
        words=SORT_KEYS,
    ),
    Option(
        "columns",
        "",
        ("columns",),
        "DIMENSION",
        "write one table instead of the report, as text, json or csv: rows by routine, or by the "
        "keys of --sort, with a column for each event, cpu, thread, ...: "
        f"{', '.join(COLUMN_DIMENSIONS)}",
        REPORTS,
        known_dimension,
        words=COLUMN_DIMENSIONS,
    ),
    Option(
        "merge",
        "",
        ("merge",),
        "CLASSES",
        "accepted for scripts written for opreport: a report adds up "
        f"{', '.join(values.MERGED)} anyway; an error together with --separate, "
        "--sort or --columns that keep the same apart",
        ("report",),
        values.merged,
        words=values.MERGED,
    ),
    Option(
        "label",
        "",
        ("label",),
        "SOURCE",
        "label samples by marks:FILE, the list of what each thread began and ended, or by a "
        "plug-in's NAME:ARGUMENT; sorts by label unless --sort is given",
        REPORTS,
        values.name,
    ),
    Option(
        "otlp",
        "",
        ("otlp",),
        "URL",
        "also send the profile to an OpenTelemetry collector, such as https://collector:4318; "
        "credentials come from OTEL_EXPORTER_OTLP_HEADERS",
        (*REPORTS, "daemon"),
        values.collector,
    ),
    Option(
        "pager",
        "",
        ("no-pager",),
        "",
        "on a terminal, print long output directly instead of through PAGER (default: less)",
        READERS,
        value=False,
    ),
    Option(
        "format",
        "",
        ("format",),
        "NAME",
        "write the report as text, json, csv or html (a page for a browser), as gmon for gprof, "
        "as OProfile's xml, or "
        "its call stacks for another tool: "
        f"{', '.join(_FOR_OTHER_TOOLS)}",
        REPORTS,
        values.report_format,
        words=tuple(FORMATS),
    ),
    Option(
        "inline",
        "",
        ("inline",),
        "",
        "show inlined functions in call stacks, from the source lines of debug information",
        (*REPORTS, "view", "calls"),
    ),
    Option(
        "lines",
        "",
        ("lines",),
        "",
        "also show hits by source line, with the functions that were inlined there",
        REPORTS,
    ),
    Option(
        "format",
        "",
        ("format",),
        "text|json",
        "the answer as text or JSON",
        ("annotate", "cache", "calls", "control", "doctor", "list", "store"),
        values.text_or_json,
    ),
    Option(
        "format",
        "",
        ("format",),
        "text|json|html",
        "the comparison as text, JSON, or a page for a browser with a differential flame graph",
        COMPARERS,
        values.comparison_format,
    ),
    Option(
        "format",
        "",
        ("format",),
        "text|json|csv",
        "the answer as text, JSON or CSV",
        ("stat", "sql", "fleet"),
        values.counts_format,
    ),
    Option(
        "output",
        "f",
        ("output",),
        "FILE",
        "write the answer to FILE (default: standard output)",
        ("stat", "sql", "fleet"),
        values.file_name,
    ),
)
