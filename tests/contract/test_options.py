"""Options that commands share stand once, and are keywords of the Python interface."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import prospect
from prospect import options
from prospect.cli.settings import Settings
from prospect.records import Record, field_names

KINDS = (options.NamingOptions, options.DisassemblerOptions, options.RecordingOptions)
FUNCTIONS = (
    prospect.annotate,
    prospect.archive,
    prospect.calls,
    prospect.diff,
    prospect.open,
    prospect.record,
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_type_checker_knows_the_keywords_of_shared_options(kind):
    tree = ast.parse(Path(options.__file__).read_text())
    name = kind.__name__.replace("Options", "Keywords")
    (known,) = (
        node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name
    )
    keywords = [line.target.id for line in known.body if isinstance(line, ast.AnnAssign)]
    assert keywords == list(field_names(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_shared_options_say_what_they_mean_and_are_settings(kind):
    assert re.findall(r"^    (\w+): ", inspect.getdoc(kind), re.MULTILINE) == list(
        field_names(kind)
    )
    assert issubclass(Settings, kind)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_help_shows_each_keyword_with_what_it_means(function):
    parameters = inspect.signature(function).parameters
    assert all(one.kind is not one.VAR_KEYWORD for one in parameters.values())
    assert {"use_cache", "system_map"} <= parameters.keys()
    for name in parameters:
        assert f"\n    {name}: " in function.__doc__


def test_without_docstrings_there_are_the_same_keywords():
    code = "import inspect, prospect; print(inspect.signature(prospect.open))"
    shown = [
        subprocess.run([sys.executable, *words, "-c", code], capture_output=True, check=True).stdout
        for words in ([], ["-OO"])
    ]
    assert shown[0] == shown[1]


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match=r"open\(\) got an unexpected keyword argument 'sytem_map'"):
        prospect.open("perf.data", sytem_map="map")


def test_a_record_may_extend_several():
    class First(Record):
        a: int = 1

    class Second(Record):
        b: int = 2

    class Both(First, Second):
        c: int = 3

    assert Both(b=5) == Both(a=1, b=5, c=3)
    assert field_names(Both) == ("b", "a", "c")
