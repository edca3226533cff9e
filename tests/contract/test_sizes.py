"""No function is longer than a screen or two: 80 lines with signature and docstring.

A file has no bound of its own: it is one thought, as long as that is.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MOST_LINES = 80


@pytest.mark.parametrize("room", ["src", "tests", "benchmarks", "scripts"])
def test_functions_are_short(room):
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    long = []
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = node.end_lineno - node.lineno + 1
                if lines > MOST_LINES:
                    long.append(f"{path.relative_to(ROOT)}: {node.name}: {lines} lines")
    assert not long
