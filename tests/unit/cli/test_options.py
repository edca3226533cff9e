"""The option table and its parser."""

from __future__ import annotations

import pytest

from prospect.cli.commands import ANNOTATE, COMMANDS, DAEMON, DIFF, PROFILE, RECORD, REPORT
from prospect.cli.option_parser import parse
from prospect.cli.option_table import OPTIONS, options_of
from prospect.errors import UsageError
from prospect.options import Settings
from prospect.records import field_names


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["-V2"], "detail", "2"),
        (["-V", "3"], "detail", "3"),
        (["-V4"], "detail", "4"),
        (["-Vk"], "detail", "k"),
        (["--child"], "detail", "2"),
        (["--follow-forks"], "detail", "3"),
        (["--system-wide"], "detail", "4"),
        (["--all-cpus"], "detail", "4"),
        (["--kernel-only"], "detail", "k"),
        (["-V2", "-V4"], "detail", "4"),
        (["-a"], "detail", "4"),
        (["-F", "99"], "frequency_hz", 99),
        (["-H1000"], "frequency_hz", 1000),
        (["--frequency=7"], "frequency_hz", 7),
        (["--hertz", "7"], "frequency_hz", 7),
        (["--clocks", "2"], "clocks", 2),
        (["--clocks=4"], "clocks", 4),
        (["--overhead", "0.5%"], "overhead_percent", 0.5),
        (["--overhead=2"], "overhead_percent", 2.0),
        (["-M", "1"], "flush_centiseconds", 1),
        (["--flush=50"], "flush_centiseconds", 50),
        (["-fout.1"], "output", "out.1"),
        (["--output", "out.1"], "output", "out.1"),
        (["-m0.02"], "user_threshold_s", 0.02),
        (["--user-threshold=0"], "user_threshold_s", 0.0),
        (["-k", "1e-3"], "kernel_threshold_s", 0.001),
        (["--kernel-threshold=2"], "kernel_threshold_s", 2.0),
        (["-K/dev/null"], "system_map", "/dev/null"),
        (["--system-map=/dev/null"], "system_map", "/dev/null"),
        (["-L/dev/null"], "kernel_image", "/dev/null"),
        (["--kernel-image=/dev/null"], "kernel_image", "/dev/null"),
        (["--save", "run.data"], "save", "run.data"),
        (["--max-size", "500M"], "max_bytes", 500 << 20),
        (["--max-size=4g"], "max_bytes", 4 << 30),
        (["--max-size=1048576"], "max_bytes", 1 << 20),
        (["--format=json"], "format", "json"),
        (["--no-cache"], "use_cache", False),
        (["--debuginfod", "5"], "debuginfod_s", 5.0),
        (["--debuginfod=0"], "debuginfod_s", 0.0),
        (["--freq=9"], "frequency_hz", 9),
        (["-p", "4711"], "pids", (4711,)),
        (["--pid=4711,12,4711"], "pids", (4711, 12)),
        (["--for", "2.5"], "for_s", 2.5),
        (["-e"], "disassemble", 1),
        (["-ee"], "disassemble", 2),
        (["--lines"], "lines", True),
        (["--classic"], "classic", True),
        (["--no-pager"], "pager", False),
        (["--wall"], "wall", True),
        (["--wa"], "wall", True),
        (["--wall=system"], "wall", "system"),
        (["-e", "--disassemble"], "disassemble", 2),
        (["--disassembler", "library"], "disassembler", "library"),
        (["-g3"], "gdb_processes", 3),
        (["--gdb-processes", "1"], "gdb_processes", 1),
        (["--syntax", "intel"], "syntax", "intel"),
        (["--help"], "help", True),
        (["-h"], "help", True),
        (["--version"], "version", True),
    ],
)
def test_each_spelling_sets_its_field_and_no_other(arguments, field, value):
    settings, rest = parse(PROFILE, [*arguments, "true"])
    assert settings == Settings(**{field: value})
    assert rest == ["true"]


@pytest.mark.parametrize("name", ["-n", "--functions", "--routines"])
def test_how_many_functions_are_annotated_has_three_spellings(name):
    settings, _ = parse(ANNOTATE, [name, "7"])
    assert settings.most_functions == 7


def test_options_end_at_the_command_whose_arguments_are_untouched():
    settings, rest = parse(PROFILE, ["-V3", "make", "-j2", "-V4", "--", "--help"])
    assert settings.detail == "3"
    assert rest == ["make", "-j2", "-V4", "--", "--help"]


@pytest.mark.parametrize(
    ("command", "arguments", "operands"),
    [
        (REPORT, ["run.data", "-V4"], ["run.data"]),
        (REPORT, ["-V4", "run.data"], ["run.data"]),
        (REPORT, ["-V4", "--", "-run.data"], ["-run.data"]),
        (REPORT, ["-", "-V4"], ["-"]),
        (ANNOTATE, ["work", "-V4", "run.data"], ["work", "run.data"]),
        (DIFF, ["a", "--against", "-V4", "b"], ["a", "--against", "b"]),
        (DIFF, ["a", "b", "-V", "4"], ["a", "b"]),
    ],
)
def test_options_of_readers_stand_anywhere(command, arguments, operands):
    settings, rest = parse(command, arguments)
    assert "4" in (settings.detail, settings.scope) or "-run.data" in rest
    assert rest == operands


def test_two_dashes_end_the_options():
    assert parse(PROFILE, ["-V3", "--", "-odd-name", "x"])[1] == ["-odd-name", "x"]


def test_record_takes_perfs_word_for_what_it_does_anyway():
    assert parse(RECORD, ["-a", "make", "-a"])[1] == ["make", "-a"]


def test_record_and_report_spell_their_files_differently():
    assert parse(RECORD, ["-orun.data", "true"])[0].save == "run.data"
    assert parse(RECORD, ["--output=run.data", "true"])[0].save == "run.data"
    assert parse(REPORT, ["-fout.txt", "run.data"])[0].output == "out.txt"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-H", "0"], "-H 0: give a whole number of at least 1"),
        (["-H", "-5"], "-H -5: give a whole number"),
        (["--frequency=1.5"], "--frequency 1.5: give a whole number"),
        (["-H", "99999999999999999999"], "give a whole number"),
        (["-H", "٣"], "give a whole number"),
        (["--clocks", "5"], "--clocks 5: give a number of clocks from 1 to 4"),
        (["--clocks=5"], "--clocks 5: give a number of clocks"),
        (["--clocks", "2.0"], "--clocks 2.0: give a number of clocks"),
        (["--overhead", "0"], "--overhead 0: give a share of time in percent, such as 0.5%"),
        (["--overhead=-1%"], "--overhead -1%: give a share"),
        (["--overhead=101%"], "--overhead 101%: give a share"),
        (["--overhead=1%%"], "--overhead 1%%: give a share"),
        (["--overhead=nan"], "--overhead nan: give a share"),
        (["--overhead=1e-3"], "--overhead 1e-3: give a share"),
        (["--overhead="], "--overhead '': give a share"),
        (["--overhead=1.2.3"], "--overhead 1.2.3: give a share"),
        (["--overhead=1%", "-H99"], "--overhead chooses the rate: drop -H"),
        (["-H99", "--overhead=1%"], "--overhead chooses the rate: drop -H"),
        (["--max-size", "0"], "--max-size 0: give a size of at least 1M, such as 500M"),
        (["--max-size=1023K"], "--max-size 1023K: give a size of at least 1M"),
        (["--max-size=much"], "--max-size much: give a size"),
        (["--max-size=-4G"], "--max-size -4G: give a size"),
        (["--max-size=1.5G"], "--max-size 1.5G: give a size"),
        (["--max-size=4GB"], "--max-size 4GB: give a size"),
        (["--max-size=٣G"], "give a size"),
        (["--max-size="], "--max-size '': give a size"),
        (["-M0"], "-M 0: give a whole number of at least 1"),
        (["-V5"], "-V 5: give 2 (the command), 3"),
        (["-m", "nan"], "-m nan: give a number of seconds"),
        (["-k", "-1"], "-k -1: give a number of seconds"),
        (["-m", "inf"], "give a number of seconds"),
        (["-m", "1_0"], "give a number of seconds"),
        (["-k", " 1"], "give a number of seconds"),
        (["-k", "٣"], "give a number of seconds"),
        (["-m", ""], "-m '': give a number of seconds"),
        (["--format=yaml"], "--format yaml: give one of text, json, csv"),
        (["-K", "no-such-file"], "-K no-such-file: no such file, or not readable"),
        (["-L", "/"], "-L /: no such file, or not readable"),
        (["-f", ""], "give the name of a file"),
        (["-H"], "-H needs a value"),
        (["--save"], "--save needs a value"),
        (["--child=3"], "--child takes no value"),
        (["--system-wid", "--systm-wide"], "did you mean --system-wide?"),
        (["--frequnecy=3"], "did you mean --frequency?"),
        (["-x"], "-x: no such option"),
        (["--x"], "--x: no such option"),
        (["--f"], "--f could be"),
        (["-e", "--format=csv"], "-e: csv has no disassembled profile, use json"),
        (["--disassemble=2"], "--disassemble takes no value"),
        (["--wall=all"], "--wall takes no value; did you mean --wall=system?"),
        (["-g0"], "-g 0: give a whole number of at least 1"),
        (["--gdb-processes", "x"], "--gdb-processes x: give a whole number of at least 1"),
        (["--disassembler", "objdump"], "--disassembler objdump: give library or gdb"),
        (["--syntax=arm"], "--syntax arm: give att or intel"),
        (
            ["-o", "x"],
            "prospect has no option -o; prospect archive, prospect compare",
        ),
    ],
)
def test_a_bad_option_is_answered_with_what_to_do(arguments, message):
    with pytest.raises(UsageError) as caught:
        parse(PROFILE, arguments)
    assert message in str(caught.value)


def test_no_two_options_of_a_command_share_a_spelling():
    for command in COMMANDS:
        spellings = [s for option in options_of(command) for s in option.spellings]
        assert len(spellings) == len(set(spellings)), command.name


def test_every_option_sets_a_field_of_the_settings():
    assert {option.keyword for option in OPTIONS} == set(field_names(Settings))


def test_gdb_is_asked_for_only_where_it_is_installed(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert parse(REPORT, ["--disassembler=gdb", "x"])[0].disassembler == "gdb"
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(UsageError, match="gdb is not installed"):
        parse(PROFILE, ["--disassembler=gdb", "true"])


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["--store", "there"], "store", "there"),
        (["-H", "47"], "daemon_hz", 47),
        (["-F", "47"], "daemon_hz", 47),
        (["--call-graph", "none"], "daemon_call_graph", "none"),
        (["--window", "10"], "window_s", 10.0),
        (["--separate", "process,cpu"], "separate", ("process", "cpu")),
        (["--separate", "library"], "separate", ("library",)),
        (["--keep", "12h,500M"], "keep", "12h,500M"),
        (["--metrics", "there.prom"], "metrics", "there.prom"),
        (["--kubelet", "http://127.0.0.1:10255/pods"], "kubelet", "http://127.0.0.1:10255/pods"),
        (["--unit"], "unit", True),
    ],
)
def test_options_of_the_daemon(arguments, field, value):
    settings, words = parse(DAEMON, arguments)
    assert (getattr(settings, field), words) == (value, [])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--window", "0.5"],
        ["--window", "3601"],
        ["--separate", "host"],
        ["--keep", "7"],
        ["--call-graph", "lbr"],
    ],
)
def test_a_daemon_refuses_what_has_no_meaning(arguments):
    with pytest.raises(UsageError):
        parse(DAEMON, arguments)


def test_a_daemon_says_how_it_may_unwind():
    assert parse(DAEMON, ["--call-graph", "auto"])[0].daemon_call_graph == "auto"
    with pytest.raises(UsageError, match="fp, auto or none"):
        parse(DAEMON, ["--call-graph", "nonsense"])
