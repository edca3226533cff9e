"""Source lines and inlined functions of a whole recording, against ``perf report --inline``.

    python benchmarks/lines.py [--recording FILE] [--seconds N] [--perf-limit SEC] [--nodes N]

Without a recording, `perf record -a --call-graph dwarf` makes one while g++ compiles a C++ program
made of templates and the program, built with -g -O2, runs: its debug information, and what
is installed for the system's libraries (libc6-dbg, libbinutils-dbg), is what both tools read. perf
looks inlined functions up only for stacks that it unwinds itself. Each tool then runs as a whole
process: perf once, as it may take minutes and is stopped at `--perf-limit`; ours with an empty
cache and again with a full one. Figures are processor seconds with those of children, seconds of
the clock on the wall, and peak memory; ratios are of processor seconds. perf starts an addr2line
for each image and does not wait for their end, so this process does, as their next parent. Ours
finds the stacks, and the source line and the inlined functions of every location, and writes the
report; how often each distinct (object, address) was looked up is counted.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from report import version

if TYPE_CHECKING:
    from prospect.symbols.images.image_files import FoundImage

PROGRAM = """
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
struct Env { std::unordered_map<std::string, double> vars; };
struct Node { virtual ~Node() = default; virtual double eval(Env &e) const = 0; };
using P = std::unique_ptr<Node>;
struct Num : Node {
  double v;
  explicit Num(double x) : v(x) {}
  double eval(Env &) const override { return v; }
};
struct Var : Node {
  std::string n;
  explicit Var(std::string s) : n(std::move(s)) {}
  double eval(Env &e) const override {
    auto it = e.vars.find(n);
    return it == e.vars.end() ? 0 : it->second;
  }
};
template <int K> struct Op : Node {
  P a, b;
  Op(P x, P y) : a(std::move(x)), b(std::move(y)) {}
  double eval(Env &e) const override {
    double x = a->eval(e), y = b->eval(e);
    std::vector<double> t(8 + K % 7);
    std::iota(t.begin(), t.end(), x);
    std::sort(t.begin(), t.end(), [y](double p, double q) {
      return std::fmod(p * (K + 3), y * y + 2) < std::fmod(q * (K + 3), y * y + 2);
    });
    std::map<int, double> m;
    for (double one : t) m[int(one * K) % 50] += one;
    return std::accumulate(m.begin(), m.end(), 0.0,
                           [](double p, auto &q) { return p * 0.5 + q.second; }) / (K + 1);
  }
};
template <int N> P make(std::mt19937 &r, int depth) {
  if (depth == 0)
    return r() % 2 ? P(new Num(r() % 100)) : P(new Var("v" + std::to_string(r() % 20)));
  int pick = r() % N;
  P res;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((int(I) == pick ? void(res = std::make_unique<Op<int(I)>>(make<N>(r, depth - 1),
                                                               make<N>(r, depth - 1)))
                     : void()), ...);
  }(std::make_index_sequence<N>());
  return res;
}
int main() {
  std::mt19937 r(7);
  Env e;
  double sum = 0;
  std::map<std::string, int> words;
  std::regex re("([a-z]+)([0-9]+)");
  for (int i = 0; i < 20; i++) e.vars["v" + std::to_string(i)] = i * 1.5;
  for (int i = 0;; i++) {
    P t = make<NODES>(r, 10);
    sum += t->eval(e);
    std::ostringstream o;
    for (int j = 0; j < 300; j++) o << "ab" << r() % 999 << ' ';
    std::string s = o.str();
    for (std::sregex_iterator m(s.begin(), s.end(), re), end; m != end; ++m) words[(*m)[2]]++;
    e.vars["v" + std::to_string(i % 20)] = std::fmod(sum, 100);
  }
}
"""
LOAD = """
end=$((SECONDS+$1)); cd "$2"
timeout "$1" ./program &
while [ $SECONDS -lt $end ]; do
    timeout "$1" g++ -std=c++20 -g -O2 -DNODES=20 -o again program.cpp
done
wait
"""
_PR_SET_CHILD_SUBREAPER = 36  # include/uapi/linux/prctl.h
_PERF = ["report", "--stdio", "-g", "caller", "--inline", "-i"]
# Of the ways in which perf 7 looks inlined functions up, the fastest; 6.1 has no choice.
_FASTEST = ["--addr2line-style=libdw"]


class Run(NamedTuple):
    """One process: its seconds, its peak memory in MiB, what it wrote, whether it was stopped."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    output: str
    is_stopped: bool = False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--recording", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--perf-limit", type=int, default=1800)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--perf", nargs="+", default=["perf"], help="programs to compare with")
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ours:
        count_lookups(str(arguments.recording))
        return
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("children of children cannot be waited for")
    with tempfile.TemporaryDirectory() as scratch:
        recording = arguments.recording
        if recording is None:
            recording = Path(scratch) / "perf.data"
            record(recording, arguments.seconds, arguments.nodes, scratch)
        compare(recording.resolve(), arguments.perf, arguments.perf_limit, Path(scratch))


def count_lookups(recording: str) -> None:
    """Do all that `prospect report` does, and the lines of all locations besides."""
    from prospect.columns.process import start_numpy  # noqa: PLC0415 - as every command does

    start_numpy()
    import numpy as np  # noqa: PLC0415 - behind start_numpy

    from prospect.analysis.profile_request import Callbacks, ProfileRequest  # noqa: PLC0415 - the same
    from prospect.api import recorded_profile  # noqa: PLC0415 - the same
    from prospect.lines.finder import LineFinder  # noqa: PLC0415 - the same
    from prospect.options import NamingOptions  # noqa: PLC0415 - the same

    asked: list[int] = []
    seen: dict[tuple[int, int], set[int]] = {}
    frames = LineFinder.frames

    def counted(self: LineFinder, found: FoundImage, *others: Any) -> Any:
        address = others[-1]
        asked.append(len(address))
        seen.setdefault((found.file.device, found.file.inode), set()).update(address.tolist())
        return frames(self, found, *others)

    LineFinder.frames = counted  # type: ignore[method-assign]
    wanted = ProfileRequest(lines=True, stacks=True)
    profile = recorded_profile.read(recording, NamingOptions(debuginfod_s=0), wanted, Callbacks())
    profile.report(detail="4")
    depth = np.diff(profile.lines.frame_start)
    print(len(profile.samples), len(profile.locations), int((depth > 0).sum()), int(depth.max()))
    print(sum(asked), sum(map(len, seen.values())), len(profile.stacks or ()))


def record(recording: Path, seconds: int, nodes: int, scratch: str) -> None:
    """Build the program, and record the system while it runs and is compiled again."""
    (Path(scratch) / "program.cpp").write_text(PROGRAM)
    flags = ["-std=c++20", "-g", "-O2", f"-DNODES={nodes}"]
    build = ["g++", *flags, "-o", "program", "program.cpp"]
    subprocess.run(build, cwd=scratch, check=True)
    # perf 6.1 dies of build ids of more than 20 bytes, which it then does not read from files.
    command = ["perf", "record", "-q", "--buildid-mmap", "-a", "-F", "199"]
    command += ["--call-graph", "dwarf,4096"]
    load = ["bash", "-c", LOAD, "load", str(seconds), scratch]
    subprocess.run([*command, "-o", str(recording), "--", *load], check=True)


def compare(recording: Path, perfs: list[str], limit_s: int, scratch: Path) -> None:
    """Run both tools and print their figures."""
    print(f"recording: {recording.stat().st_size / 1e6:.1f} MB")
    environment = {**os.environ, "XDG_CACHE_HOME": str(scratch / "cache")}
    ours = [sys.executable, __file__, "--ours", "--recording", str(recording)]
    cold, warm = (measure(ours, environment, limit_s, scratch) for _ in range(2))
    samples, locations, with_lines, deepest, asked, distinct, stacks = cold.output.split()[-7:]
    print(f"{samples} samples, {locations} locations, {with_lines} of them with source lines")
    print(f"at most {deepest} functions at one instruction; {stacks} distinct frames of stacks")
    print(f"look-ups: {asked} of {distinct} distinct (object, address)")
    print(f"{'':28}{'CPU s':>10}{'wall s':>10}{'peak MiB':>10}{'/ cold':>8}{'/ warm':>8}")
    for name, run in (("cold", cold), ("warm", warm)):
        print(f"{name:28}{run.cpu_s:10.2f}{run.wall_s:10.2f}{run.peak_mib:10.0f}")
    for perf in perfs:
        name = version(perf)
        major = int(name.split()[-1].partition(".")[0])
        words = [perf, *_PERF, str(recording), *(_FASTEST if major >= 7 else ())]
        run = measure(words, environment, limit_s, scratch)
        print(f"{name:28}{run.cpu_s:10.2f}{run.wall_s:10.2f}{run.peak_mib:10.0f}", end="")
        print(f"{run.cpu_s / cold.cpu_s:8.1f}{run.cpu_s / warm.cpu_s:8.1f}")
        frames = run.output.count("(inlined)")
        print("stopped: not finished" if run.is_stopped else f"{frames} inlined frames shown")


def measure(command: list[str], environment: dict[str, str], limit_s: int, scratch: Path) -> Run:
    """Run a command to its end, or until its time is over."""
    output = scratch / "output"
    with output.open("wb") as out:
        began = time.monotonic()
        process = subprocess.Popen(
            ["timeout", str(limit_s), *command],
            stdout=out,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        cpu_s, peak_kib, code = _reap_all(process.pid)
        wall_s = time.monotonic() - began
    process.returncode = code
    text = output.read_text(errors="replace")
    if code not in (0, 124):
        raise SystemExit(f"{command[0]} failed with status {code}")
    return Run(cpu_s, wall_s, peak_kib / 1024, text, code == 124)


def _reap_all(leader: int) -> tuple[float, int, int]:
    """Wait for a process and all that it left behind.

    Returns:
        Their processor seconds, the largest one's peak memory in KiB, and the leader's status.
    """
    cpu_s, peak_kib, code = 0.0, 0, 0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return cpu_s, peak_kib, code
        cpu_s += usage.ru_utime + usage.ru_stime
        peak_kib = max(peak_kib, usage.ru_maxrss)
        if pid == leader:
            code = os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
