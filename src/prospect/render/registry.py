"""All renderers by name, and how one is made from options.

To add a format: write its module beside the others, and list its class here. Only the module of the
format that is asked for is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prospect.errors import UsageError
from prospect.records import field_names

if TYPE_CHECKING:
    from prospect.render.renderer import Renderer

RENDERERS: dict[str, tuple[str, str]] = {
    "text": ("prospect.render.text.report", "TextRenderer"),
    "json": ("prospect.render.json.report", "JsonRenderer"),
    "csv": ("prospect.render.csv", "CsvRenderer"),
    "html": ("prospect.render.html", "HtmlRenderer"),
    "gmon": ("prospect.render.gmon", "GmonRenderer"),
    "folded": ("prospect.render.folded", "FoldedRenderer"),
    "svg": ("prospect.render.svg", "SvgRenderer"),
    "pprof": ("prospect.render.pprof", "PprofRenderer"),
    "speedscope": ("prospect.render.speedscope", "SpeedscopeRenderer"),
    "callgrind": ("prospect.render.callgrind", "CallgrindRenderer"),
    "firefox": ("prospect.render.firefox", "FirefoxRenderer"),
    "chrome": ("prospect.render.chrome_trace", "ChromeTraceRenderer"),
    "otlp": ("prospect.render.otlp", "OtlpRenderer"),
}


def renderer_class(name: str) -> Any:
    """Return the class of the renderer called `name`.

    Raises:
        UsageError: there is no such format.
    """
    if name not in RENDERERS:
        raise UsageError(f"there is no format '{name}'; there are {', '.join(RENDERERS)}")
    module, class_name = RENDERERS[name]
    return getattr(import_module(module), class_name)


def make_renderer(name: str, **options: Any) -> Renderer:
    """Return the renderer called `name`; options that its format does not have are left out.

    Raises:
        UsageError: there is no such format.
    """
    chosen = renderer_class(name)
    known = field_names(chosen)
    renderer: Renderer = chosen(**{key: value for key, value in options.items() if key in known})
    return renderer
