"""Options of `prospect calls`: what they mean, and what is said to those that mean nothing."""

import pytest

from prospect.cli.calls import _options
from prospect.cli.commands import CALLS, REPORT
from prospect.cli.main import main
from prospect.cli.option_parser import parse
from prospect.errors import UsageError


def choice_of(*arguments):
    settings, words = parse(CALLS, arguments)
    assert words == []
    return _options(settings, colour=False).choice


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (("--process", "cc1*"), "process", "cc1*"),
        (("--thread", "17"), "thread", "17"),
        (("--object", "libc.so.6"), "objects", "libc.so.6"),
        (("--function", "malloc"), "function", "malloc"),
        (("--routine", "malloc"), "function", "malloc"),
        (("--through", "main"), "through", "main"),
        (("--reason", "page fault"), "entry_reason", "page fault"),
        (("--cause", "page fault"), "entry_reason", "page fault"),
        (("--cpu", "0,2-3"), "cpus", (0, 2, 3)),
        (("--between", "0.5,2"), "between_s", (0.5, 2.0)),
        (("-V", "4"), "detail", "4"),
    ],
)
def test_filters_choose_samples(arguments, field, value):
    assert getattr(choice_of(*arguments).samples, field) == value


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (("--show", "graph,totals"), "sections", ("graph", "totals")),
        (("--callers-of", "malloc"), "callers_of", "malloc"),
        (("--callers-of", "malloc"), "sections", ()),
        (("--callers-of", "malloc", "--show", "graph"), "sections", ("graph",)),
        (("--rows", "7"), "most", 7),
        (("--share", "5%"), "share", 0.05),
    ],
)
def test_sections_and_their_sizes(arguments, field, value):
    assert getattr(choice_of(*arguments), field) == value


@pytest.mark.parametrize(
    "arguments",
    [
        ("--show", "trees"),
        ("--show", ""),
        ("--cpu", "one"),
        ("--cpu", "1-"),
        ("--cpu", ""),
        ("--between", "3"),
        ("--between", "3,2"),
        ("--share", "2"),
        ("--through", ""),
    ],
)
def test_what_means_nothing_is_refused_in_words(arguments):
    with pytest.raises(UsageError, match=arguments[0]):
        parse(CALLS, arguments)


def test_a_report_may_show_calls():
    settings, _ = parse(REPORT, ("--calls", "graph,totals"))
    assert settings.calls == ("graph", "totals")


def test_a_recording_that_is_not_there(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(["calls"]) == 1
    assert "--call-graph" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["process:sh"], 0, "2 samples"),
        (["function:parse", "mode:user"], 0, "5 samples"),
        (["process:sh", "--cpu", "0"], 2, "with process:sh give cpu:"),
        (["since:-1h", "--between", "0,1"], 2, "with since:-1h give since: and until:"),
        (["mode:kernel"], 2, "mode: there is user\n"),
        (["colour:red"], 2, "unexpected 'colour:red'"),
    ],
)
def test_words_choose_samples_of_a_recording(tmp_path, capfd, words, status, says):
    path = tmp_path / "stacks.folded"
    path.write_text("make;main;parse 5\nsh;main;link 2\n")
    assert main(["calls", "-V4", str(path), *words]) == status
    found = capfd.readouterr()
    assert says in (found.err if status else found.out)
