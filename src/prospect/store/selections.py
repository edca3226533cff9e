"""The tree of a query, as DuckDB's parser has it → whether it can do nothing but read tables.

All that is not known here to read is refused: a statement within WITH, a file by its name, a table
function that opens files or runs the text of another query. Source of the names: the header
``parsed_expression.hpp`` and its siblings in ``src/include/duckdb/parser``, DuckDB 2.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SELECTIONS = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLES = frozenset(
    {"BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "EXPRESSION_LIST", "SHOW_REF", "PIVOT"}
)
_TABLE_FUNCTION = "TABLE_FUNCTION"
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
_SCHEMAS = frozenset({"", "main"})
_NAME = re.compile(r"\w+")


def only_reads(tree: Any) -> bool:
    """Return whether a query, as `json_serialize_sql` returns it, only reads tables by name."""
    nodes = list(_nodes(tree))
    own = {str(node["key"]).lower() for node in nodes if isinstance(node.get("key"), str)}
    return all(_is_reading(node, own) for node in nodes)


def functions_in(tree: Any) -> set[str]:
    """Return the names of all functions that a query calls, in lower case."""
    return {str(node["function_name"]).lower() for node in _nodes(tree) if "function_name" in node}


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node


def _is_reading(node: dict[str, Any], own: set[str]) -> bool:
    """Return whether a node is no statement or table other than those that are known to read.

    Args:
        node: of the tree.
        own: the names of its common table expressions.
    """
    kind = node.get("type")
    if "class" in node or not isinstance(kind, str):
        return True  # an expression, or no node at all
    if kind == _TABLE_FUNCTION:
        return str(node["function"].get("function_name")).lower() in TABLE_FUNCTIONS
    if kind == "BASE_TABLE":
        # Anything but a name may be a path, which DuckDB reads as a file.
        name = str(node.get("table_name"))
        is_name = bool(_NAME.fullmatch(name)) or name.lower() in own
        return is_name and node.get("schema_name") in _SCHEMAS and not node.get("catalog_name")
    if kind.endswith("_NODE"):
        return kind in _SELECTIONS
    return kind in _TABLES or "sample" not in node
