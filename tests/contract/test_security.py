"""SECURITY.md has every bound on untrusted input as the code has it, and names its tests."""

import ast
import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "prospect"
TEXT = (ROOT / "SECURITY.md").read_text()
ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| `([\w/.]+\.py):(\w+)` \|$", TEXT, re.MULTILINE
)
# These rooms read nothing that others wrote, or only what another room has bounded.
NO_INPUT = {"analysis", "api", "cli", "columns", "disasm", "estimate", "figures", "render", "tui"}


def shown(name: str, value: float) -> str:
    if not name.endswith("BYTES"):
        return f"{value:,}"
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if value >= size and value % size == 0:
            return f"{value // size:,} {unit}"
    return f"{value:,} bytes"


def test_each_limit_is_the_one_of_the_code():
    assert len(ROWS) > 100
    for _, limit, _, path, name in ROWS:
        module = importlib.import_module("prospect." + path[:-3].replace("/", "."))
        assert limit == shown(name, getattr(module, name)), f"{path}:{name}"


def test_each_bound_in_bytes_has_a_row():
    listed = {(path, name) for _, _, _, path, name in ROWS}
    missing = []
    for file in SOURCE.rglob("*.py"):
        path = str(file.relative_to(SOURCE))
        if path.partition("/")[0] in NO_INPUT:
            continue
        for node in ast.parse(file.read_text()).body:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                name = getattr(target, "id", "")
                if re.fullmatch(r"_?(MOST|LARGEST|LONGEST)_(\w+_)?BYTES", name):
                    missing += [f"{path}:{name}"] if (path, name) not in listed else []
    assert not missing


def test_each_promise_names_a_test():
    promises = TEXT.partition("## What is promised")[2].partition("\n## ")[0]
    for promise in re.split(r"\n- ", promises)[1:]:
        assert re.search(r"`tests/\w+", promise) or "`scripts/fuzz" in promise, promise[:60]
