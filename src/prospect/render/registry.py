"""All renderers, one for each output format, by name.

To add a format, write its module next to the others and list its class here: the command line and
the Python interface find it. Only the module of the chosen format is imported. Installed packages
can add formats, see `prospect.plugins`.
"""

from __future__ import annotations

from prospect.errors import UsageError
from prospect.options import ReportOptions
from prospect.records import NamedTuple, asdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from prospect.render.renderer import Renderer


class Format(NamedTuple):
    """The place of a format's renderer, and facts that are needed before it is imported.

    Attributes:
        module, renderer: its class.
        has_stacks: whether it shows the call stacks of a profile.
        is_json: whether it is one JSON document.
        is_binary: whether it is not text.
        has_first_screen: whether it shows functions with the time of all that they call.
    """

    module: str
    renderer: str
    has_stacks: bool = False
    is_json: bool = False
    is_binary: bool = False
    has_first_screen: bool = False


FORMATS = {
    "text": Format("text.text_report", "TextRenderer", has_first_screen=True),
    "json": Format("json.report_document", "JsonRenderer", is_json=True, has_first_screen=True),
    "csv": Format("csv", "CsvRenderer"),
    "html": Format("html", "HtmlRenderer", has_stacks=True),
    "xml": Format("opreport_xml", "OprofileXmlRenderer"),
    "gmon": Format("gmon", "GmonRenderer", is_binary=True),
    "folded": Format("folded", "FoldedRenderer", has_stacks=True),
    "svg": Format("svg", "SvgRenderer", has_stacks=True),
    "pprof": Format("pprof", "PprofRenderer", has_stacks=True, is_binary=True),
    "speedscope": Format("speedscope", "SpeedscopeRenderer", has_stacks=True, is_json=True),
    "callgrind": Format("callgrind", "CallgrindRenderer", has_stacks=True),
    "firefox": Format("firefox", "FirefoxRenderer", has_stacks=True, is_json=True),
    "chrome": Format("chrome_trace", "ChromeTraceRenderer", has_stacks=True, is_json=True),
    "otlp": Format("otlp", "OtlpRenderer", has_stacks=True, is_binary=True),
}

# Formats of one table by the keys of `--sort`.
SORTED_FORMATS = {
    "text": Format("text.sorted_rows", "SortedTextRenderer"),
    "json": Format("json.key_table_documents", "SortedJsonRenderer", is_json=True),
    "csv": Format("csv", "SortedCsvRenderer"),
}

# Formats of one table with columns for each class of `--columns`.
CLASS_FORMATS = {
    "text": Format("text.sorted_rows", "ClassTextRenderer"),
    "json": Format("json.key_table_documents", "ClassJsonRenderer", is_json=True),
    "csv": Format("csv", "ClassCsvRenderer"),
}


def format_of(name: str) -> Format:
    """Return the entry of a format, built in or a plug-in's.

    Raises:
        UsageError: there is no such format, or several packages have it.
    """
    if name in FORMATS:
        return FORMATS[name]
    from prospect import plugins  # noqa: PLC0415 - rarely asked for

    if plugins.plugin(plugins.FORMATS, name) is None:
        known = (*FORMATS, *(one.name for one in plugins.plugins(plugins.FORMATS)))
        raise UsageError(f"there is no format '{name}'; there are {', '.join(known)}")
    return Format("plugin_report", "PluginRenderer")


def renderer_class(name: str, *, is_sorted: bool = False, has_columns: bool = False) -> Any:
    """Return the class of the renderer called `name`.

    Raises:
        UsageError: there is no such format.
    """
    found = format_of(name)
    if is_sorted or has_columns:
        tables = CLASS_FORMATS if has_columns else SORTED_FORMATS
        if name not in tables:
            option = "--columns" if has_columns else "--sort"
            raise UsageError(f"{option} makes a table of text, json or csv, no {name}")
        found = tables[name]
    import importlib  # noqa: PLC0415 - not for the names of formats

    return getattr(importlib.import_module(f"prospect.render.{found.module}"), found.renderer)


def make_renderer(name: str, asked: ReportOptions | None = None, **options: Any) -> Renderer:
    """Return the renderer called `name`.

    `options` are fields of `Renderer`, which override those of `asked`.

    Raises:
        UsageError: there is no such format, or it has no part for an option.
    """
    asked = asked or ReportOptions()
    options = {**asdict(asked), **options, "format": name}
    if options["critical_path"] and not (format_of(name).has_stacks and name != "html"):
        raise UsageError(
            "--critical-path is for files of call stacks, as --format svg or folded; text, JSON and"
            " pages show wall time without it"
        )
    if options["columns"] and not options["sort"]:
        options["sort"] = ("function",)
    is_sorted, has_columns = bool(options["sort"]), bool(options["columns"])
    kind: type[Renderer] = renderer_class(name, is_sorted=is_sorted, has_columns=has_columns)
    return kind(**options)
