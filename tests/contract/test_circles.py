"""No module imports one that imports it, directly or through others.

Imports of types count, and so do those within functions.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent / "src"


def modules():
    """Return the paths of all modules by their names."""
    found = {}
    for path in (SOURCE / "prospect").rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree):
    """Yield module and name of all imports, also of types, and of those within functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)


def test_no_module_imports_one_that_imports_it():
    paths = modules()
    imports = {name: set() for name in paths}
    for importer, path in paths.items():
        for module, name in imported(ast.parse(path.read_text())):
            one = f"{module}.{name}" if f"{module}.{name}" in paths else module
            if one in paths:
                imports[importer].add(one)
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None
