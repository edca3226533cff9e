"""An option is declared once: all that is known of it follows from there."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import prospect
from prospect import options
from prospect.api.keywords import takes, written_out
from prospect.cli import completion, option_table
from prospect.cli import help as pages
from prospect.cli.commands import REPORT
from prospect.cli.option_parser import parse
from prospect.options import Settings
from prospect.records import Record, field_names, project

ROOT = Path(__file__).parent.parent.parent
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
def test_shared_options_say_what_they_mean_and_are_settings(kind):
    declared = options.declared_in(kind)
    assert list(declared) == list(field_names(kind))
    assert all(one.doc for one in declared.values())
    assert issubclass(Settings, kind)


def test_every_option_is_a_setting_and_help_orders_no_other():
    declared = {name for kind in Settings.__bases__ for name in options.declared_in(kind)}
    assert declared == set(field_names(Settings))
    assert {*option_table._ORDER.split(), *option_table._LAST} <= declared


class Novelties(options.Options):
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

    monkeypatch.setattr("prospect.cli.option_parser.Settings", Wider)
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
    assert project(settings, Novelties) == Novelties(novelty=9)
    assert words == ["run.data"]
    assert Novelties().novelty == 7

    class LookRequest(Novelties):
        """What `look` is asked for."""

        path: str = options.needed(kw_only=False, doc="a file")

    @takes(LookRequest)
    def look(asked):
        """Look."""
        return asked.path, asked.novelty

    look = written_out(look)
    assert str(inspect.signature(look)) == "(path: 'str', *, novelty: 'int' = 7)"
    assert "\n    novelty: how many novelties." in inspect.getdoc(look)
    assert look("a", novelty=3) == look(path="a", novelty=3) == ("a", 3)
    for places, keywords, says in (
        ((), {}, r"look\(\) missing a required argument: 'path'"),
        (("a", 3), {}, r"look\(\) takes 1 positional arguments, not 2"),
        (("a",), {"path": "a"}, r"look\(\) got multiple values for argument 'path'"),
    ):
        with pytest.raises(TypeError, match=says):
            look(*places, **keywords)


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
