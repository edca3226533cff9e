"""Calls as users write them, which the type checker takes, and wrong ones, which it refuses.

`mypy` reads this file with the program's own, and nothing runs it. Each wrong call has a comment
that expects its error: if it is accepted, that comment is unused, which is an error as well. Two
have no code: which error it is depends on whether mypy has just read the program or knows it.
"""

import os
import pathlib

import prospect

path: str | os.PathLike[str] = pathlib.Path("run.data")
profile: prospect.Profile = prospect.open(path, system_map="map", lines=True)
profile = prospect.open(path=path, syntax="intel", announce=print)
profile = prospect.record(["make"], pids=[1], frequency_hz=99, python="never", native=True)
profile = prospect.record(for_s=3)
text: str = profile.report(detail=4, sort=["pid"], columns="cpu", output="x")
text = prospect.calls(path, detail=2, cpus=(1,), between=(1.0, 2.5), use_cache=False)
text = prospect.annotate(path, "main", most_functions=3, search_dirs=["a"], disassembler="gdb")
text = prospect.archive(path, whole_images=True)
change: prospect.Difference = prospect.diff("a", after=[profile, "b"], scope=4, stacks=True)
text = change.report(format="html", rows=9)
count = prospect.count("make", events=["cycles"], cpus=[0], repeat=3)

prospect.open()  # type: ignore[call-arg]
prospect.open(path, sytem_map="map")  # type: ignore[call-arg]
prospect.record(["make"], frequency_hz="99")  # type: ignore[arg-type]
prospect.open(path, "map")  # type: ignore  # noqa: PGH003
profile.report("text")  # type: ignore  # noqa: PGH003
prospect.calls(path, frequency_hz=99)  # type: ignore[call-arg]
