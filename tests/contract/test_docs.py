"""What the documentation says is what the program does."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import prospect
from prospect.api.differences import TABLES as DIFFERENCE_TABLES
from prospect.cli import help as pages
from prospect.cli.commands import PROFILE, RECORD, STAT, SUBCOMMANDS, Command
from prospect.cli.option_parser import parse
from prospect.cli.option_table import OPTIONS
from prospect.estimate.flat_tables import TABLES
from prospect.options import Settings
from prospect.records import asdict
from prospect.render.registry import FORMATS

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md")
    ),
    *sorted((ROOT / "docs").glob("*.md")),
]
MANUAL = (ROOT / "docs" / "prospect.1").read_text().replace("\\-", "-")


def options_in(line: str) -> list[str]:
    """Return the words of a `prospect …` command line that are Prospect's own options."""
    words = shlex.split(line, comments=True)
    starts = [i for i, word in enumerate(words) if word.split("/")[-1] == "prospect"]
    return words[starts[0] + 1 :] if starts else []


@pytest.mark.parametrize("script", ["man.py", "schemas.py"])
def test_the_pages_and_schemas_that_are_made_are_current(script):
    check = [sys.executable, f"scripts/{script}", "--check"]
    ran = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.spellings[0])
def test_the_manual_has_every_option(option):
    assert pages.option_label(option) in MANUAL


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_of_a_page_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target
    for name in re.findall(r"`((?:src|docs|tests|scripts|benchmarks|\.ci)/[\w./-]*)`", text):
        assert (ROOT / name).exists(), name


@pytest.mark.skipif(
    not importlib.util.find_spec("mkdocs"), reason="needs pip install '.[docs]' for the site"
)
def test_the_site_has_every_page_and_its_links_lead_somewhere(tmp_path):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    built = subprocess.run(
        [ROOT / "scripts" / "site", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert built.returncode == 0, built.stderr
    home = (tmp_path / "index.html").read_text()
    for page in PAGES:
        if page.parent.name == "docs":
            assert f'href="{page.stem}.html"' in home


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_of_a_page_are_understood(page, monkeypatch):
    # The format that docs/plugins.md builds; its own test installs it.
    monkeypatch.setattr("prospect.plugins.plugin", lambda _, name: name == "markdown" or None)
    for block in re.findall(r"```(?:sh|console)\n(.*?)```", page.read_text(), re.DOTALL):
        for line in re.split(r"\n|&&|(?<!\|)\|(?!\|)", block.replace("\\\n", " ")):
            understood(line)


@pytest.mark.parametrize("line", [line for _, line in pages.EXAMPLES])
def test_examples_are_understood(line):
    for part in line.split("|"):
        if options_in(part):
            command, settings, operands = understood(part)
            assert command.most_words is None or len(operands) <= command.most_words
            assert operands or command is not PROFILE or settings.pids or settings.for_s
            # What is left has no options in it.
            ours = SUBCOMMANDS if command not in (PROFILE, RECORD, STAT) else ()
            assert not ours or all(word == "--against" or word[:2] != "--" for word in operands)


def understood(line: str) -> tuple[Command, Settings, list[str]]:
    words = options_in(line)
    named = {command.name: command for command in SUBCOMMANDS}
    command = named.get(words[0] if words else "", PROFILE)
    settings, operands = parse(command, words if command is PROFILE else words[1:])
    return command, settings, operands


def test_the_python_page_has_every_keyword_with_the_default_of_its_option():
    text = (ROOT / "docs" / "python.md").read_text()
    keywords = {}
    for function in (
        prospect.record,
        prospect.open,
        prospect.Profile.report,
        prospect.annotate,
        prospect.calls,
        prospect.count,
        prospect.archive,
        prospect.diff,
        prospect.Difference.report,
    ):
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords[name] = parameter.default
    assert keywords.pop("stacks") is False  # of formats that a command line names beforehand
    assert keywords.pop("code") is False  # what a report with `disassemble` needs
    assert keywords.pop("announce") is None  # what the command line shows by itself
    defaults = asdict(Settings())
    for shown_only in (
        "help",
        "version",
        "clear",
        "fields",
        "check",
        "port",
        "opens_browser",
        "input",
        "pager",
        # Of `compare`, which in Python is a loop around `record`.
        "side_a",
        "side_b",
        "runs",
        "stdin",
        "shows_output",
        "ignores_failure",
        # ssh asks for passwords, and COMMAND has a terminal there.
        "target",
        # Of `top`, which Python has no part of.
        "tids",
        # A collector gets what a Python program writes.
        "push",
        # Specifications, which are words of the command line.
        "event_names",
        "include_symbols",
        "exclude_symbols",
        "exclude_dependent",
        # What is added up anyway.
        "merge",
        # Of the daemon and its store.
        "store",
        "engine",
        "fleet_rows",
        "by",
        "daemon_hz",
        "daemon_call_graph",
        "window_s",
        "cpu_limit_percent",
        "memory_limit_bytes",
        "keep",
        "metrics",
        "kubelet",
        "ship",
        "host_share",
        "unit",
    ):
        del defaults[shown_only]
    assert keywords == defaults
    for option in OPTIONS:
        if option.keyword in keywords and option.commands != ("doctor",):
            assert f"`{option.keyword}" in text
            assert any(spelling in text for spelling in option.spellings)


def test_the_python_page_has_every_table():
    text = (ROOT / "docs" / "python.md").read_text()
    for name in TABLES:
        assert f"| `{name}` |" in text


def test_the_python_page_has_every_table_of_a_difference():
    text = (ROOT / "docs" / "python.md").read_text()
    for name in DIFFERENCE_TABLES:
        assert f'"{name}"' in text


@pytest.mark.parametrize("name", FORMATS)
def test_the_formats_page_and_the_manual_have_every_format(name):
    assert f"`{name}`" in (ROOT / "docs" / "formats.md").read_text()
    assert name in MANUAL
