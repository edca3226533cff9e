"""`prospect top` before its screen opens: what it needs, said in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from prospect.cli import top
from prospect.cli.commands import TOP
from prospect.cli.option_parser import parse
from prospect.errors import ProspectError, UsageError


def settings_of(*arguments):
    return parse(TOP, list(arguments))[0]


def test_without_a_terminal_it_says_what_to_do_instead(monkeypatch):
    for missing in (0, 1, 2):
        monkeypatch.setattr(top, "takes_escapes", lambda number, gone=missing: number != gone)
        with pytest.raises(UsageError, match="prospect --for 10 -V4 -f FILE"):
            top.run(settings_of(), [], ("prospect", "top"))


def test_without_textual_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(top, "takes_escapes", lambda _: True)
    monkeypatch.setattr(top, "get_ready", lambda: None)
    monkeypatch.setattr(top, "_session", lambda *_: pytest.fail("began to sample"))
    for name in [name for name in sys.modules if name.startswith("prospect.tui")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    with pytest.raises(ProspectError, match=r"-m pip install 'textual>=8.0'") as refused:
        top.run(settings_of(), [], ("prospect", "top"))
    # As this Python is called, whatever environment it is in; and as the package asks for it.
    assert sys.executable in str(refused.value)
    pyproject = Path(__file__).parents[3] / "pyproject.toml"
    assert 'tui = ["textual>=8.0"]' in pyproject.read_text()


def test_options_are_those_of_a_recording():
    settings = settings_of("-H", "500", "--clocks", "2", "--call-graph", "auto", "--no-cache")
    assert (settings.frequency_hz, settings.clocks) == (500, 2)
    assert (settings.call_graph, settings.use_cache) == ("auto", False)
