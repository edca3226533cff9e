"""All renderers by name, and how one is made from options.

To add a format: write its module beside the others, and list its class here.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from prospect.errors import UsageError
from prospect.render.csv import CsvRenderer
from prospect.render.json import JsonRenderer
from prospect.render.text import TextRenderer

if TYPE_CHECKING:
    from prospect.render.renderer import Renderer

RENDERERS: dict[str, type[TextRenderer | JsonRenderer | CsvRenderer]] = {
    renderer.name: renderer for renderer in (TextRenderer, JsonRenderer, CsvRenderer)
}


def make_renderer(name: str, **options: Any) -> Renderer:
    """Return the renderer called `name`; options that its format does not have are left out.

    Raises:
        UsageError: there is no such format.
    """
    if name not in RENDERERS:
        raise UsageError(f"there is no format '{name}'; there are {', '.join(RENDERERS)}")
    chosen = RENDERERS[name]
    known = {field.name for field in fields(chosen)}
    return chosen(**{key: value for key, value in options.items() if key in known})
