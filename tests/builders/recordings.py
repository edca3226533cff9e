"""Recordings of the running system: compile a program, record it, read what became of it.

The C sources lie in tests/live/programs; gcc builds them where the test works.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import prospect
from builders.another_user import WHO, prospect_of_another_user
from prospect.recording.opened_events import RecordOptions
from prospect.recording.run import record as record_command

PROGRAMS = Path(__file__).parents[1] / "live" / "programs"
PROSPECT = (sys.executable, "-m", "prospect")
_UNTIL_USED = """
used() { s=$(cat /proc/$0/stat) || exit 1; set -- ${s##*) }; ticks=$((${12} + ${13})); }
used; end=$((ticks + $1)); until [ $ticks -ge $end ]; do sleep 0.05; used; done
"""
# The command line where only a timer samples; a hardware counter's samples are on no grid. Rings as
# small as {ring_bytes}, where that is not None, are full soon.
_BY_TIMER = """
import sys
from prospect.recording import opened_events as recording_events
from prospect.capture.events import event_choice
event_choice._hardware_attr = lambda *_: None
if {ring_bytes}:
    recording_events.ring_size_bytes = lambda *_: {ring_bytes}
from prospect.cli.main import main
sys.exit(main())
"""


def prospect_by_timer(ring_bytes: int | None = None) -> tuple[str, ...]:
    """Return the words that stand for `prospect` where there is no hardware counter."""
    return (sys.executable, "-c", _BY_TIMER.format(ring_bytes=ring_bytes))


def build_program(directory: Path, name: str, *flags: str, source: str = "") -> Path:
    """Compile programs/SOURCE.c (NAME.c unless said) into DIRECTORY/NAME."""
    program = directory / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_bytes(_built(source or name, flags))
    program.chmod(0o755)
    return program


@functools.cache
def _built(source: str, flags: tuple[str, ...]) -> bytes:
    """Compile a program once for all tests of this process."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory, source)
        file = PROGRAMS / f"{source}.c"
        command = ["gcc", "-O1", "-I", PROGRAMS, "-o", program, file, *flags]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return program.read_bytes()


def record(
    file: Path, *command: object, frequency_hz: int = 2000, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Record COMMAND into FILE; that it succeeds is part of every test.

    Of the clocks alone: Python's frames, of this process too, are tested for themselves.
    """
    words = [str(word) for word in command]
    line = [*PROSPECT, "record", "--no-python", "-H", str(frequency_hz), "-o", str(file), *words]
    return subprocess.run(line, capture_output=True, timeout=200, check=True, **options)


def record_without_files(file: Path, *command: object) -> None:
    """Record COMMAND as a recorder does that keeps no files that may be gone."""
    words = tuple(map(str, command))
    with file.open("wb") as opened:
        options = RecordOptions(command=words, frequency_hz=2000, python="never")
        assert record_command(options, opened.fileno()).exit_status == 0


def run_as_another_user(directory: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `prospect WORDS` as nobody, in a directory made writable; skip where that cannot be."""
    directory.chmod(0o777)
    return subprocess.run(
        [*prospect_of_another_user(), *map(str, words)],
        cwd=directory,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        **WHO,
    )


def until_used(pid: int, seconds: float) -> tuple[object, ...]:
    """Return a COMMAND that ends when a process has used so much more CPU time.

    On a busy machine a program gets any share of a CPU in a given time.
    """
    ticks = max(1, round(seconds * os.sysconf("SC_CLK_TCK")))
    return "sh", "-c", _UNTIL_USED, pid, ticks


def profile_of(file: Path, *command: object, frequency_hz: int = 2000) -> prospect.Profile:
    """Record COMMAND into FILE, and read it."""
    record(file, *command, frequency_hz=frequency_hz)
    return prospect.open(file)


def hits_by(
    profile: prospect.Profile, *columns: str, detail: str = "4", **only: object
) -> dict[Any, int]:
    """Add up hits by columns of `Profile.hits_table`, of the rows that have the values of `only`.

    With one column its values are the keys, with several tuples of them. Another test's program may
    have the same name: with `detail` "3" they are of COMMAND and its descendants.
    """
    table = profile.hits_table(detail=detail)
    counts: dict[Any, int] = {}
    rows = zip(*(table[name].tolist() for name in (*columns, *only, "samples")), strict=True)
    for *values, hits in rows:
        keys, conditions = values[: len(columns)], values[len(columns) :]
        if conditions == list(only.values()):
            key = keys[0] if len(keys) == 1 else tuple(keys)
            counts[key] = counts.get(key, 0) + hits
    return counts
