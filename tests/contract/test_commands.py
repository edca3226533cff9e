"""Every command by the same rules: helpful when used wrongly, quick to start, fully described."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prospect.cli import help as pages
from prospect.cli.commands import COMMANDS, SUBCOMMANDS
from prospect.cli.main import main
from prospect.cli.option_table import OPTIONS

TESTS = Path(__file__).parent.parent


def prospect(*arguments, **keywords):
    return subprocess.run(
        [sys.executable, "-m", "prospect", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        **keywords,
    )


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """Work in an empty directory, with an empty standard input."""
    monkeypatch.chdir(tmp_path)
    kept = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    yield tmp_path
    os.dup2(kept, 0)
    os.close(kept)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["nonsense"], 127, "nonsense: command not found"),
        (["./nonsense"], 127, "nonsense"),
        (["reprot"], 127, "did you mean prospect report?"),
        (["recrod", "true"], 127, "did you mean prospect record?"),
        (["slepe", "1"], 127, "did you mean sleep?"),
        (["/bin/slepe", "1"], 127, "did you mean /bin/sleep?"),
        (["stat", "slepe"], 127, "did you mean sleep?"),
        (["A=1", "true"], 127, "prospect env NAME=VALUE COMMAND"),
        (["true 1"], 127, "give its words one by one"),
        (["xyzzy"], 127, "command not found; see prospect --help"),
        (["-V4", "report"], 127, "a subcommand comes first: prospect report"),
        (["/"], 126, "/"),
        (["-H", "0", "true"], 2, "-H 0: give a whole number of at least 1"),
        (["-H", "999999999", "true"], 2, "kernel.perf_event_max_sample_rate"),
        (["-V", "5", "true"], 2, "-V 5: give 2"),
        (["-V4"], 2, "no command: prospect"),
        (["--frobnicate", "true"], 2, "--frobnicate: no such option"),
        (["-e", "--format", "csv", "true"], 2, "csv has no disassembled profile"),
        (["-g", "0", "true"], 2, "-g 0: give a whole number of at least 1"),
        (["-f", "no-such-directory/out", "true"], 1, "no-such-directory"),
        (["-f", ".", "true"], 1, "Is a directory"),
        (["--save", "no-such-directory/out", "true"], 1, "no-such-directory"),
        (["--save", ".", "true"], 1, "Is a directory"),
        (["record", "-p", "99999999"], 1, "there is no process 99999999"),
        (["record", "nonsense"], 127, "nonsense: command not found"),
        (["record", "-f", "x", "true"], 2, "prospect record has no option -f"),
        (
            ["record", "-V4", "true"],
            2,
            "record has no option -V: it keeps everything; prospect rep",
        ),
        (["report"], 1, "no perf.data here; make one with: prospect record COMMAND"),
        (["-f", "x", "--save", "./x", "true"], 2, "-f and --save both name 'x'"),
        (["report", "-f", "x", "./x"], 2, "-f x: the report would replace its recording"),
        (["report", "no-such-file"], 1, "no-such-file: no such file; make a recording with"),
        (["annotate", "run.data"], 1, "run.data: no such file"),
        (["archive", "no-such-file"], 1, "no-such-file: no such file"),
        (["calls"], 1, "make one with: prospect record --call-graph auto COMMAND"),
        (["whatif"], 1, "make one with: prospect record --wall COMMAND"),
        (["whatif", "a", "f=fast"], 2, "f=fast: write FUNCTION=FACTOR, as in parse=0.5"),
        (["whatif", "a", "b"], 2, "whatif takes one recording, not 2"),
        (["report", "a", "--frmat=json"], 2, "did you mean --format?"),
        (["report", "--frmat=json", "a"], 2, "did you mean --format?"),
        (["report", "--detial", "a"], 2, "--detial: no such option; see prospect help report"),
        (["report", "--format", "jsn", "a"], 2, "did you mean json?"),
        (["report", "--calls", "totals,calees", "a"], 2, "did you mean callees?"),
        (["--call-graph", "dwraf", "true"], 2, "did you mean dwarf?"),
        (["report", "--sysroot", "x", "a"], 2, "--sysroot x: no such directory"),
        (["report", "--debug-dir", "x", "a"], 2, "--debug-dir x: no such directory"),
        (["calls", "--symfs", "x", "a"], 2, "--symfs x: no such directory"),
        (["report", "."], 1, "directory"),
        (["report", "/dev/null"], 1, "/dev/null"),
        (["report", "-"], 1, ""),
        (["report", "a", "b"], 2, "unexpected 'b'"),
        (["report", "a", "-V4"], 1, "a: no such file"),
        (["report", "a", "-i", "b"], 2, "report: two recordings: 'a' and -i 'b'"),
        (["script", "a"], 2, "script is perf's: here prospect report FILE --format folded"),
        (["-V4", "sched", "record"], 2, "to profile a program: prospect -- sched"),
        (["report", "--format", "yaml", "a"], 2, "give one of text, json, csv, html, xml, gmon"),
        (["view"], 1, "no perf.data here; make one with: prospect record COMMAND"),
        (["view", "no-such-file"], 1, "no-such-file"),
        (["view", "."], 1, "directory"),
        (["view", "/dev/null"], 1, "/dev/null"),
        (["view", "a", "b"], 2, "unexpected 'b'"),
        (["view", "--port", "65536", "a"], 2, "--port 65536: give the number of a port"),
        (["view", "--port", "http", "a"], 2, "--port http: give the number of a port"),
        (["annotate"], 1, "no perf.data here; make one with: prospect record COMMAND"),
        (["annotate", "a", "b", "c"], 2, "unexpected 'c'"),
        (["annotate", "work", "no-such-file"], 1, "no-such-file"),
        (["annotate", "work", "."], 1, "directory"),
        (["annotate", "work", "/dev/null"], 1, "/dev/null"),
        (["annotate", "-f", "x", "work", "./x"], 2, "-f x: the report would replace"),
        (["annotate", "--syntax", "arm", "work", "a"], 2, "give att or intel"),
        (["annotate", "--format", "csv", "work", "a"], 2, "give text or json"),
        (["annotate", "-n", "0", "work", "a"], 2, "give a whole number of at least 1"),
        (["report", "--whole", "a"], 2, "prospect report has no option --whole"),
        (["diff"], 2, "give two recordings: prospect diff A B"),
        (["diff", "a", "b", "c"], 2, "which of the 3 recordings are B's?"),
        (["diff", "a", "b", "-V4", "--scope"], 2, "--scope: no such option"),
        (["diff", "no-such-file", "b"], 1, "no-such-file"),
        (["diff", ".", "."], 1, "directory"),
        (["diff", "/dev/null", "/dev/null"], 1, "/dev/null"),
        (["diff", "-f", "x", "./x", "y"], 2, "-f x: the report would replace a recording"),
        (["diff", "--fail-if", "slow", "a", "b"], 2, "--fail-if slow: give 'slower by 3%'"),
        (["diff", "--per", "much", "a", "b"], 2, "--per much: give run, second, or a count"),
        (["compare"], 2, "give two commands: prospect compare --a"),
        (["compare", "--a", "true"], 2, "give two commands: prospect compare --a"),
        (["compare", "--a", "x '", "--b", "y"], 2, "--a x ': cannot be split into words"),
        (["compare", "--a", "", "--b", "y"], 2, "give a command with its words"),
        (["compare", "-n0", "--a", "x", "--b", "y"], 2, "give a whole number of at least 1"),
        (["compare", "--a", "x", "--b", "y", "--stdin", "z"], 2, "--stdin z: no such file"),
        (["compare", "--a", "x", "--b", "y", "z"], 2, "unexpected 'z'"),
        (["cache", "now"], 2, "unexpected 'now'"),
        (["cache", "--format", "csv"], 2, "give text or json"),
        (["report", "--debuginfod", "-1", "a"], 2, "give a number of seconds"),
        (["doctor", "now"], 2, "unexpected 'now'"),
        (["doctor", "--format", "csv"], 2, "give text or json"),
        (["help", "nonsense"], 2, "no subcommand 'nonsense'"),
        (["help", "reprot"], 2, "did you mean report?"),
        (["examples", "now"], 2, "unexpected 'now'"),
        (["stat"], 2, "nothing to count: give COMMAND, --pid, --cpu or -V4"),
        (["stat", "nonsense"], 127, "nonsense: command not found"),
        (["stat", "--event", "cycels", "true"], 2, "did you mean cycles?"),
        (["stat", "-V", "k", "true"], 2, "give 2 (the command)"),
        (["stat", "--repeat", "2", "-V", "4"], 2, "--repeat runs COMMAND several times"),
        (["stat", "--repeat", "2", "--interval", "1", "true"], 2, "leave out --interval"),
        (["stat", "--interval", "1e-9", "true"], 2, "an interval is at least 0.001 s"),
        (["stat", "-p", "1", "-V", "4"], 2, "drop --cpu and -V"),
        (["stat", "-p", "999999999"], 1, "there is no process 999999999"),
        (["stat", "--cpu", "65000", "true"], 2, "CPU 65000 is not online here"),
        (["stat", "--format", "xml", "true"], 2, "give text, json or csv"),
        (["list", "no-such-event"], 2, "no event here is called 'no-such-event'"),
        (["--event", "cycels", "true"], 2, "did you mean cycles?"),
        (["record", "--event", "no-such-unit/x/", "true"], 2, "no unit 'no-such-unit' here"),
        (
            ["--event", "cs", "--overhead", "1%", "true"],
            2,
            "--overhead works only with timer clocks",
        ),
    ],
)
def test_bad_input_is_answered_with_one_line(arguments, status, says, nowhere, capfd):
    assert main(arguments) == status
    out, error = capfd.readouterr()
    assert says in error
    assert error.startswith("prospect: ")
    assert error.count("\n") == 1
    assert out == ""
    assert list(nowhere.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["nonsense"], 127), (["/"], 126), (["-H", "0", "true"], 2), (["report", "no-such-file"], 1)],
)
def test_a_process_ends_with_the_status_and_one_line(arguments, status, tmp_path):
    ran = prospect(*arguments, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (status, "")
    assert ran.stderr.startswith("prospect: ")
    assert ran.stderr.count("\n") == 1


def test_a_control_character_never_reaches_the_terminal(tmp_path):
    ran = prospect("\x1b[31mred\n", cwd=tmp_path)
    assert "\x1b" not in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_usage_error_starts_nothing(tmp_path):
    prospect("-H", "0", "touch", str(tmp_path / "started"))
    prospect("-f", "no-such-directory/out", "touch", str(tmp_path / "started"))
    assert list(tmp_path.iterdir()) == []


def test_without_a_word_it_says_how_it_is_used():
    ran = prospect()
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "usage: prospect [OPTIONS] COMMAND" in ran.stderr
    assert "prospect doctor" in ran.stderr


@pytest.mark.parametrize("command", SUBCOMMANDS, ids=lambda command: command.name)
def test_each_subcommand_has_the_same_help_by_both_ways(command, capfd):
    assert main([command.name, "--help"]) == 0
    page = capfd.readouterr()
    assert main(["help", command.name]) == 0
    assert capfd.readouterr() == page
    assert page.out.startswith("usage: ")
    assert page.err == ""


def test_help_fits_a_terminal():
    for command in COMMANDS:
        for line in pages.help_page(command.name).splitlines():
            assert len(line) < 80, line


def test_help_keeps_capitals_and_shows_defaults_as_they_are_typed():
    assert "without COMMAND, until Ctrl-C." in " ".join(pages.help_page("record").split())
    assert "one SELECT over" in pages.help_page("sql")
    assert "(default: totals,callees)" in " ".join(pages.help_page("calls").split())


def test_the_version_is_one_line():
    ran = prospect("--version")
    assert (ran.returncode, ran.stdout.split()[0], ran.stderr) == (0, "prospect", "")


@functools.cache
def text_of_other_tests():
    return "".join(path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__))


help_page = functools.cache(pages.help_page)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.spellings[0])
def test_every_option_is_described_and_reached_by_a_test(option):
    for name in option.commands:
        page = help_page(name)
        assert option.help.split()[0] in page
        for spelling in option.spellings:
            assert spelling in page
    for spelling in option.spellings:
        assert f'"{spelling}' in text_of_other_tests(), f"no test uses {spelling}"


def test_a_reader_that_goes_away_ends_it_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [sys.executable, "-m", "prospect", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert ran.stderr == ""
    assert ran.returncode in (0, 141)
