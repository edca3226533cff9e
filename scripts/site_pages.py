"""Hooks of MkDocs: put the pages of the root directory on the site, and check their links.

MkDocs reads one directory. README.md (as the first page), CONTRIBUTING.md, SECURITY.md and
CHANGELOG.md are in the root, where a person looks for them, and their links begin with `docs/`.
Source files have no page: a link to one becomes its text.
The keywords of the Python interface are those of options, and get into its signatures when it is
imported. mkdocstrings imports nothing, so it reads a module that is written here.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import prospect

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

ROOT = Path(__file__).parent.parent
# Pages of the root directory, and their names on the site.
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "examples/README.md": "examples.md",
}
SOURCES = {name: source for source, name in ROOT_PAGES.items()}
LINK = re.compile(r"\[([^]]*)\]\(([^)#:\s]+)((?:#[^)]*)?)\)")


def on_startup(**_: Any) -> None:
    """Write the module of the Python interface, before mkdocstrings looks for it."""
    directory = ROOT / "build" / "reference"
    directory.mkdir(parents=True, exist_ok=True)
    public = {name: getattr(prospect, name) for name in prospect.__all__}
    parts = [_definition(name, one) for name, one in public.items() if callable(one)]
    (directory / "prospect_interface.py").write_text("\n".join(parts), encoding="utf-8")


def _definition(name: str, function_or_class: Any) -> str:
    """Return the head and docstring of a function, or of a class and its public methods."""
    docstring = textwrap.indent(f'"""{inspect.getdoc(function_or_class)}"""\n', "    ")
    if not inspect.isclass(function_or_class):
        signature = _with_plain_types(inspect.signature(function_or_class))
        return f"def {name}{signature}:\n{docstring}"
    methods = [
        _definition(method, one)
        for method, one in vars(function_or_class).items()
        if inspect.isfunction(one) and not method.startswith("_")
    ]
    return f"class {name}:\n{docstring}" + "".join(textwrap.indent(one, "    ") for one in methods)


class _Plain(str):
    """A type's name, written without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _with_plain_types(signature: inspect.Signature) -> inspect.Signature:
    parameters = [
        one if one.annotation is one.empty else one.replace(annotation=_Plain(one.annotation))
        for one in signature.parameters.values()
    ]
    returned = _Plain(signature.return_annotation)
    return signature.replace(parameters=parameters, return_annotation=returned)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root directory."""
    for source, name in ROOT_PAGES.items():
        if not (ROOT / source).exists():
            raise PluginError(f"there is no {source}")
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Make links between the root directory and docs/ links of the site."""
    source = ROOT / SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def on_site(link: re.Match[str]) -> str:
        text, target, anchor = link.groups()
        path = (source.parent / target).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            raise PluginError(f"{page.file.src_uri}: there is no {target}")
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("docs/") or name in ROOT_PAGES:
            name = ROOT_PAGES.get(name, name.removeprefix("docs/"))
            return f"[{text}]({name}{anchor})"
        return text

    return LINK.sub(on_site, markdown)
