"""What a person waits for before anything happens: processor time and modules of short commands.

Usage: python benchmarks/startup.py [--repeat 10]

Times are the least of several runs, as others only add to them. Needs bytecode that is compiled, as
an installed package has it: unset PYTHONDONTWRITEBYTECODE, or the first run of each is all that
is compared. To see COMMAND's start takes the right to record.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The installed command, launcher included: what a person types.
PROSPECT = (str(Path(sys.executable).with_name("prospect")),)
WITHOUT_LAUNCHER = (sys.executable, "-c", "from prospect.__main__ import main; main()")
CLOCK = "import time, sys; sys.stdout.write(str(time.monotonic_ns()))"
COUNT = """
import sys
bare = set(sys.modules)
sys.argv = ["prospect", *sys.argv[1:]]
from prospect.__main__ import run
run()
print(len(set(sys.modules) - bare), file=sys.stderr)
"""
COUNT_AT_START = """
import os, sys
bare = set(sys.modules)
sys.argv = ["prospect", "true"]
from prospect.__main__ import main
from prospect.capture.loop.command import Command
def release(command):
    print(len(set(sys.modules) - bare), file=sys.stderr)
    os._exit(0)
Command.release = release
main()
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=10)
    repeat = parser.parse_args().repeat
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    bare = processor_time(repeat, sys.executable, "-c", "pass")
    numpy = processor_time(repeat, sys.executable, "-c", "import numpy")
    print(f"python -c pass            {1e3 * bare:5.1f} ms")
    print(f"python -c 'import numpy'  {1e3 * numpy:5.1f} ms")
    waited, alone = until_start(repeat)
    modules = said(sys.executable, "-c", COUNT_AT_START)
    print(
        f"until COMMAND's exec      {1e3 * waited:5.1f} ms of time, {waited / alone:.1f} x starting"
        f" python; {modules} modules"
    )
    with tempfile.TemporaryDirectory() as directory:
        recording = str(Path(directory) / "true.data")
        subprocess.run([*PROSPECT, "record", "-o", recording, "true"], check=True)
        with_launcher = processor_time(repeat, *PROSPECT, "--version")
        alone = processor_time(repeat, *WITHOUT_LAUNCHER, "--version")
        print(f"the launcher alone        {1e3 * (with_launcher - alone):5.1f} ms")
        for words, floor, name in (
            (("report", "-V4", recording), numpy, "importing numpy"),
            (("true",), numpy, "importing numpy"),
            (("--version",), bare, "python"),
            (("--help",), bare, "python"),
            (("completion", "bash"), bare, "python"),
        ):
            took = processor_time(repeat, *PROSPECT, *words)
            modules = said(sys.executable, "-c", COUNT, *words)
            print(
                f"prospect {words[0]:<16} {1e3 * took:5.1f} ms, {took / floor:.1f} x {name};"
                f" {modules} modules"
            )


def processor_time(repeat: int, *command: str) -> float:
    """Return the least processor time of a command and its children, in s."""
    times = []
    for _ in range(repeat + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def until_start(repeat: int) -> tuple[float, float]:
    """Return how long COMMAND waits for `prospect record`, and python for itself, in s."""
    clock = (sys.executable, "-c", CLOCK)
    with tempfile.NamedTemporaryFile() as file:
        record = (*PROSPECT, "record", "-o", file.name)
        recorded = min(_until_clock(*record, *clock) for _ in range(repeat))
        Path(f"{file.name}.old").unlink()
    alone = min(_until_clock(*clock) for _ in range(repeat))
    return recorded - alone, alone


def _until_clock(*command: str) -> float:
    begin = time.monotonic_ns()
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return (int(found) - begin) / 1e9


def said(*command: str) -> str:
    """Return the last line that a command writes to stderr."""
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stderr.splitlines()[-1]


if __name__ == "__main__":
    main()
