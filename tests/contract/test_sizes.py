"""No function is longer than a screen or two, no file longer than can be held in mind.

Counted with signature, decorators left out, and docstring. Who comes near looks for what stands
twice or apart.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MOST_OF_A_FUNCTION, MOST_OF_A_FILE = 80, 400


@pytest.mark.parametrize("room", ["src", "tests", "benchmarks", "scripts"])
def test_files_and_functions_are_short(room):
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    long = []
    for path in files:
        text = path.read_text()
        name = str(path.relative_to(ROOT))
        if (lines := len(text.splitlines())) > MOST_OF_A_FILE:
            long.append(f"{name}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = node.end_lineno - node.lineno + 1
                if lines > MOST_OF_A_FUNCTION:
                    long.append(f"{name}: {node.name}: {lines} lines")
    assert not long
