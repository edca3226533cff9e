"""Write docs/*.schema.json, and the tables of fields in docs/, from the fields of JSON documents.

Answers of `prospect fleet` are written by the names of their classes' fields, so these are their
lists; the docstrings say what they mean.

A table in docs/ follows a line ``<!-- fields: NAME -->``, NAME being that of an object.

Usage: python scripts/schemas.py [--check]. With --check nothing is written; the status is 1 if one
of them is not current.
"""

from __future__ import annotations

import json
import re
import sys
from inspect import cleandoc
from pathlib import Path
from typing import Any

from prospect.fleet.asking import HostAccounting
from prospect.fleet.build_outliers import BuildOutlier, BuildOutliers
from prospect.fleet.coverage import Coverage, NamelessObject
from prospect.fleet.deploys import Build, Change, Deploys
from prospect.fleet.outliers import Outlier, Outliers
from prospect.fleet.top_functions import MeasuredTime, Top, TopRow, TopService
from prospect.render.json.annotation_documents import ANNOTATION, SOURCE_FILES
from prospect.render.json.calls_document import CALL_SHARES, CALLS
from prospect.render.json.counts_document import COUNTS
from prospect.render.json.diff_document import DIFF
from prospect.render.json.document_fields import (
    INTEGER,
    NUMBER,
    TEXT,
    TEXTS,
    Columns,
    Field,
    Kind,
    Mapping,
    Named,
    Object,
    Part,
    Rows,
)
from prospect.render.json.document_fields import (
    schema as name_field,
)
from prospect.render.json.key_table_documents import CLASS_COLUMNS, SORTED_ROWS
from prospect.render.json.machine_documents import (
    CACHE,
    CONTENTS,
    DAEMON,
    DIAGNOSIS,
    EVENTS,
    HEALTH,
)
from prospect.render.json.report_document import REPORT
from prospect.render.what_if import WHAT_IF

ROWS = (
    TopRow,
    TopService,
    MeasuredTime,
    Outlier,
    BuildOutlier,
    Build,
    Change,
    HostAccounting,
    NamelessObject,
)


def of_class(of: type[Any], name: str = "") -> Object:
    """Return the object with the fields of a class, as its docstring describes them."""
    meanings: dict[str, str] = {}
    for names, text in _MEANING.findall(cleandoc(of.__doc__ or "").partition("Attributes:")[2]):
        first, *others = names.split(", ")
        meanings |= {first: " ".join(text.split()).rstrip(".")} | dict.fromkeys(others, "")
    kinds: dict[str, Any] = {"str": TEXT, "int": INTEGER, "float": NUMBER, "list[str]": TEXTS}
    for row in ROWS:
        if any(row.__name__ in kind for kind in of.__annotations__.values()):
            inner = of_class(row, re.sub(r"(?<!^)(?=[A-Z])", "_", row.__name__).lower())
            kinds |= {
                row.__name__: inner,
                f"{row.__name__} | None": inner.or_null,
                f"list[{row.__name__}]": Rows(inner),
            }
    fields = {field: kinds[kind](meanings[field]) for field, kind in of.__annotations__.items()}
    return Object(name, **fields)


def of_answer(question: str, of: type[Any]) -> Object:
    """Return the document that answers a question of `prospect fleet`."""
    named = {"schema": name_field(f"prospect-fleet-{question}/1")}
    return Object(f"fleet_{question}", **named, **of_class(of).fields)


_MEANING = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)
DOCS = Path(__file__).parent.parent / "docs"
DOCUMENTS = (
    REPORT,
    SORTED_ROWS,
    CLASS_COLUMNS,
    CALLS,
    CALL_SHARES,
    ANNOTATION,
    SOURCE_FILES,
    DIFF,
    COUNTS,
    WHAT_IF,
    EVENTS,
    CACHE,
    DIAGNOSIS,
    DAEMON,
    CONTENTS,
    HEALTH,
    of_answer("top", Top),
    of_answer("outliers", Outliers),
    of_answer("builds", BuildOutliers),
    of_answer("deploys", Deploys),
    of_answer("coverage", Coverage),
)
FILES = {
    "report.schema.json": (
        REPORT,
        "Prospect report, version 2",
        "What --format json writes. docs/schema.md describes each field.",
    ),
    "diff.schema.json": (
        DIFF,
        "prospect-diff/1",
        "What prospect diff --format json writes; docs/diff.md says what the fields hold.",
    ),
}
_TABLE = re.compile(r"<!-- fields: (\w+) -->\n(?:\|.*\n)*")
_LINE = 110  # of a schema
_MOST_WORDS = 12  # of a kind, that a table names


# Schemas


def schema(document: Object) -> dict[str, Any]:
    """Return the JSON Schema of a document."""
    definitions: dict[str, Any] = {}
    whole = _members(document, definitions)
    return (
        {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        | whole
        | {"$defs": dict(sorted(definitions.items()))}
    )


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(kind, Kind):
        return kind.schema
    if isinstance(kind, Mapping):
        found = {"type": "object", "additionalProperties": _schema(kind.of, definitions)}
        return found | ({"required": list(kind.required)} if kind.required else {})
    if isinstance(kind, Rows):
        types = ["array", "null"] if kind.is_nullable else "array"
        return {"type": types, "items": _schema(kind.of, definitions)}
    if isinstance(kind, Object) and kind.name:
        name = f"{kind.name}_or_null" if kind.is_nullable else kind.name
        if name not in definitions:
            definitions[name] = _members(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
    return _members(kind, definitions)


def _members(kind: Object | Named, definitions: dict[str, Any]) -> dict[str, Any]:
    properties, required, others = _properties(kind, definitions)
    is_nullable = isinstance(kind, Object) and kind.is_nullable
    return {
        "type": ["object", "null"] if is_nullable else "object",
        "properties": properties,
        "required": required,
        "additionalProperties": others,
    }


def _properties(
    kind: Object | Named | Columns, definitions: dict[str, Any]
) -> tuple[dict[str, Any], list[str], Any]:
    """Return the fields of an object, those that are required, and the kind of any others."""
    if isinstance(kind, Columns):
        return {}, [], kind.of.schema
    if isinstance(kind, Named):
        return {name: _schema(kind.of, definitions) for name in kind.names}, list(kind.names), False
    properties: dict[str, Any] = {}
    required: list[str] = []
    others: Any = False
    for key, one in kind.fields.items():
        if isinstance(one, Part):
            more, also, others_of_part = _properties(one.kind, definitions)
            properties |= more
            required += also
            others = others or others_of_part
        else:
            properties[key] = _schema(one.kind, definitions)
            required += [] if one.optional else [key]
    return properties, required, others


def _shown(value: Any, indent: int = 0) -> str:
    """Return JSON that breaks the lines of what would be long."""
    text = json.dumps(value)
    if len(text) + indent <= _LINE or not isinstance(value, (dict, list)):
        return text
    inner = " " * (indent + 1)
    if isinstance(value, list):
        items = [_shown(one, indent + 1) for one in value]
        return f"[\n{inner}" + f",\n{inner}".join(items) + f"\n{' ' * indent}]"
    items = [f"{json.dumps(key)}: {_shown(one, indent + 1)}" for key, one in value.items()]
    return f"{{\n{inner}" + f",\n{inner}".join(items) + f"\n{' ' * indent}}}"


# Tables


def objects() -> dict[str, Object]:
    """Return the objects that have a table, by name."""
    found: dict[str, Object] = {}

    def add(kind: Any) -> None:
        if isinstance(kind, (Rows, Named)):
            add(kind.of)
        if not isinstance(kind, Object):
            return
        if kind.name and kind.name in found:
            if found[kind.name].fields != kind.fields:
                raise ValueError(f"two objects are called {kind.name}")
            return
        if kind.name:
            found[kind.name] = kind
        for one in kind.fields.values():
            add(one.kind)

    for document in DOCUMENTS:
        add(document)
    return found


class _Links:
    """Where the tables of objects are in the documentation."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, str]] = {}  # by object and page: the heading
        for page in sorted(DOCS.glob("*.md")):
            heading = ""
            for line in page.read_text().splitlines():
                if line.startswith("#"):
                    heading = line.lstrip("# ")
                if table := re.match(r"<!-- fields: (\w+) -->", line):
                    self.places.setdefault(table[1], {})[page.name] = heading

    def link(self, kind: Any, page: str) -> str:
        """Return a reference to the table of an object, "" if it has none."""
        if isinstance(kind, Rows):
            return self.link(kind.of, page)
        if not isinstance(kind, Object) or kind.name not in self.places:
            return ""
        places = self.places[kind.name]
        there = page if page in places else next(iter(places))
        heading = places[there]
        anchor = re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")
        return f"[{heading}]({'' if there == page else there}#{anchor})"


def table(of: Object, page: str, links: _Links) -> str:
    """Return the table of an object's fields."""
    lines = ["| field | holds |", "|---|---|"]
    for names, about in _rows(of, page, links):
        lines.append(f"| {names} | {about} |")
    return "\n".join(lines) + "\n"


def _rows(of: Object, page: str, links: _Links) -> list[tuple[str, str]]:
    """Return names and meaning of fields; fields without a meaning are with the one before."""
    rows: list[tuple[list[str], str]] = []
    for names, kind, about in _flat(of, page, links):
        if about or not rows:
            rows.append((names, _meaning(kind, about, page, links)))
        else:
            rows[-1][0].extend(names)
    return [(", ".join(names), about) for names, about in rows]


def _flat(of: Object, page: str, links: _Links) -> list[tuple[list[str], Any, str]]:
    """Return names, kind and meaning of fields, with those of parts."""
    found: list[tuple[list[str], Any, str]] = []
    for key, one in of.fields.items():
        if isinstance(one, Field):
            found.append(([f"`{key}`"], one.kind, one.about))
        elif isinstance(one.kind, Named):
            found.append((_names(one.kind), one.kind.of, one.kind.about))
        elif isinstance(one.kind, Columns):
            found.append((["a field for each key"], None, one.kind.about))
        elif one.kind.name:
            found.append(([f"the fields of {links.link(one.kind, page)}"], None, "as there"))
        else:
            found += _flat(one.kind, page, links)
    return found


def _names(kind: Named) -> list[str]:
    return [f"`{name}`" for name in kind.names]


def _meaning(kind: Any, about: str, page: str, links: _Links) -> str:
    """Return the meaning of a field, with what its value consists of."""
    names = ""
    while isinstance(kind, (Rows, Named)):
        if isinstance(kind, Named):
            names = f" ({', '.join(_names(kind))})"
        kind = kind.of
    if isinstance(kind, Kind) and len(words := kind.schema.get("enum", ())) <= _MOST_WORDS:
        shown = ", ".join(f"`{word}`" for word in words if word is not None)
        return f"{about}: {shown}" if words and f"`{words[0]}`" not in about else about
    if not isinstance(kind, Object):
        return about
    listed = links.link(kind, page) or ", ".join(
        ", ".join(names) + (f" ({text})" if text else "")
        for names, inner, meaning in _flat(kind, page, links)
        if (text := "" if meaning == "as there" else _meaning(inner, meaning, page, links)) or True
    )
    return f"{about}{names}: {listed}" if about else listed


def pages() -> dict[Path, str]:
    """Return all files as they should be."""
    found: dict[Path, str] = {}
    links, named = _Links(), objects()
    for file, (document, title, description) in FILES.items():
        top = schema(document)
        whole = {"$schema": top.pop("$schema"), "title": title, "description": description} | top
        found[DOCS / file] = _shown(whole) + "\n"
    for page in sorted(DOCS.glob("*.md")):
        head, *tables = _TABLE.split(page.read_text())  # text, name, text, name, …
        parts = [head]
        for name, text in zip(tables[::2], tables[1::2], strict=True):
            made = table(named[name], page.name, links)
            parts.append(f"<!-- fields: {name} -->\n{made}{text}")
        found[page] = "".join(parts)
    return found


def main() -> int:
    """Write what is not current; with --check only say whether there is any."""
    stale = [path for path, text in pages().items() if path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            sys.stderr.write(f"{path.name} is not current: run scripts/schemas.py\n")
        return int(bool(stale))
    for path, text in pages().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
