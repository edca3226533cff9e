"""All renderers by name, and how one is made from options.

To add a format: write its module beside the others, and list its class here, where the command line
and the Python interface find it. Only the module of the format that is asked for is imported.
Formats that installed packages add stand beside them, see `prospect.plugins`.
"""

from __future__ import annotations

from prospect.errors import UsageError
from prospect.records import NamedTuple, Record, contents, field_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from prospect.figures.processes import Detail
    from prospect.profile.model import Profile
    from prospect.render.renderer import Renderer


class Format(NamedTuple):
    """Where a format's renderer is, and what has to be known of it before that is imported.

    Attributes:
        module, renderer: its class.
        has_stacks: whether it shows the call stacks of a profile.
        is_json: whether it is one JSON document.
        is_binary: whether it is no text, and nothing for a terminal.
    """

    module: str
    renderer: str
    has_stacks: bool = False
    is_json: bool = False
    is_binary: bool = False


FORMATS = {
    "text": Format("text.report", "TextRenderer"),
    "json": Format("json.report", "JsonRenderer", is_json=True),
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

# Of one table by the keys of `--sort`.
SORTED_FORMATS = {
    "text": Format("text.sorted_rows", "SortedTextRenderer"),
    "json": Format("json.sorted_rows", "SortedJsonRenderer", is_json=True),
    "csv": Format("csv", "SortedCsvRenderer"),
}

# Of one table with columns for each class of `--columns`.
CLASS_FORMATS = {
    "text": Format("text.class_columns", "ClassTextRenderer"),
    "json": Format("json.class_columns", "ClassJsonRenderer", is_json=True),
    "csv": Format("class_columns_csv", "ClassCsvRenderer"),
}


def format_of(name: str) -> Format:
    """Return what has to be known of a format, ours or a plug-in's.

    Raises:
        UsageError: there is no such format, or several packages have it.
    """
    if name in FORMATS:
        return FORMATS[name]
    from prospect import plugins  # noqa: PLC0415 - seldom asked for

    if plugins.plugin(plugins.FORMATS, name) is None:
        known = (*FORMATS, *(one.name for one in plugins.plugins(plugins.FORMATS)))
        raise UsageError(f"there is no format '{name}'; there are {', '.join(known)}")
    return Format("plugin_report", "PluginRenderer")


def renderer_class(name: str, *, is_sorted: bool = False, has_columns: bool = False) -> Any:
    """Return the class of the renderer called `name`.

    Args:
        name: of the format.
        is_sorted: whether one table is asked for, by the keys of `--sort`.
        has_columns: whether one with columns for each class of `--columns` is.

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


def make_renderer(name: str, **options: Any) -> Renderer:
    """Return the renderer called `name`; options that its format does not have are left out.

    Raises:
        UsageError: there is no such format.
    """
    has_columns = bool(options.get("columns"))
    if has_columns and not options.get("sort"):
        options.pop("sort", None)
    chosen = renderer_class(name, is_sorted=bool(options.get("sort")), has_columns=has_columns)
    known = field_names(chosen)
    if "entry_point" in known:
        from prospect import plugins  # noqa: PLC0415 - seldom asked for

        options["entry_point"] = plugins.plugin(plugins.FORMATS, name)
    renderer: Renderer = chosen(**{key: value for key, value in options.items() if key in known})
    return renderer


def with_threshold(
    renderer: Renderer, profile: Profile, detail: Detail, percent: float
) -> Renderer:
    """Return a renderer that leaves out rows with less than so much of the time of all.

    Args:
        renderer: as `make_renderer` made it; one of another format than a report is as it was.
        profile: that it is going to render.
        detail: whose time all is.
        percent: the part of that, 0 to 100.
    """
    if not isinstance(renderer, Record) or "user_threshold_s" not in field_names(type(renderer)):
        return renderer
    from prospect.figures.processes import chosen_seconds  # noqa: PLC0415 - seldom asked for

    threshold_s = percent / 100.0 * chosen_seconds(profile, detail)
    changes = {"user_threshold_s": threshold_s, "kernel_threshold_s": threshold_s}
    changed: Renderer = type(renderer)(**{**contents(renderer), **changes})
    return changed
