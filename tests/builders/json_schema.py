"""A check against the part of JSON Schema (draft 2020-12) that docs/report.schema.json uses."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

# What makes the schemas of all documents.
SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "schemas.py"))

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN = {
    "$schema",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "minimum",
    "maximum",
}


def document_errors(found: Any) -> list[str]:
    """Return where a document breaks the schema of its kind."""
    documents = [of for of in SCRIPT["DOCUMENTS"] if "schema" in of.fields]
    named = {of.fields["schema"].kind.schema["const"]: of for of in documents}
    schema = SCRIPT["schema"](named[found["schema"]])
    return schema_errors(found, schema, schema)


def schema_errors(value: Any, schema: Any, root: Any, path: str = "$") -> list[str]:
    """Return where `value` breaks `schema`, one sentence each; `root` resolves references."""
    assert set(schema) <= _KNOWN, f"this check does not know {set(schema) - _KNOWN}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return schema_errors(value, root["$defs"][name], root, path)
    errors = []
    if "const" in schema and value != schema["const"]:
        errors.append(f"{path} is {value!r}, not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        errors.append(f"{path} is {value!r}, none of {schema['enum']}")
    if "type" in schema and not _has_type(value, schema["type"]):
        return [*errors, f"{path} is {value!r}, not of type {schema['type']}"]
    is_number = isinstance(value, (int, float))
    if is_number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        errors.append(f"{path} is {value}, out of its range")
    if isinstance(value, dict):
        errors += _object_errors(value, schema, root, path)
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            errors += schema_errors(item, schema["items"], root, f"{path}[{number}]")
    return errors


def _has_type(value: Any, types: str | list[str]) -> bool:
    names = [types] if isinstance(types, str) else types
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, _TYPES[name]) for name in names)


def _object_errors(value: dict[str, Any], schema: Any, root: Any, path: str) -> list[str]:
    errors = [f"{path} lacks {name}" for name in schema.get("required", ()) if name not in value]
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    for name, item in value.items():
        if name in properties:
            errors += schema_errors(item, properties[name], root, f"{path}.{name}")
        elif others is False:
            errors.append(f"{path} has an unknown field {name}")
        elif others:
            errors += schema_errors(item, others, root, f"{path}.{name}")
    return errors
