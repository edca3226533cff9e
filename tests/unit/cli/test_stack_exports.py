"""`--format` of call stacks on the command line: files, pipes, and what a terminal is spared."""

import os
import pty
import subprocess
import sys

import pytest

import prospect
from builders.stacks import stacks_profile
from prospect.cli.commands import REPORT
from prospect.cli.option_parser import parse
from prospect.errors import UsageError
from prospect.render.registry import FORMATS, renderer_class
from prospect.render.renderer import StackRenderer

BINARY_FORMATS = [name for name, one in FORMATS.items() if one.is_binary]


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"html"}))
def test_the_registry_knows_which_formats_are_of_stacks(name):
    assert issubclass(renderer_class(name), StackRenderer) == FORMATS[name].has_stacks


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_asked_for(name):
    settings, words = parse(REPORT, ["--format", name, "--inline", "perf.data"])[:2]
    assert (settings.format, settings.inline, words) == (name, True, ["perf.data"])


def test_the_page_can_have_instructions():
    settings = parse(REPORT, ["-e", "--format", "html", "perf.data"])[0]
    assert (settings.format, settings.disassemble) == ("html", 1)


# Says for each format which modules it imports, in a process of its own; numpy is every one's.
IMPORTS = """
import os, sys
import numpy
from prospect.render.registry import FORMATS, make_renderer
for name in FORMATS:
    child = os.fork()
    if not child:
        make_renderer(name)
        print(name, *sys.modules, flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_format_imports_no_other():
    ran = subprocess.run(
        [sys.executable, "-I", "-c", IMPORTS], capture_output=True, text=True, check=True
    )
    imported = {name: modules for name, *modules in map(str.split, ran.stdout.splitlines())}
    assert imported.keys() == FORMATS.keys()
    for name, modules in imported.items():
        needed = {name, "json"} if name == "html" else {name}  # the page carries the JSON report
        others = {
            f"prospect.render.{one.module}" for other, one in FORMATS.items() if other not in needed
        }
        assert others.isdisjoint(modules), name
        assert f"prospect.render.{FORMATS[name].module}" in modules


@pytest.mark.parametrize("name", BINARY_FORMATS)
@pytest.mark.parametrize("words", [["report"], []])
def test_a_terminal_is_spared_what_is_no_text(name, words, tmp_path):
    (tmp_path / "perf.data").write_bytes(b"")
    last = "perf.data" if words else "touch started"
    controller, terminal = pty.openpty()
    ran = subprocess.run(
        [sys.executable, "-m", "prospect", *words, "--format", name, *last.split()],
        stdout=terminal,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    os.close(terminal)
    os.close(controller)
    assert ran.stderr == (
        f"prospect: --format {name} is not text for a terminal: name a file with -f\n"
    )
    assert ran.returncode == 2
    assert not (tmp_path / "started").exists()


def test_python_gives_stacks_as_text_and_refuses_what_is_none(tmp_path):
    profile = prospect.Profile(**vars(stacks_profile()))
    assert "comm;main;work;work;work 3\n" in profile.report(format="folded")
    with pytest.raises(UsageError, match="name a file as output"):
        profile.report(format="pprof")
    assert profile.report(format="pprof", output=str(tmp_path / "out")) == ""
    assert (tmp_path / "out").read_bytes().startswith(b"\x1f\x8b")
