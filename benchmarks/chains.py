"""Call chains beside `perf script`'s on one recording: python benchmarks/chains.py RECORDING.

Prints how many samples have the chain of addresses that perf gives them, and what the others are.
For recordings by `perf record --call-graph dwarf`, on the machine where they were made.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from builders import unwinding
from prospect.unwind import interface
from prospect.unwind.unwinder import unwind

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_FRAMES = "1024"


def main() -> None:
    data = Path(sys.argv[1])
    given, finder, sample, events, _ = unwinding.read_recording(data)
    unwound = unwind(given, finder)
    # perf prints in the order of time; samples of several CPUs are recorded in another.
    in_time = np.argsort(events.samples.time_ns.take(sample), kind="stable").tolist()
    # perf shows where in its file a frame is.
    offset = unwound.sites.svma.copy()
    for row in np.unique(unwound.sites.object[unwound.sites.object >= 0]).tolist():
        of_row = unwound.sites.object == row
        image = unwinding.image_of(finder.paths[row])
        offset[of_row] = image.offset_of_svma(offset[of_row])
    start, site, _ = unwound.chains()
    place = offset.take(site)
    found: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    for row, theirs in zip(in_time, chains_of_perf(data), strict=True):
        frames = slice(start[row], start[row + 1])
        ours = place[frames].tolist()
        end = interface.END_NAMES[int(unwound.end[row])]
        kind = difference(ours, theirs) if end == "complete" else f"ours ends: {end}"
        found[kind] += 1
        if kind == "perf's ends before ours":
            last = int(unwound.sites.object[site[frames][len(theirs) - 1]])
            stops[finder.paths[last].decode() if last >= 0 else "code without an image"] += 1
    whole = sum(count for name, count in found.items() if not name.startswith("ours ends"))
    print(f"{len(in_time)} samples, {whole} unwound whole")
    for name, count in found.most_common():
        print(f"{count:9d} {count / len(in_time):7.2%}  {name}")
    for path, count in stops.most_common(5):
        print(f"{count:9d} of perf's end in {path}")


def chains_of_perf(data: Path) -> Iterator[list[int]]:
    """Yield perf's chain of each sample, from the inside out, in the order of time."""
    command = ["perf", "script", "-i", str(data), "-F", "ip,sym", "--no-inline"]
    with subprocess.Popen(
        [*command, "--max-stack", MOST_FRAMES], stdout=subprocess.PIPE, text=True
    ) as process:
        chain: list[int] = []
        for line in process.stdout or ():
            word, *_ = line.split(maxsplit=1) or [""]
            if word:
                chain.append(int(word, 16))
            elif chain:
                yield chain
                chain = []
        if chain:
            yield chain


def difference(ours: list[int], theirs: list[int]) -> str:
    """Say how two chains differ."""
    if ours == theirs:
        return "equal"
    if ours[: len(theirs)] == theirs:
        return "perf's ends before ours"
    if theirs[: len(ours)] == ours:
        return "perf's goes on behind ours"
    pairs = enumerate(zip(ours, theirs, strict=False))
    same = next(place for place, (own, other) in pairs if own != other)
    if ours[same:] == theirs[same + 1 :]:
        return "perf has a frame more between"
    if ours[same + 1 :] == theirs[same:]:
        return "ours has a frame more between"
    return f"differs from {'a later' if same else 'the first'} frame on"


if __name__ == "__main__":
    main()
