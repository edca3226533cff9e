"""The packed recorder: small, of the standard library alone, for Pythons from 3.9 on."""

from __future__ import annotations

import ast
import functools
import importlib.util
import io
import itertools
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from builders.pythons import VERSIONS, python_of
from prospect.target import joining, question_client, relay, target_recording
from prospect.target import package as packing
from prospect.target.package import LEFT_OUT, OLDEST_PYTHON, lowered, package
from prospect.target.target_source import AGENT as SAMPLER

MOST_BYTES = 400_000
AGENTS = (target_recording.AGENT, question_client.AGENT, SAMPLER)
# The newest Python with the agent that has most modules; a bare one of our own runs all three.
DAILY = [*((agent, VERSIONS[0]) for agent in AGENTS), (SAMPLER, VERSIONS[-1])]
SAME = importlib.util.MAGIC_NUMBER


@pytest.fixture(scope="module", name="cache")
def _cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


# Made once: agents have most of their modules in common.
older = functools.cache(lowered)
modules = functools.cache(packing.modules)
byte_code = functools.cache(packing._byte_code)


@pytest.fixture(autouse=True)
def _own_cache(cache, monkeypatch):
    """Keep what is made, for all of these tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(packing, "lowered", older)
    monkeypatch.setattr(packing, "modules", modules)
    monkeypatch.setattr(packing, "_byte_code", byte_code)


@pytest.mark.parametrize("magic", [b"", SAME])
@pytest.mark.parametrize("agent", AGENTS)
def test_it_is_small_and_made_once(agent, magic):
    made = package(agent, magic)
    assert len(made) < MOST_BYTES
    assert package(agent, magic) == made


@pytest.mark.parametrize("agent", AGENTS)
def test_it_imports_nothing_but_itself_and_the_standard_library(agent):
    packed = modules(agent)
    assert agent in packed
    assert not LEFT_OUT & packed.keys()
    for name, source in packed.items():
        for node in ast.walk(ast.parse(older(source))):
            imported = []
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [str(node.module)]
            for module in imported:
                top = module.partition(".")[0]
                assert top == "prospect" or top in sys.stdlib_module_names, (name, module)


@pytest.mark.parametrize("agent", AGENTS)
def test_the_oldest_python_reads_its_source(agent):
    for name, source in modules(agent).items():
        ast.parse(older(source), name, feature_version=OLDEST_PYTHON)
    assert "strict" not in lowered("list(zip(a, b, strict=True))")
    assert lowered("isinstance(a, b | c | d)") == "isinstance(a, (b, c, d))"
    assert lowered("a[*b, c] = d[e, f]") == "a[tuple([*b, c])] = d[e, f]"
    assert lowered('def f(a: int) -> str:\n    """Say."""') == "def f(a):\n    pass"


@pytest.mark.parametrize(("module", "oldest"), [(relay, (3, 8)), (joining, (3, 6))])
def test_what_runs_beside_it_is_read_by_older_pythons(module, oldest):
    tree = ast.parse(Path(module.__file__).read_text(), feature_version=oldest)
    imported = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {"__future__"}


@pytest.mark.parametrize("magic", [b"", SAME])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_bare_python_runs_it(tmp_path, agent, magic):
    archive = tmp_path / "agent"
    archive.write_bytes(zlib.decompress(package(agent, magic)))
    names = zipfile.ZipFile(archive).namelist()
    assert any(name.endswith(".pyc") for name in names) == bool(magic)
    # Without what it is to do it ends as soon as it looks for that.
    script = f"import sys; sys.path.insert(0, {str(archive)!r}); from {agent} import main; main(%s)"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script % [90, 91, 92, 93]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Bad file descriptor" in ran.stderr
    assert "ModuleNotFoundError" not in ran.stderr


@pytest.mark.parametrize(
    ("agent", "version"),
    [
        pytest.param(*one, marks=[] if one in DAILY else pytest.mark.nightly)
        for one in itertools.product(AGENTS, VERSIONS)
    ],
)
def test_every_supported_python_loads_all_of_it(tmp_path, agent, version):
    python = python_of(version)
    archive = tmp_path / "agent"
    archive.write_bytes(zlib.decompress(package(agent)))
    script = (
        f"import importlib, sys; sys.path.insert(0, {str(archive)!r})\n"
        f"for name in {sorted(modules(agent))!r}: importlib.import_module(name)\n"
        "print('loaded')"
    )
    words = [python, "-IS", "-W", "error::SyntaxWarning", "-c", script]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr) == ("loaded\n", "")


# Run by the oldest Python: says which names of its standard library are missing.
_MISSING = """
import ast, importlib, sys, zipfile
missing, archive = set(), zipfile.ZipFile(sys.argv[1])
for file in archive.namelist():
    nodes, known = list(ast.walk(ast.parse(archive.read(file)))), {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for one in node.names:
                if not one.name.startswith("prospect"):
                    module = importlib.import_module(one.name)
                    top = one.name.partition(".")[0]
                    known[one.asname or top] = module if one.asname else sys.modules[top]
        elif isinstance(node, ast.ImportFrom) and not node.module.startswith("prospect"):
            module = importlib.import_module(node.module)
            for one in node.names:
                if not hasattr(module, one.name):
                    missing.add(f"{file}: {node.module}.{one.name}")
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = known.get(node.value.id)
            if module and not hasattr(module, node.attr):
                missing.add(f"{file}: {module.__name__}.{node.attr}")
print(*sorted(missing), sep=chr(10))
"""


@pytest.mark.parametrize("agent", AGENTS)
def test_the_oldest_python_has_what_it_calls_of_the_standard_library(tmp_path, agent):
    archive = tmp_path / "agent"
    archive.write_bytes(zlib.decompress(package(agent)))
    words = [python_of(VERSIONS[0]), "-IS", "-c", _MISSING, archive]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr) == ("\n", "")


def test_sources_are_those_of_this_installation():
    with zipfile.ZipFile(io.BytesIO(zlib.decompress(package(target_recording.AGENT)))) as archive:
        source = modules(target_recording.AGENT)["prospect.errors"]
        assert archive.read("prospect/errors.py").decode() == lowered(source)


def test_strings_with_values_have_no_quotes_that_older_pythons_stop_at():
    source = "x = f\"{', '.join(a)!r:>{w}} {{}} {b:.2f}\"\n"
    text = lowered(source)
    assert not any(isinstance(node, ast.JoinedStr) for node in ast.walk(ast.parse(text)))
    values = {"a": ["1", "2"], "w": 9, "b": 0.5}
    ours, theirs = dict(values), dict(values)
    exec(text, ours)
    exec(source, theirs)
    assert ours["x"] == theirs["x"] == "   '1, 2' {} 0.50"
