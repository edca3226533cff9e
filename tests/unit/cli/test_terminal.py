"""Lines on stderr, pages on stdout, and what becomes of closed files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prospect.cli.main import main
from prospect.cli.terminal import fit_for, is_ascii_locale, say, show
from prospect.errors import RenderError


def test_a_message_stays_one_line_whatever_is_in_it(capfd):
    say("a\nb\x1b[2J\udcff\N{GREEK SMALL LETTER MU}")
    assert capfd.readouterr().err == "prospect: a\\nb\\x1b[2J\\xff\N{GREEK SMALL LETTER MU}\n"


def test_a_page_that_stdout_cannot_take_is_an_error_of_ours():
    kept = os.dup(1)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 1)
    try:
        with pytest.raises(RenderError, match="No space left on device"):
            show("page\n")
        assert main(["--version"]) == 1
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(full)


def test_the_numbers_of_closed_files_are_not_given_to_others():
    script = (
        "import os; [os.close(n) for n in (0, 1, 2)];"
        "from prospect.cli.terminal import occupy_closed_standard_files as occupy; occupy();"
        "taken = os.open('/dev/null', os.O_RDONLY);"
        "os._exit(taken if not any(map(os.get_inheritable, (0, 1, 2))) else 99)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 3


@pytest.mark.parametrize(
    ("variables", "is_ascii"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LANG": "POSIX"}, True),
        ({"LC_ALL": "", "LC_CTYPE": "C", "LANG": "de_DE.UTF-8"}, True),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False),
        ({}, False),
    ],
)
def test_reports_on_stdout_are_ascii_in_the_locale_of_posix(monkeypatch, variables, is_ascii):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_ascii_locale() == is_ascii
    table = "CPU s     ±  Samples\n 1.20  0.10     3\n1.2 ± 0.1 s\n".encode()
    as_ascii = b"CPU s   +/-  Samples\n 1.20  0.10     3\n1.2 +/- 0.1 s\n"
    assert fit_for(1, table, "text") == (as_ascii if is_ascii else table)
    assert fit_for(1, table, "csv") == table
    with Path(os.devnull).open("wb") as file:
        assert fit_for(file.fileno(), table, "text") == table
