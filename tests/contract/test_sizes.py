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
        text = path.read_text()
        if text.count("\n") > MOST_LINES:
            long += [f"{path.relative_to(ROOT)}: {one}" for one in long_functions(ast.parse(text))]
    assert not long


def long_functions(tree):
    """Yield name and length of functions that are too long, without looking into expressions."""
    left = [tree]
    while left:
        node = left.pop()
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            children = getattr(node, part, ())
            left += children if isinstance(children, list) else ()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > MOST_LINES:
                yield f"{node.name}: {lines} lines"


HOLDERS = (
    "if x:\n  pass\n else:\n  ",
    "try:\n  pass\n finally:\n  ",
    "try:\n  pass\n except E:\n  ",
    "match x:\n  case 1:\n   ",
    "with x:\n  ",
)


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_function_is_found_wherever_it_is(holder):
    body = "\n".join([" " * 8 + "pass"] * MOST_LINES)
    tree = ast.parse(f"class A:\n {holder}async def long():\n{body}")
    assert list(long_functions(tree)) == [f"long: {MOST_LINES + 1} lines"]
