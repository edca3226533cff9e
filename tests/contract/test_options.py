"""An option is declared once: all that is known of it follows from there."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import prospect
from prospect import options
from prospect.api.keywords import chosen, takes, written_out
from prospect.cli import completion, option_table
from prospect.cli import help as pages
from prospect.cli.commands import REPORT
from prospect.cli.options import parse
from prospect.options import Settings
from prospect.records import Record, field_names, narrowed

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
    declared = options.declared_in(kind)
    assert list(declared) == list(field_names(kind))
    assert all(one.doc for one in declared.values())
    assert issubclass(Settings, kind)


def test_every_option_is_a_setting_with_a_place_in_help():
    declared = {name for kind in Settings.__bases__ for name in options.declared_in(kind)}
    assert declared == set(field_names(Settings))
    assert {*option_table._ORDER.split(), *option_table._LAST} == declared


class Novelties(Record):
    """What no release has."""

    novelty: int = options.option(
        options.typed("-7 --novelty N", "look for N novelties", "report"),
        default=7,
        reads="positive",
        doc="how many novelties",
    )


def test_a_declaration_is_all_that_a_new_option_takes(monkeypatch):
    class Wider(Settings, Novelties):
        """Settings of the next release."""

    monkeypatch.setattr("prospect.cli.options.Settings", Wider)
    monkeypatch.setattr(
        option_table, "OPTIONS", option_table.table_of((*Settings.__bases__, Novelties))
    )
    page = pages.help_page("report")
    assert "  -7 N, --novelty N" in page
    assert "look for N novelties (default: 7)" in page
    assert "--novelty" not in pages.help_page("calls")
    assert " -7 --novelty -h --help" in completion.bash()
    assert "-s 7 -l novelty -r -d 'look for N novelties'" in completion.fish()
    settings, words = parse(REPORT, ["--novelty", "9", "run.data"])
    assert narrowed(settings, Novelties) == Novelties(9)
    assert words == ["run.data"]
    assert Novelties() == Novelties(novelty=7)

    @takes(Novelties)
    def look(path: str, **keywords):
        """Look.

        Args:
            path: a file.
            **keywords: the novelties.
        """
        return path, chosen(Novelties, keywords)

    look = written_out(look)
    assert str(inspect.signature(look)) == "(path: 'str', *, novelty: 'int' = 7)"
    assert "\n    novelty: how many novelties." in inspect.getdoc(look)
    assert look("a", novelty=3) == ("a", Novelties(3))


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
