"""Each line behind `Next:` is read by a shell and by the command line as it stands."""

from __future__ import annotations

import io
import os
import subprocess

import pytest

from builders.profile_builder import ProfileBuilder, run_info
from builders.stacks import stacks_profile
from prospect.cli.analysis import repeated
from prospect.cli.commands import COMMANDS, PROFILE, RECORD, REPORT
from prospect.cli.option_parser import parse
from prospect.figures.function_choice import functions_named
from prospect.options import RecordingOptions
from prospect.profile.model import KIND_ELF, KIND_JIT, KIND_PYTHON
from prospect.profile.naming import NameSource
from prospect.records import project, replace
from prospect.render.text.text_report import TextRenderer
from prospect.shell import shell_line

LONG = ["./program", *[f"--option-{number}=a value of many letters" for number in range(9)]]
HOSTILE = ["./a b", "$(reboot)", "'\"", "\x1b[2J", "line\nbreak", os.fsdecode(b"\xff\xfe9")]

SITUATIONS = {
    "plain": ["make"],
    "callers": ["--call-graph", "dwarf,32768", "make", "-j2"],
    "callers in one word": ["--call-graph=fp", "make"],
    "waits": ["--off-cpu", "make"],
    "rate": ["-H", "997", "make", "\u202e"],
    "rate in one word": ["-H997", "make"],
    "rate as perf has it": ["-F", "97", "-a", "make"],
    "abbreviated": ["--freq", "97", "make"],
    "events": ["--event", "page-faults", "--event=cpu-clock", "make"],
    "report only": ["-V2", "-m", "0", "--format", "text", "-f", "out", "--native", "make"],
    "every process": ["-V4", "--for", "2"],
    "attached": ["-p", "1,2", "--for", "0.5", "--off-cpu"],
    "kernel": ["-Vk", "--clocks", "1", "make"],
    "no Python": ["--no-python", "--count-syscalls", "--max-size", "64M", "make"],
    "counted calls": ["--count-calls", "lib*.so:open*", "--count-budget", "5%", "make"],
    "target": ["--target", "me@there", "make"],
    "called as an option": ["--", "-x", "-V4"],
    "called as a command": ["--", "report", "--", "-V4"],
    "long": LONG,
    "hostile": ["--call-graph", "fp", *HOSTILE],
}
NAMES = [
    "main",
    "-[Foo bar:]",
    "->begin [fn 3 of 9]",
    "f<int>(char const*)",
    "a.data",
    "x\x1b[2J'\n",
    "operator()",
    "$(reboot)",
]


def read_by_shell(line: str) -> list[str]:
    """Return the words of a command line as bash reads them."""
    script = f"set -- {line}\nprintf '%s\\0' \"$@\""
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    return done.stdout.decode(errors="surrogateescape").split("\0")[:-1]


def next_commands(profile, **options):
    """Return the words of each command behind `Next:`, as a shell reads them."""
    out = io.BytesIO()
    TextRenderer(**options).render(profile, out)
    lines = out.getvalue().decode().splitlines()
    first = [row for row, line in enumerate(lines) if line.startswith("Next:   ")]
    shown = lines[first[0] : lines.index("", first[0])] if first else []
    assert all(line[8:].isprintable() for line in shown)
    return [read_by_shell(line[8:]) for line in shown]


def read_by_prospect(words):
    """Return the command, the settings and the operands of a command line."""
    assert words[0] == "prospect"
    (command,) = [one for one in COMMANDS if one.name == words[1]]
    settings, operands = parse(command, words[2:])
    assert command.most_words is None or len(operands) <= command.most_words
    return command, settings, operands


def one_function(name="main", kind=KIND_ELF, path="/bin/work", hits=100, info=None):
    build = ProfileBuilder(info or run_info(command=("work",)))
    image = build.object(path, kind, source=NameSource.DYNSYM)
    process = build.process("work", 7, is_command=True)
    build.hit(process, build.function(name, image, 0x1000), hits)
    return build.build()


@pytest.mark.parametrize("words", SITUATIONS.values(), ids=SITUATIONS)
def test_without_a_recording_it_is_made_again_with_the_same_options_and_read(words):
    typed, command = parse(PROFILE, words)
    first, *readers = next_commands(one_function(), repeated=repeated(PROFILE, words))
    made, settings, operands = read_by_prospect(first)
    assert made is RECORD
    assert operands == command
    assert project(settings, RecordingOptions) == project(typed, RecordingOptions)
    assert (settings.target, settings.save, settings.output) == (typed.target, "", "")
    assert len(readers) == 2
    for reader in readers:
        _, settings, _ = read_by_prospect(reader)
        assert (settings.detail, settings.native) == (typed.detail, typed.native)
        assert settings.output == ""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("recording", ["perf.data", "-x.data", "a 'b'\xff.data"])
def test_functions_and_files_are_read_as_they_are_called(name, recording):
    profile = replace(one_function(name), run=run_info(command=("work",), has_user_callers=True))
    commands = next_commands(profile, recording=recording)
    (_, calls, of_calls), (_, _, of_annotate) = map(read_by_prospect, commands)
    for typed in (calls.callers_of, of_annotate[0]):
        assert functions_named(profile, typed).tolist() == [True]
    files = {"perf.data": [], "-x.data": ["./-x.data"]}.get(recording, [recording])
    assert of_calls == files
    # Alone it would be taken for a recording.
    assert of_annotate[1:] == (files or ["perf.data"] * name.endswith(".data"))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"kind": KIND_PYTHON, "path": "<frozen importlib._bootstrap>"}, ["view"]),
        ({"kind": KIND_PYTHON, "path": "<string>"}, ["view"]),
        ({"kind": KIND_PYTHON, "path": "/srv/app.py"}, ["annotate", "view"]),
        ({"kind": KIND_JIT, "path": "/tmp/perf-10.map"}, ["view"]),
        ({"name": ""}, ["view"]),
    ],
)
def test_what_has_neither_code_nor_source_is_not_annotated(facts, expected):
    commands = next_commands(one_function(**facts), recording="perf.data")
    assert [words[1] for words in commands] == expected
    assert ("--source" in commands[0]) == (expected[0] == "annotate")


def test_a_function_of_few_samples_may_be_in_no_other_recording():
    again = repeated(PROFILE, ["-V2", "ls"])
    commands = next_commands(one_function(hits=3), repeated=again)
    assert commands == [["prospect", "record", "ls"], ["prospect", "report", "-V", "2"]]
    kept = next_commands(one_function(hits=3), recording="perf.data")
    assert kept[0] == ["prospect", "annotate", "main"]


def test_reports_on_a_recording_hand_on_what_is_shown_and_how_it_is_named():
    typed = ["-V4", "--native", "--no-cache", "-f", "out", "--lines", "run.data"]
    again = repeated(REPORT, typed)
    commands = next_commands(stacks_profile(), recording="run.data", repeated=again, detail="4")
    kept = ["-V", "4", "--native", "--no-cache"]
    assert commands[0] == ["prospect", "calls", *kept, "--callers-of", "work", "run.data"]
    assert commands[1] == ["prospect", "annotate", *kept, "work", "run.data"]


def test_what_is_not_kept_and_cannot_be_made_again_has_no_commands():
    assert next_commands(one_function()) == []


@pytest.mark.parametrize("words", [HOSTILE, LONG, ["", "-", "~", "#", "a=b", "*", "!", "{a,b}"]])
def test_a_shell_reads_back_what_was_written(words):
    assert shell_line(words).isprintable()
    assert read_by_shell(shell_line(words)) == words
