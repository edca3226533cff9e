"""The packed recorder: small, of the standard library alone, for Pythons from 3.9 on."""

from __future__ import annotations

import ast
import importlib.util
import io
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from prospect.target import pump
from prospect.target.package import AGENT, LEFT_OUT, OLDEST_PYTHON, lowered, modules, package

MOST_BYTES = 350_000


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("magic", [b"", importlib.util.MAGIC_NUMBER])
def test_it_is_small_and_made_once(magic):
    made = package(magic)
    assert len(made) < MOST_BYTES
    assert package(magic) == made


def test_it_imports_nothing_but_itself_and_the_standard_library():
    packed = modules()
    assert AGENT in packed
    assert not LEFT_OUT & packed.keys()
    for name, source in packed.items():
        for node in ast.walk(ast.parse(lowered(source))):
            imported = []
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [str(node.module)]
            for module in imported:
                top = module.partition(".")[0]
                assert top == "prospect" or top in sys.stdlib_module_names, (name, module)


def test_the_oldest_python_reads_its_source():
    for name, source in modules().items():
        ast.parse(lowered(source), name, feature_version=OLDEST_PYTHON)
    assert "strict" not in lowered("list(zip(a, b, strict=True))")
    assert lowered('def f(a: int) -> str:\n    """Say."""') == "def f(a):\n    pass"


def test_what_runs_beside_it_is_read_by_older_pythons():
    tree = ast.parse(Path(pump.__file__).read_text(), feature_version=(3, 8))
    imported = [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imported == ["__future__"]


@pytest.mark.parametrize("magic", [b"", importlib.util.MAGIC_NUMBER])
def test_a_bare_python_runs_it(tmp_path, magic):
    archive = tmp_path / "recorder"
    archive.write_bytes(zlib.decompress(package(magic)))
    names = zipfile.ZipFile(archive).namelist()
    assert "__main__.py" in names
    assert any(name.endswith(".pyc") for name in names) == bool(magic)
    # Without what it is to do it ends as soon as it looks for that.
    ran = subprocess.run(
        [sys.executable, "-I", "-S", archive, "0", "1", "2", "3"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "/proc/0/fd/1" in ran.stderr
    assert "ModuleNotFoundError" not in ran.stderr


def test_sources_are_those_of_this_installation():
    with zipfile.ZipFile(io.BytesIO(zlib.decompress(package()))) as archive:
        assert archive.read("prospect/errors.py").decode() == lowered(modules()["prospect.errors"])
